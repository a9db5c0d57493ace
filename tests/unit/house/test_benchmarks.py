"""The benchmarks' own arithmetic: a wrong subtraction would flatter us."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from benchmarks import overhead
from benchmarks.common import Figure, Section, median_figure, table
from benchmarks.memory import PeakMemory

START = datetime(2026, 11, 29, 22, 30, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_window(*, begin: float, stored: float, seconds: float = 2.0) -> dict[str, Any]:
    return {"started_at": at(begin), "stored_at": at(stored), "seconds": seconds, "ramp_s": 0.1, "flags": []}


def a_peak() -> PeakMemory:
    return PeakMemory(pid=0, rss=[100_000_000, 120_000_000], pss=[90_000_000, 95_000_000], processes=1)


def test_a_window_costs_what_lies_between_its_begin_and_the_next_less_its_own_length() -> None:
    boots = [
        {
            "started_at": at(0),
            "windows": [a_window(begin=7, stored=9.4), a_window(begin=9.5, stored=12.0)],
        },
        {"started_at": at(13), "windows": [a_window(begin=20, stored=22.2)]},
    ]
    ours = overhead._ours(boots, engine_start=5.5, peak=a_peak())
    assert ours.per_window == pytest.approx((0.5, 0.5, 0.2))
    # 7 s to the first window less 5.5 s of the engine's own, and 1 s from the last window to the next boot.
    assert ours.per_boot == pytest.approx((2.5,))


def test_the_peers_times_are_read_from_its_stamped_lines() -> None:
    lines = [
        (0.0, "[BEGIN SERVER]"),
        (6.0, "[BEGIN BENCHMARK]"),
        (6.0, "Output file: a"),
        (10.0, "[END BENCHMARK]"),
        (10.5, "[BEGIN BENCHMARK]"),
        (13.5, "[END BENCHMARK]"),
        (13.6, "[END SERVER]"),
    ]
    peer = overhead._peer(lines, [1.0, 1.5], engine_start=5.0)
    assert peer.per_run == pytest.approx((3.0, 1.5))
    assert peer.per_boot == pytest.approx((1.1,))


def test_a_missed_target_is_seen_in_the_table_and_a_skipped_part_says_why() -> None:
    slow = median_figure("overhead per boot", [1.0, 3.0, 2.5], target=2.0, beside=5.0, beside_name="peer")
    page = table([Section(name="overhead", figures=(slow,)), Section(name="plan", skipped="not here")])
    assert slow.met is False
    assert "**no**" in page
    assert "peer: 5 s" in page
    assert "0.5 |" in page
    assert "skipped: not here" in page


def test_a_figure_without_a_target_is_neither_met_nor_missed() -> None:
    assert Figure(name="x", unit="s", value=1.0).met is None

"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.analysis import text
from nightsweep.analysis.summary import spread_of


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (38.2, "38.2 s"),
        (59.96, "1 min 00 s"),
        (361.2, "6 min 01 s"),
        (3599.7, "1 h 00 min"),
    ],
)
def test_a_length_of_time_reads_well_on_both_sides_of_a_unit(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [("0.7", "0.7"), ("1", "1.0"), ("1.00", "1.0"), ("0.65", "0.65"), ("0", "0.0"), ("10", "10.0")]
)
def test_a_temperature_is_short_and_has_a_decimal(value: str, shown: str) -> None:
    assert text.temperature(Decimal(value)) == shown


def test_one_run_has_no_range_to_show() -> None:
    spread = spread_of([178.5], boots=[1])
    assert text.value_range(spread, digits=1) == "one run"
    assert text.with_range(spread, digits=1) == "178.5"


def test_several_runs_show_their_range_in_the_unit_asked_for() -> None:
    spread = spread_of([0.121, 0.123], boots=[1, 1])
    assert text.with_range(spread, digits=1, factor=1000.0) == "122.0 (121.0–123.0)"


def test_another_run_count_than_the_rows_is_said() -> None:
    row, fewer = spread_of([1.0, 2.0, 3.0], boots=[1, 1, 1]), spread_of([0.024], boots=[1])
    assert text.with_range(fewer, digits=0, factor=1000.0, of=row) == "24 (n=1)"
    two = spread_of([0.024, 0.026], boots=[1, 1])
    assert text.with_range(two, digits=0, factor=1000.0, of=row) == "25 (n=2; 24–26)"
    assert text.with_range(row, digits=0, of=row) == "2 (1–3)"


def test_absent_is_a_dash_and_not_zero() -> None:
    shown = [text.number(None, digits=1), text.count(None), text.percent(None), text.size(None), text.moment(None)]
    assert set(shown) == {"–"}


def test_a_column_keeps_the_digits_of_its_smallest_value() -> None:
    assert [text.decimals(values) for values in ([4.37, 200.0], [20.0, 200.0], [2003.0, 2083.0], [])] == [2, 1, 0, 1]


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(2, 40))
def test_a_bar_is_full_only_when_all_is_done(done: int, planned: int, width: int) -> None:
    shown = text.bar(done, planned, width=width)
    assert len(shown) == width
    assert (shown == "█" * width) == (done >= planned)
    assert (shown == "░" * width) == (done == 0)


def test_a_bar_of_nothing_planned_is_empty() -> None:
    assert text.bar(0, 0, width=4) == "░░░░"


@given(st.text())
def test_no_control_character_reaches_a_terminal(raw: str) -> None:
    shown = text.printable(raw)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)


def test_terminal_escapes_of_a_log_line_are_taken_out() -> None:
    line = "\x1b[31mERROR\x1b[0m \x1b]0;owned\x07CUDA\r out\tof memory\x1b[2J"
    assert text.printable(line) == "ERROR CUDA out of memory"


def test_a_long_list_says_how_much_it_leaves_out() -> None:
    assert text.several(["a", "b", "c"], limit=2) == "a; b; and 1 more"


def test_moments_are_to_the_minute() -> None:
    assert text.moment(datetime(2026, 11, 28, 22, 30, 59, tzinfo=UTC)) == "2026-11-28 22:30"


@pytest.mark.parametrize(("octets", "shown"), [(12, "12 bytes"), (2048, "2.0 KiB"), (36 * 1024**3, "36.0 GiB")])
def test_bytes_are_in_binary_units(octets: int, shown: str) -> None:
    assert text.size(octets) == shown

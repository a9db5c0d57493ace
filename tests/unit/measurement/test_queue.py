"""Requests in the engine's queue: too few seats are told from many streams, of which one always begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.measurement.derive import derive
from nightsweep.measurement.occupancy import mean_waiting
from nightsweep.measurement.values import OccupancySample
from nightsweep.units import MonotonicSeconds
from tests.fakes.probe import a_raw_window


def flags_with(*, concurrency: int, waiting: float) -> tuple[str, ...]:
    raw = a_raw_window(concurrency=concurrency)
    queued = tuple(replace(sample, running=concurrency - waiting, waiting=waiting) for sample in raw.samples)
    return derive(replace(raw, samples=queued), dialect=vllm_dialect("0.32.0"), num_speculative_tokens=2).flags


@pytest.mark.parametrize(("concurrency", "waiting"), [(2, 1), (4, 1), (16, 1), (64, 2), (256, 6)])
def test_streams_that_the_engine_holds_back_make_a_window_underfilled(concurrency: int, waiting: float) -> None:
    assert flags_with(concurrency=concurrency, waiting=waiting) == ("underfilled",)


@pytest.mark.parametrize(("concurrency", "waiting"), [(64, 1), (256, 1), (256, 5)])
def test_among_many_streams_the_few_that_begin_wait_for_their_step_and_flag_nothing(
    concurrency: int, waiting: float
) -> None:
    assert flags_with(concurrency=concurrency, waiting=waiting) == ()


def test_the_mean_queue_is_of_the_samples_that_told_it() -> None:
    samples = [
        OccupancySample(MonotonicSeconds(float(at)), 4.0, waiting) for at, waiting in enumerate((0.0, 3.0, None))
    ]
    assert mean_waiting(samples) == 1.5
    assert mean_waiting(samples[2:]) is None


def test_few_samples_with_a_waiting_request_are_chance_and_so_are_all_but_one_of_not_many() -> None:
    raw = a_raw_window(concurrency=4, seconds=2.0)
    sample = raw.samples[0]
    waits, runs = replace(sample, running=3.0, waiting=1.0), replace(sample, running=4.0, waiting=0.0)

    def flags(*samples: OccupancySample) -> tuple[str, ...]:
        window = replace(raw, samples=samples)
        return derive(window, dialect=vllm_dialect("0.32.0"), num_speculative_tokens=2).flags

    assert flags(*[waits] * 5) == ()
    assert flags(*[waits] * 5, runs) == ()
    assert flags(*[waits] * 6) == ("underfilled",)
    assert flags(*[waits] * 7, runs) == ("underfilled",)

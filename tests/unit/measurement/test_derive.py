from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.engine.dialects import sglang_dialect, vllm_dialect
from nightsweep.errors import DialectMismatch
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import OccupancySample, RawWindow, Reading, WindowResult
from nightsweep.units import MonotonicSeconds, Seconds
from tests.fakes.probe import a_raw_window
from tests.unit.measurement.builders import a_request

VLLM = vllm_dialect("0.32.0")


def derived(raw: RawWindow, *, k: int | None = 2) -> WindowResult:
    return derive(raw, dialect=VLLM, num_speculative_tokens=k)


def moved(reading: Reading | None, **values: float) -> Reading:
    assert reading is not None
    return replace(reading, values={**reading.values, **values})


def without(reading: Reading | None, *names: str) -> Reading:
    assert reading is not None
    return replace(reading, values={name: v for name, v in reading.values.items() if name not in names})


def test_a_clean_window_has_its_truth_and_no_flag() -> None:
    result = derived(a_raw_window(concurrency=4, seconds=40.0, step_time=0.1, positions=(0.75, 0.5)))
    numbers = result.numbers
    assert numbers is not None
    assert result.clean
    assert (numbers.decode_rate, numbers.acceptance_length, numbers.acceptance_rate) == (90.0, 2.25, 0.625)
    assert (numbers.positions, numbers.steps) == ((0.75, 0.5), 400)
    assert numbers.step_time == pytest.approx(0.1)
    assert (numbers.own_tokens, numbers.foreign_tokens, numbers.occupancy) == (3600, 0, 1.0)
    assert set(numbers.integrity.values()) == {0.0}
    assert numbers.facts["identity_rate"] == pytest.approx(90.0)
    assert numbers.sources["decode_rate"] == "vllm:generation_tokens_total"


@settings(max_examples=60)
@given(
    concurrency=st.integers(min_value=1, max_value=24),
    seconds=st.floats(min_value=1.0, max_value=30.0),
    step_time=st.floats(min_value=0.02, max_value=0.3),
    positions=st.lists(st.floats(min_value=0.0, max_value=1.0), max_size=7),
)
def test_any_synthetic_stream_comes_back_exactly_and_without_a_flag(
    concurrency: int, seconds: float, step_time: float, positions: list[float]
) -> None:
    raw = a_raw_window(concurrency=concurrency, seconds=seconds, step_time=step_time, positions=positions)
    assert raw.before is not None
    assert raw.after is not None
    result = derived(raw, k=len(positions) or None)
    numbers = result.numbers
    assert numbers is not None
    assert result.flags == ()
    tokens = raw.after.values["generation_tokens"] - raw.before.values["generation_tokens"]
    assert numbers.generation_tokens == numbers.own_tokens == tokens
    assert numbers.decode_rate == tokens / (raw.after.at - raw.before.at)
    assert numbers.integrity["steps_times_streams_minus_gaps"] == 0
    if positions:
        assert numbers.integrity["tokens_minus_drafts_minus_accepted"] == 0
        assert numbers.tokens_per_step_and_stream == pytest.approx(numbers.acceptance_length)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_no_number_comes_from_a_single_reading(lost: str) -> None:
    raw = replace(a_raw_window(), **{lost: None}, ended_early="request_failed", detail="unreadable")
    result = derived(raw)
    assert result.numbers is None
    assert result.flags == ("request_failed",)
    assert not result.clean


def test_without_speculation_acceptance_is_absent_with_the_reason() -> None:
    numbers = derived(a_raw_window(positions=()), k=None).numbers
    assert numbers is not None
    assert numbers.acceptance_length is None
    assert numbers.positions is None
    assert "holds no vllm:spec_decode_num_accepted_tokens_total" in numbers.unavailable["acceptance_length"]
    assert numbers.tokens_per_step_and_stream == 1.0


def test_a_restart_inside_raises_its_flag_alone_and_gives_no_numbers() -> None:
    raw = a_raw_window()
    result = derived(replace(raw, after=moved(raw.after, generation_tokens=3.0, steps=1.0)))
    assert (result.flags, result.numbers) == (("counter_reset",), None)
    assert "generation_tokens fell from 1000 to 3" in result.flag_details["counter_reset"]


def test_an_exit_is_the_only_flag_although_requests_failed_with_it() -> None:
    raw = a_raw_window()
    broken = tuple(replace(r, error="the connection failed", cancelled=False) for r in raw.requests)
    result = derived(replace(raw, after=None, requests=broken, ended_early="engine_exited", detail="gone"))
    assert result.flags == ("engine_exited",)


def test_foreign_tokens_beyond_edges_and_two_percent_are_flagged() -> None:
    raw = a_raw_window(concurrency=4)
    assert raw.after is not None
    more = moved(raw.after, generation_tokens=raw.after.values["generation_tokens"] + 200)
    result = derived(replace(raw, after=more))
    assert result.flags == ("foreign_load",)
    assert result.numbers is not None
    assert result.numbers.foreign_tokens == 200
    assert "200 are of others" in result.flag_details["foreign_load"]


def test_what_the_edges_can_explain_is_not_foreign() -> None:
    raw = a_raw_window(concurrency=4)
    assert raw.after is not None
    more = moved(raw.after, generation_tokens=raw.after.values["generation_tokens"] + 24)
    assert derived(replace(raw, after=more)).flags == ()


def stalled(raw: RawWindow, *, at: float, until: float) -> RawWindow:
    """What a client sees that stands still from `at` to `until`: it reads everything that came meanwhile in one go."""
    late = tuple(
        replace(r, chunk_at=tuple(until if at <= stamp < until else stamp for stamp in r.chunk_at))
        for r in raw.requests
    )
    return replace(raw, requests=late)


def test_own_tokens_that_a_stalled_client_read_after_the_closing_are_not_foreign() -> None:
    raw = stalled(a_raw_window(concurrency=4, seconds=4.0), at=102.5, until=104.001)
    result = derived(raw)
    assert result.flags == (), result.flag_details
    assert result.numbers is not None
    assert result.numbers.foreign_tokens is not None
    assert result.numbers.foreign_tokens > 100, "the tokens that came late are not counted as having come in time"


def test_foreign_tokens_are_flagged_although_the_client_stalled() -> None:
    raw = stalled(a_raw_window(concurrency=4, seconds=4.0), at=102.5, until=104.001)
    assert raw.after is not None
    result = derived(
        replace(raw, after=moved(raw.after, generation_tokens=raw.after.values["generation_tokens"] + 100))
    )
    assert result.flags == ("foreign_load",)
    assert "that came too late may be" in result.flag_details["foreign_load"]


def test_more_running_than_streams_is_foreign_load_even_without_token_counts() -> None:
    raw = a_raw_window(concurrency=2)
    uncounted = tuple(replace(r, chunk_tokens=None) for r in raw.requests)
    crowded = OccupancySample(MonotonicSeconds(110.0), 3.0, 0.0)
    result = derived(replace(raw, requests=uncounted, samples=(*raw.samples, crowded)))
    assert result.flags == ("foreign_load",)
    assert result.numbers is not None
    assert result.numbers.foreign_tokens is None
    assert "no token counts while streaming" in result.numbers.unavailable["foreign_tokens"]


def test_a_gap_between_requests_of_a_stream_makes_the_window_underfilled() -> None:
    raw = a_raw_window(concurrency=1)
    early = replace(raw.requests[0], ended=MonotonicSeconds(139.0))
    result = derived(replace(raw, requests=(early,)))
    assert result.flags == ("underfilled",)
    assert "97.5% of 1 x 40.0 s" in result.flag_details["underfilled"]


def test_requests_that_wait_in_the_engine_make_the_window_underfilled() -> None:
    raw = a_raw_window(concurrency=4)
    queued = tuple(replace(sample, running=3.0, waiting=1.0) for sample in raw.samples)
    assert derived(replace(raw, samples=queued)).flags == ("underfilled",)


def test_a_preemption_is_flagged() -> None:
    raw = a_raw_window()
    result = derived(replace(raw, after=moved(raw.after, preemptions=1002.0)))
    assert result.flags == ("preempted",)
    assert "2 times" in result.flag_details["preempted"]


def test_a_failed_request_in_the_window_is_flagged_and_the_gap_it_left_is_not() -> None:
    raw = a_raw_window(concurrency=1)
    early = replace(raw.requests[0], ended=MonotonicSeconds(120.0), error="HTTP 503: busy", cancelled=False)
    result = derived(replace(raw, requests=(early,)))
    assert "request_failed" in result.flags
    assert "underfilled" not in result.flags
    assert "HTTP 503: busy" in result.flag_details["request_failed"]


def test_a_request_that_failed_while_the_streams_came_up_flags_the_window_for_other_prompts_were_measured() -> None:
    raw = a_raw_window()
    earlier = a_request(sent=90.0, ended=91.0, error="HTTP 400: too long")
    result = derived(replace(raw, requests=(earlier, *raw.requests)))
    assert result.flags == ("request_failed",)
    assert "1 requests, some while the streams came up, failed: HTTP 400: too long" in str(result.flag_details)


@pytest.mark.parametrize(
    ("uncertainty", "flags", "note"),
    [(0.1, (), ""), (1.0, (), "5.0% of the window's length"), (3.0, ("blurred",), "15.0%")],
)
def test_readings_that_took_long_are_said_and_then_flagged(
    uncertainty: float, flags: tuple[str, ...], note: str
) -> None:
    raw = a_raw_window()
    assert raw.before is not None
    assert raw.after is not None
    slow = Seconds(uncertainty)
    result = derived(
        replace(raw, before=replace(raw.before, uncertainty=slow), after=replace(raw.after, uncertainty=slow))
    )
    assert result.flags == flags
    assert note in "".join(result.notes)
    assert bool(result.notes) == bool(note)


def test_cache_hits_in_a_decode_window_are_a_number_and_not_a_flag() -> None:
    raw = a_raw_window()
    raw = replace(raw, before=moved(raw.before, prefix_cache_hits=0), after=moved(raw.after, prefix_cache_hits=512))
    result = derived(raw)
    assert result.flags == ()
    assert result.numbers is not None
    assert result.numbers.facts["prefix_cache_hits_in_window"] == 512


def test_an_engine_that_counts_no_tokens_is_a_mismatch_that_measuring_again_does_not_mend() -> None:
    raw = a_raw_window()
    bare = replace(raw, before=without(raw.before, "generation_tokens"), after=without(raw.after, "generation_tokens"))
    with pytest.raises(DialectMismatch, match="holds no vllm:generation_tokens_total"):
        derived(bare)


def test_every_flag_has_a_detail_and_comes_in_the_fixed_order() -> None:
    raw = a_raw_window(concurrency=4)
    assert raw.after is not None
    crowd = tuple(replace(sample, running=9.0) for sample in raw.samples)
    failed = a_request(sent=120.0, ended=121.0, error="HTTP 500")
    result = derived(
        replace(raw, after=moved(raw.after, preemptions=1001.0), samples=crowd, requests=(*raw.requests, failed))
    )
    assert result.flags == ("foreign_load", "preempted", "request_failed")
    assert all(result.flag_details[flag] for flag in result.flags)


def test_sglangs_gauge_is_taken_with_its_source_said_and_the_rest_is_absent() -> None:
    raw = a_raw_window(positions=())
    gone = ("steps", "itl_count", "itl_sum")
    raw = replace(
        raw,
        before=without(raw.before, *gone),
        after=moved(without(raw.after, *gone), acceptance_length_gauge=2.8),
    )
    numbers = derive(raw, dialect=sglang_dialect("0.5.23"), num_speculative_tokens=None).numbers
    assert numbers is not None
    assert numbers.acceptance_length == 2.8
    assert "gauge" in numbers.sources["acceptance_length"]
    assert numbers.sources["decode_rate"] == "sglang:realtime_tokens_total"
    assert "no counters of drafts" in numbers.unavailable["positions"]
    assert "no counter of engine steps" in numbers.unavailable["step_time"]


def test_derivation_is_repeatable() -> None:
    raw = a_raw_window(concurrency=3, positions=(0.8, 0.3, 0.1))
    assert derived(raw, k=3) == derived(raw, k=3)

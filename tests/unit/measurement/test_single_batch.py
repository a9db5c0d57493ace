"""One request alone: its numbers, their sources, and what voids it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.engine.dialects import sglang_dialect, vllm_dialect
from nightsweep.measurement.single_batch import derive_single_batch
from nightsweep.measurement.values import RawWindow, RequestAcceptance, WindowResult
from nightsweep.units import MonotonicSeconds, Tokens
from tests.fakes.probe import a_single_batch

VLLM, SGLANG = vllm_dialect("0.32.0"), sglang_dialect("0.5.23")


def derived(raw: RawWindow, *, k: int | None = 3, dialect: Any = VLLM) -> WindowResult:
    return derive_single_batch(
        raw, dialect=dialect, input_tokens=Tokens(1024), output_tokens=Tokens(256), num_speculative_tokens=k
    )


def with_request(raw: RawWindow, **fields: Any) -> RawWindow:
    return replace(raw, requests=(replace(raw.requests[0], **fields),))


def test_the_rate_leaves_the_first_token_out_and_the_reports_formula_stands_beside_it() -> None:
    numbers = derived(a_single_batch(seconds=2.0, ttft=0.5)).numbers
    assert numbers is not None
    assert numbers.decode_rate == pytest.approx(255 / 2.0)
    assert numbers.facts["report_rate"] == pytest.approx(256 / 2.0)
    assert numbers.facts["prefill_rate"] == pytest.approx(1024 / 0.5)
    assert (numbers.ttft is not None and numbers.ttft.p50, numbers.ttft is not None and numbers.ttft.n) == (0.5, 1)
    assert numbers.relative_uncertainty is None


def test_without_speculation_a_step_is_a_token_and_there_is_no_acceptance() -> None:
    numbers = derived(a_single_batch(acceptance_length=None, seconds=2.55), k=None).numbers
    assert numbers is not None
    assert numbers.acceptance_length is None
    assert numbers.step_time == pytest.approx(0.01)
    assert "acceptance_length" in numbers.unavailable


def test_an_engine_that_speculates_and_tells_no_drafts_has_no_step_time() -> None:
    numbers = derived(a_single_batch(acceptance_length=None), k=7, dialect=SGLANG).numbers
    assert numbers is not None
    assert (numbers.step_time, numbers.acceptance_length) == (None, None)
    assert "no counters of drafts" in numbers.unavailable["acceptance_length"]


def test_sglangs_own_words_of_the_request_give_acceptance_and_positions() -> None:
    told = RequestAcceptance(
        source="meta_info",
        drafts=Tokens(100),
        draft_tokens=Tokens(700),
        accepted_tokens=Tokens(155),
        histogram=(20, 25, 35, 20),
    )
    numbers = derived(a_single_batch(acceptance_length=None, acceptance=told), k=7, dialect=SGLANG).numbers
    assert numbers is not None
    assert numbers.acceptance_length == pytest.approx(2.55)
    assert numbers.positions == (0.8, 0.55, 0.2)
    assert numbers.sources["acceptance_length"] == "meta_info"


@pytest.mark.parametrize(
    ("raw", "flag", "said"),
    [
        (a_single_batch(cached=32), "cache_hit", "32 of the prompt's tokens"),
        (a_single_batch(cached=None), "miss_unproven", "a cold run cannot be shown"),
        (with_request(a_single_batch(), error="no end after 600 s"), "request_failed", "no end after 600 s"),
        (
            with_request(a_single_batch(), completion_tokens=Tokens(200)),
            "request_failed",
            "256 output tokens were asked",
        ),
        (with_request(a_single_batch(), completion_tokens=None), "request_failed", "None came"),
        (with_request(a_single_batch(), prompt_tokens=Tokens(1025)), "request_failed", "engine counted 1025"),
        (with_request(a_single_batch(), first_token=None), "request_failed", "could be told"),
        (replace(a_single_batch(), ended_early="engine_exited", after=None), "engine_exited", ""),
        (replace(a_single_batch(), requests=()), "request_failed", ""),
    ],
)
def test_what_voids_a_run_raises_one_flag_with_its_reason(raw: RawWindow, flag: str, said: str) -> None:
    result = derived(raw)
    assert result.flags == (flag,)
    assert said in result.flag_details[flag]
    assert not result.clean


@pytest.mark.parametrize("name", ["generation_tokens", "prompt_tokens"])
def test_counters_that_moved_by_more_than_the_request_are_foreign_load(name: str) -> None:
    raw = a_single_batch()
    assert raw.after is not None
    values = {**raw.after.values, name: raw.after.values[name] + 40}
    assert derived(replace(raw, after=replace(raw.after, values=values))).flags == ("foreign_load",)


def test_an_engine_that_restarted_has_no_number() -> None:
    raw = a_single_batch()
    assert raw.after is not None
    values = {**raw.after.values, "process_start": 1.8e9}
    result = derived(replace(raw, after=replace(raw.after, values=values)))
    assert (result.flags, result.numbers) == (("counter_reset",), None)


def test_a_clock_that_did_not_move_gives_no_rate() -> None:
    raw = a_single_batch()
    result = derived(with_request(raw, ended=MonotonicSeconds(float(raw.requests[0].first_token or 0.0))))
    assert (result.flags, result.numbers) == (("request_failed",), None)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({"chunk_at": (100.593,) * 256, "chunk_tokens": tuple(range(1, 257)), "ended": 100.5932}, 256),
        ({"chunk_at": (100.593,) * 256, "chunk_tokens": None, "ended": 100.5932}, 256),
        ({"chunk_at": (100.593,), "chunk_tokens": (256,), "ended": 100.5932}, 256),
        # half of it collected, the rest as it is made
        ({"chunk_at": (101.0,) * 128 + tuple(101.0 + 0.01 * i for i in range(128)), "ended": 102.3}, 129),
    ],
)
def test_a_stream_that_was_held_back_has_no_numbers(fields: dict[str, Any], tokens: int) -> None:
    raw = with_request(a_single_batch(), **{"chunk_tokens": None, **fields, "first_token": fields["chunk_at"][0]})
    result = derived(raw, k=None)
    assert (result.flags, result.numbers) == (("buffered",), None)
    assert f"first {tokens} tokens came in one read" in result.flag_details["buffered"]


def test_a_whole_answer_in_one_read_is_held_back_however_short() -> None:
    raw = with_request(
        a_single_batch(tokens=2), chunk_at=(100.593,) * 2, ended=100.5932, first_token=MonotonicSeconds(100.593)
    )
    result = derive_single_batch(
        raw, dialect=VLLM, input_tokens=Tokens(1024), output_tokens=Tokens(2), num_speculative_tokens=3
    )
    assert (result.flags, result.numbers) == (("buffered",), None)


def test_chunks_collected_a_few_at_a_time_void_it_too() -> None:
    stamps = tuple(100.2 + 0.05 * (i // 4) for i in range(256))
    raw = with_request(a_single_batch(), chunk_at=stamps, chunk_tokens=tuple(range(1, 257)), first_token=stamps[0])
    result = derived(raw, k=None)
    assert (result.flags, result.numbers) == (("buffered",), None)
    assert "4 chunks to a network read" in result.flag_details["buffered"]


def test_a_first_read_that_was_late_by_a_few_steps_is_chance() -> None:
    stamps = (100.2,) * 6 + tuple(100.2 + 0.007 * i for i in range(250))
    raw = with_request(a_single_batch(), chunk_at=stamps, chunk_tokens=tuple(range(1, 257)), first_token=stamps[0])
    assert derived(raw, k=None).clean

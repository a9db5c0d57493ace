"""What is said of windows whose numbers are true: buffered streams, hidden first tokens, requests against counters, identity."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from nightsweep.engine.dialects import sglang_dialect, vllm_dialect
from nightsweep.measurement.buffering import delivery
from nightsweep.measurement.derive import derive
from nightsweep.measurement.requests import disagreement, own_acceptance, positions_of
from nightsweep.measurement.values import RawWindow, RequestAcceptance, RequestTiming, WindowResult
from nightsweep.units import MonotonicSeconds, Tokens
from tests.fakes.probe import a_raw_window, a_reading
from tests.unit.measurement.builders import a_request

VLLM = vllm_dialect("0.32.0")
OPENED, CLOSED = MonotonicSeconds(100.0), MonotonicSeconds(140.0)


def streamed(*, chunks: int, per_read: int, first: int = 1, late: bool = False) -> RequestTiming:
    """Return a request whose chunks come in reads of so many; `late` holds all of them until the end."""
    stamps = tuple(139.0 if late else 101.0 + 0.1 * (i // per_read) for i in range(chunks))
    counts = tuple(first + 2 * i for i in range(chunks))
    return a_request(
        sent=100.5, ended=139.1, chunk_at=stamps, chunk_tokens=counts, completion_tokens=Tokens(counts[-1])
    )


def arrived(*requests: RequestTiming, k: int | None = 3) -> tuple[str, tuple[str, ...]]:
    found = delivery(requests, opened=OPENED, closed=CLOSED, num_speculative_tokens=k)
    return found.note, found.lost


@pytest.mark.parametrize("per_read", [1, 2])
def test_chunks_that_come_one_by_one_or_two_are_as_they_were_sent(per_read: int) -> None:
    assert arrived(streamed(chunks=200, per_read=per_read)) == ("", ())


@pytest.mark.parametrize(("per_read", "late"), [(4, False), (12, False), (1, True)])
def test_chunks_that_come_in_heaps_cost_all_client_side_times(per_read: int, late: bool) -> None:
    note, lost = arrived(*(streamed(chunks=200, per_read=per_read, late=late) for _ in range(4)))
    assert note.startswith("the stream came in bursts")
    assert lost == ("ttft", "tpot", "e2e", "chunk_gap")


@pytest.mark.parametrize("inside", [False, True])
def test_tokens_that_are_held_back_on_their_way_are_nobody_elses(inside: bool) -> None:
    """One stream, whose chunks come in heaps, or not at all within the window."""
    raw = a_raw_window(seconds=40.0)
    stamps = (99.0, *[130.0] * 99) if inside else (99.0, 141.0)
    counts = tuple(range(1, len(stamps) + 1))
    held = a_request(sent=98.0, ended=141.0, chunk_at=stamps, chunk_tokens=counts)
    result = derive(replace(raw, requests=(held,)), dialect=VLLM, num_speculative_tokens=2)
    assert result.flags == ()
    numbers = result.numbers
    assert numbers is not None
    assert (numbers.own_tokens, numbers.foreign_tokens, numbers.ttft) == (None, None, None)
    assert "cannot be told of streams that are held back" in numbers.unavailable["foreign_tokens"]
    assert ("came in bursts" if inside else "no chunk came in the whole window, with 1 request ") in result.notes[0]
    assert "identity_residual" in numbers.facts
    assert "identity_allowed" not in numbers.facts, "it would hold the whole window for a wait, and allow everything"
    assert "not checked" in numbers.unavailable["identity_allowed"]


def test_one_slow_reader_among_many_says_nothing_of_the_way() -> None:
    requests = [streamed(chunks=200, per_read=1) for _ in range(7)] + [streamed(chunks=200, per_read=30)]
    assert arrived(*requests) == ("", ())


def test_few_chunks_say_nothing() -> None:
    assert arrived(streamed(chunks=4, per_read=4)) == ("", ())


def test_a_first_chunk_with_the_tokens_of_many_steps_costs_the_ttft_alone() -> None:
    note, lost = arrived(*(streamed(chunks=50, per_read=1, first=120) for _ in range(3)))
    assert "the first chunk holds the tokens of many steps" in note
    assert lost == ("ttft",)


def test_a_first_chunk_of_a_few_steps_is_a_busy_server_and_no_hidden_reasoning() -> None:
    assert arrived(streamed(chunks=50, per_read=1, first=12)) == ("", ())


# --- requests' own acceptance ------------------------------------------------------------------------------------


def telling(accepted: int, drafts: int = 100, *, ended: float = 120.0) -> RequestTiming:
    told = RequestAcceptance(source="x", drafts=Tokens(drafts), accepted_tokens=Tokens(accepted))
    return a_request(sent=90.0, ended=ended, acceptance=told)


def test_own_acceptance_weighs_requests_by_their_drafts() -> None:
    own = own_acceptance([telling(300, 100), telling(50, 50)], opened=OPENED, closed=CLOSED)
    assert own is not None
    assert own.length == pytest.approx(1 + 350 / 150)
    assert (own.requests, own.drafts, own.standard_error) == (2, 150, None)


def test_requests_that_ended_outside_the_window_or_told_nothing_do_not_count() -> None:
    requests = [telling(300, ended=150.0), telling(300, ended=99.0), a_request(ended=120.0)]
    assert own_acceptance(requests, opened=OPENED, closed=CLOSED) is None


def test_counters_of_the_same_requests_agree_in_every_one_of_200_windows() -> None:
    chance = random.Random(7)
    for _ in range(200):
        requests = [telling(sum(chance.random() < 0.5 for _ in range(200))) for _ in range(12)]
        own = own_acceptance(requests, opened=OPENED, closed=CLOSED)
        counted = 1 + sum(chance.random() < 0.5 for _ in range(4000)) / 2000
        assert disagreement(own, counted=counted, drafts=2000) is None


def test_counters_that_hold_others_drafts_are_told_from_the_requests_own() -> None:
    chance = random.Random(7)
    requests = [telling(sum(chance.random() < 0.5 for _ in range(200))) for _ in range(12)]
    own = own_acceptance(requests, opened=OPENED, closed=CLOSED)
    said = disagreement(own, counted=3.5, drafts=2000)
    assert said is not None
    assert "3.500" in said
    assert "12 requests" in said


def test_positions_follow_from_the_histogram() -> None:
    told = RequestAcceptance(source="x", histogram=(10, 20, 70))
    assert positions_of(told) == (0.9, 0.7)
    assert positions_of(RequestAcceptance(source="x", histogram=(0, 0))) is None
    assert positions_of(RequestAcceptance(source="x")) is None


# --- the identity of the rate ------------------------------------------------------------------------------------


def judged(raw: RawWindow) -> WindowResult:
    return derive(raw, dialect=VLLM, num_speculative_tokens=2)


def test_the_identity_holds_in_a_pure_decode_window() -> None:
    result = judged(a_raw_window(concurrency=8))
    assert result.numbers is not None
    assert abs(result.numbers.facts["identity_residual"]) < 1e-9
    assert abs(result.numbers.facts["identity_gap_residual"]) < 1e-9
    assert result.notes == ()


def test_tokens_that_neither_drafts_nor_acceptance_explain_are_said() -> None:
    raw = a_raw_window(concurrency=8)
    assert raw.after is not None
    values = dict(raw.after.values)
    values["accepted_tokens"] *= 1.4
    result = judged(replace(raw, after=replace(raw.after, values=values)))
    assert [note for note in result.notes if "streams x acceptance length / step time gives" in note]


def test_where_not_every_step_drafts_the_identity_is_not_asked_for() -> None:
    raw = a_raw_window(concurrency=8)
    assert raw.before is not None
    assert raw.after is not None
    before, after = raw.before.values, dict(raw.after.values)
    for name in ("drafts", "draft_tokens", "accepted_tokens", "accepted_per_position[0]", "accepted_per_position[1]"):
        after[name] = before[name] + round((after[name] - before[name]) * 0.6)
    bonus = after["steps"] - before["steps"]
    after["generation_tokens"] = (
        before["generation_tokens"] + 8 * bonus + after["accepted_tokens"] - before["accepted_tokens"]
    )
    result = judged(replace(raw, after=replace(raw.after, values=after)))
    assert result.numbers is not None
    assert abs(result.numbers.facts["identity_residual"]) > 0.1
    assert result.notes == ()


# --- SGLang ------------------------------------------------------------------------------------------------------


def sglang_window(**after: float) -> WindowResult:
    names = {"generation_tokens": 0.0, "generation_tokens_finished": 0.0, "requests_finished": 0.0}
    start = {**names, "spec_verify_calls_finished": 0.0, "running": 1.0, "waiting": 0.0}
    raw = replace(
        a_raw_window(positions=()),
        before=a_reading(100.0, **start),
        after=a_reading(140.0, **{**start, "generation_tokens": 4000.0, **after}),
    )
    return derive(raw, dialect=sglang_dialect("0.5.23"), num_speculative_tokens=7)


def test_sglangs_acceptance_comes_from_requests_that_ended_in_the_window() -> None:
    result = sglang_window(
        generation_tokens_finished=3010.0,
        requests_finished=10.0,
        spec_verify_calls_finished=1000.0,
        acceptance_length_gauge=2.1,
    )
    assert result.numbers is not None
    assert result.numbers.acceptance_length == pytest.approx(3.0)
    assert "sglang:spec_verify_calls_total" in result.numbers.sources["acceptance_length"]
    assert "whole requests" in result.numbers.sources["acceptance_length"]


def test_with_few_ended_requests_sglangs_gauge_is_taken_and_says_so() -> None:
    result = sglang_window(
        generation_tokens_finished=310.0,
        requests_finished=1.0,
        spec_verify_calls_finished=100.0,
        acceptance_length_gauge=2.1,
    )
    assert result.numbers is not None
    assert result.numbers.acceptance_length == pytest.approx(2.1)
    assert "gauge" in result.numbers.sources["acceptance_length"]


def test_an_sglang_that_tells_nothing_of_acceptance_has_none_with_the_reason() -> None:
    result = sglang_window()
    assert result.numbers is not None
    assert result.numbers.acceptance_length is None
    assert "no counters of drafts" in result.numbers.unavailable["acceptance_length"]

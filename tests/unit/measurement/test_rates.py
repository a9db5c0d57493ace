from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.errors import CounterReset
from nightsweep.measurement import rates
from tests.fakes.probe import a_reading

COUNTS = st.integers(min_value=0, max_value=10**9)


def test_decode_rate_is_tokens_over_the_time_between_midpoints() -> None:
    rate = rates.decode_rate(a_reading(10.0, generation_tokens=100), a_reading(50.0, generation_tokens=900))
    assert rate == 20.0


def test_an_absent_counter_gives_none_and_not_zero() -> None:
    empty = a_reading(0.0)
    later = a_reading(1.0, generation_tokens=5, drafts=1, accepted_tokens=1, draft_tokens=3, steps=2)
    assert rates.decode_rate(empty, later) is None
    assert rates.acceptance_length(empty, later) is None
    assert rates.acceptance_rate(empty, later) is None
    assert rates.step_time(empty, later) is None
    assert rates.positions(empty, later, num_speculative_tokens=3) is None


def test_no_draft_in_the_window_is_no_acceptance_and_not_a_length_of_one() -> None:
    still = {"drafts": 7.0, "accepted_tokens": 3.0, "draft_tokens": 21.0}
    assert rates.acceptance_length(a_reading(0.0, **still), a_reading(1.0, **still)) is None
    assert rates.acceptance_rate(a_reading(0.0, **still), a_reading(1.0, **still)) is None


def test_production_counters_of_a_day_give_the_published_length() -> None:
    """208,647 draft tokens at k=3, 122,270 accepted: 2.76 tokens per step."""
    before = a_reading(0.0, drafts=0, draft_tokens=0, accepted_tokens=0)
    after = a_reading(79200.0, drafts=208647 / 3, draft_tokens=208647, accepted_tokens=122270)
    assert rates.acceptance_length(before, after) == pytest.approx(2.76, abs=0.005)
    assert rates.acceptance_rate(before, after) == pytest.approx(0.586, abs=0.001)


def test_a_fallen_counter_is_a_reset() -> None:
    with pytest.raises(CounterReset) as caught:
        rates.decode_rate(a_reading(0.0, generation_tokens=150), a_reading(1.0, generation_tokens=60))
    assert caught.value.facts == {"counter": "generation_tokens", "before": 150, "after": 60}


def test_a_moved_process_start_is_a_reset_although_counters_have_grown() -> None:
    before = a_reading(0.0, generation_tokens=10, process_start=1000.0)
    after = a_reading(40.0, generation_tokens=500, process_start=1020.0)
    assert "process start moved by 20.0 s" in rates.resets(before, after)[0]


def test_a_vanished_counter_is_a_reset() -> None:
    assert rates.resets(a_reading(0.0, drafts=4), a_reading(1.0)) == ("drafts was there (4) and has vanished",)


def test_gauges_may_fall() -> None:
    before = a_reading(0.0, running=16, waiting=3, kv_cache_usage=0.9, acceptance_length_gauge=3.1)
    after = a_reading(1.0, running=2, waiting=0, kv_cache_usage=0.1, acceptance_length_gauge=2.0)
    assert rates.resets(before, after) == ()


def test_positions_are_shares_of_drafts_in_order() -> None:
    before = a_reading(0.0, drafts=0, accepted_per_position_0=0, accepted_per_position_1=0)
    after = a_reading(1.0, drafts=100, accepted_per_position_1=52, accepted_per_position_0=75)
    assert rates.positions(before, after, num_speculative_tokens=2) == (0.75, 0.52)
    assert rates.positions(before, after, num_speculative_tokens=None) == (0.75, 0.52)


def test_missing_positions_are_not_filled_up_with_zeros() -> None:
    before = a_reading(0.0, drafts=0, accepted_per_position_0=0)
    after = a_reading(1.0, drafts=100, accepted_per_position_0=75)
    assert rates.positions(before, after, num_speculative_tokens=2) is None


def test_step_time_by_gaps_takes_the_engines_own_histogram() -> None:
    before, after = a_reading(0.0, itl_sum=1.0, itl_count=10), a_reading(40.0, itl_sum=40.04, itl_count=330)
    assert rates.step_time_by_gaps(before, after) == pytest.approx(0.122)


def test_relative_uncertainty_is_of_both_round_trips() -> None:
    before, after = a_reading(0.0, uncertainty=0.01), a_reading(40.0, uncertainty=0.03)
    assert rates.relative_uncertainty(before, after) == pytest.approx(0.001)


@given(start=COUNTS, tokens=COUNTS, seconds=st.floats(min_value=0.01, max_value=1e5))
def test_any_growth_gives_exactly_its_slope(start: int, tokens: int, seconds: float) -> None:
    before, after = a_reading(0.0, generation_tokens=start), a_reading(seconds, generation_tokens=start + tokens)
    assert rates.decode_rate(before, after) == tokens / seconds


@given(drafts=st.integers(min_value=1, max_value=10**6), accepted=st.lists(COUNTS, min_size=1, max_size=8))
def test_positions_sum_to_what_was_accepted_per_draft(drafts: int, accepted: list[int]) -> None:
    before = {f"accepted_per_position[{i}]": 5.0 for i in range(len(accepted))}
    after = {f"accepted_per_position[{i}]": 5.0 + count for i, count in enumerate(accepted)}
    first = a_reading(0.0, drafts=0, accepted_tokens=0, generation_tokens=0)
    last = a_reading(1.0, drafts=drafts, accepted_tokens=sum(accepted), generation_tokens=drafts + sum(accepted))
    first.values.update(before)  # type: ignore[attr-defined]
    last.values.update(after)  # type: ignore[attr-defined]
    shares = rates.positions(first, last, num_speculative_tokens=len(accepted))
    length = rates.acceptance_length(first, last)
    assert shares is not None
    assert length is not None
    assert 1 + sum(shares) == pytest.approx(length)
    checks = rates.integrity(first, last, concurrency=1, num_speculative_tokens=len(accepted))
    assert checks["positions_minus_accepted"] == 0
    assert checks["tokens_minus_drafts_minus_accepted"] == 0


@given(
    first=st.dictionaries(st.sampled_from(["generation_tokens", "drafts", "steps"]), COUNTS, min_size=1), fall=COUNTS
)
def test_any_fall_of_any_counter_is_seen(first: dict[str, int], fall: int) -> None:
    name = sorted(first)[0]
    before = a_reading(0.0, **{key: float(value + fall + 1) for key, value in first.items()})
    after = a_reading(1.0, **{**before.values, name: float(first[name])})
    assert any(sign.startswith(f"{name} fell") for sign in rates.resets(before, after))


def test_streams_per_step_are_the_engines_own_and_absent_without_its_counters() -> None:
    before = a_reading(0.0, itl_count=100.0, steps=50.0)
    after = a_reading(10.0, itl_count=460.0, steps=150.0)
    assert rates.streams_per_step(before, after) == 3.6
    assert rates.streams_per_step(before, a_reading(10.0, steps=150.0)) is None
    assert rates.streams_per_step(before, a_reading(10.0, itl_count=100.0, steps=50.0)) is None

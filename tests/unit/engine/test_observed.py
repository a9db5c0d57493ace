"""What a window's counters show of settings that a log does not."""

from __future__ import annotations

import pytest

from nightsweep.engine.observed import drafts_unasked, length_unseen, scheduled_length

SCHEDULE = [[1, 4, 7], [5, 8, 4], [16, 32, 2]]


def test_a_baseline_that_drafts_is_not_the_config() -> None:
    assert drafts_unasked(None, drafts=0) is None
    assert drafts_unasked(None, drafts=None) is None
    assert drafts_unasked({"method": "mtp"}, drafts=500) is None
    said = drafts_unasked(None, drafts=1500)
    assert said == "the config asks for no speculation, and the engine made 1,500 drafts in the window"


@pytest.mark.parametrize(("streams", "length"), [(1, 7), (4, 7), (5, 4), (12, 4), (16, 2), (99, 2)])
def test_a_schedule_gives_the_length_of_its_range_and_a_gap_that_of_the_one_before(streams: int, length: int) -> None:
    assert scheduled_length({"num_speculative_tokens_per_batch_size": SCHEDULE}, streams=streams) == length


def test_without_a_schedule_there_is_none() -> None:
    assert scheduled_length({"num_speculative_tokens": 7}, streams=1) is None
    assert scheduled_length({"num_speculative_tokens_per_batch_size": "1-4:7"}, streams=1) is None


@pytest.mark.parametrize(
    ("streams", "mean", "said"), [(8, 7.0, True), (8, 4.0, False), (8, 4.1, False), (2, 7.0, False), (8, None, False)]
)
def test_a_schedule_without_effect_is_said(streams: int, mean: float | None, said: bool) -> None:
    settings = {"method": "mtp", "num_speculative_tokens": 7, "num_speculative_tokens_per_batch_size": SCHEDULE}
    assert (length_unseen("vllm", settings, streams=streams, mean_length=mean) is not None) == said


def test_a_fixed_length_has_nothing_to_be_seen() -> None:
    assert length_unseen("vllm", {"method": "mtp", "num_speculative_tokens": 7}, streams=8, mean_length=6.9) is None
    assert length_unseen("vllm", None, streams=8, mean_length=None) is None

"""Answers that say nothing: true rates of a workload that nobody has."""

from __future__ import annotations

from collections.abc import Sequence

from nightsweep.measurement.values import RequestTiming

SAME_OVER_AND_OVER = 0.06
"""Compressed share of a text below which it repeats itself; prose and code are at 0.2 to 0.5."""
FEW_TOKENS = 8
"""An answer that stops by itself with fewer tokens is as good as none."""
MOST = 0.5
ENOUGH = 4


def degenerate(requests: Sequence[RequestTiming]) -> str | None:
    """Return what is wrong with most of a window's answers: they repeat themselves, or end at once; None when they do not.

    Such answers are drafted nearly without a miss, so that a broken engine measures fastest.
    """
    told = [one.repetition for one in requests if one.repetition is not None]
    same = sum(share < SAME_OVER_AND_OVER for share in told)
    if told and same > MOST * len(told):
        return f"degenerate output: {same} of {len(told)} answers looked at repeat themselves"
    ended = [one for one in requests if one.finish_reason is not None and one.completion_tokens is not None]
    empty = sum(one.finish_reason == "stop" and (one.completion_tokens or 0) < FEW_TOKENS for one in ended)
    if len(ended) >= ENOUGH and empty > MOST * len(ended):
        return f"degenerate output: {empty} of {len(ended)} answers stopped by themselves before {FEW_TOKENS} tokens"
    return None

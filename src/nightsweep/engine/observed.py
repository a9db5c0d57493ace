"""What a window's counters show of settings: whether an engine speculates at all, and with which draft length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nightsweep.engine.speculative import proposed_drafts

NEAR = 0.05
"""Share by which the mean of proposed tokens may miss a draft length: near a request's end fewer are proposed."""

Settings = Mapping[str, Any] | None


def drafts_unasked(speculative: Settings, *, drafts: float | None) -> str | None:
    """Return why the engine is not the one of the config: it drafts, and the config asks for no speculation."""
    if speculative or not drafts:
        return None
    return f"the config asks for no speculation, and the engine made {drafts:,.0f} drafts in the window"


def length_unseen(kind: str, speculative: Settings, *, streams: int, mean_length: float | None) -> str | None:
    """Return what a reader must know of a draft length that was asked for and not seen in the window.

    Args:
        mean_length: Draft tokens / drafts by the engine's counters.

    Source:
        vLLM config/speculative.py: `num_speculative_tokens_per_batch_size` is a list of (first, last, k); a gap carries the k
        before it. Under async scheduling vLLM 0.27 padded every step to `num_speculative_tokens`, silently.
    """
    longest = proposed_drafts(kind, speculative)
    if not speculative or longest is None or not mean_length:
        return None
    scheduled = scheduled_length(speculative, streams=streams)
    if scheduled is None or scheduled >= longest or scheduled == 0 or mean_length <= scheduled * (1.0 + NEAR):
        return None
    return (
        f"the schedule asks for {scheduled} draft tokens at {streams} streams, and {mean_length:.2f} were proposed in the mean: "
        "it had no effect that could be seen"
    )


def scheduled_length(speculative: Mapping[str, Any], *, streams: int) -> int | None:
    """Return the draft length that a schedule by batch size gives for so many streams; None without a schedule."""
    entries = speculative.get("num_speculative_tokens_per_batch_size")
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return None
    found: int | None = None
    for entry in entries:
        if isinstance(entry, Sequence) and len(entry) == 3 and all(isinstance(part, int) for part in entry):
            first, _, length = entry
            found = length if first <= streams else found
    return found

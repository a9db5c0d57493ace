"""Formulas over two counter readings. Each takes readings of canonical values; an absent counter gives None, never 0."""

from __future__ import annotations

from nightsweep.errors import CounterReset
from nightsweep.measurement.values import Reading
from nightsweep.units import Ratio, Seconds, TokensPerSecond

GAUGES = frozenset({"running", "waiting", "process_start", "kv_cache_usage"})
"""Canonical values that may fall: everything else is a counter, unless its name ends in "_gauge"."""

RESTART_TOLERANCE = Seconds(1.0)
"""A process start that moved by more than this is another process: the value is computed from clock ticks."""


def is_counter(name: str) -> bool:
    """Return whether a canonical value can only grow while the engine lives."""
    return name not in GAUGES and not name.endswith("_gauge")


def delta(before: Reading, after: Reading, name: str) -> float | None:
    """Return how far a counter moved between two readings; None when either reading lacks it.

    Raises:
        CounterReset: It fell.
    """
    first, last = before.values.get(name), after.values.get(name)
    if first is None or last is None:
        return None
    if last < first:
        raise CounterReset(counter=name, before=first, after=last)
    return last - first


def resets(before: Reading, after: Reading) -> tuple[str, ...]:
    """Return a line for each sign that the engine started anew between two readings.

    Signs are a counter that fell, a counter that vanished, and another process start. Prometheus' reset-aware
    increase is
    of no use here: a window with a restart inside is void.
    """
    signs = []
    for name, first in before.values.items():
        last = after.values.get(name)
        if is_counter(name):
            if last is None:
                signs.append(f"{name} was there ({first:g}) and has vanished")
            elif last < first:
                signs.append(f"{name} fell from {first:g} to {last:g}")
    started, restarted = before.values.get("process_start"), after.values.get("process_start")
    if started is not None and restarted is not None and abs(restarted - started) > RESTART_TOLERANCE:
        signs.append(f"the engine's process start moved by {restarted - started:.1f} s")
    return tuple(signs)


def window_seconds(before: Reading, after: Reading) -> Seconds:
    """Return the time between the midpoints of two readings, on the monotonic clock."""
    return Seconds(after.at - before.at)


def relative_uncertainty(before: Reading, after: Reading) -> Ratio:
    """Return the share of the window's length that the two readings' round trips leave open.

    Units:
        1; the true window lies within length * (1 +- this).
    """
    return Ratio((before.uncertainty + after.uncertainty) / window_seconds(before, after))


def decode_rate(
    before: Reading, after: Reading, *, generation_tokens: str = "generation_tokens"
) -> TokensPerSecond | None:
    """Return tokens generated per second, all streams together; None when the engine exposes no such counter.

    The window must hold no ramp: take `before` once every stream has its first token.

    Args:
        generation_tokens: The canonical name of the counter.

    Units:
        tokens / second, summed over streams.

    Raises:
        CounterReset: The engine restarted inside the window.

    Source:
        vLLM `vllm:generation_tokens_total`, SGLang `sglang:realtime_tokens_total{mode="decode"}`: both move at every
        engine step. SGLang's own `generation_tokens_total` moves when a request ends and is not to be used.
    """
    tokens = delta(before, after, generation_tokens)
    return None if tokens is None else TokensPerSecond(tokens / window_seconds(before, after))


def acceptance_length(before: Reading, after: Reading) -> Ratio | None:
    """Return 1 + accepted / drafts: tokens that a verification step yields, the bonus token counted.

    None without a draft in the window. It says nothing of steps that did not draft (n-gram and suffix often do not):
    see `tokens_per_step_and_stream`.

    Source:
        vLLM `vllm:spec_decode_num_accepted_tokens_total`, `vllm:spec_decode_num_drafts_total`; vLLM before 0.9.0
        logs the
        length without the bonus token, its counters are the same.
    """
    accepted, drafts = delta(before, after, "accepted_tokens"), delta(before, after, "drafts")
    if accepted is None or not drafts:
        return None
    return Ratio(1.0 + accepted / drafts)


def acceptance_rate(before: Reading, after: Reading) -> Ratio | None:
    """Return accepted / draft tokens; None when nothing was proposed.

    Source:
        vLLM `vllm:spec_decode_num_accepted_tokens_total`, `vllm:spec_decode_num_draft_tokens_total`.
    """
    accepted, proposed = delta(before, after, "accepted_tokens"), delta(before, after, "draft_tokens")
    if accepted is None or not proposed:
        return None
    return Ratio(accepted / proposed)


def accepted_by_position(
    before: Reading, after: Reading, *, num_speculative_tokens: int | None
) -> tuple[float, ...] | None:
    """Return accepted tokens by position; None when the engine does not tell them all.

    Shape: (num_speculative_tokens,), position 0 first. Without a known number, as many as the engine tells.

    Source:
        vLLM `vllm:spec_decode_num_accepted_tokens_per_pos_total{position=...}`.
    """
    wanted = num_speculative_tokens
    if wanted is None:
        wanted = sum(name.startswith("accepted_per_position[") for name in after.values)
    counts = [delta(before, after, f"accepted_per_position[{i}]") for i in range(wanted)]
    known = [count for count in counts if count is not None]
    return tuple(known) if known and len(known) == wanted else None


def positions(before: Reading, after: Reading, *, num_speculative_tokens: int | None) -> tuple[float, ...] | None:
    """Return accepted at i / drafts; None without drafts or without the counters.

    The share is of all drafts, so it falls with i. With a draft length that changes at run time, no engine exports
    how many
    drafts reached position i.

    Shape: (num_speculative_tokens,), position 0 first.
    """
    drafts = delta(before, after, "drafts")
    counts = accepted_by_position(before, after, num_speculative_tokens=num_speculative_tokens)
    if not drafts or counts is None:
        return None
    return tuple(count / drafts for count in counts)


def step_time(before: Reading, after: Reading) -> Seconds | None:
    """Return seconds per engine step; None when no step was counted.

    Source:
        vLLM `vllm:iteration_tokens_total_count` (a histogram, despite its name): one count per step with output.
    """
    steps = delta(before, after, "steps")
    return Seconds(window_seconds(before, after) / steps) if steps else None


def step_time_by_gaps(before: Reading, after: Reading) -> Seconds | None:
    """Return the mean time between two outputs of a request, which in vLLM is the step as a request sees it.

    Source:
        vLLM `vllm:inter_token_latency_seconds`: one sample per request and step, not per token.
    """
    total, count = delta(before, after, "itl_sum"), delta(before, after, "itl_count")
    return Seconds(total / count) if total is not None and count else None


def tokens_per_step_and_stream(before: Reading, after: Reading, *, concurrency: int) -> Ratio | None:
    """Return tokens / (steps * concurrency): equals the acceptance length only when every step drafts on every stream."""
    tokens, steps = delta(before, after, "generation_tokens"), delta(before, after, "steps")
    return Ratio(tokens / (steps * concurrency)) if tokens is not None and steps else None


def streams_per_step(before: Reading, after: Reading) -> float | None:
    """Return the mean number of decoding streams in a step: what the engine really ran at once.

    Below the concurrency by as much as streams spend outside of decoding: a prefill, a queue, the way of an answer's end to the
    client and of the next request back. A window can be full of requests under way and still hold fewer streams per step.

    Source:
        vLLM `vllm:inter_token_latency_seconds_count` (one sample per request and step) over `vllm:iteration_tokens_total_count`.
    """
    gaps, steps = delta(before, after, "itl_count"), delta(before, after, "steps")
    return gaps / steps if gaps is not None and steps else None


def integrity(
    before: Reading, after: Reading, *, concurrency: int, num_speculative_tokens: int | None
) -> dict[str, float]:
    """Return residuals of the free checks, in counts: 0 in a pure decode window on an idle engine.

    `tokens_minus_drafts_minus_accepted` grows with first tokens of requests that began in the window and with steps that
    did not draft, and falls with accepted tokens beyond a request's end, which vLLM counts as accepted and not as
    generated (-15 of 5,660 with 14 requests ended on vLLM 0.32). `positions_minus_accepted` must be 0 always;
    `steps_times_streams_minus_gaps` compares the two step counters.
    """
    tokens, steps = delta(before, after, "generation_tokens"), delta(before, after, "steps")
    drafts, accepted = delta(before, after, "drafts"), delta(before, after, "accepted_tokens")
    counts = accepted_by_position(before, after, num_speculative_tokens=num_speculative_tokens)
    gaps = delta(before, after, "itl_count")
    found: dict[str, float] = {}
    if tokens is not None and drafts is not None and accepted is not None:
        found["tokens_minus_drafts_minus_accepted"] = tokens - drafts - accepted
    if counts is not None and accepted is not None:
        found["positions_minus_accepted"] = sum(counts) - accepted
    if steps is not None and gaps is not None:
        found["steps_times_streams_minus_gaps"] = steps * concurrency - gaps
    return found

"""What makes a window unfit for a mean. One cause raises one flag: what merely follows from it is left out."""

from __future__ import annotations

from nightsweep.measurement.occupancy import late_tokens, mean_waiting, occupancy, queued_share, running_above
from nightsweep.measurement.rates import delta, relative_uncertainty, resets, window_seconds
from nightsweep.measurement.values import FLAGS, RawWindow, Reading
from nightsweep.units import MonotonicSeconds, Seconds, Tokens

FULL = 0.98
"""Below this share of concurrency * window, a window is underfilled."""

FOREIGN_SHARE = 0.02
"""Engine tokens beyond the probe's own, as a share of the engine's, that are still taken for the window's edges."""

SETTLING = Seconds(0.01)
"""The streams are read for so long after the closing page has come: what lay in the sockets by then is the window's."""

QUEUED_SHARE = 0.5
"""With requests in the engine's queue in more than this share of the samples, the engine may not have run all streams.

It surely has not when these are more than 1 - `FULL` of the streams, too: among hundreds of streams one begins in almost every
step, and waits for its turn until the step is over.
"""

SURE_SAMPLES = 8
"""With fewer samples than this all of them must show a queue: three of four do by chance where the engine is slow to answer."""

QUEUE_SAMPLES = 6
"""Fewer samples say nothing of a queue: every request that begins waits for a moment.

Of windows with three samples, 4 of 1,250 had a request in the queue at each of them, by chance.
"""

LOOSE = 0.03
"""From this uncertainty of a window's length on, as a share of it, a reader is told."""

BLURRED = 0.1
"""From this one on the window is no measurement: counters that took so long to read tell no rate."""

SHOWN = 3


def flags(raw: RawWindow, *, own_tokens: Tokens | None, num_speculative_tokens: int | None) -> dict[str, str]:
    """Return detail by flag, in the order of `FLAGS`.

    An engine that exited or restarted explains failed requests and missing tokens; failed requests and preemptions
    explain tokens that nobody received; these and foreign load explain streams that did not run. A consequence is not
    flagged beside its cause. Prefix-cache hits do not flag a decode window (prompts return by design, and decode starts
    after prefill); their count is kept as a number.
    """
    found: dict[str, str] = {}
    if raw.ended_early is not None:
        found[raw.ended_early] = raw.detail or "the window closed before its time"
    if "engine_exited" not in found and raw.before is not None and raw.after is not None:
        found = {**_between(raw, raw.before, raw.after, own_tokens, num_speculative_tokens), **found}
    return {flag: found[flag] for flag in (*FLAGS, *sorted(set(found) - set(FLAGS))) if flag in found}


def _between(
    raw: RawWindow, before: Reading, after: Reading, own_tokens: Tokens | None, num_speculative_tokens: int | None
) -> dict[str, str]:
    signs = resets(before, after)
    if signs:
        return {"counter_reset": "; ".join(signs[:SHOWN])}
    found = {
        "preempted": _preempted(before, after),
        "request_failed": _failed(raw, before, after),
        "foreign_load": _crowded(raw),
    }
    if not any(found.values()):  # a failed request, too, leaves tokens behind that nobody received
        found["foreign_load"] = _foreign_tokens(raw, before, after, own_tokens, num_speculative_tokens)
    if not any(found.values()):
        found["underfilled"] = _underfilled(raw, before, after)
        found["blurred"] = _blurred(before, after)
    return {flag: detail for flag, detail in found.items() if detail is not None}


def _preempted(before: Reading, after: Reading) -> str | None:
    count = delta(before, after, "preemptions")
    return f"the engine preempted {count:g} times: KV cache too small for these streams" if count else None


def _failed(raw: RawWindow, before: Reading, after: Reading) -> str | None:
    """Tell of failed requests, also of those that failed while the streams came up: other prompts were measured then."""
    failed = [one for one in raw.requests if one.error is not None and one.sent <= after.at]
    if not failed:
        return None
    inside = sum(one.ended is None or one.ended >= before.at for one in failed)
    which = "of the window's requests" if inside == len(failed) else "requests, some while the streams came up,"
    kinds = list(dict.fromkeys(one.error for one in failed if one.error))
    return f"{len(failed)} {which} failed: {'; '.join(kinds[:SHOWN])}"


def _blurred(before: Reading, after: Reading) -> str | None:
    share = relative_uncertainty(before, after)
    if share < BLURRED:
        return None
    return (
        f"the two readings took so long that the window's {window_seconds(before, after):.1f} s, and so its rate, are known "
        f"to {share:.0%} only: a longer window, or a quicker way to the engine, is needed"
    )


def loose(share: float | None) -> str:
    """Return what a reader must know of a window's length that is known to this share only; "" when it is known well."""
    if share is None or share < LOOSE:
        return ""
    return f"the readings' round trips leave {share:.1%} of the window's length, and so of its rate, open"


def edge_allowance(
    before: Reading, after: Reading, *, concurrency: int, tokens: float, num_speculative_tokens: int | None
) -> float:
    """Return how far engine and client may differ without anybody else's load, in tokens.

    One step per stream at each edge (a step yields up to k + 1 tokens), and what flows during the readings' round
    trips.
    """
    per_step = 1 + (num_speculative_tokens or 0)
    drift = tokens / window_seconds(before, after) * (before.uncertainty + after.uncertainty)
    return 2.0 * concurrency * per_step + drift


def _crowded(raw: RawWindow) -> str | None:
    above = running_above(raw.samples, concurrency=raw.concurrency)
    if not above:
        return None
    most = max(sample.running or 0.0 for sample in raw.samples)
    return f"the engine ran {most:g} requests, the probe has {raw.concurrency} ({above} of {len(raw.samples)} samples)"


def _foreign_tokens(
    raw: RawWindow, before: Reading, after: Reading, own_tokens: Tokens | None, num_speculative_tokens: int | None
) -> str | None:
    tokens = delta(before, after, "generation_tokens")
    if tokens is None or own_tokens is None:
        return None
    allowed = edge_allowance(
        before, after, concurrency=raw.concurrency, tokens=tokens, num_speculative_tokens=num_speculative_tokens
    )
    settled = MonotonicSeconds(after.at + after.uncertainty + SETTLING)
    late = late_tokens(raw.requests, closed=after.at, settled=settled)
    excess = tokens - own_tokens - late
    if excess <= max(FOREIGN_SHARE * tokens, allowed):
        return None
    told = f"{own_tokens} are the probe's" + (f", and {late} that came too late may be" if late else "")
    return f"the engine generated {tokens:g} tokens, of which {told}: {excess:g} are of others"


def _underfilled(raw: RawWindow, before: Reading, after: Reading) -> str | None:
    if delta(before, after, "generation_tokens") == 0:
        return "the engine generated no token in the whole window"
    filled = occupancy(raw.requests, concurrency=raw.concurrency, opened=before.at, closed=after.at)
    if filled < FULL:
        return f"streams were in flight for {filled:.1%} of {raw.concurrency} x {window_seconds(before, after):.1f} s"
    queued = queued_share(raw.samples)
    waiting = mean_waiting(raw.samples)
    if queued is None or waiting is None or len(raw.samples) < QUEUE_SAMPLES:
        return None
    if queued <= QUEUED_SHARE or (queued < 1.0 and len(raw.samples) < SURE_SAMPLES):
        return None
    if waiting <= (1.0 - FULL) * raw.concurrency:
        return None
    return (
        f"requests waited in the engine's queue in {queued:.0%} of the samples, {waiting:.2g} of {raw.concurrency} streams "
        "on average: it does not run all streams at once"
    )

"""From one timed prefill to its result. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.errors import CounterReset
from nightsweep.measurement.rates import delta, resets
from nightsweep.measurement.values import PrefillResult, Reading, RequestTiming
from nightsweep.units import Seconds, Tokens, TokensPerSecond

COUNTERS = (
    "generation_tokens",
    "prompt_tokens",
    "prompt_tokens_computed",
    "prefix_cache_hits",
    "prefill_seconds_sum",
    "prefill_seconds_count",
)
"""Counters whose movement over the prefill is kept, as facts "<name>_moved"."""


SMALL = 0.01
"""Share of a prompt that may have been cached where a miss is shown up to other prompts' hits: its rate is off by as much."""


@dataclass(frozen=True)
class Beside:
    """The streams that decoded while a prompt was prefilled.

    Attributes:
        alone: Reading from which on they decoded by themselves, until the prompt was sent.
        held: Whether all of them ran.
    """

    streams: int
    alone: Reading
    held: bool


def derive_prefill(
    timing: RequestTiming,
    *,
    before: Reading,
    after: Reading,
    tokens: Tokens,
    was_idle: bool,
    exited: bool,
    started: datetime,
    dialect: Dialect,
    facts: Mapping[str, Any],
    load: Beside | None = None,
) -> PrefillResult:
    """Return rate = prompt tokens / TTFT, and what speaks against it.

    A clean result needs a proven miss: `cached_tokens` of the answer, or the engine's own hit counter, must say 0. Beside
    streams that began a request meanwhile the counter's movement is an upper bound: up to `SMALL` of the prompt it is miss
    enough, and fact `cached_tokens_at_most` and the detail say so. The engine's own prefill time is taken only when the engine
    finished exactly one request between the readings.

    Args:
        tokens: What was asked for; the rate uses what the engine counted.
        was_idle: Whether the engine had drained before.
        load: The streams that decoded meanwhile. Their rate alone and during the prefill, and the slowdown (the first
            divided by the second) are then among the facts.

    Source:
        vLLM `vllm:prefix_cache_hits_total` (tokens), `vllm:request_prefill_time_seconds` (scheduled to first token).
    """
    moved = _moved(before, after)
    ttft = None if timing.first_token is None else Seconds(timing.first_token - timing.sent)
    counted = tokens if timing.prompt_tokens is None else timing.prompt_tokens
    miss = _Miss.of(timing, moved, counted=counted, alone=load is None)
    causes = {
        "engine_exited": "the engine ended" if exited else None,
        "counter_reset": "; ".join(resets(before, after)) or None,
        "request_failed": _failed(timing, asked=tokens, counted=counted, ttft=ttft),
    }
    doubts = {
        "preempted": None if load is None else _preempted(before, after),
        "foreign_load": _foreign(moved, counted=counted, was_idle=was_idle)
        if load is None
        else _crowded(before, streams=load.streams, was_idle=was_idle),
        "underfilled": None if load is None or load.held else _not_held(load.streams),
        **miss.doubts,
    }
    flags = _first(causes) or {flag: why for flag, why in doubts.items() if why}
    return PrefillResult(
        started=started,
        prompt_tokens=None if timing.prompt_tokens is None else counted,
        ttft=ttft,
        rate=TokensPerSecond(counted / ttft) if ttft else None,
        cached_tokens=miss.cached,
        engine_seconds=Seconds(moved["prefill_seconds_sum"])
        if moved.get("prefill_seconds_count") == 1 and "prefill_seconds_sum" in moved
        else None,
        flags=tuple(flags),
        source=f"client TTFT; miss by {_miss_source(timing, moved, dialect)}",
        detail=_said(flags) or miss.note,
        facts={
            **facts,
            **{f"{name}_moved": value for name, value in moved.items()},
            **({} if miss.at_most is None else {"cached_tokens_at_most": miss.at_most}),
            **_slowed(load, before, after),
        },
    )


@dataclass(frozen=True)
class _Miss:
    """What is known of how much of a prompt came from a cache.

    Attributes:
        cached: Exactly so many; None when that cannot be told.
        at_most: Not more than so many, where only that can be told.
        doubts: Reason by flag, when it is no miss or none can be shown.
    """

    cached: Tokens | None = None
    at_most: Tokens | None = None
    doubts: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None

    @classmethod
    def of(cls, timing: RequestTiming, moved: Mapping[str, float], *, counted: Tokens, alone: bool) -> _Miss:
        """Return what the answer and the counters say; `alone` when no stream decoded beside."""
        hits, taken = moved.get("prefix_cache_hits"), moved.get("prompt_tokens")
        own = alone or taken == counted  # no other prompt came: all hits are this one's
        cached = _cached(timing, moved if own else {})
        if cached is not None:
            hit = f"{cached} of the prompt's tokens came from the prefix cache"
            return cls(cached, doubts={"cache_hit": hit} if cached else {})
        if hits is None:
            untold = "no counter of cache hits and no cached_tokens in the answer: a miss cannot be shown"
            return cls(doubts={"miss_unproven": untold})
        return cls._bounded(round(hits), moved, counted=counted)

    @classmethod
    def _bounded(cls, hits: int, moved: Mapping[str, float], *, counted: Tokens) -> _Miss:
        """Return what can be told where other prompts' hits are in the counter, too."""
        taken, computed = moved.get("prompt_tokens", 0.0), moved.get("prompt_tokens_computed")
        if taken < counted or (computed is not None and computed + hits < counted):
            late = f"a miss cannot be shown: the engine has counted {taken:g} prompt tokens, the probe sent {counted}"
            return cls(doubts={"miss_unproven": late})
        if computed is not None and computed < counted:
            least = round(counted - computed)
            return cls(doubts={"cache_hit": f"at least {least} of the prompt's tokens came from the prefix cache"})
        at_most = Tokens(min(hits, counted))
        if at_most == 0:
            return cls(Tokens(0))
        others = f"other prompts came in meanwhile, and up to {at_most} of the prompt's {counted} tokens may have been cached"
        if at_most > SMALL * counted:
            return cls(at_most=at_most, doubts={"miss_unproven": f"a miss cannot be shown: {others}"})
        return cls(at_most=at_most, note=f"a miss to within {at_most / counted:.1%}: {others}")


def _said(flags: Mapping[str, str]) -> str | None:
    """Return the reasons: of one flag alone, else each behind its flag."""
    if len(flags) == 1:
        return next(iter(flags.values()))
    return "; ".join(f"{flag}: {why}" for flag, why in flags.items()) or None


def _slowed(load: Beside | None, before: Reading, after: Reading) -> dict[str, float]:
    """Return what the prefill cost the streams beside it; nothing where a rate cannot be told.

    Units:
        tokens / second, all streams together; the slowdown is a ratio. The prompt's own output token is not counted.
    """
    if load is None:
        return {}
    found: dict[str, float] = {"decode_streams": load.streams}
    try:
        alone, beside = delta(load.alone, before, "generation_tokens"), delta(before, after, "generation_tokens")
    except CounterReset:
        return found
    if alone is not None and before.at > load.alone.at:
        found["decode_rate_alone"] = alone / (before.at - load.alone.at)
    if beside is not None and after.at > before.at:
        found["decode_rate_beside"] = max(beside - 1, 0.0) / (after.at - before.at)
    if found.get("decode_rate_alone") and found.get("decode_rate_beside"):
        found["decode_slowdown"] = found["decode_rate_alone"] / found["decode_rate_beside"]
    return found


def _preempted(before: Reading, after: Reading) -> str | None:
    try:
        count = delta(before, after, "preemptions")
    except CounterReset:
        return None
    return f"the engine preempted {count:g} times: KV cache too small for streams and prompt" if count else None


def _not_held(streams: int) -> str:
    return "the stream beside it did not decode" if streams == 1 else f"{streams} streams did not all decode"


def _crowded(before: Reading, *, streams: int, was_idle: bool) -> str | None:
    if not was_idle:
        return "the engine was not idle before"
    running = before.values.get("running")
    if running is None or running <= streams:
        return None
    return f"the engine ran {running:g} requests, the probe has {streams}"


def _first(causes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the first cause that holds: the ones behind it follow from it."""
    return next(({flag: why} for flag, why in causes.items() if why), {})


def _moved(before: Reading, after: Reading) -> dict[str, float]:
    found = {}
    for name in COUNTERS:
        try:
            value = delta(before, after, name)
        except CounterReset:
            continue
        if value is not None:
            found[name] = value
    return found


def _cached(timing: RequestTiming, moved: Mapping[str, float]) -> Tokens | None:
    """Return the larger of the two accounts of cached tokens; None when nobody tells."""
    told = [timing.cached_tokens, moved.get("prefix_cache_hits")]
    known = [int(count) for count in told if count is not None]
    return Tokens(max(known)) if known else None


def _miss_source(timing: RequestTiming, moved: Mapping[str, float], dialect: Dialect) -> str:
    sources = []
    if timing.cached_tokens is not None:
        sources.append("usage.prompt_tokens_details.cached_tokens")
    if "prefix_cache_hits" in moved:
        entry = dialect.series.get("prefix_cache_hits")
        names = () if entry is None or isinstance(entry, Unavailable) else tuple(series.name for series in entry)
        sources.append(" or ".join(names) or "prefix_cache_hits")
    return " and ".join(sources) or "nothing: the engine does not tell"


def _failed(timing: RequestTiming, *, asked: Tokens, counted: Tokens, ttft: Seconds | None) -> str | None:
    if timing.error is not None:
        return timing.error
    if ttft is None:
        return "no token came"
    return None if counted == asked else f"{asked} prompt tokens were sent, the engine counted {counted}"


def _foreign(moved: Mapping[str, float], *, counted: Tokens, was_idle: bool) -> str | None:
    if not was_idle:
        return "the engine was not idle before"
    generated, prompted = moved.get("generation_tokens", 0.0), moved.get("prompt_tokens", 0.0)
    if generated > 1:
        return f"the engine generated {generated:g} tokens, the probe asked for one"
    return f"the engine took {prompted:g} prompt tokens, the probe sent {counted}" if prompted > counted else None

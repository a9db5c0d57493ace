"""Production's traffic as a premise: how long its prompts and answers were when it was decided, and whether they still are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightsweep.analysis import text
from nightsweep.measurement.traffic import CONTAINER, Traffic

TRAFFIC = "traffic."
PROMPT, GENERATION, STREAMS = f"{TRAFFIC}prompt_tokens", f"{TRAFFIC}generation_tokens", f"{TRAFFIC}streams"
JUDGED = (PROMPT, GENERATION)
"""What is held against newer traffic. How many streams there were goes with the hour and the day, and is on record only."""

APART = 1.5
"""Factor by which a mean length may move, either way, before it is other traffic.

Means move from day to day with who works on what, and a decision that is questioned every morning is read by nobody; half as
long again is another use: another share of prefill, another depth of context in every step.
"""


@dataclass(frozen=True)
class Recorded:
    """Traffic as it was read before a container was taken down."""

    intent_id: int
    container: str
    traffic: Traffic


def premises_of(traffic: Traffic) -> dict[str, float]:
    """Return what is held fixed of it: means in tokens / request, and requests at once; nothing of what is unknown."""
    prompt, generation, streams = traffic.mean_prompt_tokens, traffic.mean_generation_tokens, traffic.streams
    found = {PROMPT: _rounded(prompt), GENERATION: _rounded(generation)}
    found[STREAMS] = None if streams is None else round(streams, 3)
    return {name: value for name, value in found.items() if value is not None}


def _rounded(mean: float | None) -> float | None:
    return None if mean is None else round(mean, 1)


def same(old: float, new: float) -> bool:
    """Return whether two mean lengths are of the same traffic: at most `APART` from each other, either way."""
    low, high = sorted((old, new))
    return high <= APART * low


def counted(one: Recorded) -> dict[str, Any]:
    """Return how the means were counted, to be kept with a decision."""
    return {
        "intent": one.intent_id,
        "container": one.container,
        "requests": one.traffic.requests,
        "since": None if one.traffic.since is None else one.traffic.since.isoformat(),
        "since_by": one.traffic.since_by,
        "until": one.traffic.read.isoformat(),
    }


def counted_said(told: Mapping[str, Any]) -> str:
    """Return that as words: "mean of 3,120 finished requests of vllm-qwen, 2026-11-30 07:01 to 2026-11-30 22:30 UTC"."""
    until = text.moment(datetime.fromisoformat(told["until"]))
    if told["since"] is None:
        when = f"from its start, which nobody told, to {until} UTC"
    else:
        by = ", as its container was started" if told["since_by"] == CONTAINER else ""
        when = f"{text.moment(datetime.fromisoformat(told['since']))} to {until} UTC{by}"
    return f"mean of {told['requests']:,} finished requests of {told['container']}, {when}"


def said(container: str, traffic: Traffic, *, moment: Callable[[datetime], str]) -> str | None:
    """Return a container's traffic as a sentence for a summary; None where it is unknown.

    Args:
        moment: Says a point in time.
    """
    prompt, generation = traffic.mean_prompt_tokens, traffic.mean_generation_tokens
    if prompt is None or generation is None:
        return None
    since = "since its start" if traffic.since is None else f"since {moment(traffic.since)}"
    lengths = f"{prompt:,.0f} prompt and {generation:,.0f} generated tokens on average"
    at_once = "" if traffic.streams is None else f", {traffic.streams:.2g} at once"
    return f"{container} had served {traffic.requests:,} requests {since}: {lengths}{at_once}"

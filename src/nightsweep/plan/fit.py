"""Whether the next boot still fits into the night: high estimates, made of this box's past starts where there are any.

A start that is estimated too short costs a boot that is dropped, or production's readiness in the morning; one that is
estimated too long costs the end of a night. So the longest past start counts, not the middle one, and something more: see `high`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from nightsweep.plan.estimate import default_cold_start, measuring_seconds
from nightsweep.plan.model import BootTask, EngineConfig, Production, SweepPlan
from nightsweep.units import Seconds

K = TypeVar("K", bound=Hashable)

TENTH = 0.1
FEW = 0.5
FREEING = Seconds(10.0)
"""Seconds beside `stop_grace` in which an engine's end is noticed as due, it is killed, and port and memory become free."""


@dataclass(frozen=True)
class Longest:
    """The longest of some past starts, in seconds, and how many there were."""

    seconds: Seconds
    count: int


@dataclass(frozen=True)
class PastStart:
    """Cold starts of one engine config on this box.

    Attributes:
        program: What was started: the image's name, or the command of a process (see `program_of`).
        method: Speculative method; None is no speculation.
    """

    config: str
    program: str
    method: str | None
    longest: Longest


@dataclass(frozen=True)
class PastStarts:
    """What this box has shown of how long engines, and production, take to start.

    Attributes:
        restores: By container name: from production's start to its proof that it serves.
    """

    engines: tuple[PastStart, ...] = ()
    restores: Mapping[str, Longest] = field(default_factory=dict)

    @cached_property
    def of_config(self) -> Mapping[str, Longest]:
        """Cold starts by config fingerprint."""
        return _by(self.engines, lambda each: each.config)

    @cached_property
    def of_like(self) -> Mapping[tuple[str, str | None], Longest]:
        """Cold starts by what was started and the speculative method."""
        return _by(self.engines, lambda each: (each.program, each.method))

    @cached_property
    def of_program(self) -> Mapping[str, Longest]:
        """Cold starts by what was started."""
        return _by(self.engines, lambda each: each.program)

    @cached_property
    def of_box(self) -> Longest | None:
        """All cold starts."""
        return _by(self.engines, lambda _: "").get("")


@dataclass(frozen=True)
class High:
    """A start as it is reckoned with, and a phrase that says what that is made of."""

    seconds: Seconds
    source: str


@dataclass(frozen=True)
class Reserve:
    """What the end of a night needs: an engine stopped, and production started until it serves."""

    seconds: Seconds
    source: str

    def drop_at(self, until: datetime) -> datetime:
        """Return the moment at which everything is dropped, so that production serves by `until`."""
        return until - timedelta(seconds=self.seconds)


def high(past: Longest) -> Seconds:
    """Return the high estimate of the next start: the longest past one, a tenth of it, and half of it over their number.

    The longest of n past starts is passed by the next one with chance 1 / (n + 1), mostly by little: what is added shrinks as
    n grows. For starts that lie evenly within 30% of their middle, the estimate is passed by 3% of them after the first, by
    1% after five.
    """
    return Seconds(past.seconds * (1.0 + TENTH + FEW / past.count))


def program_of(document: Mapping[str, Any]) -> str:
    """Return what a config's document starts: the image's name, or the command of a process."""
    return str(document.get("image") or " ".join(document.get("command", ())))


def _by(starts: Iterable[PastStart], key: Callable[[PastStart], K]) -> dict[K, Longest]:
    found: dict[K, Longest] = {}
    for start in starts:
        known, new = found.get(key(start), Longest(Seconds(0.0), 0)), start.longest
        found[key(start)] = Longest(max(known.seconds, new.seconds), known.count + new.count)
    return found


def engine_start(config: EngineConfig, past: PastStarts) -> High:
    """Return how long a config's cold start is reckoned with: by its own past, its like's, the box's, or a default."""
    speculative = config.speculative or {}
    method = speculative.get("method", speculative.get("algorithm"))
    for whose, known in (
        ("of this config", past.of_config.get(config.fingerprint)),
        ("of its image and method", past.of_like.get((program_of(config.document), method))),
        ("of this box", past.of_box),
    ):
        if known is not None:
            return _high(known, most=config.engine.boot_timeout, what=f"cold starts {whose}")
    seconds = default_cold_start(config.engine.boot_timeout)
    return High(seconds, f"{seconds:.0f} s, a default: no past cold start on this box")


def production_start(production: Production, past: PastStarts, *, image: str | None) -> High:
    """Return how long production's own start is reckoned with.

    By its own past; by the box's cold starts of the same image; else by the longest that it may take (`ready_timeout`). It is
    never reckoned with longer than that: later it counts as not restored.
    """
    most = production.ready_timeout
    own = past.restores.get(production.container)
    if own is not None:
        return _high(own, most=most, what="starts of production")
    alike = None if image is None else past.of_program.get(image)
    if alike is not None:
        return _high(alike, most=most, what="cold starts of production's image")
    return High(most, f"{most:.0f} s, its ready_timeout: no past start of production on this box")


def _high(past: Longest, *, most: Seconds, what: str) -> High:
    seconds = Seconds(min(high(past), most))
    return High(seconds, f"{seconds:.0f} s, by the longest of {past.count} past {what} ({past.seconds:.0f} s)")


def reserve(plan: SweepPlan, production: High | None) -> Reserve:
    """Return what must be kept free at the end of the night; without production, the time to stop an engine."""
    grace = max(config.engine.stop_grace for config in plan.configs)
    stop = grace + FREEING
    said = f"{stop:.0f} s to stop an engine"
    if production is None:
        return Reserve(Seconds(stop), said)
    return Reserve(Seconds(stop + production.seconds), f"{said}, production's start {production.source}")


def round_seconds(plan: SweepPlan, task: BootTask) -> Seconds:
    """Return the time from an engine's readiness to the end of one round: a window of each cell, and what comes before them."""
    firsts = {repeat.cell: repeat for repeat in reversed(task.repeats)}
    return Seconds(measuring_seconds(plan, replace(task, repeats=tuple(firsts.values()))))


def least_seconds(plan: SweepPlan, task: BootTask) -> Seconds:
    """Return the time from an engine's readiness to the end of the first thing that is measured."""
    prefills = task.prefills[:1]
    alone = () if prefills else task.single_batches[:1]
    repeats = () if prefills or alone else task.repeats[:1]
    first = replace(task, prefills=prefills, single_batches=alone, repeats=repeats)
    return Seconds(measuring_seconds(plan, first))


def first_that_fits(
    plan: SweepPlan, tasks: Sequence[BootTask], past: PastStarts, *, left: Seconds, fresh: bool
) -> int | None:
    """Return which of the boots, in their order, still fits; None when none does.

    Args:
        left: Seconds until everything is dropped.
        fresh: Whether nothing has been booted tonight: then one measurement need fit only, for a round that is longer than
            a night would never be begun.
    """
    spent_on = least_seconds if fresh else round_seconds
    known: dict[str, Seconds] = {}
    for index, task in enumerate(tasks):
        config = task.config
        if config.fingerprint not in known:
            known[config.fingerprint] = engine_start(config, past).seconds
        if known[config.fingerprint] + spent_on(plan, task) <= left:
            return index
    return None


def why_not(plan: SweepPlan, task: BootTask, past: PastStarts, *, left: Seconds, fresh: bool) -> str:
    """Return why a boot does not fit any more, with the figures."""
    spent, what = (
        (least_seconds(plan, task), "a first window") if fresh else (round_seconds(plan, task), "a round of windows")
    )
    return (
        f"the next boot does not fit any more: {task.config.name} needs {spent:.0f} s for {what} after its cold start "
        f"({engine_start(task.config, past).source}), and {max(left, 0.0):.0f} s are left"
    )

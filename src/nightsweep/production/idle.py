"""Is production idle? By its own counters: nothing runs, nothing waits, and nothing was served between two looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from nightsweep.engine.dialects import with_served
from nightsweep.engine.registry import engine_for
from nightsweep.engine.values import Dialect
from nightsweep.errors import ProbeError
from nightsweep.measurement.traffic import Traffic, traffic_of
from nightsweep.measurement.values import Reading
from nightsweep.ports import Clock, ForeignContainer, Probe, Target
from nightsweep.production.door import Door
from nightsweep.units import Seconds

LOOK_EVERY = Seconds(2.0)
VERSION = Seconds(5.0)
MOVING = ("generation_tokens", "generation_tokens_finished", "prompt_tokens", "requests_finished")
"""Counters that move when a request was served, also one that came and went between two looks."""


@dataclass(frozen=True)
class Idleness:
    """What was found. `idle` is None when production cannot be asked; `why` says what was seen.

    Attributes:
        last: The last page of an idle production, by `dialect`; None of one that is not.
    """

    idle: bool | None
    why: str
    dialect: Dialect | None = None
    last: Reading | None = None


def until_idle(
    door: Door, probe: Probe, clock: Clock, *, idle_for: Seconds, limit: Seconds, check: Callable[[], None]
) -> Idleness:
    """Wait until production has been idle for `idle_for`, at most `limit`.

    Args:
        check: Called at every look; what it raises ends the wait.
    """
    target = _target(door, probe)
    if isinstance(target, str):
        return Idleness(None, target)
    begun = clock.monotonic()
    since, before = begun, _look(target, probe)
    while not isinstance(before, str):
        check()
        now = clock.monotonic()
        busy = _busy(before.values)
        if busy is None and now - since >= idle_for:
            return Idleness(True, f"idle for {now - since:.0f} s", target.dialect, before)
        if now - begun >= limit:
            return Idleness(
                False, f"not idle for {idle_for:.0f} s at a stretch within {limit:.0f} s; last: {busy or 'quiet'}"
            )
        clock.sleep(min(LOOK_EVERY, Seconds(max(idle_for, 0.1))))
        after = _look(target, probe)
        if isinstance(after, str):
            return Idleness(None, after)
        if busy is not None or _moved(before.values, after.values):
            since = clock.monotonic()
        before = after
    return Idleness(None, before)


def served(seen: Idleness, found: ForeignContainer, *, at: datetime) -> Traffic:
    """Return what production has served since its start, as its last page tells it; `at` is now, for one that has none."""
    if seen.last is None or seen.dialect is None:
        return Traffic(read=at, problem=seen.why)
    return traffic_of(
        seen.last.values,
        engine=seen.dialect.engine,
        version=seen.dialect.version,
        read=seen.last.wall,
        container_started=found.started,
    )


def _target(door: Door, probe: Probe) -> Target | str:
    """Return where its counters are, or why nobody knows."""
    if door.kind is None:
        return "it is no vLLM or SGLang: its requests cannot be counted"
    if door.base_url is None:
        return "it has no port that this machine reaches: its requests cannot be counted"
    engine = engine_for(door.kind)
    answers = probe.ask(door.base_url, engine.identity_paths(), timeout=VERSION, api_key=door.key)
    version = engine.identity(answers).version
    model = door.model or ""
    dialect = with_served(engine.dialect(version))
    return Target(base_url=door.base_url, load_url=door.base_url, model=model, dialect=dialect, api_key=door.key)


def _look(target: Target, probe: Probe) -> Reading | str:
    try:
        found: Reading = probe.read(target)
    except ProbeError as error:
        return str(error)
    if "running" not in found.values:
        hint = " (SGLang shows its counters with --enable-metrics only)" if target.dialect.engine == "sglang" else ""
        return f"{target.base_url}/metrics does not say how many requests run{hint}"
    return found


def _busy(values: Mapping[str, float]) -> str | None:
    running, waiting = values["running"], values.get("waiting", 0.0)
    return f"{running:.0f} requests running, {waiting:.0f} waiting" if running or waiting else None


def _moved(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    return any(before.get(name) != after.get(name) for name in MOVING)

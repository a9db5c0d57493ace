"""How long a sweep takes: from this box's history where there is any, else from defaults that are said with the answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from zoneinfo import ZoneInfo

from nightsweep.plan.model import (
    BootTask,
    EngineConfig,
    PrefillRepeat,
    ProbeSpec,
    Production,
    Schedule,
    SingleBatchSpec,
    SweepPlan,
)
from nightsweep.plan.nights import ORDINARY, next_start, night_end
from nightsweep.plan.remaining import MAX_FAILED_BOOTS
from nightsweep.units import Seconds

ANY = "*"
"""Key in the history of the median cold start over all configs of the box."""

COLD_START = Seconds(360.0)
"""Seconds. A 27B model on a GB10 box took 6 to 7 minutes, as published; a shorter boot timeout says that less is expected."""
PER_WINDOW = Seconds(4.0)
"""Seconds beside the window: prompts are prefilled until all streams have a token, and streams are ended after it."""
PER_BOOT = Seconds(20.0)
"""Seconds beside cold start and warm-up: stopping the engine, and waiting until port and memory are free."""
PREFILL_RATE = 2000.0
"""Prompt tokens/s, as published for the same box; prompts of one prefill are sent one after another."""

PER_LOADED_PREFILL = Seconds(12.0)
"""Seconds beside a prefill under load: streams come up, decode by themselves for a while, and are ended."""
SINGLE_RATE = 25.0
"""Tokens/s of one stream, as published for the same box."""
PER_SINGLE_BATCH = Seconds(3.0)
"""Seconds beside a single-batch run: its prompt, and waiting for an idle engine."""


@dataclass(frozen=True)
class Estimate:
    """The expected length of what is left.

    Attributes:
        seconds: From the start to having production back, `idle` once in it.
        boots: Engine starts, production's own not counted.
        cold_starts: Seconds of all cold starts in it, production's own among them.
        measuring: Seconds of windows, prefills and warm-ups in it.
        idle: Seconds, each night, that production must have been idle before it is stopped: the least that is waited.
        night: Seconds from the schedule's start to its `until`; None when the plan does not say both.
        fits: Whether all of it fits into one night; None when the night's length is not known.
        nights: Nights needed; None when the night's length is not known, or not even one boot fits.
        worst: From the start to having production back when every wait is used up: see `worst_seconds`.
        failing_round: What one round of a config that never comes up costs at the most, of the config whose timeout is longest;
            0 s without boots.
        assumptions: What the figures were made of, one readable line each.
    """

    seconds: Seconds
    boots: int
    windows: int
    prefills: int
    cold_starts: Seconds
    measuring: Seconds
    idle: Seconds
    night: Seconds | None
    fits: bool | None
    nights: int | None
    worst: Seconds
    failing_round: Seconds
    assumptions: tuple[str, ...]


def estimate(
    plan: SweepPlan,
    tasks: Sequence[BootTask],
    *,
    history: Mapping[str, float] | None = None,
    start: datetime | None = None,
) -> Estimate:
    """Return how long these boots take.

    Args:
        tasks: What is left, as `remaining` says.
        history: Cold starts of this box in seconds, by config fingerprint; `"*"` is the median over all of them, `"production"`
            the production engine's own. None or empty: there is none yet.
        start: When it would start; None takes the schedule's own next start on an ordinary day.

    Units:
        seconds.
    """
    past = history or {}
    production = production_cold_start(plan.production, history=past)
    colds = [cold_start(task.config, history=past) for task in tasks]
    measuring = [measuring_seconds(plan, task) for task in tasks]
    boots = [(cold + PER_BOOT, spent) for cold, spent in zip(colds, measuring, strict=True)]
    idle = plan.production.must_idle if plan.production and tasks else Seconds(0.0)
    total = math.fsum(start + spent for start, spent in boots) + production + idle
    night = night_length(plan.schedule, start=start)
    return Estimate(
        seconds=Seconds(total),
        boots=len(tasks),
        windows=sum(len(task.repeats) for task in tasks),
        prefills=sum(len(task.prefills) for task in tasks),
        cold_starts=Seconds(math.fsum(colds) + production),
        measuring=Seconds(math.fsum(measuring)),
        idle=idle,
        night=night,
        fits=None if night is None else total <= night,
        nights=None if night is None else _nights(boots, night=night - production - idle),
        worst=worst_seconds(plan, tasks),
        failing_round=max((failing_round_seconds(task.config) for task in tasks), default=Seconds(0.0)),
        assumptions=_assumptions(plan, tasks, history=past),
    )


def worst_seconds(plan: SweepPlan, tasks: Sequence[BootTask]) -> Seconds:
    """Return how long these boots take when every wait is used up.

    Each engine hangs until its `boot_timeout` as often as it may, the last time coming up at its very end; every measurement is
    flagged and taken as often as it may; production is busy and starts as slowly as it may. Not in it: pulling images, and loads
    that do not come up, which have a patience of their own.
    """
    boots = math.fsum(failing_round_seconds(task.config) for task in tasks)
    measuring = math.fsum(_all_attempts(plan, task) for task in tasks)
    production = plan.production
    served = production.ready_timeout + production.idle_limit if production and tasks else 0.0
    return Seconds(boots + measuring + served)


def failing_round_seconds(config: EngineConfig) -> Seconds:
    """Return what a config that never comes up costs in one round of boots: it is waited for until its timeout, each time."""
    return Seconds(MAX_FAILED_BOOTS * (config.engine.boot_timeout + PER_BOOT))


def _all_attempts(plan: SweepPlan, task: BootTask) -> float:
    once = measuring_seconds(plan, task)
    warm = plan.probe.warmup if task.repeats or task.single_batches else 0.0
    return float(warm + (once - warm) * plan.probe.max_attempts)


def cold_start(config: EngineConfig, *, history: Mapping[str, float]) -> Seconds:
    """Return a config's expected cold start: its own history, the box's median, or the default."""
    known = history.get(config.fingerprint, history.get(ANY))
    return Seconds(known) if known is not None else default_cold_start(config.engine.boot_timeout)


def production_cold_start(production: Production | None, *, history: Mapping[str, float]) -> Seconds:
    """Return how long production needs to serve again; 0 s when the plan takes no production down."""
    if production is None:
        return Seconds(0.0)
    known = history.get("production", history.get(ANY))
    return Seconds(known) if known is not None else default_cold_start(production.ready_timeout)


def night_length(schedule: Schedule | None, *, start: datetime | None = None) -> Seconds | None:
    """Return seconds from the start of a night to its `until`; None when one of them is not said."""
    if schedule is None or schedule.until is None or (start is None and schedule.cron is None):
        return None
    begin = start or _ordinary_start(schedule)
    end = night_end(schedule, start=begin)
    return None if end is None else Seconds((end - begin).total_seconds())


def _ordinary_start(schedule: Schedule) -> datetime:
    """Return a start on a day without a change of clocks nearby: a plan is estimated alike on every day."""
    begin = ORDINARY.replace(tzinfo=ZoneInfo(schedule.timezone))
    return next_start(schedule, after=begin) or begin


def default_cold_start(timeout: Seconds) -> Seconds:
    """Return the cold start that is expected where nothing is known but how long one may take."""
    return Seconds(min(COLD_START, timeout / 3))


def measuring_seconds(plan: SweepPlan, task: BootTask) -> float:
    """Return seconds of warm-up, windows, prefills and single-batch runs of a boot, none of them measured again."""
    probe = plan.probe
    windows = len(task.repeats) * window_seconds(probe)
    prefill = math.fsum(prefill_seconds(one) for one in task.prefills)
    single = probe.single_batch
    alone = len(task.single_batches) * single_batch_seconds(single) if single else 0.0
    return float((probe.warmup if task.repeats or alone else 0.0) + windows + prefill + alone)


def window_seconds(probe: ProbeSpec) -> float:
    """Return seconds that one window takes, with what is around it."""
    return float(probe.window + PER_WINDOW)


def prefill_seconds(one: PrefillRepeat) -> float:
    """Return seconds that one prefill takes."""
    return one.tokens / PREFILL_RATE + 1.0 + (PER_LOADED_PREFILL if one.under_load else 0.0)


def single_batch_seconds(single: SingleBatchSpec) -> float:
    """Return seconds that one single-batch run takes."""
    return single.output / SINGLE_RATE + PER_SINGLE_BATCH


def _nights(boots: Sequence[tuple[float, float]], *, night: float) -> int | None:
    """Return the nights needed; a boot that a night's end cuts is made again for what it lacks.

    Args:
        boots: Seconds before anything is measured, and of measuring, of each boot.
        night: Seconds, without production's own start and the wait for its idleness.
    """
    count, free = (1, night) if boots else (0, 0.0)
    for start, measuring in boots:
        if start >= night:
            return None
        left = measuring
        while start + left > free:
            left -= max(free - start, 0.0)
            count, free = count + 1, night
        free -= start + left
    return count


def _idleness(production: Production) -> str:
    if not production.must_idle:
        return "production is stopped whether it is idle or not (`production.idle_for: 0`)"
    return (
        f"production must be idle for {production.must_idle:.0f} s before it is stopped (`production.idle_for`), each night: "
        f"counted as quiet at once; while it is busy it is waited for up to {production.idle_limit:.0f} s (`idle_limit`)"
    )


def _assumptions(plan: SweepPlan, tasks: Sequence[BootTask], *, history: Mapping[str, float]) -> tuple[str, ...]:
    configs = {task.config.fingerprint: task.config for task in tasks}
    own = [history[one] for one in configs if one in history]
    lines: list[str] = []
    if own:
        lines.append(
            f"cold start: this box's history for {len(own)} of {len(configs)} configs, median {median(own):.0f} s"
        )
    rest = [config for one, config in configs.items() if one not in history]
    if rest and ANY in history:
        lines.append(f"cold start of {len(rest)} configs: {history[ANY]:.0f} s, the median over this box's history")
    elif rest:
        figures = sorted({f"{cold_start(config, history={}):.0f} s" for config in rest})
        lines.append(f"cold start of {len(rest)} configs: {' / '.join(figures)}, a default (no history on this box)")
    if plan.production:
        seconds = production_cold_start(plan.production, history=history)
        said = "from history" if {"production", ANY} & set(history) else "a default"
        lines.append(f"production's own cold start: {seconds:.0f} s, {said}")
        lines.append(_idleness(plan.production))
    lines.append(f"each boot: {PER_BOOT:.0f} s to stop and free, up to {plan.probe.warmup:g} s of warm-up")
    lines.append(f"each window: {plan.probe.window:g} s and {PER_WINDOW:.0f} s around it, none measured again")
    if plan.probe.prefill:
        lines.append(f"prefill: {PREFILL_RATE:,.0f} prompt tokens/s")
    if plan.probe.single_batch:
        lines.append(f"single-batch run: {SINGLE_RATE:.0f} tokens/s and {PER_SINGLE_BATCH:.0f} s around it")
    return tuple(lines)

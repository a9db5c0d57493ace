"""The order of a sweep: rounds of boots interleaved over configs, cells shuffled inside a boot, always the same way."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence

from nightsweep.plan.extras import prefills_of, single_batches_of
from nightsweep.plan.model import CONTROL_ROUND, BootTask, Cell, ControlSpec, EngineConfig, Repeat, SweepPlan
from nightsweep.plan.opening import opening


def boot_tasks(plan: SweepPlan) -> tuple[BootTask, ...]:
    """Return every boot of the sweep with all it measures, in order.

    Rounds are interleaved (round 0 of all configs, then round 1, ...), so that a drift of the box over the night falls on all
    configs alike. Repeat r belongs to round r % boots. Inside a boot every cell has its first repeat before any has its second,
    and each such pass is shuffled: a night that ends early leaves few cells empty. The shuffle is drawn from the fingerprints
    and the round, so that the same plan is always in the same order. A control's extra boots come between, and at the end.
    """
    return tuple(boot_task(plan, config, boot_round) for config, boot_round in boot_order(plan))


def boot_order(plan: SweepPlan) -> Iterator[tuple[EngineConfig, int]]:
    """Yield the config and the round of every boot, in order; see `boot_tasks`."""
    own = [(config, boot_round) for boot_round in range(plan.probe.boots) for config in plan.configs]
    return iter(own) if plan.control is None else _with_control(plan, plan.control, own)


def boot_task(plan: SweepPlan, config: EngineConfig, boot_round: int) -> BootTask:
    """Return one boot with all it measures, in order."""
    if boot_round >= CONTROL_ROUND:
        return _control_task(plan, config, boot_round)
    return _task(plan, config, boot_round)


def slots(plan: SweepPlan) -> int:
    """Return the number of windows planned: cells times repeats, and one of each of a control's cells for its extra boots.

    Of a decision it is the opening: what comes after it, the data say.
    """
    cells = len(cells_of(plan, ""))
    return len(plan.configs) * cells * plan.probe.repeats + control_boots(plan) * cells


def control_boots(plan: SweepPlan) -> int:
    """Return how often a control is booted besides its own boots; 0 without one."""
    if plan.control is None:
        return 0
    return math.ceil(len(plan.configs) * plan.probe.boots / plan.control.every)


def _with_control(
    plan: SweepPlan, control: ControlSpec, own: Sequence[tuple[EngineConfig, int]]
) -> Iterator[tuple[EngineConfig, int]]:
    """Yield the boots with the control's extra ones: after every so many, and after the last."""
    config = plan.config(control.config)
    for number, first in enumerate(range(0, len(own), control.every)):
        yield from own[first : first + control.every]
        yield config, CONTROL_ROUND + number


def _control_task(plan: SweepPlan, config: EngineConfig, boot_round: int) -> BootTask:
    """Return an extra boot: one repeat of each cell, in an order of its own. No prefills, no single batches."""
    cells = list(cells_of(plan, config.fingerprint))
    random.Random(_seed(plan.fingerprint, config.fingerprint, boot_round)).shuffle(cells)
    repeats = tuple(Repeat(cell=cell, index=boot_round, boot_round=boot_round) for cell in cells)
    return BootTask(config=config, boot_round=boot_round, repeats=repeats)


def _task(plan: SweepPlan, config: EngineConfig, boot_round: int) -> BootTask:
    probe = plan.probe
    cells = list(cells_of(plan, config.fingerprint))
    draw = random.Random(_seed(plan.fingerprint, config.fingerprint, boot_round)) if len(cells) > 1 else None
    repeats: list[Repeat] = []
    for index in range(boot_round, probe.repeats, probe.boots):
        if draw is not None:
            draw.shuffle(cells)
        repeats += [Repeat(cell=cell, index=index, boot_round=boot_round) for cell in cells]
    return BootTask(
        config=config,
        boot_round=boot_round,
        repeats=tuple(repeats),
        prefills=prefills_of(probe, config.fingerprint, boot_round=boot_round),
        single_batches=single_batches_of(probe, config.fingerprint, boot_round=boot_round),
    )


def cells_of(plan: SweepPlan, config: str) -> tuple[Cell, ...]:
    """Return the cells that a boot of the plan's own rounds measures: all, or the opening of a decision.

    Args:
        config: The config's fingerprint.
    """
    probe = plan.probe
    if plan.decide is None:
        return tuple(Cell(config, streams, degree) for streams in probe.concurrency for degree in probe.temperature)
    exact = {(streams, float(degree)): degree for streams, degree, _ in plan.decide.weights}
    return tuple(Cell(config, place[0], exact[place]) for place in opening(exact, pooled=plan.decide.pooled))


def decision_task(
    plan: SweepPlan, config: EngineConfig, boot_round: int, wanted: Sequence[tuple[Cell, int]]
) -> BootTask:
    """Return one boot of a decision's later round: each cell's first draw before any has its second, in an order of its own.

    Args:
        wanted: Cells with the repeat that is wanted of each; a cell may be in it several times.
    """
    passes: list[list[Repeat]] = []
    for cell, index in wanted:
        turn = sum(repeat.cell == cell for each in passes for repeat in each)
        passes += [[]] if turn == len(passes) else []
        passes[turn].append(Repeat(cell=cell, index=index, boot_round=boot_round))
    draw = random.Random(_seed(plan.fingerprint, config.fingerprint, boot_round))
    for each in passes:
        draw.shuffle(each)
    return BootTask(config=config, boot_round=boot_round, repeats=tuple(repeat for each in passes for repeat in each))


def _seed(plan: str, config: str, boot_round: int) -> int:
    digest = hashlib.sha256(f"{plan}/{config}/{boot_round}".encode()).digest()
    return int.from_bytes(digest[:8], "big")

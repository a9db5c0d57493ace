"""The order of a sweep: rounds of boots interleaved over configs, cells shuffled inside a boot, always the same way."""

from __future__ import annotations

import hashlib
import random
from decimal import Decimal

from nightsweep.plan.extras import prefills_of, single_batches_of
from nightsweep.plan.model import BootTask, Cell, EngineConfig, Repeat, SweepPlan


def boot_tasks(plan: SweepPlan) -> tuple[BootTask, ...]:
    """Return every boot of the sweep with all it measures, in order.

    Rounds are interleaved (round 0 of all configs, then round 1, ...), so that a drift of the box over the night falls on all
    configs alike. Repeat r belongs to round r % boots. Inside a boot every cell has its first repeat before any has its second,
    and each such pass is shuffled: a night that ends early leaves few cells empty. The shuffle is drawn from the fingerprints
    and the round, so that the same plan is always in the same order.
    """
    return tuple(_task(plan, config, boot_round) for boot_round in range(plan.probe.boots) for config in plan.configs)


def slots(plan: SweepPlan) -> int:
    """Return the number of windows planned: cells times repeats."""
    probe = plan.probe
    return len(plan.configs) * len(probe.concurrency) * len(probe.temperature) * probe.repeats


def _task(plan: SweepPlan, config: EngineConfig, boot_round: int) -> BootTask:
    probe = plan.probe
    cells = list(_cells(config.fingerprint, probe.concurrency, probe.temperature))
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


def _cells(config: str, concurrency: tuple[int, ...], temperature: tuple[Decimal, ...]) -> tuple[Cell, ...]:
    return tuple(Cell(config, streams, degree) for streams in concurrency for degree in temperature)


def _seed(plan: str, config: str, boot_round: int) -> int:
    digest = hashlib.sha256(f"{plan}/{config}/{boot_round}".encode()).digest()
    return int.from_bytes(digest[:8], "big")

"""What a decision may cost: the least, when its opening tells the winner, and the most, when no contender ever falls behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from nightsweep.plan.estimate import Estimate, estimate
from nightsweep.plan.model import BootTask, Cell, DecideSpec, SweepPlan
from nightsweep.plan.order import boot_tasks, cells_of, decision_task


@dataclass(frozen=True)
class Spending:
    """The range of a decision.

    Attributes:
        opening: Windows of the opening, all configs of the sweep.
        least: Opening, and the winner (and the incumbent) confirmed by a fresh boot.
        most: Every contender in every round, until `max` is reached where acceptance is told best.
        most_windows: Windows that could be asked for at all: every contender at every place up to `max`, as when concurrencies
            turn out to differ.
    """

    opening: int
    least: Estimate
    most: Estimate
    most_windows: int


def spending(
    plan: SweepPlan, spec: DecideSpec, *, history: Mapping[str, float] | None = None, start: datetime | None = None
) -> Spending:
    """Return what a decision costs at the least and at the most; see `plan.estimate` for the arguments."""
    opening = boot_tasks(plan)
    rivals = [one for one in spec.between if one != spec.incumbent]
    confirmed = [rivals[0], *([spec.incumbent] if spec.incumbent is not None else [])]
    last = tuple(_again(plan, spec, one, 1) for one in confirmed)
    every = tuple(_again(plan, spec, one, turn) for turn in range(1, spec.most) for one in spec.between)
    others = len(plan.configs) - len(spec.between)
    return Spending(
        opening=sum(len(task.repeats) for task in opening),
        least=estimate(plan, opening + last, history=history, start=start),
        most=estimate(plan, opening + every, history=history, start=start),
        most_windows=len(spec.between) * len(spec.weights) * spec.most + others * len(cells_of(plan, "")),
    )


def _again(plan: SweepPlan, spec: DecideSpec, config: str, turn: int) -> BootTask:
    """Return a boot of a later round as it is mostly: one window of each place that tells most."""
    telling = [cell for cell in cells_of(plan, config) if not spec.pooled or cell.concurrency == _top(plan)]
    wanted: list[tuple[Cell, int]] = [(cell, turn) for cell in telling]
    return decision_task(plan, plan.config(config), turn, wanted)


def _top(plan: SweepPlan) -> int:
    return max(cell.concurrency for cell in cells_of(plan, ""))

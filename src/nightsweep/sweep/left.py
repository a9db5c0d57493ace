"""What is left of a sweep: its plan minus what the store holds."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from nightsweep.plan.model import CONTROL_ROUND, BootTask, SweepPlan
from nightsweep.plan.remaining import remaining
from nightsweep.ports import Store, Stored
from nightsweep.sweep.deciding import decision_now


def left_now(store: Store, plan: SweepPlan, sweep_id: int) -> tuple[Stored, tuple[BootTask, ...]]:
    """Return what a sweep holds, and the boots that are still to be made.

    Raises:
        StoreUnavailable: The database is away.
    """
    with _garbage_left_alone():
        stored = store.stored(sweep_id)
        if plan.decide is not None:
            return stored, decision_now(store, plan, plan.decide, sweep_id=sweep_id, stored=stored).left
        left = remaining(
            plan,
            windows=stored.windows,
            prefills=stored.prefills,
            failed_boots=stored.failed_boots,
            single_batches=stored.single_batches,
        )
    return stored, left


def clean_count(plan: SweepPlan, stored: Stored) -> int:
    """Return how many of the planned repeats have a clean window; the plan's repeats may have been lowered since."""
    asked = plan.probe.repeats if plan.decide is None else plan.decide.most
    return sum(clean for key, (clean, _) in stored.windows.items() if key[3] < asked or key[3] >= CONTROL_ROUND)


@contextlib.contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """Look for no garbage in the block: a burst of values that all live makes Python look through the whole plan for some.

    With 10,000 configs that is two thirds of the time.
    """
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()

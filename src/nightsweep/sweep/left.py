"""What is left of a sweep: its plan minus what the store holds."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence

from nightsweep.analysis.text import plural
from nightsweep.errors import StoreUnavailable
from nightsweep.plan.model import BootTask, SweepPlan
from nightsweep.plan.remaining import GivenUp, failed_configs, remaining, unmeasured_configs
from nightsweep.ports import Store, Stored
from nightsweep.sweep.deciding import decision_now

FEW = 3
"""Configs that are named in a line."""


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


def configs_failed(plan: SweepPlan, stored: Stored) -> tuple[str, ...]:
    """Return the names of configs that failed: see `plan.remaining.failed_configs`."""
    with _garbage_left_alone():
        return failed_configs(
            plan,
            windows=stored.windows,
            prefills=stored.prefills,
            failed_boots=stored.failed_boots,
            single_batches=stored.single_batches,
        )


def configs_unmeasured(plan: SweepPlan, stored: Stored, *, failed: Sequence[str]) -> tuple[str, ...]:
    """Return the names of configs that are not among the failed ones, and of whose windows every one is flagged."""
    return tuple(name for name in unmeasured_configs(plan, windows=stored.windows) if name not in failed)


def missing_said(store: Store, plan: SweepPlan, sweep_id: int, *, done: bool) -> tuple[str, ...]:
    """Return which configs failed, and of a sweep that is done which have no clean window, for people.

    Nothing when the database, which would tell, is away.
    """
    try:
        stored = store.stored(sweep_id)
    except StoreUnavailable:
        return ()
    of, said = plural(len(plan.configs), "config"), list[str]()
    if failed := configs_failed(plan, stored):
        boots = plural(sum(map(len, stored.failed_boots.values())), "failed boot")
        said.append(f"{len(failed)} of {of} FAILED ({boots}, see `nightsweep boots`): {_named(failed)}")
    if done and (flagged := configs_unmeasured(plan, stored, failed=failed)):
        seen = "WITHOUT A CLEAN WINDOW (see `nightsweep cells --flagged`)"
        said.append(f"{len(flagged)} of {of} {seen}: {_named(flagged)}")
    return tuple(said)


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def worth_booting(
    store: Store, sweep_id: int, waiting: Sequence[BootTask], *, say: Callable[[str, str], None]
) -> list[BootTask]:
    """Return the boots of a pass without those of configs that a failure, which no retry mends, was found in since."""
    given_up = GivenUp(store.stored(sweep_id).failed_boots)
    kept, dropped = list[BootTask](), dict[str, int]()
    for task in waiting:
        if given_up(task.config.fingerprint, task.boot_round):
            dropped[task.config.name] = dropped.get(task.config.name, 0) + 1
        else:
            kept.append(task)
    for name, count in dropped.items():
        said = f"{name} fails for good, no boot mends that: {plural(count, 'further boot')} left out"
        store.event("config_given_up", said, level="warning", sweep_id=sweep_id)
        say("given_up", said)
    return kept


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

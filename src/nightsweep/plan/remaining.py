"""What is left of a sweep: the plan minus what is stored. Starting and resuming are the same call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

from nightsweep.plan.model import CONTROL_ROUND, BootTask, PrefillRepeat, Repeat, SweepPlan
from nightsweep.plan.order import boot_order, boot_task, cells_of, slots
from nightsweep.plan.words import NEVER, OUTSIDE

__all__ = ["MAX_FAILED_BOOTS", "prefill_key", "remaining", "slots", "temperature_key", "window_key"]

MAX_FAILED_BOOTS = 2
"""Boots of one config and round that may fail, when the failure's advice is that another one may succeed."""

MAX_STOPPED_BOOTS = 5
"""Boots of one config and round that another hand may stop, beyond those that fail: what stops every engine must not hold the box
for ever."""

Windows = Mapping[tuple[str, int, str, int], tuple[bool, int]]
Prefills = Mapping[tuple[str, int, int, int], tuple[bool, int]]
FailedBoots = Mapping[tuple[str, int], tuple[str, ...]]


@lru_cache(maxsize=1024)
def temperature_key(temperature: Decimal) -> str:
    """Return a temperature's one spelling as a key: two decimals ("0.70"), as the store's NUMERIC(4,2) gives it."""
    return f"{temperature:.2f}"


def too_often(advice: Sequence[str | None]) -> bool:
    """Return whether a config failed in a round as often as it may, by the retry advice of each failed boot."""
    failed = sum(one != OUTSIDE for one in advice)
    return failed >= MAX_FAILED_BOOTS or len(advice) >= MAX_FAILED_BOOTS + MAX_STOPPED_BOOTS


class GivenUp:
    """Which configs are not booted any more. What failed is gone through once, however many boots are asked about."""

    def __init__(self, failed_boots: FailedBoots) -> None:
        self._failed = failed_boots
        self._never = {config for (config, _), advice in failed_boots.items() if NEVER in advice}

    def __call__(self, config: str, boot_round: int) -> bool:
        """Whether a config is not booted any more for a round: it never comes up, or failed there as often as it may."""
        return config in self._never or too_often(self._failed.get((config, boot_round), ()))


def remaining(
    plan: SweepPlan,
    *,
    windows: Windows,
    prefills: Prefills,
    failed_boots: FailedBoots,
    single_batches: Windows | None = None,
) -> tuple[BootTask, ...]:
    """Return the boots that are still to be made, each with what it still has to measure, in the plan's order.

    A repeat is left while it has no clean window and fewer than `probe.max_attempts` attempts. A config with a failed boot that
    a retry cannot mend ("never") is not booted again; with other advice a round is given up after `MAX_FAILED_BOOTS`, those that
    another hand stopped ("outside") not counted.

    Args:
        windows: (config fingerprint, concurrency, `temperature_key`, repeat index) -> (clean, attempts so far).
        prefills: (config fingerprint, prompt tokens, streams under load, repeat index) -> (clean, attempts so far).
        failed_boots: (config fingerprint, boot round) -> retry advice of each failed boot, oldest first.
        single_batches: As `windows`, of single-batch cells.
    """
    given_up = GivenUp(failed_boots)
    most, runs = plan.probe.max_attempts, single_batches or {}
    touched = _touched(plan, windows=windows, prefills=prefills, runs=runs)
    out: list[BootTask] = []
    order = tuple(boot_order(plan))
    whole = {number: _whole(plan, number) for number in {each for _, each in order}}
    for config, boot_round in order:
        slot = (config.fingerprint, boot_round)
        if given_up(*slot):
            continue
        if touched.get(slot) == whole[boot_round]:
            continue  # all clean: most boots of a sweep that is far on
        task = boot_task(plan, config, boot_round)
        if slot in touched:
            repeats = tuple(repeat for repeat in task.repeats if _open(windows.get(window_key(repeat)), most=most))
            fresh = tuple(one for one in task.prefills if _open(prefills.get(prefill_key(one)), most=most))
            alone = tuple(one for one in task.single_batches if _open(runs.get(window_key(one)), most=most))
            task = replace(task, repeats=repeats, prefills=fresh, single_batches=alone)
        if task.repeats or task.prefills or task.single_batches:
            out.append(task)
    return tuple(out)


def _touched(plan: SweepPlan, *, windows: Windows, prefills: Prefills, runs: Windows) -> dict[tuple[str, int], int]:
    """Return, of each boot of which anything is stored, how many of the plan's measurements are clean."""
    probe, prefill, single = plan.probe, plan.probe.prefill, plan.probe.single_batch
    found: Counter[tuple[str, int]] = Counter()
    cells = {(cell.concurrency, temperature_key(cell.temperature)) for cell in cells_of(plan, "")}
    for (config, streams, degree, index), (clean, _) in windows.items():
        if (streams, degree) in cells and (index < probe.repeats or index >= CONTROL_ROUND):
            found[(config, index if index >= CONTROL_ROUND else index % probe.boots)] += clean
    for (config, _, degree, index), (clean, _) in runs.items() if single else ():
        if single and degree == temperature_key(single.temperature) and index < single.runs:
            found[(config, index % probe.boots)] += clean
    for (config, tokens, load, index), (clean, _) in prefills.items() if prefill else ():
        if prefill and tokens in prefill.lengths and load in (0, prefill.under_load):
            found[(config, index // prefill.repeats)] += clean
    return dict(found)


def _whole(plan: SweepPlan, boot_round: int) -> int:
    """Return how many measurements a boot makes."""
    probe = plan.probe
    cells = len(cells_of(plan, ""))
    if boot_round >= CONTROL_ROUND:
        return cells
    single = len(range(boot_round, probe.single_batch.runs, probe.boots)) if probe.single_batch else 0
    prefills = probe.prefill.per_boot if probe.prefill else 0
    return cells * len(range(boot_round, probe.repeats, probe.boots)) + single + prefills


def window_key(repeat: Repeat) -> tuple[str, int, str, int]:
    """Return the key of a repeat among the stored windows of its cell's kind."""
    cell = repeat.cell
    return cell.config, cell.concurrency, temperature_key(cell.temperature), repeat.index


def left_of_boot(plan: SweepPlan, task: BootTask, *, windows: Windows, given_up: GivenUp) -> BootTask | None:
    """Return a boot with the windows that it still has to measure; None when it has none, or does not come up any more."""
    if given_up(task.config.fingerprint, task.boot_round):
        return None
    left = tuple(
        repeat for repeat in task.repeats if _open(windows.get(window_key(repeat)), most=plan.probe.max_attempts)
    )
    return replace(task, repeats=left) if left else None


def failed_configs(
    plan: SweepPlan, *, windows: Windows, prefills: Prefills, failed_boots: FailedBoots, single_batches: Windows
) -> tuple[str, ...]:
    """Return the names of configs of which something stays unmeasured because their engine does not come up, or stay up.

    In the plan's order. Windows that stayed flagged make no config a failed one.
    """
    gave_up = GivenUp(failed_boots)
    given_up = {config for config, boot_round in failed_boots if gave_up(config, boot_round)}
    if given_up and plan.decide is None:
        open_ones = remaining(plan, windows=windows, prefills=prefills, failed_boots={}, single_batches=single_batches)
        given_up = {task.config.fingerprint for task in open_ones if gave_up(task.config.fingerprint, task.boot_round)}
    return tuple(config.name for config in plan.configs if config.fingerprint in given_up)


def unmeasured_configs(plan: SweepPlan, *, windows: Windows) -> tuple[str, ...]:
    """Return the names of configs that have windows, and no clean one, in the plan's order."""
    clean: dict[str, bool] = {}
    for (config, _, _, _), (is_clean, _) in windows.items():
        clean[config] = clean.get(config, False) or is_clean
    return tuple(config.name for config in plan.configs if clean.get(config.fingerprint) is False)


def prefill_key(prefill: PrefillRepeat) -> tuple[str, int, int, int]:
    """Return the key of a prefill among the stored ones."""
    return prefill.config, prefill.tokens, prefill.under_load, prefill.index


def _open(stored: tuple[bool, int] | None, *, most: int) -> bool:
    if stored is None:
        return True
    clean, attempts = stored
    return not clean and attempts < most

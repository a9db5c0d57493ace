"""How far a sweep is: what the plan asks for, less what is stored."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nightsweep.analysis.decision_read import decision_in
from nightsweep.analysis.values import BootRow, PrefillRow, WindowRow
from nightsweep.plan.model import CONTROL_ROUND, EngineConfig, SweepPlan
from nightsweep.plan.order import cells_of
from nightsweep.plan.remaining import too_often
from nightsweep.plan.words import NEVER
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.analysis.rounds import Decision

WINDOW_EXTRA = 1.15
"""Time of a measured window beyond its own length: ramp, drain and re-measured ones, as a factor. An estimate."""


@dataclass(frozen=True)
class ConfigProgress:
    """One config of a plan.

    Attributes:
        given_up: Repeats that were flagged as often as they may be measured: no clean window, and none will be tried.
        left: Repeats that will still be measured.
        boots_left: Boot rounds with anything left.
    """

    config: str
    fingerprint: str
    planned: int
    clean: int
    given_up: int
    left: int
    prefills_planned: int
    prefills_clean: int
    boots_left: int
    boots_failed: int


def progress_of(
    plan: SweepPlan, *, windows: Sequence[WindowRow], prefills: Sequence[PrefillRow], boots: Sequence[BootRow]
) -> tuple[ConfigProgress, ...]:
    """Return the progress of each config, in plan order. Rows are those of the sweep, flagged ones too.

    Of a decision, what is left is the round in hand: what comes after it, its windows say.
    """
    decision = decision_in(plan, windows=windows, boots=boots)
    found = tuple(
        _progress(
            config,
            plan=plan,
            windows=[row for row in windows if row.config_fingerprint == config.fingerprint and not row.control],
            prefills=[row for row in prefills if row.config_fingerprint == config.fingerprint],
            boots=[
                row for row in boots if row.config_fingerprint == config.fingerprint and row.boot_round < CONTROL_ROUND
            ],
        )
        for config in plan.configs
    )
    return found if decision is None else tuple(_in_round(one, decision) for one in found)


def _in_round(one: ConfigProgress, decision: Decision) -> ConfigProgress:
    left = [task for task in decision.left if task.config.fingerprint == one.fingerprint and task.repeats]
    own = sum(len(task.repeats) for task in left if task.boot_round < CONTROL_ROUND)
    alone = one.boots_left if one.prefills_clean < one.prefills_planned else 0
    return replace(one, planned=one.clean + one.given_up + own, left=own, boots_left=max(len(left), alone))


def time_left(plan: SweepPlan, progress: Sequence[ConfigProgress], *, boots: Sequence[BootRow]) -> Seconds | None:
    """Return an estimate of the time the rest takes; None when no boot has shown how long a cold start is."""
    cold_starts = [boot.cold_start for boot in boots if boot.cold_start is not None]
    if not cold_starts:
        return None
    boot_seconds = sum(config.boots_left for config in progress) * statistics.median(cold_starts)
    window_seconds = sum(config.left for config in progress) * plan.probe.window * WINDOW_EXTRA
    return Seconds(boot_seconds + window_seconds)


def _progress(
    config: EngineConfig,
    *,
    plan: SweepPlan,
    windows: Sequence[WindowRow],
    prefills: Sequence[PrefillRow],
    boots: Sequence[BootRow],
) -> ConfigProgress:
    probe = plan.probe
    asked = probe.repeats if plan.decide is None else plan.decide.most
    windows = [row for row in windows if row.repeat < asked]  # they may have been lowered since
    clean = {(row.concurrency, row.temperature, row.repeat) for row in windows if not row.flags}
    tries: defaultdict[tuple[object, ...], int] = defaultdict(int)
    for row in windows:
        tries[(row.concurrency, row.temperature, row.repeat)] += 1
    given_up = {repeat for repeat, times in tries.items() if times >= probe.max_attempts} - clean
    places = cells_of(plan, config.fingerprint)
    planned = len(places) * probe.repeats
    dead = _dead_rounds(boots, rounds=probe.boots)
    settled = clean | given_up
    left = sum(
        (cell.concurrency, cell.temperature, index) not in settled and index % probe.boots not in dead
        for cell in places
        for index in range(probe.repeats)
    )
    prefill_repeats = probe.prefill.per_boot * max(probe.boots, 1) if probe.prefill is not None else 0
    prefills_tried = {_slot(row) for row in prefills if not row.flags or row.attempt >= probe.max_attempts}
    prefills_left = 0 if len(dead) == probe.boots else max(prefill_repeats - len(prefills_tried), 0)
    rounds_done = {boot.boot_round for boot in boots if boot.state == "stopped"}
    return ConfigProgress(
        config=config.name,
        fingerprint=config.fingerprint,
        planned=planned,
        clean=len(clean),
        given_up=len(given_up),
        left=left,
        prefills_planned=prefill_repeats,
        prefills_clean=len({_slot(row) for row in prefills if not row.flags}),
        boots_left=max(probe.boots - len(rounds_done), 1) if left or prefills_left else 0,
        boots_failed=sum(boot.state == "failed" for boot in boots),
    )


def _dead_rounds(boots: Sequence[BootRow], *, rounds: int) -> set[int]:
    """Return the boot rounds that are not tried any more, as `plan.remaining` has it: it fails for good, or failed too often."""
    failed = [boot for boot in boots if boot.state == "failed"]
    if any(boot.retry == NEVER for boot in failed):
        return set(range(rounds))
    advice: defaultdict[int, list[str | None]] = defaultdict(list)
    for boot in failed:
        advice[boot.boot_round].append(boot.retry)
    return {number for number, given in advice.items() if too_often(given)}


def _slot(row: PrefillRow) -> tuple[int | None, int, int]:
    return row.tokens, row.under_load, row.repeat

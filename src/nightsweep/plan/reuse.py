"""Which measurements of earlier sweeps stand in a new sweep's places, so that only what is missing is measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from nightsweep.plan.model import CONTROL_ROUND, DECODE, SINGLE_BATCH, SweepPlan
from nightsweep.plan.order import boot_tasks
from nightsweep.plan.remaining import prefill_key, window_key

PREFILL = "prefill"
"""Kind of a kept measurement beside those of cells."""

Place = tuple[str, int, str]
"""(config fingerprint, concurrency, temperature as text); of a prefill (config fingerprint, tokens, streams under load)."""


@dataclass(frozen=True)
class Kept:
    """A clean measurement that is stored, of whatever sweep on this box.

    Attributes:
        row_id: Its window's, or prefill's, id.
        kind: "decode" | "single_batch" | "prefill".
        conditions: Their fingerprint.
    """

    row_id: int
    kind: str
    place: Place
    repeat: int
    sweep_id: int
    conditions: str
    started: datetime


@dataclass(frozen=True)
class Link:
    """A kept measurement that stands for a repeat of this sweep."""

    kind: str
    place: Place
    repeat: int
    row_id: int
    from_sweep: int


Slots = Mapping[tuple[str, Place], AbstractSet[int]]
"""(kind, place) -> repeats."""


def open_slots(
    plan: SweepPlan,
    *,
    windows: Mapping[tuple[str, int, str, int], tuple[bool, int]],
    prefills: Mapping[tuple[str, int, int, int], tuple[bool, int]],
    single_batches: Mapping[tuple[str, int, str, int], tuple[bool, int]],
) -> Slots:
    """Return the repeats of a plan without a clean measurement; a control's extra ones, which show tonight's drift, are none.

    Nor are those of a decision's contenders: they are held against each other on the same prompts, which other sweeps' repeats of
    the same number did not draw.
    """
    found: defaultdict[tuple[str, Place], set[int]] = defaultdict(set)
    contenders = () if plan.decide is None else plan.decide.between
    for task in boot_tasks(plan):
        if task.boot_round >= CONTROL_ROUND:
            continue
        for kind, repeats, stored in (
            (DECODE, () if task.config.fingerprint in contenders else task.repeats, windows),
            (SINGLE_BATCH, task.single_batches, single_batches),
        ):
            for repeat in repeats:
                config, concurrency, temperature, index = key = window_key(repeat)
                if not stored.get(key, (False, 0))[0]:
                    found[(kind, (config, concurrency, temperature))].add(index)
        for prefill in task.prefills:
            wanted = prefill_key(prefill)
            if not prefills.get(wanted, (False, 0))[0]:
                found[(PREFILL, (wanted[0], wanted[1], str(wanted[2])))].add(wanted[3])
    return found


def taken_over(
    slots: Slots, kept: Sequence[Kept], *, own: int, usable: AbstractSet[str], linked: AbstractSet[tuple[str, int]]
) -> tuple[Link, ...]:
    """Return what stands for which open repeat.

    All that is taken over for one config is of the same conditions, so that it pools: those of the sweep's own measurements
    where there are any, else the newest ones. A measurement keeps its repeat's number where that is open.

    Args:
        own: The sweep that takes over.
        usable: Fingerprints of the conditions that a measurement of this sweep would have, as far as that can be told.
        linked: (kind, row) of what stands in this sweep already.
    """
    chosen = _conditions(kept, own=own, usable=usable)
    at: defaultdict[tuple[str, Place], list[Kept]] = defaultdict(list)
    for one in kept:
        fits = chosen.get((one.kind, one.place[0])) == one.conditions and (one.kind, one.row_id) not in linked
        if fits and one.sweep_id != own and one.repeat < CONTROL_ROUND:
            at[(one.kind, one.place)].append(one)
    return tuple(link for slot, repeats in slots.items() for link in _filled(slot, repeats, at.get(slot, ())))


def _conditions(kept: Iterable[Kept], *, own: int, usable: AbstractSet[str]) -> dict[tuple[str, str], str]:
    """Return the conditions that are taken over, by kind and config."""
    best: dict[tuple[str, str], Kept] = {}
    for one in kept:
        if one.conditions not in usable:
            continue
        known = best.get((one.kind, one.place[0]))
        if known is None or (one.sweep_id == own, one.started) > (known.sweep_id == own, known.started):
            best[(one.kind, one.place[0])] = one
    return {key: one.conditions for key, one in best.items()}


def _filled(slot: tuple[str, Place], repeats: AbstractSet[int], kept: Sequence[Kept]) -> Iterable[Link]:
    kind, place = slot
    waiting, spare = set(repeats), []
    for one in sorted(kept, key=lambda each: (each.started, each.row_id)):
        if one.repeat in waiting:
            waiting.remove(one.repeat)
            yield Link(kind, place, one.repeat, one.row_id, one.sweep_id)
        else:
            spare.append(one)
    for repeat, one in zip(sorted(waiting), spare, strict=False):
        yield Link(kind, place, repeat, one.row_id, one.sweep_id)

"""What a decision rests on: the windows of its cells, how the choice stands in them, and what a reader must not miss."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nightsweep.analysis.cautions import Held, Place, Story, cautions, decided_for, of_runner_up, place_said, remarks
from nightsweep.analysis.compared import as_stated
from nightsweep.analysis.comparing import UNDECIDED, Comparison, compare
from nightsweep.analysis.intervals import Noise, Observation, interval_of, noise_of
from nightsweep.analysis.one_question import OneQuestion
from nightsweep.analysis.pooled import observed
from nightsweep.analysis.premises import NOT_COMPARED, CellEvidence, Evidence, held_fixed
from nightsweep.analysis.sides import Documents, expanded, measured
from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.traffic import Recorded, counted
from nightsweep.analysis.values import BootRow, SweepRow, WindowRow
from nightsweep.errors import NothingToDecide
from nightsweep.plan.words import DECODE


@dataclass(frozen=True)
class Choice:
    """What somebody decides; configs by fingerprint.

    Attributes:
        among: The configs that the question is among besides the chosen one; empty are those that draft as it does.
    """

    chosen: str
    fallback: str
    question: str | None
    among: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Material:
    """What a sweep has to decide on.

    Attributes:
        windows: Its windows in the cells that it is decided at.
        boots: Its boots.
        documents: What fingerprints stand for.
        production: Settings of the production container; empty when it was not looked at.
        container: Its name.
        unknown: Premises that could not be recorded, in words.
        family: Further windows of the same nights, to know the noise by, as `compared.compared` takes them.
        rule: How the sweep's own rule decided (`decision_said.ruling`); None of a sweep that has none.
        traffic: Of the production container; None where it is not known.
    """

    sweep: SweepRow
    windows: Sequence[WindowRow]
    boots: Sequence[BootRow]
    documents: Documents
    production: Mapping[str, Any]
    container: str | None
    unknown: tuple[str, ...] = ()
    family: Sequence[WindowRow] = ()
    rule: Mapping[str, Any] | None = None
    traffic: Recorded | None = None


# --- what cannot be chosen -------------------------------------------------------------------------------------------


def refuse(choice: Choice, material: Material, clean: Sequence[WindowRow]) -> None:
    """Raise NothingToDecide for a choice that no window stands behind, and for a fallback that is none."""
    reason: str | None = None
    seen = {row.config_fingerprint for row in (*clean, *measured(material.family))}
    if choice.chosen == choice.fallback:
        reason = "the fallback is the chosen config itself: name the one to go back to"
    elif choice.chosen not in {row.config_fingerprint for row in clean}:
        reason = f"the chosen config has no clean window in these cells{_why_none(choice.chosen, material)}"
    elif choice.fallback not in seen and (failed := _never_came_up(choice.fallback, material.boots)) is not None:
        reason = f"the fallback cannot serve: {failed}; name a config that came up"
    if reason is not None:
        raise NothingToDecide(sweep=material.sweep.name, reason=reason)


def _why_none(config: str, material: Material) -> str:
    failed = _never_came_up(config, material.boots)
    flags = sorted({flag for row in material.windows if row.config_fingerprint == config for flag in row.flags})
    if failed is not None:
        return f": {failed}"
    return f": those it has are flagged ({', '.join(flags)})" if flags else ""


def _never_came_up(config: str, boots: Sequence[BootRow]) -> str | None:
    """Return how a config's boots ended if none of them measured anything; None where one did, or there was none."""
    own = [boot for boot in boots if boot.config_fingerprint == config]
    if not own or any(boot.windows or boot.state != "failed" for boot in own):
        return None
    kinds = sorted({boot.failure_kind or "unknown" for boot in own})
    return f"its engine did not come up ({', '.join(kinds)})"


# --- evidence --------------------------------------------------------------------------------------------------------


def evidence_of(choice: Choice, material: Material, kept: OneQuestion, among: Sequence[str]) -> Evidence:
    """Return what the choice among these configs rests on; all of `among` have windows that are kept."""
    rows = kept.rows
    observations = {row.window_id: observed(row, row.decode_rate or 0.0) for row in rows}
    family = [observed(row, row.decode_rate or 0.0) for row in measured([*rows, *material.windows, *material.family])]
    everything = list(_cells(rows, observations, noise_of(family)))
    runner_up = _runner_up(choice.chosen, among, everything, material.rule)
    wanted = {*among, choice.fallback, runner_up}
    cells = tuple(cell for cell in everything if cell.config in wanted)
    conditions = [expanded((row.conditions, row.box, row.simulated), material.documents) for row in one_each(rows)]
    _, moved = held_fixed(conditions)
    names = {row.config_fingerprint: row.config for row in measured(material.windows)}
    strongest = {} if decided_for(choice.chosen, material.rule) else _strongest(choice.chosen, among, everything)
    held = _held_against(choice, runner_up, rows, observations, family, strongest=strongest)
    held = tuple(_as_stated(one, choice.chosen, everything) for one in held)
    story = Story(
        chosen=choice.chosen,
        fallback=choice.fallback,
        runner_up=runner_up,
        names=names,
        cells=cells,
        held=held,
        left_out=kept.left_out,
        boots=material.boots,
        rule=material.rule,
        strongest=strongest,
    )
    return Evidence(
        cells=cells,
        configs={name: names[name] for name in among},
        runner_up=runner_up,
        verdicts=tuple(_told(one.found, names[one.other]) for one in held),
        not_fixed={name: values for name, values in moved.items() if is_premise(name)},
        warnings=tuple(cautions(story, rows)),
        unknown=material.unknown,
        container=material.container,
        of_runner_up=tuple(of_runner_up(story)),
        notes=tuple(remarks(story)),
        rule=material.rule,
        kind=rows[0].kind if rows else DECODE,
        traffic=None if material.traffic is None else counted(material.traffic),
    )


def one_each(rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return one window for each set of conditions."""
    return list({row.conditions: row for row in rows}.values())


def is_premise(name: str) -> bool:
    """Return whether a condition, by its dotted name, is a premise of its own."""
    return name.split(".")[0] not in NOT_COMPARED or name.startswith("box.")


def _cells(rows: Sequence[WindowRow], observations: Mapping[int, Observation], noise: Noise) -> Iterator[CellEvidence]:
    groups: dict[tuple[str, int, Decimal], list[WindowRow]] = defaultdict(list)
    for row in rows:
        groups[row.config_fingerprint, row.concurrency, row.temperature].append(row)
    for (config, concurrency, temperature), group in groups.items():
        values = [row.decode_rate or 0.0 for row in group]
        interval = interval_of([observations[row.window_id] for row in group], noise)
        yield CellEvidence(
            config=config,
            name=group[0].config,
            concurrency=concurrency,
            temperature=temperature,
            windows=tuple(sorted(row.window_id for row in group)),
            boots=len({row.boot_id for row in group}),
            mean=math.fsum(values) / len(values),
            minimum=min(values),
            maximum=max(values),
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
            stated=stated_of(row.notes for row in group),
        )


def _runner_up(
    chosen: str, among: Sequence[str], cells: Sequence[CellEvidence], rule: Mapping[str, Any] | None
) -> str | None:
    """Return the best of the others.

    It is the one that the sweep's own rule has next to the chosen config; without a rule, that of highest geometric mean of
    ratios to the chosen one, over the cells that both have.
    """
    means = {(cell.config, cell.concurrency, cell.temperature): cell.mean for cell in cells}
    seen = {cell.config for cell in cells}
    ranked = [str(one["fingerprint"]) for one in (rule or {}).get("standings", ())]
    after = [name for name in ranked if name != chosen and name in seen]
    if chosen in ranked and after:
        return after[0]
    scores: dict[str, float] = {}
    for name in among:
        ratios = [
            math.log(mean / means[chosen, streams, temperature])
            for (config, streams, temperature), mean in means.items()
            if config == name != chosen and mean > 0 and means.get((chosen, streams, temperature), 0) > 0
        ]
        if ratios:
            scores[name] = math.fsum(ratios) / len(ratios)
    return max(scores, key=lambda name: scores[name], default=None)


def _held_against(
    choice: Choice,
    runner_up: str | None,
    rows: Sequence[WindowRow],
    observations: Mapping[int, Observation],
    family: Sequence[Observation],
    *,
    strongest: Mapping[Place, str],
) -> tuple[Held, ...]:
    """Return how the chosen config stands to the runner-up and the fallback, cell by cell, and to the strongest other of each.

    A config that is the strongest in some cells is compared over all that both have, so that the level holds over them
    together; only those in which it is the strongest are told.
    """
    by_config: dict[str, list[Observation]] = defaultdict(list)
    for row in rows:
        by_config[row.config_fingerprint].append(observations[row.window_id])
    whole = (runner_up, choice.fallback)
    others = dict.fromkeys((runner_up, *strongest.values(), choice.fallback))
    return tuple(
        Held(other, found)
        for other in others
        if other is not None and other != choice.chosen and other in by_config
        for found in compare(by_config[other], by_config[choice.chosen], family=family)
        if other in whole or strongest.get((found.streams, found.temperature)) == other
    )


def _strongest(chosen: str, among: Sequence[str], cells: Sequence[CellEvidence]) -> dict[Place, str]:
    """Return the config of highest mean, but for the chosen one, in each cell that the chosen one has."""
    own = {(cell.concurrency, cell.temperature) for cell in cells if cell.config == chosen}
    best: dict[tuple[int, Decimal], CellEvidence] = {}
    for cell in cells:
        place = cell.concurrency, cell.temperature
        rival = cell.config in among and cell.config != chosen and place in own
        if rival and (place not in best or cell.mean > best[place].mean):
            best[place] = cell
    return {(streams, float(degrees)): cell.config for (streams, degrees), cell in best.items()}


def _as_stated(one: Held, chosen: str, cells: Sequence[CellEvidence]) -> Held:
    """Return the same with a lone row that is no single run called what its file says it is, as `compare` does it."""
    place = one.found.streams, one.found.temperature
    here = {cell.config: cell for cell in cells if (cell.concurrency, float(cell.temperature)) == place}
    other, own = (here.get(name) for name in (one.other, chosen))
    if other is None or own is None:
        return one
    return Held(one.other, as_stated(one.found, other.spread, own.spread, names=(other.name, own.name)))


def _told(found: Comparison, other: str) -> str:
    ratio = "" if found.ratio is None else f" x{found.ratio:.3f}"
    span = "" if found.low is None or found.high is None else f" ({found.low:.3f}–{found.high:.3f})"
    why = f": {found.why}" if found.why and found.verdict == UNDECIDED else ""
    return f"against {other} at {place_said(found.streams, found.temperature)}: {found.verdict}{ratio}{span}{why}"

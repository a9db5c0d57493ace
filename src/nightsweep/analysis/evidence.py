"""From a sweep's windows to a decision: which question it answers, on what evidence, under which premises."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.comparing import UNDECIDED, WORSE, Comparison, compare
from nightsweep.analysis.intervals import Observation, interval_of, noise_of
from nightsweep.analysis.pooled import observed
from nightsweep.analysis.premises import (
    CONFIG,
    NOT_COMPARED,
    PRODUCTION,
    WEIGHTS,
    CellEvidence,
    Decision,
    Evidence,
    held_fixed,
    settings_of,
)
from nightsweep.analysis.sides import Documents, expanded, measured
from nightsweep.analysis.values import BootRow, SweepRow, WindowRow
from nightsweep.errors import NothingToDecide

Place = tuple[int, Decimal]
"""Streams and temperature."""


@dataclass(frozen=True)
class Choice:
    """What somebody decides; configs by fingerprint."""

    chosen: str
    fallback: str
    question: str | None


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
    """

    sweep: SweepRow
    windows: Sequence[WindowRow]
    boots: Sequence[BootRow]
    documents: Documents
    production: Mapping[str, Any]
    container: str | None
    unknown: tuple[str, ...] = ()


def decide(choice: Choice, material: Material, *, at: datetime) -> Decision:
    """Return the decision with its evidence and premises.

    Raises:
        NothingToDecide: The chosen config has no clean window here, or there is no other config to choose it from.
    """
    rows = measured(material.windows)
    names = {row.config_fingerprint: row.config for row in rows}
    if choice.chosen not in names:
        raise NothingToDecide(sweep=material.sweep.name, reason="the chosen config has no clean window in these cells")
    settings = {name: settings_of(material.documents.configs.get(name, {})) for name in names}
    among = _among(choice, settings)
    others = [name for name in among if name != choice.chosen]
    if not others:
        raise NothingToDecide(
            sweep=material.sweep.name, reason="there is no other config with a clean window in these cells"
        )
    factors = tuple(held_fixed([settings[name] for name in among])[1])
    evidence = _evidence(choice, material, rows, among)
    names = {**{boot.config_fingerprint: boot.config for boot in material.boots}, **names}
    return Decision(
        decision_id=0,
        sweep_id=material.sweep.sweep_id,
        sweep_name=material.sweep.name,
        box=material.sweep.box,
        simulated=material.sweep.simulated,
        question=choice.question or _question(factors, choice.chosen, among, settings),
        factors=factors,
        chosen=choice.chosen,
        chosen_name=names[choice.chosen],
        fallback=choice.fallback,
        fallback_name=names.get(choice.fallback, choice.fallback[:12]),
        evidence=evidence,
        premises=_premises(choice, material, rows, among, settings),
        decided=at,
    )


def _among(choice: Choice, settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the configs that the question is among: those that draft as the chosen one does, where there are several."""
    same = [name for name in settings if _method(settings[name]) == _method(settings[choice.chosen])]
    return same if len(same) > 1 else list(settings)


def _method(settings: Mapping[str, Any]) -> Any:
    return settings.get("speculative.method", settings.get("speculative.algorithm"))


def _question(
    factors: Sequence[str], chosen: str, among: Sequence[str], settings: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the question in words: `num_speculative_tokens: 5 of 4, 5, 7`."""
    parts = []
    for key in factors:
        values = sorted({str(settings[name].get(key, "absent")) for name in among}, key=lambda one: (len(one), one))
        parts.append(
            f"{key.removeprefix('speculative.')}: {settings[chosen].get(key, 'absent')} of {', '.join(values)}"
        )
    return "; ".join(parts)


# --- evidence --------------------------------------------------------------------------------------------------------


def _evidence(choice: Choice, material: Material, rows: Sequence[WindowRow], among: Sequence[str]) -> Evidence:
    observations = {row.window_id: observed(row, row.decode_rate or 0.0) for row in rows}
    wanted = dict.fromkeys((*among, choice.fallback))
    cells = tuple(_cells([row for row in rows if row.config_fingerprint in wanted], observations))
    runner_up = _runner_up(choice.chosen, [name for name in among if name != choice.chosen], cells)
    conditions = [expanded((row.conditions, row.box, row.simulated), material.documents) for row in _one_each(rows)]
    _, moved = held_fixed(conditions)
    names = {row.config_fingerprint: row.config for row in rows}
    held = _held_against(choice, runner_up, rows, observations)
    return Evidence(
        cells=cells,
        configs={name: names[name] for name in among},
        runner_up=runner_up,
        verdicts=tuple(_told(one, names[other]) for other, one in held),
        not_fixed={name: values for name, values in moved.items() if _compared(name)},
        warnings=(*_imported(rows), *_warnings(choice, cells), *_not_shown(runner_up, held, names)),
        unknown=material.unknown,
        container=material.container,
    )


def _one_each(rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return one window for each set of conditions."""
    return list({row.conditions: row for row in rows}.values())


def _compared(name: str) -> bool:
    return name.split(".")[0] not in NOT_COMPARED or name.startswith("box.")


def _cells(rows: Sequence[WindowRow], observations: Mapping[int, Observation]) -> Iterator[CellEvidence]:
    noise = noise_of(list(observations.values()))
    groups: dict[tuple[str, int, Decimal], list[WindowRow]] = defaultdict(list)
    for row in rows:
        groups[row.config_fingerprint, row.concurrency, row.temperature].append(row)
    for (config, concurrency, temperature), group in groups.items():
        values = [row.decode_rate or 0.0 for row in group]
        same = len({row.conditions for row in group}) == 1
        interval = interval_of([observations[row.window_id] for row in group], noise) if same else None
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
        )


def _runner_up(chosen: str, others: Sequence[str], cells: Sequence[CellEvidence]) -> str | None:
    """Return the config with the highest geometric mean of its ratios to the chosen one, over the cells that both have."""
    means = {(cell.config, cell.concurrency, cell.temperature): cell.mean for cell in cells}
    scores: dict[str, float] = {}
    for name in others:
        ratios = [
            math.log(mean / means[chosen, streams, temperature])
            for (config, streams, temperature), mean in means.items()
            if config == name and mean > 0 and means.get((chosen, streams, temperature), 0) > 0
        ]
        if ratios:
            scores[name] = math.fsum(ratios) / len(ratios)
    return max(scores, key=lambda name: scores[name], default=None)


def _held_against(
    choice: Choice, runner_up: str | None, rows: Sequence[WindowRow], observations: Mapping[int, Observation]
) -> list[tuple[str, Comparison]]:
    """Return how the chosen config stands to the runner-up and the fallback, cell by cell: (the other, comparison)."""
    by_config: dict[str, list[Observation]] = defaultdict(list)
    for row in rows:
        by_config[row.config_fingerprint].append(observations[row.window_id])
    others = [name for name in dict.fromkeys((runner_up, choice.fallback)) if name is not None]
    return [
        (other, found)
        for other in others
        if other != choice.chosen and other in by_config
        for found in compare(by_config[other], by_config[choice.chosen], family=list(observations.values()))
    ]


def _told(found: Comparison, other: str) -> str:
    ratio = "" if found.ratio is None else f" x{found.ratio:.3f}"
    span = "" if found.low is None or found.high is None else f" ({found.low:.3f}–{found.high:.3f})"
    why = f": {found.why}" if found.why and found.verdict == UNDECIDED else ""
    return f"against {other} at {_at(found.streams, found.temperature)}: {found.verdict}{ratio}{span}{why}"


def _at(streams: int, temperature: Decimal | float) -> str:
    return f"{text.plural(streams, 'stream')}, T={text.temperature(Decimal(str(temperature)))}"


def _not_shown(
    runner_up: str | None, held: Sequence[tuple[str, Comparison]], names: Mapping[str, str]
) -> Iterator[str]:
    """Yield where the choice is not what the evidence shows to be the best."""
    for other, found in held:
        if other == runner_up and found.verdict in (UNDECIDED, WORSE):
            more = f"; about {text.plural(found.needed, 'further window')} of each would tell" if found.needed else ""
            yield f"not shown to be better than {names[other]} at {_at(found.streams, found.temperature)}: {found.verdict}{more}"


def _imported(rows: Sequence[WindowRow]) -> Iterator[str]:
    sources = sorted({row.source for row in rows if row.source is not None})
    if sources:
        count = sum(row.source is not None for row in rows)
        yield (
            f"{count} of {text.plural(len(rows), 'run')} were not measured here ({', '.join(sources)}): nobody proved which "
            "engine answered, and what their files do not state is no premise"
        )


def _warnings(choice: Choice, cells: Sequence[CellEvidence]) -> Iterator[str]:
    for cell in cells:
        if cell.n == 1:
            at = _at(cell.concurrency, cell.temperature)
            yield f"{cell.mean:.1f} rests on one run: measure it again ({cell.name} at {at})"
    if choice.fallback not in {cell.config for cell in cells}:
        yield "the fallback was not measured in these cells: what falling back costs is not known"


# --- premises --------------------------------------------------------------------------------------------------------


def _premises(
    choice: Choice,
    material: Material,
    rows: Sequence[WindowRow],
    among: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    of_config, _ = held_fixed([settings[name] for name in among])
    evidence = [row for row in _one_each(rows) if row.config_fingerprint in among]
    conditions = [expanded((row.conditions, row.box, row.simulated), material.documents) for row in evidence]
    of_conditions, _ = held_fixed(conditions)
    weights = {
        round(boot.weights, 2)
        for boot in material.boots
        if boot.config_fingerprint == choice.chosen and boot.weights is not None
    }
    found = {CONFIG + key: value for key, value in of_config.items()}
    found |= {name: value for name, value in of_conditions.items() if value is not None and _compared(name)}
    if len(weights) == 1:
        found[WEIGHTS] = weights.pop()
    return found | {PRODUCTION + key: value for key, value in material.production.items()}

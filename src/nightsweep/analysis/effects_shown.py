"""Effects of a grid as tables, warnings and documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.documents import source_of
from nightsweep.analysis.effects import ALONE, INTERACTION, MAIN, TOGETHER, Effect, Fit, effects_of
from nightsweep.analysis.factors import MOST_MISSING, Grid, family_of, grid_of, lines_for
from nightsweep.analysis.intervals import Observation, noise_of
from nightsweep.analysis.pooled import drawn
from nightsweep.analysis.sides import Document, Documents, expanded, measured
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import WindowRow

MISFIT_LEVEL = 0.05
BOOTS_UNKNOWN = (
    "no cell was measured in two boots of a config: what differs from boot to boot is in no interval, and effects are of these "
    "boots"
)

OF_THE_CONFIG = (
    "config",
    "draft_model",
    "draft_revision",
    "model",
    "model_revision",
    "engine",
    "image_digest",
    "engine_version",
)
"""Conditions that a config brings along: they may differ inside of a grid."""

EFFECT_FIELDS: tuple[str, ...] = (
    *("kind", "change", "ratio", "ratio_low", "ratio_high", "p", "stands", "n", "boots", "source"),
)
"""Columns of the CSV of effects."""


@dataclass(frozen=True)
class Shown:
    """A sweep's effects with what was left out of them, in words.

    Attributes:
        source: "imported:TOOL" of what was not measured here; windows of several are never in one grid.
    """

    grid: Grid
    fit: Fit
    left_out: tuple[str, ...]
    simulated: bool
    source: str | None = None


def shown(rows: Sequence[WindowRow], *, known: Documents, choose: bool) -> Shown:
    """Return the effects of the grid that the windows' configs make.

    Args:
        choose: Take only the configs that share the most common method of speculation: without a choice of the user's.
    """
    left_out: list[str] = []
    kept = _applied(_one_set(measured(rows), known, left_out), left_out)
    documents = {row.config_fingerprint: known.configs.get(row.config_fingerprint, {}) for row in kept}
    chosen = family_of(documents) if choose else documents
    others = {row.config for row in kept if row.config_fingerprint not in chosen}
    if others:
        left_out.append(f"of another method of speculation, so no corner of this grid: {text.several(sorted(others))}")
    grid = grid_of(chosen)
    everything = [_observed(row) for row in kept]
    observations = [one for one in everything if one.config in grid.corners]
    return Shown(
        grid,
        effects_of(grid, observations, noise_of(everything)),
        tuple(left_out),
        simulated=any(row.simulated for row in kept),
        source=next((row.source for row in kept), None),
    )


def _observed(row: WindowRow) -> Observation:
    cell = (row.config_fingerprint, row.concurrency, row.temperature)
    rate = row.decode_rate or 0.0
    return Observation(
        rate, row.config_fingerprint, row.boot_id, cell, row.concurrency, float(row.temperature), drawn(row)
    )


def _one_set(rows: Sequence[WindowRow], known: Documents, left_out: list[str]) -> list[WindowRow]:
    """Keep the windows of the conditions that most have in common, the config's own left aside."""
    sets: dict[tuple[object, ...], list[WindowRow]] = defaultdict(list)
    keys: dict[tuple[str, str, bool], tuple[object, ...]] = {}
    for row in rows:
        key = (row.conditions, row.box, row.simulated)
        if key not in keys:
            keys[key] = (row.box, row.simulated, *_surroundings(expanded(key, known)))
        sets[keys[key]].append(row)
    if len(sets) < 2:
        return list(rows)
    most = max(sets.values(), key=lambda group: (len(group), max(row.started for row in group)))
    left_out.append(f"{text.plural(len(rows) - len(most), 'window')} under other conditions: they are never pooled")
    return most


def _surroundings(document: Document) -> list[tuple[str, str]]:
    own = (*OF_THE_CONFIG, "not_applied")
    return sorted((name, str(value)) for name, value in document.items() if name not in own)


def _applied(rows: Sequence[WindowRow], left_out: list[str]) -> list[WindowRow]:
    """Leave out configs that were applied otherwise than most: they stand on no corner, or on another one."""
    usual = max(Counter(row.not_applied for row in rows).items(), key=lambda item: item[1], default=((), 0))[0]
    wrong = sorted({row.config for row in rows if row.not_applied != usual})
    if wrong:
        left_out.append(f"not applied as asked, or otherwise than the others: {text.several(wrong)}")
    if usual:
        left_out.append(f"nothing, but in all configs this was not applied as asked: {text.several(usual)}")
    return [row for row in rows if row.not_applied == usual]


# --- words -----------------------------------------------------------------------------------------------------------


def change_in_words(grid: Grid, change: Sequence[tuple[int, int]]) -> str:
    """Return what was changed: "rejection_sample_method=block"."""
    return " and ".join(grid.factors[f].label(level) for f, level in change)


def base_in_words(grid: Grid) -> str:
    """Return what every change is held against."""
    return grid.described((0,) * len(grid.factors))


def warnings(found: Shown) -> Iterator[str]:
    """Yield what the data cannot tell, and what would tell it; then what speaks against the model."""
    grid = found.grid
    if not grid.factors:
        yield "no setting was varied: there is one config, or all are of different methods; choose with --config or --where"
        return
    yield from (text.not_measured_here(source) for source in (found.source,) if source is not None)
    unseen = [one for one in found.fit.effects if one.kind == INTERACTION and one.ratio is None]
    missing = grid.missing
    if unseen:
        yield (
            f"one factor at a time cannot tell whether settings interact: {text.plural(len(unseen), 'interaction')} of "
            f"{sum(one.kind == INTERACTION for one in found.fit.effects)} cannot be told from these cells"
        )
    if missing:
        corners = text.several([grid.described(corner) for corner in missing], limit=MOST_MISSING)
        yield f"{text.plural(len(missing), 'corner')} of the grid not measured: {corners}"
    if not found.fit.boots_known:
        yield BOOTS_UNKNOWN
    if found.fit.misfit is not None and found.fit.misfit < MISFIT_LEVEL:
        yield (
            f"effects differ from cell to cell, or more than two settings interact (p={found.fit.misfit:.3f}): "
            "look at one temperature or concurrency at a time with --at"
        )
    for factor in grid.factors:
        if len(factor.keys) > 1:
            yield f"{factor.name} always changed together: their effects cannot be told apart"
    yield from (f"left out: {reason}" for reason in found.left_out)


def filling(found: Shown) -> list[str]:
    """Return the lines of a sweep file that would fill the missing corners."""
    return lines_for(found.grid)


# --- tables ----------------------------------------------------------------------------------------------------------


def effects_table(found: Shown, *, title: str) -> Table:
    """Return one row for each level of each setting: alone, and in the mean over the other settings."""
    columns = (
        Column("setting", right=False),
        Column("others as first", right=False),
        Column("mean over others", right=False),
        Column("n"),
        Column("boots"),
        Column("stands", right=False),
    )
    rows = []
    for main in (one for one in found.fit.effects if one.kind == MAIN):
        alone = found.fit.of(ALONE, *main.change)
        name = change_in_words(found.grid, main.change)
        values = (name, percent_span(alone), percent_span(main), str(main.n), str(main.boots), _stands(main))
        rows.append(Row(values, mark="done" if main.stands else ""))
    note = f"against {base_in_words(found.grid)}; in brackets the 95% interval"
    return Table(title, columns, (Group("", tuple(rows)),), notes=(note,), simulated=found.simulated)


def interactions_table(found: Shown, *, title: str) -> Table | None:
    """Return one row for each pair of changes: either alone, both together, and what that is beyond both; None without pairs."""
    pairs = [one for one in found.fit.effects if one.kind == INTERACTION]
    if not pairs:
        return None
    columns = (
        Column("settings", right=False),
        Column("first alone", right=False),
        Column("second alone", right=False),
        Column("both together", right=False),
        Column("interaction", right=False),
        Column("stands", right=False),
    )
    rows = []
    for pair in pairs:
        parts = [found.fit.of(ALONE, change) for change in pair.change]
        together = found.fit.of(TOGETHER, *pair.change)
        fields = (percent_span(one) for one in (*parts, together, pair))
        values = (change_in_words(found.grid, pair.change), *fields, _stands(pair))
        rows.append(Row(values, mark="done" if pair.stands else ""))
    note = "interaction: both together, beyond what each does alone; 0% where they do not interact"
    return Table(title, columns, (Group("", tuple(rows)),), notes=(note,), simulated=found.simulated)


def percent_span(effect: Effect | None) -> str:
    """Return a ratio as change in percent, with its interval."""
    if effect is None or effect.ratio is None:
        return "cannot be told"
    mean = f"{(effect.ratio - 1) * 100:+.1f}%"
    if effect.low is None or effect.high is None:
        return f"{mean} (no spread known)"
    return f"{mean} ({(effect.low - 1) * 100:+.1f} to {(effect.high - 1) * 100:+.1f})"


def _stands(effect: Effect) -> str:
    if effect.stands is None:
        return text.ABSENT
    return "yes" if effect.stands else "not shown"


# --- for programs ----------------------------------------------------------------------------------------------------


def effects_document(found: Shown) -> dict[str, Any]:
    """Return everything: factors, effects, missing corners and the lines that fill them."""
    grid = found.grid
    return {
        "factors": [{"name": factor.name, "levels": _labels(found, i)} for i, factor in enumerate(grid.factors)],
        "against": base_in_words(grid) if grid.factors else None,
        "cells": [
            {"concurrency": streams, "temperature": text.temperature_or_none(Decimal(str(temperature)))}
            for streams, temperature in found.fit.cells
        ],
        "effects": [effect_document(found, one) for one in found.fit.effects],
        "misfit_p": found.fit.misfit,
        "missing": [grid.described(corner) for corner in grid.missing],
        "sweep_file_lines": filling(found),
        "warnings": list(warnings(found)),
        "simulated": found.simulated,
        "source": source_of(found.source),
    }


def _labels(found: Shown, place: int) -> list[str]:
    factor = found.grid.factors[place]
    return [factor.label(level) for level in range(len(factor.levels))]


def effect_document(found: Shown, one: Effect) -> Mapping[str, Any]:
    """Return one effect; ratios are null where the measured corners do not tell."""
    return {
        "kind": one.kind,
        "change": change_in_words(found.grid, one.change),
        "ratio": one.ratio,
        "ratio_low": one.low,
        "ratio_high": one.high,
        "p": one.p,
        "stands": one.stands,
        "n": one.n,
        "boots": one.boots,
        "source": source_of(found.source),
    }

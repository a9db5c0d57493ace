"""Windows summed up by the database: cells from sums that it keeps, anything else from the windows, and never row by row here.

The rules are those of `nightsweep.analysis.summary`: only clean windows of equal conditions are pooled, a control's extra
windows are in no mean, and a cell whose windows are all flagged is there without numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from nightsweep.analysis.grouping import NUMBERS
from nightsweep.analysis.stated import stated_among
from nightsweep.analysis.summary import in_flag_order
from nightsweep.analysis.values import CellSummary, Filters, Spread
from nightsweep.plan.words import CONTROL_ROUND
from nightsweep.store import statements
from nightsweep.store.filters import matches, of_conditions, of_config, of_source
from nightsweep.store.rows import reused_note
from nightsweep.store.schema import cell_summaries, cells, conditions, configs, sweep_configs, windows

KEY = ("config_fingerprint", "concurrency", "temperature", "conditions", "box", "simulated", "source")
COLUMN_OF = {"step_time": "step_time_s", "ttft_p50": "ttft_p50_s", "tpot_p50": "tpot_p50_s"}
"""Where a kept sum's columns are not named as the number is."""
PARTS = ("n", "boots", "mean", "m2", "min", "max")
"""What is summed up of a number; m2 is the sum of squared deviations from the mean."""


def cells_matching(connection: sa.Connection, filters: Filters) -> list[CellSummary]:
    """Return cells, configs in the order that they were first measured in, then by temperature, concurrency and box.

    Without a filter that tells windows of one cell apart (sweep, time, image), the kept sums answer: a config is then its
    content, under whatever name `filters.config` finds it. Flagged windows are always counted beside the means.
    """
    filters = replace(filters, with_flagged="yes")
    apart = (filters.sweep, filters.since, filters.before, filters.image)
    if all(one is None for one in apart):
        answer = connection.execute(_kept_matching(filters))
        parts = parts_in(list(answer.keys()), {name: COLUMN_OF.get(name, name) for name in NUMBERS})
        found = [(row.first_window_id, _kept(row, parts)) for row in answer.all()]
    else:
        found = _summed(connection, filters)
    order: dict[str, int] = {}
    for first, cell in found:
        order[cell.config_fingerprint] = min(order.get(cell.config_fingerprint, first), first)
    found.sort(
        key=lambda one: (order[one[1].config_fingerprint], one[1].temperature, one[1].concurrency, one[1].box, one[0])
    )
    return [cell for _, cell in found]


# --- sums that the database keeps --------------------------------------------------------------------------------


def _kept_matching(filters: Filters) -> sa.Select[Any]:
    table = cell_summaries
    source = table.join(configs, configs.c.id == table.c.config_id)
    source = source.join(conditions, conditions.c.id == table.c.conditions_id)
    wanted = sa.select(
        table,
        _newest_name().label("config"),
        configs.c.hash.label("config_fingerprint"),
        conditions.c.fingerprint.label("conditions"),
        statements.SOURCE.label("source"),
    )
    return wanted.select_from(source).where(*of_kept(filters))


def of_kept(filters: Filters) -> Iterator[sa.ColumnElement[bool]]:
    """Yield what a kept sum (joined: configs, conditions) must fulfil."""
    table = cell_summaries
    yield table.c.kind == filters.kind
    yield from of_config(filters, by_content=True)
    yield from of_source(filters, statements.SOURCE)
    yield from of_conditions(filters)
    if filters.box is not None:
        yield matches(table.c.box, filters.box)
    if filters.concurrency:
        yield table.c.concurrency.in_(filters.concurrency)
    if filters.temperature:
        yield table.c.temperature.in_(filters.temperature)


def _newest_name() -> sa.ScalarSelect[Any]:
    """Return the config's name in the newest window's sweep: looked up row by row, for a join is planned over all windows."""
    places = windows.join(cells, cells.c.id == windows.c.cell_id).join(
        sweep_configs,
        sa.and_(sweep_configs.c.sweep_id == cells.c.sweep_id, sweep_configs.c.config_id == cells.c.config_id),
    )
    named = sa.select(sweep_configs.c.name).select_from(places)
    return named.where(windows.c.id == cell_summaries.c.newest_window_id).correlate(cell_summaries).scalar_subquery()


def parts_in(
    columns: Sequence[str], named: Mapping[str, str], parts: Sequence[str] = PARTS
) -> dict[str, itemgetter[Any]]:
    """Return what takes the parts of each number out of a row, found once for a long list; `named` says how columns begin."""
    at = {column: place for place, column in enumerate(columns)}
    return {name: itemgetter(*(at[f"{column}_{part}"] for part in parts)) for name, column in named.items()}


def spread_of(n: Any, boots: int, mean: Any, m2: Any, low: float, high: float) -> Spread | None:
    """Return a number from its `PARTS`, as the database has summed them up; None without any."""
    if not n or mean is None:
        return None
    runs, mean = int(n), float(mean)
    sd = None
    if runs > 1:
        sd = 0.0 if low == high else math.sqrt(max(float(m2), 0.0) / (runs - 1))
    return Spread(runs, boots, mean if low <= mean <= high else min(max(mean, low), high), low, high, sd)


def _kept(row: Any, parts: Mapping[str, itemgetter[Any]]) -> CellSummary:
    return _cell(
        row,
        numbers={name: spread_of(*parts_of(row)) for name, parts_of in parts.items()},
        flag_counts=row.flag_counts,
        engine_versions=row.engine_versions,
        words=(row.not_applied, row.notes),
    )


# --- sums over windows -------------------------------------------------------------------------------------------


def per_boot(base: sa.Subquery, key: Sequence[sa.ColumnElement[Any]], numbers: Sequence[str] = NUMBERS) -> sa.Subquery:
    """Return the windows summed up by key and boot: so boots are counted without sorting all windows."""
    clean = sa.func.cardinality(base.c.flags) == 0
    by_newest = postgresql.aggregate_order_by(base.c.config, base.c.window_id.desc())
    made: list[sa.ColumnElement[Any]] = [
        sa.func.count().filter(sa.not_(clean)).label("flagged"),
        sa.func.bool_or(base.c.simulated).label("any_simulated"),
        sa.func.min(base.c.started_at).filter(clean).label("first"),
        sa.func.max(base.c.started_at).filter(clean).label("last"),
        sa.func.min(base.c.window_id).label("first_window_id"),
        sa.func.max(base.c.window_id).label("newest_window_id"),
        sa.func.array_agg(by_newest, type_=postgresql.ARRAY(sa.Text))[1].label("newest_name"),
        sa.func.max(base.c.engine_version).filter(clean).label("version"),
    ]
    for name in numbers:
        value = base.c[COLUMN_OF[name] if name == "step_time" else name]
        n = sa.func.count(value).filter(clean)
        made += [
            n.label(f"{name}_n"),
            sa.func.avg(value).filter(clean).label(f"{name}_mean"),
            (sa.func.var_pop(value).filter(clean) * n).label(f"{name}_m2"),
            sa.func.min(value).filter(clean).label(f"{name}_min"),
            sa.func.max(value).filter(clean).label(f"{name}_max"),
        ]
    wanted = sa.select(*key, base.c.boot_id, *made).where(base.c.boot_round < CONTROL_ROUND)
    return wanted.group_by(base.c.boot_id, *key).subquery("per_boot")


def over_boots(boots: sa.Subquery, numbers: Sequence[str] = NUMBERS) -> list[sa.ColumnElement[Any]]:
    """Return the columns that sum up rows of `per_boot`, or others that hold the same sums of other windows each."""
    made: list[sa.ColumnElement[Any]] = [
        sa.func.sum(boots.c.flagged).label("flagged"),
        sa.func.bool_or(boots.c.any_simulated).label("simulated"),
        sa.func.min(boots.c.first).label("first"),
        sa.func.max(boots.c.last).label("last"),
    ]
    for name in numbers:
        n, mean = boots.c[f"{name}_n"], boots.c[f"{name}_mean"]
        total = sa.func.nullif(sa.func.sum(n), 0)
        # Deviations from the mean of all: those inside boots, and how far the boots' own means lie from it.
        inside, squares = sa.func.sum(boots.c[f"{name}_m2"]), sa.func.sum(n * mean * mean)
        made += [
            sa.func.sum(n).label(f"{name}_n"),
            sa.func.count().filter(n > 0).label(f"{name}_boots"),
            (sa.func.sum(n * mean) / total).label(f"{name}_mean"),
            (inside + squares - sa.func.pow(sa.func.sum(n * mean), 2) / total).label(f"{name}_m2"),
            sa.func.min(boots.c[f"{name}_min"]).label(f"{name}_min"),
            sa.func.max(boots.c[f"{name}_max"]).label(f"{name}_max"),
        ]
    return made


def of_boots(boots: sa.Subquery, numbers: Sequence[str] = NUMBERS) -> list[sa.ColumnElement[Any]]:
    """Return the columns of `over_boots` where every row of `per_boot` stands by itself: nothing is summed up again."""
    made: list[sa.ColumnElement[Any]] = [
        boots.c.flagged,
        boots.c.any_simulated.label("simulated"),
        boots.c.first,
        boots.c.last,
    ]
    for name in numbers:
        made += [
            boots.c[f"{name}_n"],
            sa.cast(boots.c[f"{name}_n"] > 0, sa.Integer).label(f"{name}_boots"),
            *(boots.c[f"{name}_{part}"] for part in ("mean", "m2", "min", "max")),
        ]
    return made


def _summed(connection: sa.Connection, filters: Filters) -> list[tuple[int, CellSummary]]:
    base = statements.windows_matching(filters).order_by(None).subquery("base")
    key = [base.c[name] for name in KEY]
    counted = base.c.boot_round < CONTROL_ROUND
    boots = per_boot(base, key)
    mine = [boots.c[name] for name in KEY]
    by_newest = postgresql.aggregate_order_by(boots.c.newest_name, boots.c.newest_window_id.desc())
    wanted = sa.select(
        *mine,
        sa.func.min(boots.c.first_window_id).label("first_window_id"),
        sa.func.array_agg(by_newest, type_=postgresql.ARRAY(sa.Text))[1].label("config"),
        sa.func.array_agg(sa.distinct(boots.c.version)).label("engine_versions"),
        *(column for column in over_boots(boots) if column.name != "simulated"),
    )
    words = _words(connection, base, key, counted)
    found = []
    answer = connection.execute(wanted.group_by(*mine))
    parts = parts_in(list(answer.keys()), {name: name for name in NUMBERS})
    for row in answer.all():
        flags, not_applied, notes = words.get(tuple(row[: len(KEY)]), (Counter(), {}, {}))
        cell = _cell(
            row,
            numbers={name: spread_of(*parts_of(row)) for name, parts_of in parts.items()},
            flag_counts=flags,
            engine_versions=[version for version in row.engine_versions or () if version is not None],
            words=(tuple(not_applied), tuple(notes)),
        )
        found.append((row.first_window_id, cell))
    return found


def _words(
    connection: sa.Connection, base: sa.Subquery, key: list[Any], counted: sa.ColumnElement[bool]
) -> Mapping[Hashable, tuple[Counter[str], dict[str, None], dict[str, None]]]:
    """Return flags with their windows, what was not applied and notes, by key; equal windows come as one row."""
    said = [base.c.flags, base.c.applied, base.c.notes, base.c.reused_from]
    empty = sa.and_(
        sa.func.cardinality(base.c.flags) == 0,
        sa.func.cardinality(base.c.notes) == 0,
        base.c.reused_from.is_(None),
        sa.func.coalesce(sa.func.jsonb_array_length(base.c.applied["notes"]), 0) == 0,
        sa.func.coalesce(sa.func.jsonb_array_length(base.c.applied["not_applied"]), 0) == 0,
    )
    wanted = sa.select(*key, *said, sa.func.count().label("times")).where(counted, sa.not_(empty))
    found: dict[Hashable, tuple[Counter[str], dict[str, None], dict[str, None]]] = {}
    for row in connection.execute(wanted.group_by(*key, *said).order_by(sa.func.min(base.c.window_id))).all():
        flags, not_applied, notes = found.setdefault(tuple(row[: len(KEY)]), (Counter(), {}, {}))
        flags.update({flag: row.times for flag in row.flags})
        not_applied.update(dict.fromkeys(row.applied.get("not_applied", ())))
        notes.update(dict.fromkeys((*row.applied.get("notes", ()), *row.notes, *reused_note(row.reused_from))))
    return found


def _cell(
    row: Any,
    *,
    numbers: Mapping[str, Spread | None],
    flag_counts: Mapping[str, int],
    engine_versions: Iterable[str],
    words: tuple[Iterable[str], Iterable[str]],
) -> CellSummary:
    counts = in_flag_order(flag_counts)
    not_applied, notes = (tuple(said) for said in words)
    return CellSummary(
        config=row.config,
        config_fingerprint=row.config_fingerprint,
        concurrency=row.concurrency,
        temperature=row.temperature,
        conditions=row.conditions,
        box=row.box,
        simulated=row.simulated,
        source=row.source,
        flagged=int(row.flagged),
        flags=tuple(counts),
        flag_counts=counts,
        engine_versions=tuple(sorted(engine_versions)),
        not_applied=not_applied,
        notes=notes,
        **(_with_stated(numbers, notes) if notes else numbers),
    )


def _with_stated(numbers: Mapping[str, Spread | None], notes: Sequence[str]) -> dict[str, Spread | None]:
    """Return the numbers with the runs that each row stands for: one, where no note says otherwise."""
    return {
        name: spread and spread._replace(stated=stated_among(notes, n=spread.n)) for name, spread in numbers.items()
    }

"""Windows pooled by any keys: over the whole history from the kept sums, else from the windows.

The rules are those of `nightsweep.store.cell_sums`. The kept sums know of each number how many boots a cell has, but not
whether two cells share a boot: for that the database keeps of each boot which cells it has, and boots that have the same
cells are counted together. Only where a cell lacks a number in some windows are that config's windows looked at, in an index.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from nightsweep.analysis.grouping import NUMBERS, GroupSummary
from nightsweep.analysis.stated import stated_among
from nightsweep.analysis.values import Filters, Spread
from nightsweep.plan.words import CONTROL_ROUND
from nightsweep.store import keys, statements
from nightsweep.store.cell_sums import COLUMN_OF, PARTS, of_boots, of_kept, over_boots, parts_in, per_boot, spread_of
from nightsweep.store.filters import of_cell
from nightsweep.store.schema import boot_summaries, boots, boxes, cell_summaries, cells, conditions, configs, windows
from nightsweep.store.schema_imports import imports

ONE_CELL = {"config_fingerprint", "concurrency", "temperature", "conditions"}
"""Keys that leave one cell and one conditions in a group: nothing has to be counted then."""
WITHOUT_BOOTS = tuple(part for part in PARTS if part != "boots")

HASHED = ("enable_nestloop = off", "enable_sort = off", "work_mem = '48MB'")
"""For statements that join boots to cells: how many conditions lack a key of JSON is not known to the planner, and a loop in
place of a hash takes ten times as long. In force until the end of the transaction."""


def groups_matching(
    connection: sa.Connection, filters: Filters, by: Sequence[str], *, numbers: Sequence[str] = NUMBERS
) -> list[GroupSummary]:
    """Return windows pooled by any keys (see `nightsweep.store.keys`), in the order of the keys' values.

    What such a group holds of different cells and conditions is counted in it: its mean is one of what was measured, and
    compares two settings only where both groups hold the same cells.
    """
    if filters.imported is None and not {"source", "conditions"} & set(by):
        filters = replace(filters, imported=False)  # measured windows never pool with imported ones by silence
    way = groups_of_kept if _kept_tell(filters, by) else groups_of_windows
    found = way(connection, filters, by, numbers)
    return found if filters.imported is False else _as_stated(connection, filters, by, found)


def _as_stated(
    connection: sa.Connection, filters: Filters, by: Sequence[str], found: Sequence[GroupSummary]
) -> list[GroupSummary]:
    """Return the groups with the runs that imported rows stand for, where a group has such."""
    if not connection.scalar(sa.select(sa.exists().select_from(imports))):
        return list(found)  # most histories: no window is looked at for it
    wanted = replace(filters, imported=True, with_flagged="no")
    base = statements.windows_matching(wanted, keys.columns(by)).order_by(None).subquery("base")
    key = [base.c[keys.label(place)] for place in range(len(by))]
    said: dict[tuple[str, ...], list[str]] = {}
    for row in connection.execute(sa.select(*key, base.c.notes).distinct()):
        said.setdefault(tuple(str(keys.value_of(value)) for value in row[: len(by)]), []).extend(row.notes)

    def stated(group: GroupSummary) -> GroupSummary:
        notes = said.get(tuple(str(group.keys[name]) for name in by), [])
        numbers = {
            name: spread and spread._replace(stated=stated_among(notes, n=spread.n))
            for name, spread in group.numbers.items()
        }
        return replace(group, numbers=numbers) if notes else group

    return [stated(group) for group in found]


def _kept_tell(filters: Filters, by: Sequence[str]) -> bool:
    """Return whether the kept sums tell what is asked: nothing in it tells windows of one cell apart."""
    apart = (filters.sweep, filters.since, filters.before, filters.image, filters.config)
    return all(one is None for one in apart) and filters.with_flagged == "yes" and not keys.OF_WINDOWS & set(by)


# --- from the windows --------------------------------------------------------------------------------------------


def groups_of_windows(
    connection: sa.Connection, filters: Filters, by: Sequence[str], numbers: Sequence[str]
) -> list[GroupSummary]:
    """Return groups whatever the filters and keys are: every window that matches is read."""
    more = [*keys.columns(by), windows.c.conditions_id]
    base = statements.windows_matching(filters, more).order_by(None).subquery("base")
    key = [base.c[keys.label(place)] for place in range(len(by))]
    alone = set(by) >= ONE_CELL
    counted = () if alone else connection.execute(_held(base, key))
    held = {tuple(map(str, row[: len(by)])): row for row in counted}
    boots = per_boot(base, key, numbers)
    key = [boots.c[column.name] for column in key]
    if "boot" in by:
        wanted = sa.select(*key, *of_boots(boots, numbers))
    else:
        wanted = sa.select(*key, *over_boots(boots, numbers)).group_by(*key)
    answer = connection.execute(wanted.order_by(*(column.asc().nulls_first() for column in key)))
    parts = parts_in(list(answer.keys()), {name: name for name in numbers})
    found = []
    for row in answer.all():
        values = row[: len(by)]
        mine = held.get(tuple(map(str, values))) if held else None
        found.append(
            GroupSummary(
                keys=dict(zip(by, map(keys.value_of, values), strict=True)),
                numbers={name: spread_of(*parts_of(row)) for name, parts_of in parts.items()},
                cells=int(alone) if mine is None else mine.cells,
                conditions=int(alone) if mine is None else mine.pools,
                flagged=int(row.flagged),
                simulated=row.simulated,
                first=row.first,
                last=row.last,
            )
        )
    return found


def _held(base: sa.Subquery, key: Sequence[sa.ColumnElement[Any]]) -> sa.Select[Any]:
    """Return how many cells and conditions the clean windows of each key are of."""
    place = (base.c.config_id, base.c.concurrency, base.c.temperature)
    counted = sa.and_(base.c.boot_round < CONTROL_ROUND, sa.func.cardinality(base.c.flags) == 0)
    each = sa.select(*key, *place, base.c.conditions_id).where(counted).group_by(*key, *place, base.c.conditions_id)
    inner = each.subquery("each")
    mine = [inner.c[column.name] for column in key]
    cell = sa.func.row(inner.c.config_id, inner.c.concurrency, inner.c.temperature)
    pools = sa.func.count(sa.distinct(inner.c.conditions_id)).label("pools")
    return sa.select(*mine, sa.func.count(sa.distinct(cell)).label("cells"), pools).group_by(*mine)


# --- from the kept sums ------------------------------------------------------------------------------------------


def groups_of_kept(
    connection: sa.Connection, filters: Filters, by: Sequence[str], numbers: Sequence[str]
) -> list[GroupSummary]:
    """Return the same groups where `_kept_tell` says so, without reading a window's numbers."""
    kept = _kept(filters, by, numbers)
    for setting in HASHED:
        connection.execute(sa.text(f"SET LOCAL {setting}"))
    answer = connection.execute(_sums(kept, by, numbers))
    parts, sums = parts_in(list(answer.keys()), {name: name for name in numbers}, WITHOUT_BOOTS), answer.all()
    counted = _boots_by_number(connection, kept, filters, by, numbers)
    alone = set(by) >= ONE_CELL
    found = []
    for row in sums:
        mine = counted.get(tuple(map(str, row[: len(by)])), Counter())
        found.append(
            GroupSummary(
                keys=dict(zip(by, map(keys.value_of, row[: len(by)]), strict=True)),
                numbers={name: _counted_as(mine[name], *parts_of(row)) for name, parts_of in parts.items()},
                cells=int(alone) or row.cells,
                conditions=int(alone) or row.pools,
                flagged=int(row.flagged),
                simulated=row.simulated,
                first=row.first,
                last=row.last,
            )
        )
    return found


def _counted_as(boots: int, n: Any, mean: Any, m2: Any, low: float, high: float) -> Spread | None:
    return spread_of(n, boots, mean, m2, low, high)


def _boots_by_number(
    connection: sa.Connection, kept: sa.Subquery, filters: Filters, by: Sequence[str], numbers: Sequence[str]
) -> dict[tuple[str, ...], Counter[str]]:
    """Return of how many boots each key's clean windows with each number are. A boot is of one config, so configs add up."""
    lacking = connection.execute(_lacking(kept, numbers)).all()
    some = [row.config_id for row in lacking]
    partly = [name for name in numbers if any(row._mapping[name] for row in lacking)]
    asked = [_counted(kept, filters, by, numbers, without=some)]
    if some:
        asked.append(_boots(kept, filters, by, numbers, partly=partly, only=some))
    found: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for one in asked:
        for row in connection.execute(one).all():
            found[tuple(map(str, row[: len(by)]))].update({name: int(row._mapping[name] or 0) for name in numbers})
    return found


def _lacking(kept: sa.Subquery, numbers: Sequence[str]) -> sa.Select[Any]:
    """Return the configs with a cell of which some windows have a number and some have not, and which numbers these are."""
    lacks = {name: (kept.c[f"{name}_n"] > 0) & (kept.c[f"{name}_n"] < kept.c.clean) for name in numbers}
    told = (sa.func.bool_or(one).label(name) for name, one in lacks.items())
    return sa.select(kept.c.config_id, *told).where(sa.or_(*lacks.values())).group_by(kept.c.config_id)


def _counted(
    kept: sa.Subquery, filters: Filters, by: Sequence[str], numbers: Sequence[str], *, without: Sequence[int]
) -> sa.Select[Any]:
    """Return the counts from what is kept of boots: those with the same cells are one row first, and told apart no more."""
    placed = _placed(filters, without).subquery("placed")
    part = [sa.func.split_part(placed.c.place, ":", number) for number in (1, 2, 3)]
    here = sa.and_(
        *(kept.c[name] == placed.c[name] for name in ("config_id", "box", "any_simulated")),
        kept.c.conditions_id == sa.cast(part[0], sa.BigInteger),
        kept.c.concurrency == sa.cast(part[1], sa.Integer),
        kept.c.temperature == sa.cast(part[2], sa.Numeric(4, 2)),
    )
    key = [kept.c[keys.label(place)] for place in range(len(by))]
    having = (sa.func.bool_or(kept.c[f"{name}_n"] > 0).label(name) for name in numbers)
    size = sa.func.max(placed.c.boots).label("boots")
    source = placed.join(kept, here)
    each = sa.select(*key, *having, size).select_from(source).group_by(*key, placed.c.first_boot).subquery("each_set")
    mine = [each.c[column.name] for column in key]
    total = (sa.func.sum(each.c.boots).filter(each.c[name]).label(name) for name in numbers)
    return sa.select(*mine, *total).group_by(*mine)


def _placed(filters: Filters, without: Sequence[int]) -> sa.Select[Any]:
    """Return each set of cells that some boots have clean windows of, a row for each of its cells, with how many boots."""
    simulated = boxes.c.simulated | boots.c.simulated
    alike = (
        sa.select(
            boots.c.config_id,
            boxes.c.name.label("box"),
            simulated.label("any_simulated"),
            boot_summaries.c.places,
            sa.func.min(boots.c.id).label("first_boot"),
            sa.func.count().label("boots"),
        )
        .join(boots, boots.c.id == boot_summaries.c.boot_id)
        .join(boxes, boxes.c.id == boots.c.box_id)
        .where(boot_summaries.c.kind == filters.kind, boots.c.config_id.not_in(without))
        .group_by(boots.c.config_id, boxes.c.name, simulated, boot_summaries.c.places)
    ).subquery("alike")
    told = (alike.c[name] for name in ("config_id", "box", "any_simulated", "first_boot", "boots"))
    return sa.select(*told, sa.func.unnest(alike.c.places).label("place"))


def _kept(filters: Filters, by: Sequence[str], numbers: Sequence[str]) -> sa.Subquery:
    table = cell_summaries
    source = table.join(configs, configs.c.id == table.c.config_id)
    source = source.join(conditions, conditions.c.id == table.c.conditions_id)
    parts = ((name, COLUMN_OF.get(name, name), part) for name in numbers for part in WITHOUT_BOOTS)
    wanted = sa.select(
        *keys.kept_columns(by),
        *(table.c[name] for name in ("config_id", "concurrency", "temperature", "conditions_id", "box", "flagged")),
        table.c.simulated.label("any_simulated"),
        table.c.decode_rate_n.label("clean"),  # every clean window has a decode rate
        table.c.first_at.label("first"),
        table.c.last_at.label("last"),
        *(table.c[f"{column}_{part}"].label(f"{name}_{part}") for name, column, part in parts),
    )
    return wanted.select_from(source).where(*of_kept(filters)).subquery("kept")


def _sums(kept: sa.Subquery, by: Sequence[str], numbers: Sequence[str]) -> sa.Select[Any]:
    key = [kept.c[keys.label(place)] for place in range(len(by))]
    clean = kept.c.clean > 0
    cell = sa.func.row(kept.c.config_id, kept.c.concurrency, kept.c.temperature)
    told_by_boots = {f"{name}_boots" for name in numbers}
    wanted = sa.select(
        *key,
        *(column for column in over_boots(kept, numbers) if column.name not in told_by_boots),
        sa.func.count(sa.distinct(cell)).filter(clean).label("cells"),
        sa.func.count(sa.distinct(kept.c.conditions_id)).filter(clean).label("pools"),
    )
    return wanted.group_by(*key).order_by(*(column.asc().nulls_first() for column in key))


def _boots(
    kept: sa.Subquery,
    filters: Filters,
    by: Sequence[str],
    numbers: Sequence[str],
    *,
    partly: Sequence[str],
    only: Sequence[int],
) -> sa.Select[Any]:
    """Return the counts from every clean window of some configs."""
    each = _each(filters, partly, only)
    same = ("config_id", "concurrency", "temperature", "conditions_id")
    simulated = boxes.c.simulated | boots.c.simulated
    joined = (
        each.join(boots, sa.and_(boots.c.id == each.c.boot_id, boots.c.boot_round < CONTROL_ROUND))
        .join(boxes, boxes.c.id == boots.c.box_id)
        .join(
            kept,
            sa.and_(
                *(kept.c[name] == each.c[name] for name in same),
                kept.c.box == boxes.c.name,
                kept.c.any_simulated == simulated,
            ),
        )
    )
    key = [kept.c[keys.label(place)] for place in range(len(by))]
    seen = (each.c[f"{name}_seen"] if name in partly else kept.c[f"{name}_n"] > 0 for name in numbers)
    wanted = sa.select(*key, *(sa.func.bool_or(one).label(name) for name, one in zip(numbers, seen, strict=True)))
    boot = wanted.select_from(joined).group_by(*key, each.c.boot_id).subquery("boot")
    mine = [boot.c[column.name] for column in key]
    counted = (sa.func.count().filter(boot.c[name]).label(name) for name in numbers)
    return sa.select(*mine, *counted).group_by(*mine)


def _each(filters: Filters, partly: Sequence[str], only: Sequence[int]) -> sa.Subquery:
    """Return the clean windows of some configs by boot, cell and conditions, and which of some numbers they have."""
    place = (windows.c.boot_id, windows.c.conditions_id, cells.c.config_id, cells.c.concurrency, cells.c.temperature)
    wanted = sa.select(
        *place,
        *(sa.func.bool_or(statements.number(name).is_not(None)).label(f"{name}_seen") for name in partly),
    ).join(cells, cells.c.id == windows.c.cell_id)
    wanted = wanted.where(cells.c.config_id.in_(only))
    wanted = wanted.where(windows.c.clean, cells.c.kind == filters.kind, *of_cell(filters))
    return wanted.group_by(*place).subquery("each")

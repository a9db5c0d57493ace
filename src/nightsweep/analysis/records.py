"""Documents as flat records: chosen columns, an order, a limit."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from nightsweep.analysis import text
from nightsweep.analysis.documents import SPREAD_PARTS, Document, at_path, plain_json
from nightsweep.analysis.tables import Column, Group, Row, Table

T = TypeVar("T")
Record = dict[str, Any]

LISTED = 12
"""Columns that an error names at most."""


def record_of(document: Document, fields: Sequence[str]) -> Record:
    """Return the paths' values by flat name ("a.b" is `a_b`): plain data, lists and mappings as they are."""
    return {path.replace(".", "_"): at_path(document, path) for path in fields}


RATES = ("decode_rate", "whole_run_rate")
"""What a run count or a CV without a name is of: the rate of the list's own kind."""


def column_of(word: str, names: Sequence[str]) -> str:
    """Return the column that a word means: its name, or a number's name without unit ("decode_rate", "step_time_cv", "n").

    Raises:
        ValueError: There is none; the nearest are named.
    """
    whole = word.strip().replace(".", "_")
    if whole in names:
        return whole
    asked = whole.replace("-", "_")
    if asked in names:
        return asked
    base, _, part = asked.rpartition("_")
    if asked in SPREAD_PARTS:
        base, part = next((rate for rate in RATES if any(name.startswith(rate) for name in names)), RATES[0]), asked
    elif part not in SPREAD_PARTS:
        base, part = asked, "mean"
    fitting = [name for name in names if base and name.startswith(base) and name.endswith(f"_{part}")]
    if fitting:
        return min(fitting, key=len)
    near = difflib.get_close_matches(asked, names, n=4, cutoff=0.4)
    shown = " or ".join(near) if near else ", ".join(names[:LISTED]) + ("" if len(names) <= LISTED else " ...")
    raise ValueError(
        f"there is no column {word!r}: {shown}?" if near else f"there is no column {word!r}; there are {shown}"
    )


def with_runs(names: Sequence[str], every: Sequence[str]) -> list[str]:
    """Return chosen columns with what a mean never stands without, where it was not chosen: run count, least and most."""
    shown: list[str] = []
    for name in names:
        shown.append(name)
        base = name.removesuffix("_mean")
        if base != name:
            beside = (f"{base}_{part}" for part in ("n", "min", "max"))
            shown += [one for one in beside if one in every and one not in names]
    return shown


def in_order(items: Sequence[T], keys: Sequence[str], *, record: Callable[[T], Mapping[str, Any]]) -> list[T]:
    """Return the items sorted by columns, "-name" from the greatest down; absent values come last, equal items stay in order.

    Raises:
        ValueError: A column that there is not.
    """
    if not items or not keys:
        return list(items)
    pairs = [(record(item), item) for item in items]
    names = list(pairs[0][0])
    for key in reversed(keys):
        down = key.startswith("-")
        name = column_of(key.removeprefix("-"), names)
        there = [pair for pair in pairs if pair[0][name] is not None]
        absent = [pair for pair in pairs if pair[0][name] is None]
        there.sort(key=lambda pair, name=name: _sortable(pair[0][name]), reverse=down)  # type: ignore[misc]
        pairs = there + absent
    return [item for _, item in pairs]


def columns_table(records: Iterable[Record], *, columns: Sequence[str], title: str, simulated: bool) -> Table:
    """Return chosen columns as a table, as they are: units stand in their names."""
    rows = [Row(tuple(_shown(record[name]) for name in columns)) for record in records]
    return Table(
        title, tuple(Column(name, right=False) for name in columns), (Group("", tuple(rows)),), simulated=simulated
    )


def _sortable(value: Any) -> tuple[int, Any]:
    """Return a value that sorts beside others of any kind: numbers before texts."""
    if isinstance(value, bool | int | float):
        return (0, value)
    return (1, str(value))


def _shown(value: Any) -> str:
    if value is None:
        return text.ABSENT
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, list | tuple):
        return text.printable("; ".join(str(item) for item in value))
    return text.printable(str(value if isinstance(value, str | int) else plain_json(value)))

"""Windows pooled by any key: what such a pool holds stands beside its mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.documents import SPREAD_PARTS, Document, spread_document
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import Spread
from nightsweep.analysis.whole_runs import RATE, WHOLE_RUN_NOTE
from nightsweep.plan.mistakes import nearest
from nightsweep.plan.words import DECODE, UNKNOWN_TEMPERATURE, WHOLE_RUN

NUMBERS = (
    "decode_rate",
    "acceptance_length",
    "acceptance_rate",
    "report_rate",
    "occupancy",
    "streams_per_step",
    "step_time",
    "tokens_per_step_and_stream",
    "ttft_p50",
    "tpot_p50",
)
"""Numbers of a window that are summed up, by their names in `nightsweep.analysis.values.CellSummary`."""

NAMED = {
    "decode_rate": "decode_rate_tokens_per_second",
    "report_rate": "report_rate_tokens_per_second",
    "step_time": "step_time_seconds",
    "ttft_p50": "ttft_p50_seconds",
    "tpot_p50": "tpot_p50_seconds",
}
"""Names in documents that carry a unit."""

_TIMES = {"step_time": "step time"}
_TIMES_WHOLE = {"ttft_p50": "TTFT p50", "tpot_p50": "TPOT p50"}
"""Times in the table of groups, with their headings: no counters tell the step time of a whole run."""

BESIDE_CONFIG = (
    "config",
    "config_fingerprint",
    "method",
    "box",
    "concurrency",
    "temperature",
    "sweep",
    "boot",
    "engine_version",
    "conditions",
    "source",
    "night",
)
"""Keys beside the config's own (see `nightsweep.store.keys.NAMED`): these are there, whether they have a value or not."""

OF_EVERY_CONFIG = ("engine", "image", "model", "model_revision")
"""Keys of a config that may be empty in all of them."""

MIXED = "several cells or conditions in one mean: it compares two groups only where both hold the same ones"


@dataclass(frozen=True)
class GroupSummary:
    """All clean windows with equal keys.

    Attributes:
        keys: Value by key; None where the config says nothing of it.
        numbers: By name (see `NUMBERS`); None where no clean window has the number.
        cells: Different cells (config, concurrency, temperature) in it.
        conditions: Different conditions in it: with more than one, its runs are not repeats of each other.
        flagged: Windows that are left out of every mean.
        first, last: When its first and last clean window started; None without any.
    """

    keys: Mapping[str, Any]
    numbers: Mapping[str, Spread | None]
    cells: int
    conditions: int
    flagged: int
    simulated: bool
    first: datetime | None = None
    last: datetime | None = None


def key_of_nobody(groups: Sequence[GroupSummary], by: Sequence[str]) -> str | None:
    """Return why a key is no key of any config of the groups, with what is like it; None where each may be one."""
    known = (*BESIDE_CONFIG, *OF_EVERY_CONFIG)
    for key in by:
        if key not in known and groups and all(group.keys[key] is None for group in groups):
            hint = " ".join(
                filter(None, (nearest(key, known), "`nightsweep configs --json` shows which keys there are."))
            )
            return f"no config of these cells has the key {key!r}. {hint}"
    return None


def group_document(group: GroupSummary, *, kind: str = DECODE) -> Document:
    """Return a group; every number with mean, n, boots, min, max, sd and CV. The rate of whole runs has a name of its own."""
    numbers = {_named(name, kind=kind): spread_document(spread) for name, spread in group.numbers.items()}
    counts = {"cells": group.cells, "conditions_pooled": group.conditions, "windows_flagged": group.flagged}
    times = {
        name: None if at is None else at.isoformat() for name, at in (("first", group.first), ("last", group.last))
    }
    keys = {name: _told(name, value) for name, value in group.keys.items()}
    of = {"kind": WHOLE_RUN} if kind == WHOLE_RUN else {}
    return {**keys, **of, **numbers, **counts, **times, "simulated": group.simulated}


def group_fields(by: Sequence[str], *, kind: str = DECODE) -> tuple[str, ...]:
    """Return the columns of the CSV of groups: paths into `group_document`."""
    numbers = (f"{_named(name, kind=kind)}.{part}" for name in NUMBERS for part in SPREAD_PARTS)
    return (*by, *numbers, "cells", "conditions_pooled", "windows_flagged", "first", "last", "simulated")


def _named(name: str, *, kind: str) -> str:
    return RATE if kind == WHOLE_RUN and name == "decode_rate" else NAMED.get(name, name)


def groups_table(groups: Sequence[GroupSummary], *, by: Sequence[str], title: str, kind: str = DECODE) -> Table:
    """Return the table of groups in the order given.

    Units:
        tokens / second; milliseconds.
    """
    rates = [spread for group in groups if (spread := group.numbers["decode_rate"]) is not None]
    digits = text.decimals(spread.mean for spread in rates)
    whole = kind == WHOLE_RUN
    times = _TIMES_WHOLE if whole else _TIMES

    def row_of(group: GroupSummary) -> Row:
        rate = group.numbers["decode_rate"]
        values = (
            *(_said(key, group.keys[key]) for key in by),
            text.number(rate.mean if rate else None, digits=digits),
            text.runs(rate),
            text.boots(rate),
            text.value_range(rate, digits=digits),
            text.cv(rate),
            text.with_range(group.numbers["acceptance_length"], digits=2, of=rate),
            *(text.with_range(group.numbers[name], digits=1, factor=1000.0, of=rate) for name in times),
            str(group.cells),
            str(group.conditions),
            str(group.flagged or ""),
        )
        return Row(values, mark="flagged" if rate is None else "single" if rate.runs == 1 else "")

    columns = (
        *(Column(key, right=False) for key in by),
        Column("rate over the run" if whole else "decode rate", "tokens/s"),
        Column("n"),
        Column("boots"),
        Column("range", "tokens/s"),
        Column("CV"),
        Column("acceptance length"),
        *(Column(heading, "ms") for heading in times.values()),
        Column("cells"),
        Column("conditions"),
        Column("flagged"),
    )
    mixed = any(group.cells > 1 or group.conditions > 1 for group in groups)
    rows = tuple(row_of(group) for group in groups)
    simulated = any(group.simulated for group in groups)
    notes = (*((WHOLE_RUN_NOTE,) if whole else ()), *((MIXED,) if mixed else ()))
    return Table(title, columns, (Group("", rows),), notes=notes, simulated=simulated)


def _said(key: str, value: Any) -> str:
    if _told(key, value) is None:
        return text.ABSENT if value is None else text.temperature(UNKNOWN_TEMPERATURE)
    return text.printable(str(value))


def _told(key: str, value: Any) -> Any:
    """Return a key's value; None for the mark of a temperature that nobody told."""
    return None if key == "temperature" and value == float(UNKNOWN_TEMPERATURE) else value

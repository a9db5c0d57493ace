"""Cells as documents for programs, and as rows of CSV: the one is a tree, the other is made without it, for long lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from nightsweep.analysis.documents import (
    SPREAD_PARTS,
    Document,
    flat,
    source_of,
    spread_document,
    spread_parts,
)
from nightsweep.analysis.text import temperature_or_none
from nightsweep.analysis.values import CellSummary

_NUMBERS = {
    "decode_rate_tokens_per_second": "decode_rate",
    "decode_rate_per_stream_tokens_per_second": "per_stream",
    "acceptance_length": "acceptance_length",
    "acceptance_rate": "acceptance_rate",
    "step_time_seconds": "step_time",
    "tokens_per_step_and_stream": "tokens_per_step_and_stream",
    "occupancy": "occupancy",
    "streams_per_step": "streams_per_step",
    "ttft_p50_seconds": "ttft_p50",
    "tpot_p50_seconds": "tpot_p50",
}
"""A cell's numbers: as they are told, and the attribute that holds them."""
_BEFORE: dict[str, Callable[[CellSummary], Any]] = {
    "config": attrgetter("config"),
    "config_fingerprint": attrgetter("config_fingerprint"),
    "concurrency": attrgetter("concurrency"),
    "temperature": lambda cell: temperature_or_none(cell.temperature),
}
_AFTER: dict[str, Callable[[CellSummary], Any]] = {
    "windows_flagged": attrgetter("flagged"),
    "flags": lambda cell: dict(cell.flag_counts),
    "engine_versions": lambda cell: list(cell.engine_versions),
    "not_applied": lambda cell: list(cell.not_applied),
    "notes": lambda cell: list(cell.notes),
    "conditions": attrgetter("conditions"),
    "box": attrgetter("box"),
    "simulated": attrgetter("simulated"),
    "source": lambda cell: source_of(cell.source),
    "runs": lambda cell: 0 if cell.decode_rate is None else cell.decode_rate.runs,
}

CELL_FIELDS: tuple[str, ...] = (*_BEFORE, *(f"{name}.{part}" for name in _NUMBERS for part in SPREAD_PARTS), *_AFTER)
"""Columns of the CSV of cells: dotted paths into `cell_document`."""


def cell_document(cell: CellSummary) -> Document:
    """Return a cell; every number with mean, n, boots, min, max, sd and CV (a ratio).

    `n` counts stored rows, `runs` the runs that stand behind the rate: more where an imported row is a mean of several, null
    where its file does not say how many.
    """
    return {
        **{name: of(cell) for name, of in _BEFORE.items()},
        **{name: spread_document(getattr(cell, attribute)) for name, attribute in _NUMBERS.items()},
        **{name: of(cell) for name, of in _AFTER.items()},
    }


def single_batch_document(cell: CellSummary) -> Document:
    """Return a single-batch cell: as a cell, with the rate as SGLang's report states it."""
    return {
        **cell_document(cell),
        "kind": "single_batch",
        "report_rate_tokens_per_second": spread_document(cell.report_rate),
    }


def cell_rows(cells: Iterable[CellSummary], fields: Sequence[str]) -> list[Sequence[Any]]:
    """Return rows for `csv.writer`: what `flat_rows` makes of the cells' documents, of paths among `CELL_FIELDS`."""
    numbers, absent = attrgetter(*_NUMBERS.values()), (None,) * len(SPREAD_PARTS)
    rows: list[Sequence[Any]] = []
    for cell in cells:
        row: list[Any] = [flat(of(cell)) for of in _BEFORE.values()]
        for spread in numbers(cell):
            row += absent if spread is None else spread_parts(spread)
        row += [flat(of(cell)) for of in _AFTER.values()]
        rows.append(row)
    if tuple(fields) == CELL_FIELDS:
        return rows
    places = [CELL_FIELDS.index(path) for path in fields]
    return [[row[place] for place in places] for row in rows]

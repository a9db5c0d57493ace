"""Whole runs: rates that another client took over all of its time, apart from decode rates and under a name of their own."""

from __future__ import annotations

from collections.abc import Sequence

from nightsweep.analysis import text
from nightsweep.analysis.cell_documents import CELL_FIELDS, cell_document
from nightsweep.analysis.documents import Document, spread_document
from nightsweep.analysis.leading import cell_notes
from nightsweep.analysis.tables import (
    Column,
    Row,
    Table,
    applied_notes,
    cell_mark,
    condition_said,
    flagged_words,
    grouped,
    names_apart,
    needs_conditions,
)
from nightsweep.analysis.values import CellSummary
from nightsweep.plan.words import MEASURED, WHOLE_RUN

WHOLE_RUN_NOTE = "all output tokens by the whole time of a client's run, with ramp, prefill and tail: no decode rate"
RATE = "whole_run_rate_tokens_per_second"
_DECODE = ("decode_rate_tokens_per_second", "decode_rate_per_stream_tokens_per_second")
_FIRST = 4
WHOLE_RUN_FIELDS: tuple[str, ...] = (
    *CELL_FIELDS[:_FIRST],
    *(f"{RATE}.{part}" for part in ("mean", "n", "boots", "min", "max", "sd", "cv")),
    *(field for field in CELL_FIELDS[_FIRST:] if field.split(".")[0] not in _DECODE),
)
"""Columns of the CSV of whole runs: dotted paths into `whole_run_document`."""


def _columns(*, boots: bool, apart: bool) -> tuple[Column, ...]:
    return (
        Column("streams"),
        Column("T"),
        Column("rate over the run", "tokens/s"),
        Column("n"),
        *((Column("boots"),) if boots else ()),
        Column("range", "tokens/s"),
        Column("CV"),
        Column("acceptance length"),
        Column("TTFT p50", "ms"),
        Column("TPOT p50", "ms"),
        Column("flagged", right=False),
        Column("source", right=False),
        *((Column("conditions", right=False),) if apart else ()),
    )


def whole_run_document(cell: CellSummary) -> Document:
    """Return a cell of whole runs: as a cell, with its rate under a name of its own."""
    document = {key: value for key, value in cell_document(cell).items() if key not in _DECODE}
    return {**document, "kind": WHOLE_RUN, RATE: spread_document(cell.decode_rate)}


def whole_runs_table(summaries: Sequence[CellSummary], *, title: str) -> Table:
    """Return the table of whole runs, as other clients measured them.

    Units:
        tokens / second; milliseconds.
    """
    digits = text.decimals(cell.decode_rate.mean for cell in summaries if cell.decode_rate is not None)
    apart = needs_conditions(summaries)
    boots = text.several_boots(cell.decode_rate for cell in summaries)
    names = names_apart((cell.config, cell.config_fingerprint) for cell in summaries)

    def row_of(cell: CellSummary) -> Row:
        return Row(
            (
                str(cell.concurrency),
                text.temperature(cell.temperature),
                text.number(cell.decode_rate.mean if cell.decode_rate else None, digits=digits),
                text.runs(cell.decode_rate),
                *((text.boots(cell.decode_rate),) if boots else ()),
                text.value_range(cell.decode_rate, digits=digits),
                text.cv(cell.decode_rate),
                text.with_range(cell.acceptance_length, digits=2, of=cell.decode_rate),
                text.with_range(cell.ttft_p50, digits=0, factor=1000.0, of=cell.decode_rate),
                text.with_range(cell.tpot_p50, digits=1, factor=1000.0, of=cell.decode_rate),
                flagged_words(cell.flagged, cell.flags),
                cell.source or MEASURED,
                *((condition_said(cell, several_boxes=apart == "box"),) if apart else ()),
            ),
            mark=cell_mark(cell),
        )

    return Table(
        title=title,
        label="config",
        columns=_columns(boots=boots, apart=bool(apart)),
        groups=grouped(summaries, heading=lambda cell: names[cell.config_fingerprint], row_of=row_of),
        notes=(WHOLE_RUN_NOTE, *cell_notes(summaries), *applied_notes(summaries)),
    )

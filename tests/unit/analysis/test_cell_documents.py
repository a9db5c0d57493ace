"""Cells as rows of CSV, made without a document each: what the documents make of them, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest

from nightsweep.analysis.cell_documents import CELL_FIELDS, cell_document, cell_rows
from nightsweep.analysis.documents import flat_rows
from nightsweep.analysis.values import CellSummary, Spread

LONE = Spread(1, 1, 40.5, 40.5, 40.5, None)
THREE = Spread(3, 2, 41.25, 40.5, 42.0, 0.75, stated=5)
CELL = CellSummary(
    config="k=5",
    config_fingerprint="f" * 64,
    concurrency=4,
    temperature=Decimal("0.70"),
    conditions="c" * 64,
    box="spark-1",
    simulated=False,
    decode_rate=THREE,
    acceptance_length=LONE,
    step_time=Spread(2, 2, 0.0, 0.0, 0.0, 0.0),
    tokens_per_step_and_stream=None,
    ttft_p50=None,
    tpot_p50=THREE,
    flagged=0,
)
TOLD = CELL._replace(
    decode_rate=None,
    flagged=3,
    flags=("foreign_load", "preempted"),
    flag_counts={"foreign_load": 2, "preempted": 1},
    engine_versions=("0.27.1", "0.28.0"),
    not_applied=("max-num-seqs",),
    notes=('a "note", with all', "and\nmore"),
    simulated=True,
    source="imported:csv",
    occupancy=LONE,
)


@pytest.mark.parametrize(
    "fields",
    [
        CELL_FIELDS,
        ("runs", "decode_rate_tokens_per_second.cv", "config"),
        CELL_FIELDS[:1],
        tuple(reversed(CELL_FIELDS)),
    ],
    ids=["all", "some", "one", "turned"],
)
def test_rows_are_what_the_documents_make(fields: Sequence[str]) -> None:
    cells = [CELL, TOLD, CELL._replace(temperature=Decimal(1))]
    _, wanted = flat_rows(map(cell_document, cells), fields=fields)
    found = cell_rows(cells, fields)
    assert [["" if value is None else value for value in row] for row in found] == wanted


def test_every_field_names_something_of_a_document() -> None:
    document = cell_document(CELL)
    assert list(dict.fromkeys(path.partition(".")[0] for path in CELL_FIELDS)) == list(document)
    assert len(CELL_FIELDS) == len(set(CELL_FIELDS)) == 84

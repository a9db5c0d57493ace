"""Which config is ahead where, and where a lone run is: what one run seems to decide is measured again before it does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from nightsweep.analysis import text
from nightsweep.analysis.values import CellSummary

ONE_RUN_NOTE = "n=1: one run is not a measurement"


def leads(cells: Sequence[CellSummary]) -> tuple[tuple[CellSummary, CellSummary | None], ...]:
    """Return, for each concurrency, temperature, box and source, the cell of the highest mean and that of the next config.

    A cell of a config that was not applied as asked takes no part.
    """
    columns: defaultdict[tuple[int, Decimal, str, str | None], list[CellSummary]] = defaultdict(list)
    for cell in cells:
        if cell.decode_rate is not None and not cell.not_applied:
            columns[(cell.concurrency, cell.temperature, cell.box, cell.source)].append(cell)
    found = []
    for measured in columns.values():
        ranked = sorted(measured, key=lambda cell: -(cell.decode_rate.mean if cell.decode_rate else 0.0))
        others = [cell for cell in ranked if cell.config_fingerprint != ranked[0].config_fingerprint]
        found.append((ranked[0], others[0] if others else None))
    return tuple(found)


def lone_leads(cells: Sequence[CellSummary]) -> list[CellSummary]:
    """Return the cells that are ahead of another config's by one run."""
    return [first for first, second in leads(cells) if second is not None and first.single]


def cell_notes(summaries: Sequence[CellSummary], *, ruled: bool = False) -> tuple[str, ...]:
    """Return how many cells are of one run, have no number, or flagged windows. For `ruled` see `tables.cells_table`."""
    singles = sum(cell.single for cell in summaries)
    empty = sum(cell.decode_rate is None for cell in summaries)
    flagged = sum(cell.flagged for cell in summaries)
    notes = []
    if singles:
        notes.append(f"{ONE_RUN_NOTE} ({text.plural(singles, 'cell')})")
    notes += [
        f"a lone run is ahead, measure it again before it decides anything: {text.number(lone.decode_rate.mean, digits=1)} "
        f"({text.printable(lone.config)} at {text.plural(lone.concurrency, 'stream')}, T={text.temperature(lone.temperature)})"
        for lone in (() if ruled else lone_leads(summaries))
        if lone.decode_rate is not None
    ]
    if empty:
        notes.append(f"{text.plural(empty, 'cell')} without a clean window: no number")
    if flagged:
        verb = "is" if flagged == 1 else "are"
        notes.append(f"{text.plural(flagged, 'flagged window')} {verb} stored and left out of every mean")
    return tuple(notes)

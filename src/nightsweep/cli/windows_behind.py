"""The windows behind a line of `cells`: by config and place, as the line has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from nightsweep.analysis import text
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli import places
from nightsweep.cli.documents import raise_for_kind
from nightsweep.cli.reading import Queries, find_sweep_id
from nightsweep.plan.words import DECODE, SINGLE_BATCH, WHOLE_RUN

SHOWN = 200
"""Windows from which no older sweep is shown any more."""
KINDS = (DECODE, SINGLE_BATCH, WHOLE_RUN)


def windows_behind(
    queries: Queries, config: str, *, at: Sequence[places.Place], sweep: str | None
) -> tuple[list[tuple[str, list[WindowRow]]], int]:
    """Return (title, windows) of each sweep that measured the config there, newest first, and how many windows are left out.

    Flagged windows and those of controls are among them: `cells` leaves them out, and this is where one looks for them.

    Raises:
        NotFound: There is none.
    """
    asked = Filters(sweep=None if sweep is None else find_sweep_id(queries, sweep), with_flagged="yes")
    wanted = places.narrowed(asked, at, config=config)
    rows = [row for kind in KINDS for row in queries.windows(replace(wanted, kind=kind)) if places.wanted(row, at)]
    if not rows:
        raise_for_kind(queries, wanted, of=f"config {config!r} as asked", options=False)
    rows.sort(key=lambda row: (-row.sweep_id, row.temperature, row.concurrency, row.kind, row.repeat, row.attempt))
    found: list[tuple[str, list[WindowRow]]] = []
    left = 0
    for sweep_id, group in groupby(rows, key=lambda row: row.sweep_id):
        mine = list(group)
        if sum(len(windows) for _, windows in found) >= SHOWN:
            left += len(mine)
        else:
            found.append((f"Windows of sweep {text.printable(mine[0].sweep_name)} ({sweep_id})", mine))
    return found, left

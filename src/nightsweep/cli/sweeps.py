"""`nightsweep sweeps`: what was swept, and how far it got."""

from __future__ import annotations

from pathlib import Path

import click

from nightsweep.analysis import documents, listings, records
from nightsweep.analysis.values import SweepRow
from nightsweep.cli import filters, render, shaping
from nightsweep.cli.reading import access

NEWEST = 50
"""Sweeps that are listed unless told."""


@click.command("sweeps")
@filters.filter_options(cells=False, without=("--config", "--where", "--image"))
@click.option(
    "--state", metavar="STATE", help="Only such: planned, running, done, partial, failed, cancelled, paused ..."
)
@shaping.shape_options
@render.output_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    state: str | None,
    columns: tuple[str, ...],
    sort: tuple[str, ...],
    limit: int | None,
    parquet: Path | None,
    form: str,
) -> None:
    """List sweeps, newest first: state, repeats done of those planned, flagged windows, failed boots.

    \b
    Example:
      nightsweep sweeps --since 30d --state partial
      nightsweep sweeps --sort -windows_flagged --columns sweep_id,name,windows_flagged,repeats_clean
    """
    shape = shaping.Shape(columns, sort, limit, parquet)
    with access(ctx).queries() as queries:
        most = 10**9 if sort or state else limit or NEWEST
        rows = queries.sweeps(limit=most, filters=filters.asked(ctx, queries))
    rows = [row for row in rows if state in (None, row.state)]
    rows = shape.arranged(rows, record=_record)[: limit or NEWEST]
    title = f"Sweeps {filters.described(ctx)}".rstrip()
    listing = shaping.Listing(
        "sweeps",
        [documents.sweep_document(row) for row in rows],
        documents.SWEEP_FIELDS,
        title,
        simulated=any(row.simulated for row in rows),
    )
    asked = " ".join(part for part in (filters.described(ctx), f"--state {state}" if state else "") if part)
    table = listings.sweeps_table(rows, title=title)
    shaping.show(listing, shape, form=form, asked=asked, table=lambda: render.show(table))


def _record(row: SweepRow) -> records.Record:
    return records.record_of(documents.sweep_document(row), documents.SWEEP_FIELDS)

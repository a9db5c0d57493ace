"""`nightsweep boots`: cold start, weights, KV cache tokens, failures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nightsweep.analysis import documents, records, text
from nightsweep.analysis.values import BootRow
from nightsweep.cli import filters, render, shaping
from nightsweep.cli.outputs import echo
from nightsweep.cli.reading import access
from nightsweep.engine.values import LogLine
from nightsweep.errors import NotFound


def print_log(lines: Sequence[LogLine], *, boot: int) -> None:
    """Print the lines as they came; on a terminal without the escapes that could steer it."""
    if not lines:
        raise NotFound(what=f"log of boot {boot}", hint="`nightsweep boots` lists the boots")
    guarded = sys.stdout.isatty()
    for line in lines:
        echo(text.printable(line.text) if guarded else line.text)


@click.command("boots")
@filters.filter_options(cells=False)
@click.option("--failed", is_flag=True, help="Only boots that failed.")
@click.option(
    "--log",
    "log_of",
    type=click.IntRange(min=1, max=2**63 - 1),
    metavar="BOOT",
    help="Print the whole log of this boot instead.",
)
@shaping.shape_options
@render.output_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    failed: bool,
    log_of: int | None,
    columns: tuple[str, ...],
    sort: tuple[str, ...],
    limit: int | None,
    parquet: Path | None,
    form: str,
) -> None:
    """List boots: cold start, weights, KV cache tokens, failures with deciding line and remedy.

    \b
    Example:
      nightsweep boots --sweep dflash2-depth --failed
      nightsweep boots --log 17
      nightsweep boots --columns config,cold_start_seconds,engine_version --sort -cold_start_seconds --limit 10
    """
    shape = shaping.Shape(columns, sort, limit, parquet)
    with access(ctx).queries() as queries:
        if log_of is not None:
            print_log(queries.boot_log(log_of), boot=log_of)
            return
        in_order = not sort and not failed  # what is chosen or sorted here must be read whole
        rows = queries.boots(filters.asked(ctx, queries), limit=limit if in_order else None)
    rows = shape.arranged([row for row in rows if row.state == "failed" or not failed], record=_record)
    title = f"Boots {filters.described(ctx)}".rstrip()
    listing = shaping.Listing(
        "boots",
        [documents.boot_document(row) for row in rows],
        documents.BOOT_FIELDS,
        title,
        simulated=any(row.simulated for row in rows),
    )
    asked = " ".join(part for part in (filters.described(ctx), "--failed" if failed else "") if part)
    shaping.show(listing, shape, form=form, asked=asked, table=lambda: render.print_boots(rows, title=title))


def _record(row: BootRow) -> records.Record:
    return records.record_of(documents.boot_document(row), documents.BOOT_FIELDS)

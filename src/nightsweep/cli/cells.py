"""`nightsweep cells`: measured cells with run count, range and conditions."""

from __future__ import annotations

from dataclasses import replace

import click

from nightsweep.analysis import documents, listings, tables
from nightsweep.analysis.summary import summarise, summarise_prefills
from nightsweep.cli import filters, render
from nightsweep.cli.reading import access
from nightsweep.plan.model import SINGLE_BATCH


@click.command("cells")
@filters.filter_options(cells=True)
@click.option("--flagged", is_flag=True, help="List the flagged windows too, with the reason of each flag.")
@render.output_options
@click.pass_context
def command(ctx: click.Context, *, flagged: bool, form: str) -> None:
    """List measured cells: mean, run count, range and conditions.

    Only clean windows of equal conditions are pooled. A cell whose windows are all flagged is listed without a number.

    \b
    Example:
      nightsweep cells --sweep dflash2-depth --where num_speculative_tokens>=5 --concurrency 1,8
    """
    with access(ctx).queries() as queries:
        wanted = filters.asked(ctx, queries)
        windows = queries.windows(wanted)
        prefills = queries.prefills(wanted) if form == "json" else ()
        single = queries.windows(replace(wanted, kind=SINGLE_BATCH)) if form != "csv" else ()
    cells, alone = summarise(windows), summarise(single)
    left_out = [row for row in (*windows, *single) if row.flags]
    if form == "json":
        document: documents.Document = {
            "cells": [documents.cell_document(cell) for cell in cells],
            "single_batches": [documents.single_batch_document(cell) for cell in alone],
            "prefills": [documents.prefill_document(prefill) for prefill in summarise_prefills(prefills)],
        }
        if flagged:
            document["flagged_windows"] = [documents.window_document(row) for row in left_out]
        render.print_json(document)
    elif form == "csv":
        render.print_csv(map(documents.cell_document, cells), fields=documents.CELL_FIELDS)
    elif not cells and not alone:
        render.write([render.Line(f"no cells match {filters.described(ctx)}".rstrip())])
    else:
        if cells:
            render.print_cells(cells, title=f"Cells {filters.described(ctx)}".rstrip())
        if alone:
            render.write([render.Line("")] if cells else [])
            render.show(tables.single_batch_table(alone, title=f"Single batch {filters.described(ctx)}".rstrip()))
        if flagged and left_out:
            render.write([render.Line("")])
            render.show(listings.flagged_table(left_out, title="Flagged windows"))

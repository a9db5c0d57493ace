"""`nightsweep cells`: measured cells with run count, range and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nightsweep.analysis import documents, grouping, listings, records, tables, whole_runs
from nightsweep.analysis.cell_documents import CELL_FIELDS, cell_document, cell_rows, single_batch_document
from nightsweep.analysis.summary import summarise_prefills
from nightsweep.analysis.values import CellSummary, Filters, PrefillRow
from nightsweep.cli import filters, render, shaping
from nightsweep.cli.reading import Queries, access
from nightsweep.plan.words import SINGLE_BATCH, WHOLE_RUN

if TYPE_CHECKING:
    from nightsweep.analysis.pooled_shown import Beside


@click.command("cells")
@filters.filter_options(cells=True)
@click.option(
    "--flagged",
    is_flag=True,
    help="List prefills, and what is flagged with the reason: windows, single-batch runs, prefills.",
)
@click.option("--pooled", is_flag=True, help="Show rates by pooled acceptance beside the plain means, with their test.")
@click.option(
    "--group-by",
    metavar="KEY,KEY",
    help="Pool windows by these: config, method, box, concurrency, temperature, sweep, boot, night, engine_version, "
    "conditions, or any key of the config (image, args.max-num-seqs, num_speculative_tokens).",
)
@click.option("--whole-runs", is_flag=True, help="List only imported rates over whole runs, which are no decode rates.")
@shaping.shape_options
@render.output_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    flagged: bool,
    pooled: bool,
    group_by: str | None,
    whole_runs: bool,
    columns: tuple[str, ...],
    sort: tuple[str, ...],
    limit: int | None,
    parquet: Path | None,
    form: str,
) -> None:
    """List measured cells: mean, run count, boots, range, CV and conditions.

    Only clean windows of equal conditions are pooled. A cell whose windows are all flagged is listed without a number.

    \b
    Example:
      nightsweep cells --sweep dflash2-depth --where num_speculative_tokens>=5 --concurrency 1,8
      nightsweep cells --where speculative.method=dflash --image '*0.28*' --since 30d --sort -decode_rate --limit 20
      nightsweep cells --group-by method,concurrency --columns method,concurrency,decode_rate,n,boots,cv
    """
    shape = shaping.Shape(columns, sort, limit, parquet)
    other = "--group-by" if group_by is not None else "--whole-runs" if whole_runs else None
    beside = "--pooled" if pooled else "--flagged" if flagged else None
    if other is not None and beside is not None:
        raise click.UsageError(f"{other} and {beside} are two lists: {beside} is of cells. Ask for one of them")
    one_table = "--parquet" if parquet is not None else "--csv" if form == "csv" else "--columns" if columns else None
    if beside is not None and one_table is not None:
        raise click.UsageError(f"{one_table} is one table, of cells: {beside} is told without it, or with --json alone")
    with access(ctx).queries() as queries:
        wanted = filters.asked(ctx, queries)
        if group_by is not None:
            asked = _of_whole_runs(wanted) if whole_runs else wanted
            _show_groups(ctx, queries, asked, by=_keys(group_by), shape=shape, form=form)
            return
        if whole_runs:
            _show_whole_runs(ctx, queries, wanted, shape=shape, form=form)
            return
        rates = _beside(queries, wanted) if pooled else None
        _show_cells(ctx, queries, wanted, flagged=flagged, beside=rates, shape=shape, form=form)


def _of_whole_runs(wanted: Filters) -> Filters:
    """Return the filters of whole runs in groups: all are imported, so none must be left out for it."""
    return replace(wanted, kind=WHOLE_RUN, imported=True if wanted.imported is None else wanted.imported)


def _beside(queries: Queries, wanted: Filters) -> list[Beside]:
    """Return the asked cells' pooled rates: acceptance is pooled over all concurrencies, those that are not asked for, too."""
    from nightsweep.analysis.pooled_shown import pooled_cells
    from nightsweep.cli.documents import family_of

    rows = queries.windows(replace(wanted, concurrency=(), with_flagged="no"))
    found = pooled_cells(rows, family=family_of(queries, rows))
    return [one for one in found if not wanted.concurrency or one[0].concurrency in wanted.concurrency]


def _show_whole_runs(ctx: click.Context, queries: Queries, wanted: Filters, *, shape: shaping.Shape, form: str) -> None:
    def record(cell: CellSummary) -> records.Record:
        return records.record_of(whole_runs.whole_run_document(cell), whole_runs.WHOLE_RUN_FIELDS)

    title = f"Whole runs {filters.described(ctx)}".rstrip()
    cells = shape.arranged(queries.cells(replace(wanted, kind=WHOLE_RUN)), record=record)
    told = [whole_runs.whole_run_document(cell) for cell in cells]
    listing = shaping.Listing("whole_runs", told, whole_runs.WHOLE_RUN_FIELDS, title, simulated=False)
    if shaping.shown(listing, shape, form=form):
        return
    if form == "json":
        render.print_json({"whole_runs": told})
    elif cells:
        render.show(whole_runs.whole_runs_table(cells, title=title))
    else:
        render.write([render.Line(f"no whole runs match {filters.described(ctx)}".rstrip())])


def _show_cells(
    ctx: click.Context,
    queries: Queries,
    wanted: Filters,
    *,
    flagged: bool,
    beside: Sequence[Beside] | None,
    shape: shaping.Shape,
    form: str,
) -> None:
    title = f"Cells {filters.described(ctx)}".rstrip()
    cells = shape.arranged(queries.cells(wanted), record=_record)
    whole = not shape.columns and shape.parquet is None and form != "csv"
    told = form == "json" or shape.parquet is not None or bool(shape.columns and form == "table")
    alone, runs = (queries.cells(replace(wanted, kind=kind)) if whole else () for kind in (SINGLE_BATCH, WHOLE_RUN))
    listing = shaping.Listing(
        "cells",
        [cell_document(cell) for cell in cells] if told else (),
        CELL_FIELDS,
        title,
        simulated=any(cell.simulated for cell in cells),
        rows=partial(cell_rows, cells),
    )
    if shaping.shown(listing, shape, form=form):
        return
    left_out = _left_out(queries, wanted) if flagged else ()
    prefills = queries.prefills(replace(wanted, with_flagged="yes")) if flagged else []
    if form == "json":
        document: documents.Document = {
            "cells": listing.documents,
            "single_batches": [single_batch_document(cell) for cell in alone],
            "whole_runs": [whole_runs.whole_run_document(cell) for cell in runs],
            "prefills": [documents.prefill_document(one) for one in summarise_prefills(queries.prefills(wanted))],
        }
        if flagged:
            document["flagged_windows"] = [documents.window_document(row) for row in left_out]
            document["flagged_prefills"] = [documents.prefill_row_document(row) for row in prefills if row.flags]
        if beside is not None:
            from nightsweep.analysis.pooled_shown import pooled_cell_document

            document["pooled"] = [pooled_cell_document(row, pooled) for row, _, pooled in beside]
        render.print_json(document)
    else:
        _print(cells, alone, runs, left_out, prefills, title=title, described=filters.described(ctx))
        if not cells and not alone and not runs:
            render.write([render.Line(line, style="note") for line in _keys_of_nobody(queries, wanted)])
        if beside:
            from nightsweep.analysis.pooled_shown import pooled_cells_table

            render.write([render.Line("")])
            render.show(pooled_cells_table(beside, title=f"Pooled beside plain {filters.described(ctx)}".rstrip()))


def _print(
    cells: Sequence[CellSummary],
    alone: Sequence[CellSummary],
    runs: Sequence[CellSummary],
    left_out: Sequence[Any],
    prefills: Sequence[PrefillRow],
    *,
    title: str,
    described: str,
) -> None:
    if not cells and not alone and not runs and not prefills:
        render.write([render.Line(f"no cells match {described}".rstrip())])
        return
    if cells:
        render.print_cells(cells, title=title)
    if alone:
        render.write([render.Line("")] if cells else [])
        render.show(tables.single_batch_table(alone, title=f"Single batch {described}".rstrip()))
    if runs:
        render.write([render.Line("")] if cells or alone else [])
        render.show(whole_runs.whole_runs_table(runs, title=f"Whole runs {described}".rstrip()))
    if left_out:
        render.write([render.Line("")])
        render.show(listings.flagged_table(left_out, title="Flagged windows"))
    if prefills:
        render.write([render.Line("")] if cells or alone or runs else [])
        render.show(tables.prefills_table(summarise_prefills(prefills), title=f"Prefill {described}".rstrip()))
    flagged = [row for row in prefills if row.flags]
    if flagged:
        render.write([render.Line("")])
        render.show(listings.prefill_rows_table(flagged, title="Flagged prefills"))


def _keys_of_nobody(queries: Queries, wanted: Filters) -> list[str]:
    """Return a line for each key of the conditions that no config at all has: most likely it is mistyped."""
    asked = dict.fromkeys(key for key, _, value in wanted.where if value is not None)
    absent = [key for key in asked if not queries.configs(Filters(where=((key, "!=", None),)))]
    return [f"no config has the key {key!r}: `nightsweep configs --json` shows which keys there are" for key in absent]


def _left_out(queries: Queries, wanted: Filters) -> list[Any]:
    asked = (replace(wanted, with_flagged="only", kind=kind) for kind in (wanted.kind, SINGLE_BATCH, WHOLE_RUN))
    return [row for one in asked for row in queries.windows(one) if row.flags]


def _show_groups(
    ctx: click.Context, queries: Queries, wanted: Filters, *, by: Sequence[str], shape: shaping.Shape, form: str
) -> None:
    kind, what = wanted.kind, "Whole runs" if wanted.kind == WHOLE_RUN else "Cells"
    fields, title = grouping.group_fields(by, kind=kind), f"{what} by {', '.join(by)} {filters.described(ctx)}".rstrip()

    def record(group: grouping.GroupSummary) -> records.Record:
        return records.record_of(grouping.group_document(group, kind=kind), fields)

    pooled = queries.groups(wanted, by)
    absent = grouping.key_of_nobody(pooled, by)
    if absent is not None:
        raise click.BadParameter(absent, ctx=ctx, param_hint="--group-by")
    groups = shape.arranged(pooled, record=record)
    documented = [grouping.group_document(group, kind=kind) for group in groups]
    simulated = any(group.simulated for group in groups)
    listing = shaping.Listing("groups", documented, fields, title, simulated=simulated)
    if shaping.shown(listing, shape, form=form):
        return
    if form == "json":
        render.print_json({"groups": documented})
    elif not groups:
        render.write([render.Line(f"no {what.lower()} match {filters.described(ctx)}".rstrip())])
    else:
        render.show(grouping.groups_table(groups, by=by, title=title, kind=kind))
    if form == "table" and _leaves_imported_out(queries, wanted, by):
        said = "what was imported is left out: --imported lists it alone, `source` among the keys sets it apart"
        render.write([render.Line(said, style="note")])


def _leaves_imported_out(queries: Queries, wanted: Filters, by: Sequence[str]) -> bool:
    if wanted.imported is not None or {"source", "conditions"} & set(by):
        return False
    return bool(queries.sweeps(limit=1, filters=Filters(sweep=wanted.sweep, imported=True)))


def _record(cell: CellSummary) -> records.Record:
    return records.record_of(cell_document(cell), CELL_FIELDS)


def _keys(words: str) -> tuple[str, ...]:
    keys = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if not keys:
        raise click.BadParameter("names no key", param_hint="--group-by")
    return keys

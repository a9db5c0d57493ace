"""`nightsweep configs`: engine configs by content, with what was measured of them."""

from __future__ import annotations

from pathlib import Path

import click

from nightsweep.analysis import records, wholes
from nightsweep.analysis.whole import ConfigRow
from nightsweep.cli import filters, render, shaping
from nightsweep.cli.reading import access


@click.command("configs")
@filters.filter_options(cells=False)
@shaping.shape_options
@render.output_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    columns: tuple[str, ...],
    sort: tuple[str, ...],
    limit: int | None,
    parquet: Path | None,
    form: str,
) -> None:
    """List engine configs, newest first: one row for one content, however sweeps call it. --json has the whole config.

    \b
    Example:
      nightsweep configs --where method=dflash --where args.max-num-seqs<=16
      nightsweep configs --sort -windows_clean --limit 10
    """
    shape = shaping.Shape(columns, sort, limit, parquet)
    with access(ctx).queries() as queries:
        found = queries.configs(filters.asked(ctx, queries))
    rows = shape.arranged(found, record=_record)
    title = f"Configs {filters.described(ctx)}".rstrip()
    documented = [wholes.config_row_document(row) for row in rows]
    listing = shaping.Listing("configs", documented, wholes.CONFIG_FIELDS, title)
    table = wholes.configs_table(rows, title=title)
    shaping.show(listing, shape, form=form, asked=filters.described(ctx), table=lambda: render.show(table))


def _record(row: ConfigRow) -> records.Record:
    return records.record_of(wholes.config_row_document(row), wholes.CONFIG_FIELDS)

"""`nightsweep expectations`: what was expected of a sweep, beside what was found."""

from __future__ import annotations

import click

from nightsweep.analysis.expected import expected_and_found, expected_document, expected_table
from nightsweep.analysis.values import Filters
from nightsweep.cli import render
from nightsweep.cli.documents import documents_of
from nightsweep.cli.reading import access, find_sweep


@click.command("expectations")
@click.argument("sweep")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, in base units.")
@click.pass_context
def command(ctx: click.Context, *, sweep: str, as_json: bool) -> None:
    """Show what was expected of a sweep's cells, when that was written, and what was found, with run count and interval.

    SWEEP is a name (the newest of that name) or an id. Expectations stand in the sweep file (`expect:`); the bandwidth
    estimate is written by each boot that tells its weights, where the box's memory bandwidth is known.

    \b
    Example:
      nightsweep expectations dflash2-depth
    """
    with access(ctx).queries() as queries:
        found = find_sweep(queries, sweep)
        of_sweep = Filters(sweep=found.sweep_id)
        windows = queries.windows(of_sweep)
        told = expected_and_found(queries.expectations(found.sweep_id), windows, known=documents_of(queries, windows))
    if as_json:
        render.print_json({"sweep": found.sweep_id, "expectations": [expected_document(one) for one in told]})
    elif not told:
        hint = "`expect:` in the sweep file is one way; a box whose memory bandwidth is known is another"
        render.write([render.Line(f"nothing was expected of sweep {found.name}: {hint}")])
    else:
        render.show(expected_table(told, title=f"Expected and found: {found.name}", simulated=found.simulated))

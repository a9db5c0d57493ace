"""`nightsweep report`: a sweep's report as Markdown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from nightsweep import __version__
from nightsweep.analysis.report import report_markdown
from nightsweep.analysis.values import Filters
from nightsweep.cli.reading import access, find_sweep
from nightsweep.plan.words import SINGLE_BATCH
from nightsweep.service.telling import replace_file


@click.command("report")
@click.argument("sweep")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write here, not to stdout."
)
@click.pass_context
def command(ctx: click.Context, *, sweep: str, output: Path | None) -> None:
    """Write a sweep's report as Markdown: what ran, boots, cells with run counts, flagged windows, caveats.

    SWEEP is a name (the newest of that name) or an id.

    \b
    Example:
      nightsweep report dflash2-depth -o dflash2-depth.md
    """
    if output is not None and not output.absolute().parent.is_dir():
        raise click.BadParameter(f"directory {output.absolute().parent} does not exist", ctx=ctx, param_hint="-o")
    with access(ctx).queries() as queries:
        found = find_sweep(queries, sweep)
        of_sweep = Filters(sweep=found.sweep_id, with_flagged="yes")
        report = report_markdown(
            found,
            boots=queries.boots(of_sweep),
            windows=queries.windows(of_sweep),
            prefills=queries.prefills(of_sweep),
            single_batches=queries.windows(replace(of_sweep, kind=SINGLE_BATCH)),
            plan=queries.sweep_plan(found.sweep_id),
            expected=queries.expectations(found.sweep_id),
            software_version=__version__,
        )
    if output is None:
        click.echo(report, nl=False)
    else:
        try:
            replace_file(output, report)
        except OSError as error:
            raise click.FileError(str(output), hint=error.strerror or str(error)) from error
        click.echo(f"wrote {output}", err=True)

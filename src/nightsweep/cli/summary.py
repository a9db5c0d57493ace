"""`nightsweep summary`: what a night brought, as Markdown or as one HTML page."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import click

from nightsweep.analysis import markdown
from nightsweep.analysis.morning import summary_blocks, title_of
from nightsweep.analysis.values import SweepRow
from nightsweep.cli.outputs import output_option, write_output
from nightsweep.cli.reading import Queries, access, find_sweep
from nightsweep.errors import NotFound


@click.command("summary")
@click.argument("sweep", required=False)
@click.option(
    "--night", default="last", metavar="DATE|last", show_default=True, help="The day that the night began on."
)
@click.option(
    "--format", "form", type=click.Choice(["md", "html"]), help="Markdown or HTML; by the name of FILE, else md."
)
@output_option
@click.pass_context
def command(ctx: click.Context, *, sweep: str | None, night: str, form: str | None, output: Path | None) -> None:
    """Write a night's summary: boots, windows, cells, caveats, production, warnings, and when it goes on.

    SWEEP is a name or an id; without it, the sweep that ran last. A night lasts from noon to noon, in the time zone of the
    sweep's schedule. `run` and the service write the same to NIGHTSWEEP_HOME/summaries when a night ends.

    \b
    Example:
      nightsweep summary
      nightsweep summary dflash2-depth --night 2026-11-29 -o night.html
    """
    from nightsweep.analysis.page import page
    from nightsweep.service.telling import night_in

    day = _day(night)
    reach = access(ctx)
    with reach.queries() as queries:
        found = _newest(queries) if sweep is None else find_sweep(queries, sweep)
        if found.source is not None:
            hint = f"it was imported, and ran in no night of ours; `nightsweep report {found.sweep_id}` writes what is stored"
            raise NotFound(what=f"a night of sweep {found.name}", hint=hint)
        told = night_in(queries, found, now=reach.now(), day=day, scheduled=reach.schedules())
    if day is not None and not told.boots_tonight and not any(told.span.holds(event.at) for event in told.events):
        raise NotFound(what=f"a night of {day} of sweep {found.name}", hint="`nightsweep boots` says when it ran")
    blocks = summary_blocks(told)
    chosen = form or ("html" if output is not None and output.suffix in (".html", ".htm") else "md")
    content = page(blocks, title=title_of(told)) if chosen == "html" else markdown.document(blocks)
    write_output(output, content)


def _newest(queries: Queries) -> SweepRow:
    """Return the sweep that ran last (raises NotFound)."""
    rows = [row for row in queries.sweeps(limit=200) if row.started is not None and row.source is None]
    if not rows:
        hint = (
            "nothing was measured under this NIGHTSWEEP_HOME yet: `nightsweep demo` shows a night in two minutes, "
            "`nightsweep run FILE` makes one"
        )
        raise NotFound(what="a sweep that ran", hint=hint)
    return max(rows, key=lambda row: (row.state == "running", row.ended or row.started, row.sweep_id))


def _day(night: str) -> date | None:
    if night == "last":
        return None
    try:
        return date.fromisoformat(night)
    except ValueError:
        raise click.BadParameter(
            f"found {night!r}; give a date such as 2026-11-29, or last", param_hint="--night"
        ) from None

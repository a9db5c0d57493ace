"""`nightsweep resume`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nightsweep import wiring
from nightsweep.cli.outputs import echo
from nightsweep.cli.run import UNTIL_HELP, read_until


@click.command(name="resume")
@click.argument("sweep", required=False)
@click.option("--until", metavar="HH:MM|never", help=UNTIL_HELP)
@click.option("--lift", is_flag=True, help="Only lift its pause: its schedule goes on with it.")
@click.option("--json", "as_json", is_flag=True, help="Print the cells as JSON.")
def command(sweep: str | None, *, until: str | None, lift: bool, as_json: bool) -> None:
    """Go on with a stored SWEEP (id or name; the newest unfinished one by default). The same as `run` with its stored file.

    A sweep that was paused is not paused any more.

    \b
    Example:
      nightsweep resume
      nightsweep resume dflash2-depth
      nightsweep resume dflash2-depth --lift
    """
    from nightsweep.cli.running import run_and_finish
    from nightsweep.errors import NotFound

    until = read_until(until)
    if lift and (until is not None or as_json):
        given = "--json" if until is None else "--until"
        raise click.UsageError(f"--lift starts nothing, and {given} is for a run: leave one of them out")
    chosen = wiring.settings()
    with wiring.open_queries(chosen) as queries:
        if sweep is None:
            unfinished = [row for row in queries.sweeps(limit=100) if row.state != "done"]
            if not unfinished:
                raise NotFound(what="an unfinished sweep", hint="`nightsweep status` lists all sweeps")
            row = max(unfinished, key=lambda found: found.sweep_id)
        else:
            row = queries.sweep_of(sweep)
        if row.source is not None:
            hint = f"it was imported ({row.source}), not planned; write a sweep file of your own to measure its configs"
            raise NotFound(what=f"work left in sweep {row.name!r}", hint=hint)
        text, document = queries.plan_of(row.sweep_id)
    if lift:
        with wiring.open_store(chosen) as store:
            lifted = store.lift_pause(row.sweep_id)
        said = "is not paused any more: its schedule goes on with it" if lifted else f"is not paused: it is {row.state}"
        echo(f"sweep {row.sweep_id} ({row.name}) {said}")
        return
    click.echo(f"going on with sweep {row.sweep_id} ({row.name})", err=True)
    base = None if document.get("base") is None else Path(document["base"])
    sys.exit(run_and_finish(chosen, text, source=row.name, base=base, until=until, as_json=as_json))

"""`nightsweep cancel`."""

from __future__ import annotations

import click

from nightsweep import wiring


@click.command(name="cancel")
@click.argument("sweep")
def command(sweep: str) -> None:
    """Ask a running SWEEP (id or name) to stop after its current window. The engine is stopped, production restored.

    \b
    Example:
      nightsweep cancel dflash2-depth
    """
    chosen = wiring.settings()
    with wiring.open_queries(chosen) as queries:
        row = queries.sweep_of(sweep)
    if row.state != "running":
        click.echo(f"sweep {row.sweep_id} ({row.name}) is not running: it is {row.state}")
        return
    if wiring.is_dead(row.owner):
        click.echo(
            f"sweep {row.sweep_id} ({row.name}) does not run any more, its process was killed: nothing is left to stop; "
            f"`nightsweep resume {row.sweep_id}` goes on with it"
        )
        return
    with wiring.open_store(chosen) as store:
        store.wish_stop(row.sweep_id, wish="finish")
    click.echo(f"sweep {row.sweep_id} ({row.name}) will stop after its current window; `nightsweep status` shows when")

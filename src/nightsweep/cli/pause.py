"""`nightsweep pause`."""

from __future__ import annotations

import sys

import click


@click.command(name="pause")
@click.argument("sweep")
@click.option("--wait", is_flag=True, help="Show what happens until production serves again.")
def command(sweep: str, *, wait: bool) -> None:
    """Pause a SWEEP (id or name): its window is finished, its engine stopped, production restored; no schedule starts it again.

    `nightsweep resume SWEEP` goes on with it, `nightsweep resume SWEEP --lift` lets its schedule do so.

    \b
    Example:
      nightsweep pause dflash2-depth
      nightsweep pause dflash2-depth --wait
    """
    from nightsweep.cli.stopping import ask_to_stop

    sys.exit(ask_to_stop(sweep, wish="pause", wait=wait))

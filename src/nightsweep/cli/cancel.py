"""`nightsweep cancel`."""

from __future__ import annotations

import sys

import click


@click.command(name="cancel")
@click.argument("sweep")
@click.option(
    "--drop", is_flag=True, help="Stop at once: what is measured now is dropped, and measured when it goes on."
)
@click.option("--wait", is_flag=True, help="Show what happens until production serves again.")
def command(sweep: str, *, drop: bool, wait: bool) -> None:
    """Ask a running SWEEP (id or name) to stop after its current window. The engine is stopped, production restored.

    A boot or a warm-up is not waited for; with --drop neither is a window, a prefill or a single-batch run. Noticed within
    two seconds.

    \b
    Example:
      nightsweep cancel dflash2-depth
      nightsweep cancel dflash2-depth --drop --wait
    """
    from nightsweep.cli.stopping import ask_to_stop

    sys.exit(ask_to_stop(sweep, wish="drop" if drop else "finish", wait=wait))

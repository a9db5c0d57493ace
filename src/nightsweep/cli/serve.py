"""`nightsweep serve`."""

from __future__ import annotations

import os

import click

from nightsweep import wiring


@click.command(name="serve")
def command() -> None:
    """Run the service on this box until it is told to stop: database, Prefect server and the sweep flow.

    What is configured is used (NIGHTSWEEP_DATABASE_URL, NIGHTSWEEP_PREFECT_API_URL); what is not is brought up. Start a
    sweep on it with `nightsweep run --on-service FILE` or from Prefect's page.

    \b
    Example:
      nightsweep serve
    """
    import time

    from nightsweep.service.stack import stack
    from nightsweep.sweep.signals import Terminated, raise_on_sigterm

    chosen = wiring.settings()
    raise_on_sigterm()
    with wiring.open_database(chosen):
        pass
    prefect_database = None if chosen.prefect_api_url else wiring.prefect_database_url(chosen)
    environ = {**os.environ, "NIGHTSWEEP_HOME": str(chosen.home)}
    try:
        with stack(
            home=chosen.home,
            box=chosen.box,
            port=chosen.prefect_port,
            database_url=prefect_database,
            api_url=chosen.prefect_api_url,
            environ=environ,
        ) as up:
            click.echo(f"serving box {chosen.box}; Prefect: {up.api.api_url.removesuffix('/api')}")
            while True:
                time.sleep(3600)
    except (KeyboardInterrupt, Terminated):
        click.echo("stopped")

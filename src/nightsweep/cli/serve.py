"""`nightsweep serve`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from nightsweep import wiring
from nightsweep.cli.outputs import echo

if TYPE_CHECKING:
    from nightsweep.service.ghosts import Ghosts
    from nightsweep.service.looking import Looking
    from nightsweep.service.prefect_api import PrefectApi
    from nightsweep.settings import Settings
    from nightsweep.sweep.signals import Calm

CHECK = 1.0
"""Seconds between two looks at what was brought up."""


@click.command(name="serve")
def command() -> None:
    """Run the service on this box until it is told to stop: database, Prefect server, the sweep flow, and schedules.

    What is configured is used (NIGHTSWEEP_DATABASE_URL, NIGHTSWEEP_PREFECT_API_URL); what is not is brought up. It starts
    what `nightsweep schedule` says, and takes sweeps by `nightsweep run --on-service FILE` and from Prefect's page.

    \b
    Example:
      nightsweep serve
    """
    from nightsweep.service.only import only_service
    from nightsweep.sweep.signals import Terminated, raise_on_sigterm
    from nightsweep.tell import log_events

    log_events()
    interrupts = raise_on_sigterm()
    try:
        chosen = _settings()
        with only_service(chosen.home), _database(chosen) as prefect_database:
            _serve(chosen, prefect_database, interrupts)
    except (KeyboardInterrupt, Terminated):
        click.echo("stopped")


def _settings() -> Settings:
    """Return the settings. A service that cannot use them cannot serve, and still brings back what is owed before it ends."""
    from nightsweep.errors import SweepError
    from nightsweep.settings import InvalidSetting

    try:
        return wiring.settings()
    except InvalidSetting:
        from nightsweep.rescue import restore_production

        def say(text: str) -> None:
            click.echo(text, err=True)

        try:
            for result in restore_production(wiring.settings_for_rescue(say), say=say):
                word = "serves" if result.serving else "DOES NOT SERVE"
                say(f"{result.container} {word}: {result.detail}")
        except SweepError as error:
            say(str(error))
        raise


def _serve(chosen: Settings, prefect_database: str | None, interrupts: Calm) -> None:
    import time

    from nightsweep.service.stack import stack
    from nightsweep.sweep.signals import Terminated, ignore_interrupts

    embedded = wiring.cluster(chosen) if chosen.database_url is None else None
    started = wiring.SystemClock().now()  # before a runner of ours can take anything
    with (
        stack(
            home=chosen.home,
            box=chosen.box,
            port=chosen.prefect_port,
            database_url=prefect_database,
            api_url=chosen.prefect_api_url,
            environ={**os.environ, "NIGHTSWEEP_HOME": str(chosen.home)},
            say=lambda text: click.echo(text, err=True),
        ) as up,
        _schedules(chosen, up.api, started=started) as looks,
    ):
        echo(f"serving box {chosen.box}; Prefect: {up.api.api_url.removesuffix('/api')}")
        try:
            while True:
                interrupts.again()
                if embedded is not None:
                    embedded.ensure()  # Prefect's server is in it as well, and starts none
                up.check()
                for look in looks:
                    look()
                time.sleep(CHECK)
        except (KeyboardInterrupt, Terminated):
            ignore_interrupts()
            click.echo("stopping: a sweep that runs ends its engine and brings production back")


@contextlib.contextmanager
def _schedules(chosen: Settings, api: PrefectApi, *, started: datetime) -> Iterator[tuple[Looking, Ghosts]]:
    """Yield what looks for schedules that are due, and starts them; and for runs that an earlier service left behind."""
    from nightsweep.service.dispatch import Dispatcher, PrefectRuns
    from nightsweep.service.ghosts import Ghosts
    from nightsweep.service.looking import Looking

    clock = wiring.SystemClock()
    with wiring.open_schedules(chosen) as records:
        runs = PrefectRuns(api, box=chosen.box)
        dispatcher = Dispatcher(box=chosen.box, records=records, runs=runs, started=started, say=click.echo)
        ghosts = Ghosts(
            api, box=chosen.box, carried_by=records.carried_by, started=started, clock=clock, say=click.echo
        )
        yield Looking(dispatcher, clock=clock, say=lambda text: click.echo(text, err=True)), ghosts


@contextlib.contextmanager
def _database(chosen: Settings) -> Iterator[str | None]:
    """Have the database at the newest schema for the block; yield the URL of Prefect's own, None when it has another.

    An embedded server that was not running before is stopped afterwards: a service leaves nothing behind.
    """
    started_here = chosen.database_url is None and not wiring.cluster(chosen).alive()
    try:
        with wiring.open_store(chosen):  # what a killed sweep left in the spool is stored first
            pass
        yield None if chosen.prefect_api_url else wiring.prefect_database_url(chosen)
    finally:
        if started_here:
            wiring.cluster(chosen).stop()

"""`nightsweep db`: look after the database."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from nightsweep.cli.outputs import echo

if TYPE_CHECKING:
    from nightsweep.settings import Settings

MIB = 1024 * 1024


@click.group(name="db")
def command() -> None:
    """Look after the database: the embedded one, or that of NIGHTSWEEP_DATABASE_URL.

    \b
    Example:
      nightsweep db status
      nightsweep db upgrade
    """


@command.command()
def upgrade() -> None:
    """Bring the database to the newest schema. Every command that stores something does so by itself.

    \b
    Example:
      nightsweep db upgrade
    """
    from nightsweep import wiring
    from nightsweep.store.migrate import current

    with wiring.open_database(wiring.settings()) as engine:
        echo(f"the database is at schema {current(engine)}")


@command.command()
def status() -> None:
    """Show where the database is, whether it runs, its schema and size. Starts nothing.

    \b
    Example:
      nightsweep db status
    """
    from nightsweep import wiring

    chosen = wiring.settings()
    if chosen.database_url is None and not _show_cluster(chosen):
        return
    _show_database(wiring.database_url(chosen))


def _show_cluster(chosen: Settings) -> bool:
    """Show the embedded cluster, and return whether there is more to be seen."""
    from nightsweep import wiring

    cluster = wiring.cluster(chosen)
    alive = cluster.alive()
    echo(f"embedded PostgreSQL, {'running' if alive else 'not running (it is started when it is needed)'}")
    echo(f"  files      {cluster.place.root}")
    if cluster.place.root != cluster.home:
        echo(f"             its user cannot enter {cluster.home}, so that it lies elsewhere")
    return alive


def _show_database(url: str) -> None:
    from nightsweep.store.health import health, shown_url
    from nightsweep.store.postgres import connect

    engine = connect(url)
    try:
        found = health(engine)
    finally:
        engine.dispose()
    newest = (
        "the newest" if found.revision == found.newest else f"this program's is {found.newest}: nightsweep db upgrade"
    )
    echo(f"  database   {shown_url(url)}")
    echo(f"  server     PostgreSQL {found.server_version}")
    echo(f"  schema     {found.revision or 'none yet'} ({newest})")
    echo(f"  size       {found.size / MIB:.1f} MiB")
    for name, count in found.rows.items():
        echo(f"  {name:<10} {count}")


@command.command()
def url() -> None:
    """Print the database's URL, without its password. The embedded database is started when it does not run.

    \b
    Example:
      nightsweep db url
    """
    from nightsweep import wiring
    from nightsweep.store.health import shown_url

    echo(shown_url(wiring.database_url(wiring.settings())))


@command.command()
def stop() -> None:
    """Stop the embedded database. Nothing that is stored is lost; a sweep that runs waits for two minutes.

    \b
    Example:
      nightsweep db stop
    """
    from nightsweep import wiring

    chosen = wiring.settings()
    if chosen.database_url is not None:
        click.echo("NIGHTSWEEP_DATABASE_URL names a server of your own: stop it where it runs")
        return
    cluster = wiring.cluster(chosen)
    running = cluster.alive()
    cluster.stop()
    echo("stopped" if running else "it was not running")


@command.command(name="psql-hint")
def psql_hint() -> None:
    """Print the command that opens psql on the database.

    \b
    Example:
      nightsweep db psql-hint
    """
    import os

    from nightsweep import wiring
    from nightsweep.store.health import shown_url
    from nightsweep.store.pgbin import find_bin

    chosen = wiring.settings()
    if chosen.database_url is not None:
        echo(f"psql {shlex.quote(shown_url(chosen.database_url).replace('+psycopg', '', 1))}")
        return
    wiring.database_url(chosen)
    psql = find_bin(os.environ) / "psql"
    program = str(psql) if psql.exists() else "psql"
    sockets = wiring.cluster(chosen).place.sockets
    echo(shlex.join([program, "-h", str(sockets), "-U", "postgres", wiring.DATABASE]))

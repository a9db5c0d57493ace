"""Bringing a database to the newest schema, and refusing one that is newer than this program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nightsweep.errors import SchemaTooNew, StoreUnavailable
from nightsweep.store.schema import HEAD

if TYPE_CHECKING:
    from alembic.config import Config

LOCK = 0x6E69_6768_7473_7770
"""Key of the advisory lock under which migrations run, one program at a time."""


def migrations_directory() -> Path:
    """Return where the migrations lie: in the installed package, or in the checkout.

    Raises:
        StoreUnavailable: Neither; the installation is broken.
    """
    package = Path(__file__).resolve().parents[1]
    for place in (package / "_migrations", package.parents[1] / "migrations"):
        if (place / "env.py").exists():
            return place
    raise StoreUnavailable(reason=f"no migrations beside {package}: install nightsweep again")


def current(engine: sa.Engine) -> str | None:
    """Return the revision that the database is at; None for one without our tables.

    Raises:
        StoreUnavailable: It cannot be reached.
    """
    try:
        with engine.connect() as connection:
            return _revision(connection)
    except sa.exc.OperationalError as error:
        raise StoreUnavailable(reason=_first_line(error)) from error


def upgrade(engine: sa.Engine) -> None:
    """Bring the database to the newest schema, in one transaction. Idempotent; several programs may call it at once.

    Raises:
        SchemaTooNew: The database was made by a newer version of the product.
        StoreUnavailable: It cannot be reached.
    """
    found = current(engine)
    if found == HEAD:
        return
    try:
        with engine.begin() as connection:
            # Another program may migrate for minutes: wait for it, whatever this connection's usual limits are.
            connection.execute(sa.text("SET LOCAL lock_timeout = 0"))
            connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
            _migrate(connection)
    except sa.exc.OperationalError as error:
        raise StoreUnavailable(reason=_first_line(error)) from error


def _migrate(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = _revision(connection)
    if found is not None and found not in known:
        raise SchemaTooNew(found=found, known=HEAD)
    command.upgrade(config, "head")


def alembic_config(connection: sa.Connection) -> Config:
    """Return Alembic's configuration for this connection; no file, nothing is logged or printed."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _revision(connection: sa.Connection) -> str | None:
    there = connection.scalar(sa.text("SELECT to_regclass('public.alembic_version') IS NOT NULL"))
    if not there:
        return None
    found = connection.scalar(sa.text("SELECT max(version_num) FROM public.alembic_version"))
    return None if found is None else str(found)


def _first_line(error: Exception) -> str:
    """Return an error's first line, which names what failed; SQLAlchemy's further lines hold the statement."""
    return str(getattr(error, "orig", error)).strip().split("\n", 1)[0]

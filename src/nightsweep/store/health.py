"""How a database is: for `nightsweep db status` and the doctor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from nightsweep.errors import StoreUnavailable
from nightsweep.store.migrate import current
from nightsweep.store.schema import HEAD, boots, metadata, sweeps, windows
from nightsweep.store.session import AWAY, first_line
from nightsweep.units import Bytes

COUNTED = (sweeps, boots, windows)


@dataclass(frozen=True)
class DatabaseHealth:
    """What a database says of itself.

    Attributes:
        revision: The schema it is at; None when it has no tables of ours.
        newest: The schema that this program knows.
        size: Of the whole database on disk.
        rows: Exact row counts of the tables that people ask about; empty without our tables.
    """

    server_version: str
    revision: str | None
    newest: str
    size: Bytes
    rows: Mapping[str, int]


def health(engine: sa.Engine) -> DatabaseHealth:
    """Return how the database is (raises StoreUnavailable)."""
    revision = current(engine)
    try:
        with engine.connect() as connection:
            version = connection.scalar(sa.text("SHOW server_version"))
            size = connection.scalar(sa.text("SELECT pg_database_size(current_database())"))
            there = set(sa.inspect(connection).get_table_names()) & set(metadata.tables)
            counts = {
                table.name: int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)
                for table in COUNTED
                if table.name in there
            }
    except AWAY as error:
        raise StoreUnavailable(reason=first_line(error)) from error
    return DatabaseHealth(
        server_version=str(version), revision=revision, newest=HEAD, size=Bytes(int(size or 0)), rows=counts
    )


def shown_url(url: str) -> str:
    """Return a database URL as it may be shown: without its password."""
    return sa.engine.make_url(url).render_as_string(hide_password=True)

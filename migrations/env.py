"""How Alembic reaches the database: over the product's own connection, or over a developer's URL.

`nightsweep.store.migrate` hands a connection in and holds the lock; nothing is logged. A developer runs
`alembic -c migrations/alembic.ini ...` with NIGHTSWEEP_DATABASE_URL set.
"""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context

from nightsweep.store.schema import metadata


def _run(connection: sa.Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


def _run_for_developer() -> None:
    engine = sa.create_engine(os.environ["NIGHTSWEEP_DATABASE_URL"])
    try:
        with engine.begin() as connection:
            _run(connection)
    finally:
        engine.dispose()


if context.is_offline_mode():
    context.configure(dialect_name="postgresql", target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
elif (handed := context.config.attributes.get("connection")) is not None:
    _run(handed)
else:
    _run_for_developer()

"""What the tables' columns are made of."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

NOW = sa.func.clock_timestamp()
"""The moment itself: `now()` is the transaction's start, and stale after waiting for a lock."""


def column(name: str, kind: Any, *rest: Any, nullable: bool = False, **more: Any) -> sa.Column[Any]:
    """Return a column that is never NULL unless told."""
    return sa.Column(name, kind, *rest, nullable=nullable, **more)


def identity() -> sa.Column[Any]:
    """Return the numbered primary key."""
    return sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True)


def to(table: str, *, name: str | None = None, nullable: bool = False, primary_key: bool = False) -> sa.Column[Any]:
    """Return a column that points at another table's row."""
    column = name or {"boxes": "box", "conditions": "conditions"}.get(table, table.removesuffix("s")) + "_id"
    return sa.Column(column, sa.BigInteger, sa.ForeignKey(f"{table}.id"), nullable=nullable, primary_key=primary_key)


def time(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    """Return a point in time, aware of its zone."""
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def born() -> sa.Column[Any]:
    """Return when the row was made, by the database's clock."""
    return sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())


def maybe(name: str, kind: Any) -> sa.Column[Any]:
    """Return a column that may be NULL: absent, never 0."""
    return sa.Column(name, kind, nullable=True)


def document(name: str) -> sa.Column[Any]:
    """Return a JSON object, empty at first."""
    return sa.Column(name, JSONB, nullable=False, server_default=sa.text("'{}'::jsonb"))


def words(name: str) -> sa.Column[Any]:
    """Return a list of texts, empty at first."""
    return sa.Column(name, ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'::text[]"))


def one_of(column: str, values: tuple[str, ...]) -> sa.CheckConstraint:
    """Return the check that a column holds one of these words."""
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)

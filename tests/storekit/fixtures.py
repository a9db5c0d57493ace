"""Fixtures on a real embedded PostgreSQL. A `conftest.py` imports those that it offers; all of a process share one cluster."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import PostgresStore, connect
from nightsweep.store.queries import Queries
from nightsweep.units import Seconds

TEMPLATE = "template_migrated"
PREFIX = "nightsweep-test-pg-"


class _Shared:
    """One cluster per process, however many conftests offer it; stopped and removed with its last user."""

    users = 0
    cluster: EmbeddedPostgres | None = None

    def take(self) -> EmbeddedPostgres:
        if self.cluster is None:
            self.cluster = _made()
        self.users += 1
        return self.cluster

    def leave(self) -> None:
        self.users -= 1
        if self.users == 0 and self.cluster is not None:
            throw_away(self.cluster)
            self.cluster = None


def _made() -> EmbeddedPostgres:
    cluster = EmbeddedPostgres(a_home())
    try:
        cluster.ensure()
        run(cluster, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")  # a test's data may die
        cluster.ensure_database(TEMPLATE)
        engine = connect(cluster.url(TEMPLATE))
        try:
            upgrade(engine)
        finally:
            engine.dispose()
    except BaseException:
        throw_away(cluster)
        raise
    return cluster


_shared = _Shared()


def a_home() -> Path:
    """Return a new directory that the server's user can enter, also when root runs the tests."""
    home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_fastest()))
    home.chmod(0o711)
    return home


def _fastest() -> Path:
    """Return memory where there is plenty: a copy of the template takes 20 ms there, and a third of a second on a disk."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    return memory if roomy else Path(tempfile.gettempdir())


def throw_away(cluster: EmbeddedPostgres) -> None:
    """Stop a test's cluster and remove all its files, and the directory that was made for it."""
    cluster.remove()
    for folder in (cluster.home, *cluster.home.parents):
        if folder.name.startswith(PREFIX):
            shutil.rmtree(folder, ignore_errors=True)


def run(cluster: EmbeddedPostgres, *statements: str, database: str = "postgres") -> None:
    """Execute statements as the superuser, outside of any transaction."""
    url = cluster.url(database).replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def pg_cluster() -> Iterator[EmbeddedPostgres]:
    """Yield the cluster of this test process."""
    cluster = _shared.take()
    try:
        yield cluster
    finally:
        _shared.leave()


@pytest.fixture
def empty_database_url(pg_cluster: EmbeddedPostgres) -> Iterator[str]:
    """Yield the URL of a new database without any table."""
    yield from _database(pg_cluster, template="template1")


@pytest.fixture
def database_url(pg_cluster: EmbeddedPostgres) -> Iterator[str]:
    """Yield the URL of a new database at the newest schema."""
    yield from _database(pg_cluster, template=TEMPLATE)


def _database(cluster: EmbeddedPostgres, *, template: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex[:12]}"
    run(cluster, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield cluster.url(name)
    finally:
        run(cluster, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def engine(database_url: str) -> Iterator[sa.Engine]:
    """Yield connections to a new database at the newest schema."""
    made = connect(database_url)
    try:
        yield made
    finally:
        made.dispose()


@pytest.fixture
def store(engine: sa.Engine) -> PostgresStore:
    """Return a store that does not wait for a server that is away."""
    return PostgresStore(engine, patience=Seconds(0.0))


@pytest.fixture
def queries(engine: sa.Engine) -> Queries:
    """Return the reading side of the same database."""
    return Queries(engine)

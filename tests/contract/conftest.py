"""Fixtures on a real PostgreSQL, for the store's contract."""

from tests.storekit.fixtures import database_url, engine, pg_cluster

__all__ = ["database_url", "engine", "pg_cluster"]

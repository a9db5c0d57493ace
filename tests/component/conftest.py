"""Fixtures on a real PostgreSQL, for every component test."""

from tests.storekit.fixtures import database_url, empty_database_url, engine, pg_cluster, queries, store

__all__ = ["database_url", "empty_database_url", "engine", "pg_cluster", "queries", "store"]

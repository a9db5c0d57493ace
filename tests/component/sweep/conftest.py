"""A bench of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightsweep.store.queries import Queries
from tests.component.sweep.kit import Bench, engines_of


@pytest.fixture
def bench(tmp_path: Path, database_url: str, queries: Queries):  # type: ignore[no-untyped-def]
    """Yield a bench; no engine may live when its test has ended."""
    yield Bench(home=tmp_path, database_url=database_url, queries=queries)
    left = engines_of(tmp_path)
    for engine in left:
        engine.kill()
    assert not left, "the test left an engine running"

"""A home of its own for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from nightsweep.store.embedded import EmbeddedPostgres
from tests.component.service.kit import House
from tests.component.sweep.kit import free_port
from tests.storekit.fixtures import a_home, throw_away


@pytest.fixture
def house() -> Iterator[House]:
    home = a_home()
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTSWEEP_", "PREFECT_"))}
    environ |= {
        "NIGHTSWEEP_HOME": str(home),
        "NIGHTSWEEP_BOX": "bench",
        "NIGHTSWEEP_PREFECT_PORT": str(free_port()),
    }
    try:
        yield House(home=home, environ=environ)
    finally:
        House(home=home, environ=environ).end()
        throw_away(EmbeddedPostgres(home / "postgres"))

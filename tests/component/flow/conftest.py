"""One service for all tests of this folder: Prefect's server alone takes some ten seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.flow.kit import Served, served


@pytest.fixture(scope="package")
def service() -> Iterator[Served]:
    with served() as up:
        yield up

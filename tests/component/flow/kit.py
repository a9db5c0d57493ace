"""A whole service for tests: embedded PostgreSQL, Prefect's server, our flow served; one for a test module."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from nightsweep import wiring
from nightsweep.service.prefect_api import FlowRun, PrefectApi
from nightsweep.service.stack import Stack, stack
from nightsweep.settings import Settings
from nightsweep.store.queries import Queries
from tests.component.sweep.kit import free_port
from tests.storekit.fixtures import a_home, throw_away


@dataclass
class Served:
    """A service that is up."""

    chosen: Settings
    up: Stack
    queries: Queries

    @property
    def api(self) -> PrefectApi:
        return self.up.api

    @property
    def home(self) -> Path:
        return self.chosen.home

    def start(self, text: str, *, name: str) -> FlowRun:
        """Ask Prefect for a run of a sweep file."""
        return self.api.start(self.up.deployment_id, {"file_text": text, "name": name})

    def ended(self, run: FlowRun, *, seconds: float = 90.0) -> FlowRun:
        """Wait until Prefect says that the run has ended."""
        end = time.monotonic() + seconds
        while not (now := self.api.flow_run(run.id)).ended:
            assert time.monotonic() < end, f"{now}; {self.log()}"
            time.sleep(0.2)
        return now

    def ask(self, what: str, **query: Any) -> list[dict[str, Any]]:
        """Return what Prefect's API finds."""
        answer = httpx.post(f"{self.api.api_url}/{what}/filter", json=query, timeout=20.0)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()
        return found

    def log(self) -> str:
        return (self.home / "logs" / "runner.log").read_text()[-3000:]


@contextlib.contextmanager
def served() -> Iterator[Served]:
    """Have a service up for the block; nothing of it is left."""
    home = a_home()
    chosen = Settings(home=home, database_url=None, prefect_api_url=None, box="bench", prefect_port=free_port())
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTSWEEP_", "PREFECT_"))}
    environ |= {"NIGHTSWEEP_HOME": str(home), "NIGHTSWEEP_BOX": "bench"}
    try:
        with (
            wiring.open_queries(chosen) as queries,
            stack(
                home=home,
                box="bench",
                port=chosen.prefect_port,
                database_url=wiring.prefect_database_url(chosen),
                api_url=None,
                environ=environ,
            ) as up,
        ):
            yield Served(chosen=chosen, up=up, queries=queries)
    finally:
        throw_away(wiring.cluster(chosen))

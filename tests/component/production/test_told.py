"""Production in a real container, a sweep that is dropped, and what people hear of it."""

from __future__ import annotations

import time

import httpx
import pytest

from tests import dockerkit
from tests.component.production.conftest import Yard
from tests.component.production.test_on_docker import a_night, wait_serving
from tests.component.service.receiver import receiver
from tests.component.sweep.kit import PLAIN, Bench, running, until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
]
BOUND = 20.0
"""Seconds from the wish to production's proof: 2 to notice, 2 of the engine's grace, and production's own start here."""


def test_a_sweep_that_is_dropped_has_production_serve_before_anybody_is_told(bench: Bench, yard: Yard) -> None:
    production = yard.production()
    url = wait_serving(production)
    file = str(bench.file(a_night(production, PLAIN, window="60s")))
    with receiver() as post:
        environ = {**bench.environ, "NIGHTSWEEP_NOTIFY": post.url()}
        with running("run", file, environ=environ, folder=bench.home) as run:
            until(lambda: any(boot.state == "ready" for boot in bench.boots()), seconds=60)
            assert not yard.running(production)
            began = time.monotonic()
            with bench.command("cancel", "night", "--drop", "--wait") as cancel:
                assert cancel.end(seconds=60) == 0, cancel.said
            assert time.monotonic() - began < BOUND
            assert httpx.get(f"{url}/health", timeout=5.0).status_code == 200
            assert run.end(seconds=30) == 1, run.said
    assert f"{production.name} serves again" in cancel.said
    (heard,) = post.heard
    assert heard["title"].startswith("night: cancelled, 0 of 1 windows")
    assert f"Production {production.name}: serves again since" in heard["message"]
    (row,) = bench.queries.productions(bench.sweep().sweep_id)
    (page,) = (bench.home / "summaries").glob("*.md")
    said = page.read_text()
    assert row.outcome == "restored"
    assert "a token was served" in said
    assert "NOT SERVING" not in said


def test_a_wish_is_heard_while_production_is_waited_for_and_leaves_it_alone(bench: Bench, yard: Yard) -> None:
    production = yard.production()
    wait_serving(production)
    night = a_night(production, PLAIN, idle_for="10m").replace("idle_limit: 2s", "idle_limit: 20m")
    with bench.command("run", str(bench.file(night))) as run:
        until(lambda: bool(bench.queries.sweeps()) and bench.sweep().state == "running", seconds=60)
        began = time.monotonic()
        with bench.command("pause", "night", "--wait") as pause:
            assert pause.end(seconds=60) == 0, pause.said
        assert time.monotonic() - began < BOUND
        run.end(seconds=30)
    assert "paused" in pause.said
    assert bench.boots() == []
    assert yard.running(production)

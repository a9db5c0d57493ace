"""PostgreSQL goes away in a window and the sweep with it: what was measured is on disk, and the next run stores it first.

NIGHTSWEEP_TEST_AWAY sets the seconds of the long outage (3 unless set).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightsweep import wiring
from nightsweep.analysis.values import Event
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import connect
from nightsweep.store.postmaster import postmaster_of
from nightsweep.store.queries import Queries
from tests.component.sweep.kit import PLAIN, Bench, Command, a_file, engines_of, until
from tests.storekit.fixtures import a_home, run, throw_away

AWAY = float(os.environ.get("NIGHTSWEEP_TEST_AWAY", "3"))
SLOW = {"concurrency": [1], "window": "600ms", "repeats": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedPostgres]:
    """Yield a cluster that these tests kill; for the sweep it is a configured one, which nobody starts again for it."""
    made = EmbeddedPostgres(a_home())
    made.ensure()
    yield made
    throw_away(made)


@pytest.fixture
def far(tmp_path: Path, cluster: EmbeddedPostgres) -> Iterator[Bench]:
    """Yield a bench whose database is not the sweep's own to start."""
    cluster.ensure()
    run(cluster, "DROP DATABASE IF EXISTS far WITH (FORCE)")
    cluster.ensure_database("far")
    engine = connect(cluster.url("far"))
    upgrade(engine)
    yield Bench(home=tmp_path, database_url=cluster.url("far"), queries=Queries(engine))
    engine.dispose()
    left = engines_of(tmp_path)
    for process in left:
        process.kill()
    assert not left, "the test left an engine running"


def kill(cluster: EmbeddedPostgres) -> None:
    pid = postmaster_of(cluster.data)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def away_in_a_window(bench: Bench, cluster: EmbeddedPostgres, command: Command) -> None:
    """Kill the server in the second window, and wait until that window lies in the spool."""
    until(lambda: bool(bench.windows()) or command.process.poll() is not None, seconds=40)
    assert command.process.poll() is None, command.said
    time.sleep(0.1)
    kill(cluster)
    until(lambda: "add_window" in methods(bench), seconds=20)


def methods(bench: Bench) -> list[str]:
    spool = wiring.spool(bench.settings)
    return [spool.read(path).method for path in spool.waiting()]


def outages(bench: Bench) -> list[Event]:
    return [event for event in bench.events() if event.level == "error"]


def assert_measured_once(bench: Bench) -> None:
    assert set(bench.clean_counts().values()) == {1}
    assert len(bench.windows()) == SLOW["repeats"], "nothing was measured a second time"
    assert methods(bench) == []
    assert wiring.spool(bench.settings).refused() == ()


def test_a_sweep_that_waits_goes_on_with_the_same_engine_once_the_server_is_back(
    far: Bench, cluster: EmbeddedPostgres
) -> None:
    with far.command("run", str(far.file(a_file(PLAIN, **SLOW)))) as command:
        away_in_a_window(far, cluster, command)
        (engine,) = far.engines()
        time.sleep(AWAY)
        assert engine.is_running()
        cluster.ensure()
        assert command.end(seconds=60) == 0, command.said
        assert "PostgreSQL is away" in command.said
        assert "PostgreSQL answers again" in command.said
    assert_measured_once(far)
    assert [boot.state for boot in far.boots()] == ["stopped"]
    assert outages(far) == []
    texts = [line.text for line in far.queries.boot_log(far.boots()[0].boot_id)]
    assert any("shutdown" in text.lower() for text in texts[-12:]), texts[-12:]


def test_a_run_that_is_killed_while_it_waits_has_its_window_stored_by_the_next_one(
    far: Bench, cluster: EmbeddedPostgres
) -> None:
    file = str(far.file(a_file(PLAIN, **SLOW)))
    with far.command("run", file) as command:
        away_in_a_window(far, cluster, command)
        command.send(signal.SIGKILL)
        command.end()
    with far.command("doctor") as doctor:
        doctor.end()
        assert "for a database that was away" in doctor.said, doctor.said
    cluster.ensure()
    with far.command("run", file) as again:
        assert again.end(seconds=60) == 0, again.said
    assert_measured_once(far)
    first_boot = far.boots()[0].boot_id
    assert [window.boot_id == first_boot for window in far.windows()] == [True, True]


def test_a_run_that_is_told_to_stop_while_it_waits_ends_at_once_and_keeps_its_window(
    far: Bench, cluster: EmbeddedPostgres
) -> None:
    with far.command("run", str(far.file(a_file(PLAIN, **SLOW)))) as command:
        away_in_a_window(far, cluster, command)
        began = time.monotonic()
        command.send(signal.SIGTERM)
        assert command.end(seconds=30) == 3, command.said
        assert time.monotonic() - began < 25
        assert "Traceback" not in command.said
        assert "nightsweep resume" in command.said
    assert far.engines() == []
    cluster.ensure()
    with wiring.open_store(far.settings):
        pass
    assert_measured_once(far)
    assert [boot.state for boot in far.boots()] == ["stopped"]

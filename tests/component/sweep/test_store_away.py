"""PostgreSQL goes away while a sweep runs: it is waited for, started again where it is ours, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

from nightsweep import wiring
from nightsweep.ports import Progress
from nightsweep.settings import Settings
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.postmaster import postmaster_of
from tests.component.sweep.kit import PLAIN, Bench, a_file
from tests.storekit.fixtures import a_home, throw_away


def test_a_server_that_is_away_for_seconds_costs_no_window_and_no_log_line(
    bench: Bench, pg_cluster: EmbeddedPostgres
) -> None:
    away: list[threading.Thread] = []

    def restart() -> None:
        time.sleep(0.6)
        pg_cluster.stop()
        time.sleep(2.0)
        pg_cluster.ensure()

    def hear(progress: Progress) -> None:
        if progress.phase == "ready" and not away:
            away.append(threading.Thread(target=restart))
            away[0].start()

    outcome = bench.play(a_file(PLAIN, concurrency=[1], repeats=3, window="1s"), hear=hear)
    away[0].join()
    assert (outcome.state, outcome.windows_done) == ("done", 3)
    assert [window.flags for window in bench.windows()] == [(), (), ()]
    assert [boot.state for boot in bench.boots()] == ["stopped"]
    texts = [line.text for line in bench.queries.boot_log(bench.boots()[0].boot_id)]
    assert any("Shutting down" in text or "shutdown" in text.lower() for text in texts[-12:]), texts[-12:]


def test_an_embedded_server_that_is_killed_is_started_again_by_the_sweep_itself(tmp_path: Path) -> None:
    home = a_home()
    chosen = Settings(home=home, database_url=None, prefect_api_url=None, box="bench", prefect_port=1)
    killed: list[int] = []

    def hear(progress: Progress) -> None:
        pid = postmaster_of(wiring.cluster(chosen).data)
        if progress.phase == "ready" and not killed and pid is not None:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    try:
        with wiring.open_queries(chosen) as queries:
            bench = _Embedded(home=home, database_url="", queries=queries, chosen=chosen)
            outcome = bench.play(a_file(PLAIN, concurrency=[1], repeats=2), hear=hear)
            assert killed
            assert (outcome.state, outcome.windows_done) == ("done", 2)
            assert len(bench.windows()) == 2
            assert bench.engines() == []
    finally:
        throw_away(wiring.cluster(chosen))


class _Embedded(Bench):
    def __init__(self, *, chosen: Settings, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]
        self._chosen = chosen

    @property
    def settings(self) -> Settings:
        return replace(self._chosen)

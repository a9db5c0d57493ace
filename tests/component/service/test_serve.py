"""`nightsweep serve` as a process: it takes sweeps, and leaves nothing behind, however it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.postmaster import postmaster_of
from tests.component.sweep.kit import PLAIN, Command, a_file, engines_of, free_port, running, until
from tests.storekit.fixtures import a_home, throw_away

pytestmark = pytest.mark.slow


@dataclass
class House:
    """A home of its own, with everything embedded."""

    home: Path
    environ: dict[str, str]

    @contextlib.contextmanager
    def command(self, *words: str) -> Iterator[Command]:
        with running(*words, environ=self.environ, folder=self.home) as command:
            yield command

    def living(self) -> Iterator[psutil.Process]:
        """Yield the processes that live for this home."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = process.environ().get("NIGHTSWEEP_HOME") == str(self.home)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def end(self) -> None:
        """Kill what still lives."""
        for process in (*self.living(), *engines_of(self.home)):
            process.kill()

    def processes(self) -> list[str]:
        """Return the command lines of what lives for this home."""
        found = []
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                found.append(" ".join(process.cmdline()))
        if postmaster_of(EmbeddedPostgres(self.home / "postgres").data) is not None:
            found.append("postgres")
        return found


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


def test_a_service_takes_a_sweep_and_two_sigterms_to_its_whole_group_leave_nothing_behind(house: House) -> None:
    file = house.home / "night.yaml"
    file.write_text(a_file(PLAIN, concurrency=[1]))
    long = house.home / "long.yaml"
    long.write_text(a_file(PLAIN, name="long", concurrency=[1], window="1s", repeats=30))
    with house.command("serve") as service:
        service.wait_for("serving box bench", seconds=90)
        with house.command("run", "--on-service", str(file)) as run:
            assert run.end(seconds=60) == 0, run.said
            assert "Done, 1/1 windows" in run.said
        with house.command("run", "--on-service", str(long)) as run:
            run.wait_for("[3/30]", seconds=60)
            began = time.monotonic()
            for _ in range(2):
                os.killpg(service.process.pid, signal.SIGTERM)
                time.sleep(0.1)
            assert service.end(seconds=60) == 0, service.said
            assert time.monotonic() - began < 60
    assert "Traceback" not in service.said
    until(lambda: house.processes() == [], seconds=5)
    assert engines_of(house.home) == []
    with house.command("status") as status:
        assert status.end() == 0, status.said
        assert "partial" in status.said


def test_a_service_that_is_killed_takes_its_engine_and_its_server_with_it(house: House) -> None:
    long = house.home / "long.yaml"
    long.write_text(a_file(PLAIN, name="long", concurrency=[1], window="1s", repeats=30))
    with house.command("serve") as service:
        service.wait_for("serving box bench", seconds=90)
        with house.command("run", "--on-service", str(long)) as run:
            run.wait_for("[3/30]", seconds=60)
            service.send(signal.SIGKILL)
            service.end()
            until(lambda: engines_of(house.home) == [], seconds=20)
            run.send(signal.SIGINT)
            assert run.end(seconds=20) == 3
            assert "goes on on the service" in run.said
    until(lambda: not any("prefect server" in line for line in house.processes()), seconds=30)
    with house.command("status") as status:
        assert status.end() == 0, status.said
        assert "partial" in status.said
    house.end()  # the runner would go on asking for the server that is gone, for two minutes


def test_a_port_that_is_taken_is_told_before_anything_answers_there(house: House) -> None:
    port = int(house.environ["NIGHTSWEEP_PREFECT_PORT"])
    with socket.create_server(("127.0.0.1", port)), house.command("serve") as service:
        assert service.end(seconds=60) == 1
    assert "NIGHTSWEEP_PREFECT_PORT" in service.said
    assert "Traceback" not in service.said
    assert house.processes() == []


def test_without_a_service_handing_over_says_what_to_do(house: House) -> None:
    file = house.home / "night.yaml"
    file.write_text(a_file(PLAIN))
    with house.command("run", "--on-service", str(file)) as run:
        assert run.end() == 1
    assert "`nightsweep serve`" in run.said

"""`nightsweep serve` as a process: it takes sweeps, and leaves nothing behind, however it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.component.service.kit import House
from tests.component.sweep.kit import PLAIN, Command, a_file, engines_of, until

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def in_a_long_sweep(house: House) -> Iterator[Command]:
    """Have the service measure: yield the command that watches it, with 3 of 30 windows done."""
    long = house.home / "long.yaml"
    long.write_text(a_file(PLAIN, name="long", concurrency=[1], window="1s", repeats=30))
    with house.command("run", "--on-service", str(long)) as run:
        run.wait_for("[3/30]", seconds=60)
        yield run


def test_a_service_takes_a_sweep_and_two_sigterms_to_its_whole_group_leave_nothing_behind(house: House) -> None:
    file = house.home / "night.yaml"
    file.write_text(a_file(PLAIN, concurrency=[1]))
    failing = house.home / "failing.yaml"
    bad = {"name": "bad", "args": {"sim-fault": "bad_flag"}}
    failing.write_text(a_file(PLAIN, bad, name="failing", concurrency=[1]))
    with house.command("serve") as service:
        service.wait_for("serving box bench", seconds=90)
        with house.command("run", "--on-service", str(file)) as run:
            assert run.end(seconds=60) == 0, run.said
            assert "Done, 1/1 windows" in run.said
        with house.command("run", "--on-service", str(failing)) as run:
            assert run.end(seconds=60) == 1, run.said
            assert "1 of 2 configs FAILED" in run.said
        with in_a_long_sweep(house) as run:
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


def test_a_stop_that_every_process_hears_at_once_and_again_ends_well_within_its_minute(house: House) -> None:
    """As `KillMode=control-group` has it: Prefect's server is gone before flow and runner could tell it anything."""
    with house.command("serve") as service:
        service.wait_for("serving box bench", seconds=90)
        with in_a_long_sweep(house) as run:
            heard = [each for each in house.living() if each.pid != run.process.pid and not simulated(each)]
            assert len(heard) >= 4, "service, Prefect's server, runner, flow"
            began = time.monotonic()
            for _ in range(2):
                for each in heard:
                    with contextlib.suppress(psutil.Error):
                        each.terminate()
                time.sleep(1.0)
            assert service.end(seconds=60) == 0, service.said
            assert time.monotonic() - began < 45
    assert "Traceback" not in service.said
    until(lambda: house.processes() == [], seconds=5)
    assert engines_of(house.home) == []


def simulated(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        words = " ".join(process.cmdline())
        return "simulator" in words or "resource_tracker" in words
    return True


def test_a_service_that_is_killed_takes_its_engine_and_its_server_with_it(house: House) -> None:
    with house.command("serve") as service:
        service.wait_for("serving box bench", seconds=90)
        with in_a_long_sweep(house) as run:
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

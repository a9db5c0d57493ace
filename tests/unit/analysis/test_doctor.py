"""From facts to checks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from nightsweep.analysis import doctor
from nightsweep.analysis.doctor import (
    NOT_HERE,
    OK,
    PROBLEM,
    WARNING,
    Check,
    ClockFacts,
    DatabaseFacts,
    DiskFacts,
    PrefectFacts,
)
from nightsweep.analysis.spool import SpoolFacts

GIB = doctor.GIB


@dataclass(frozen=True)
class Thing:
    """Whatever the host layer hands over."""

    name: str = "vllm"
    host: str = "docker"
    policy: str = "unless-stopped"
    running: bool = True
    pid: int = 4711
    memory: int | None = 36 * GIB


def a_database(**facts: Any) -> DatabaseFacts:
    values = {"where": "embedded", "running": True, "server_version": "18.6", "schema": "0001", "newest_schema": "0001"}
    return DatabaseFacts(**{**values, **facts})


def a_prefect(**facts: Any) -> PrefectFacts:
    values = {
        "url": "http://127.0.0.1:4270/api",
        "configured": True,
        "server_version": "3.9.1",
        "client_version": "3.9.4",
    }
    return PrefectFacts(**{**values, **facts})


def test_docker_that_is_installed_and_silent_is_a_problem_and_no_docker_is_not() -> None:
    assert doctor.docker_check(None, problem="connection refused", installed=True).state == PROBLEM
    assert doctor.docker_check(None, problem="its socket does not exist", installed=False).state == NOT_HERE
    found = doctor.docker_check({"ServerVersion": "28.5.2", "ContainersRunning": 1}, problem=None, installed=True)
    assert (found.state, found.found) == (OK, "Docker Engine 28.5.2, 1 container running")


@pytest.mark.parametrize(
    ("way", "devices", "docker", "state"),
    [
        ("request", 1, True, OK),
        ("cdi", 0, True, OK),
        (None, 1, True, PROBLEM),
        (None, 0, True, NOT_HERE),
        (None, 1, False, NOT_HERE),
    ],
)
def test_a_missing_gpu_runtime_is_a_problem_only_where_there_is_a_gpu(
    way: str | None, devices: int, docker: bool, state: str
) -> None:
    assert doctor.gpu_runtime_check(way=way, devices=devices, docker=docker).state == state


@pytest.mark.parametrize(
    ("devices", "driver", "library", "state"),
    [([Thing()], True, True, OK), ([], False, True, NOT_HERE), ([], True, False, WARNING), ([], True, True, PROBLEM)],
)
def test_a_driver_without_a_device_is_told_from_no_driver(
    devices: list[Thing], driver: bool, library: bool, state: str
) -> None:
    assert doctor.accelerator_check(devices, versions={}, driver_here=driver, library_here=library).state == state


def test_unified_memory_is_not_reported_as_none_of_it() -> None:
    found = doctor.accelerator_check(
        [Thing("NVIDIA GB10", memory=None)], versions={"driver": "580.1"}, driver_here=True, library_here=True
    )
    assert found.found == "NVIDIA GB10 (memory not told); driver 580.1"


def test_who_holds_the_accelerator_is_named() -> None:
    found = doctor.users_check([Thing("python3")], devices=1)
    assert found.state == WARNING
    assert "python3 (pid 4711, 36.0 GiB)" in found.found
    assert doctor.users_check([], devices=1).state == OK
    assert doctor.users_check([], devices=0).state == NOT_HERE


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (a_database(), OK),
        (a_database(running=False, schema=None), OK),
        (a_database(schema="0000"), WARNING),
        (a_database(schema=None), WARNING),
        (a_database(problem="connection refused"), PROBLEM),
    ],
)
def test_a_database_is_judged_by_its_schema_and_whether_it_answers(facts: DatabaseFacts, state: str) -> None:
    assert doctor.database_check(facts).state == state


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        (a_prefect(), OK),
        (a_prefect(server_version="3.10.0"), WARNING),
        (a_prefect(problem="refused"), PROBLEM),
        (a_prefect(problem="refused", configured=False), NOT_HERE),
    ],
)
def test_prefect_may_be_away_unless_it_was_configured(facts: PrefectFacts, state: str) -> None:
    assert doctor.prefect_check(facts).state == state


@pytest.mark.parametrize(("free", "state"), [(50 * GIB, OK), (3 * GIB, WARNING), (GIB // 2, PROBLEM), (None, NOT_HERE)])
def test_little_room_is_a_warning_and_none_a_problem(free: int | None, state: str) -> None:
    assert doctor.disk_check(DiskFacts("home", "/srv/ns", free), least=GIB, comfortable=5 * GIB).state == state


def test_a_home_that_cannot_be_written_to_is_a_problem() -> None:
    facts = DiskFacts("home", "/srv/ns", None, problem="cannot be written to")
    assert doctor.disk_check(facts, least=GIB, comfortable=GIB).state == PROBLEM


def test_leftovers_are_named_with_how_to_be_rid_of_them() -> None:
    assert doctor.own_check([]).state == OK
    container = doctor.own_check([Thing("nightsweep-b7", running=False)])
    assert "nightsweep-b7 (ended)" in container.found
    assert "docker rm" in container.remedy
    assert "kill PID" in doctor.own_check([Thing("pid 17", host="process")]).remedy


def test_an_engine_that_comes_back_by_itself_is_named_with_its_policy() -> None:
    found = doctor.returning_check([Thing("vllm-qwen")], docker=True)
    assert found.state == WARNING
    assert "vllm-qwen (unless-stopped, running)" in found.found
    assert doctor.returning_check([], docker=True).state == OK
    assert doctor.returning_check([], docker=False).state == NOT_HERE


def test_forty_one_ended_containers_are_worth_a_word() -> None:
    assert doctor.stopped_check(41, exited_engines=0).state == WARNING
    assert doctor.stopped_check(3, exited_engines=1).state == OK
    assert doctor.stopped_check(None, exited_engines=0).state == NOT_HERE


def test_production_that_is_not_back_is_a_problem() -> None:
    found = doctor.production_check(["vllm-qwen"])
    assert found.state == PROBLEM
    assert "nightsweep restore" in found.remedy
    assert doctor.production_check([]).state == OK


def test_refused_writes_are_said_until_somebody_looked_at_them() -> None:
    assert doctor.spool_check(SpoolFacts("/s")).state == OK
    found = doctor.spool_check(SpoolFacts("/s", refused=2))
    assert (found.state, found.found) == (WARNING, "2 refused writes below /s")


@pytest.mark.parametrize(
    ("now", "synchronised", "state"),
    [
        (datetime(2026, 11, 29, tzinfo=UTC), True, OK),
        (datetime(2026, 11, 29, tzinfo=UTC), None, OK),
        (datetime(2026, 11, 29, tzinfo=UTC), False, WARNING),
        (datetime(1970, 1, 1, tzinfo=UTC), True, PROBLEM),
    ],
)
def test_a_clock_is_judged_by_what_it_shows_and_who_keeps_it(
    now: datetime, synchronised: bool | None, state: str
) -> None:
    found = doctor.clock_check(ClockFacts(now, "Europe/Amsterdam", 3600.0, synchronised))
    assert found.state == state
    assert "Europe/Amsterdam (UTC+01:00)" in found.found


def test_a_half_hour_zone_west_of_greenwich_is_shown_right() -> None:
    facts = ClockFacts(datetime(2026, 11, 29, tzinfo=UTC), "America/St_Johns", -12600.0, None)
    assert "UTC-03:30" in doctor.clock_check(facts).found


def test_only_a_problem_makes_a_machine_unfit() -> None:
    assert doctor.healthy([Check("a", OK, ""), Check("b", WARNING, ""), Check("c", NOT_HERE, "")])
    assert not doctor.healthy([Check("a", OK, ""), Check("b", PROBLEM, "")])

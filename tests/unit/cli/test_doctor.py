"""`nightsweep doctor`: goes on whatever is missing, and its exit code says whether anything stands in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from nightsweep.analysis import doctor as judge
from nightsweep.analysis.doctor import DatabaseFacts
from nightsweep.analysis.spool import SpoolFacts
from nightsweep.cli.doctor import command as doctor
from nightsweep.errors import DockerUnavailable
from nightsweep.service.doctor_checks import DoctorSources, disk_facts, prefect_facts, run_checks
from nightsweep.service.notify import shown_all

from .calling import call, json_of, now


@dataclass(frozen=True)
class NothingLeft:
    """A tidy box."""

    own: tuple[Any, ...] = ()
    exited_engines: tuple[Any, ...] = ()
    comes_back: tuple[Any, ...] = ()
    accelerator_users: tuple[Any, ...] = ()
    stopped_containers: int | None = 0


def raising(error: Exception) -> Callable[..., Any]:
    def look(*_: object) -> Any:
        raise error

    return look


def sources(home: Path, **facts: Any) -> DoctorSources:
    tidy = DoctorSources(
        docker_info=lambda: {"ServerVersion": "28.5.2", "ContainersRunning": 0, "DockerRootDir": str(home)},
        gpu_way=lambda info: None,
        leftovers=NothingLeft,
        accelerators=lambda: (),
        driver_versions=dict,
        database=lambda: DatabaseFacts("embedded", running=True, server_version="18.6", schema="1", newest_schema="1"),
        production_down=lambda: (),
        prefect_api_url="http://127.0.0.1:9/api",  # nobody listens on the discard port
        prefect_configured=False,
        home=home / "not" / "made" / "yet",
        now=now,
        spool=lambda: SpoolFacts(str(home / "spool")),
    )
    return replace(tidy, **facts)


def states(checks: tuple[judge.Check, ...]) -> Mapping[str, str]:
    return {check.name: check.state for check in checks}


def test_a_tidy_box_has_no_problem_and_exit_code_zero(tmp_path: Path) -> None:
    result = call(doctor, doctor=sources(tmp_path))
    assert result.exit_code == 0
    assert "nothing stands in the way of a sweep" in result.output
    assert "engines of ours         ok        none is left" in result.output


def test_what_waits_in_the_spool_and_what_was_refused_is_told_with_its_place(tmp_path: Path) -> None:
    facts = SpoolFacts("/srv/spool", waiting=3, refused=1)
    result = call(doctor, doctor=sources(tmp_path, spool=lambda: facts))
    assert result.exit_code == 0
    assert "3 writes in /srv/spool for a database that was away; 1 refused write below /srv/spool" in result.output
    assert "→ the sweep that waits, or the next `nightsweep run` or `serve`, stores them" in result.output


def test_production_that_is_down_gives_exit_code_one_and_the_way_out(tmp_path: Path) -> None:
    result = call(doctor, doctor=sources(tmp_path, production_down=lambda: ("vllm-qwen",)))
    assert result.exit_code == 1
    assert "PROBLEM" in result.output
    assert "→ right while a sweep runs; else `nightsweep restore` brings it back" in result.output
    assert "1 to mend before a sweep" in result.output


def test_json_has_every_check_with_state_finding_and_remedy(tmp_path: Path) -> None:
    document = json_of(call(doctor, "--json", doctor=sources(tmp_path)))
    assert document["healthy"] is True
    names = [check["name"] for check in document["checks"]]
    assert len(names) == len(set(names))
    assert {"docker", "accelerator", "database", "prefect", "disk: home", "production", "clock"} <= set(names)
    assert all(set(check) == {"name", "state", "found", "remedy"} for check in document["checks"])


def test_docker_away_is_said_and_the_other_checks_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    away = sources(
        tmp_path,
        docker_info=raising(DockerUnavailable(reason="connection refused")),
        leftovers=lambda: NothingLeft(stopped_containers=None),
    )
    checks = run_checks(away)
    found = states(checks)
    assert found["docker"] == judge.PROBLEM
    assert checks[0].found == "does not answer: connection refused"
    assert found["engines that come back"] == judge.NOT_HERE
    assert found["database"] == judge.OK


ERRORS = (
    OSError("no such device"),
    DockerUnavailable(reason="gone"),
    KeyError("State"),
    TypeError("None is not subscriptable"),
    ImportError("pynvml"),
    psutil.AccessDenied(1),
    RuntimeError("odd"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "part", ["docker_info", "gpu_way", "leftovers", "accelerators", "driver_versions", "database", "production_down"]
)
def test_no_part_that_is_missing_or_odd_ends_in_a_traceback(tmp_path: Path, part: str, error: Exception) -> None:
    result = call(doctor, doctor=sources(tmp_path, **{part: raising(error)}))
    assert result.exit_code in (0, 1)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "clock" in result.output


def test_a_part_that_could_not_be_looked_at_is_a_warning_with_the_reason(tmp_path: Path) -> None:
    checks = run_checks(sources(tmp_path, leftovers=raising(OSError("no such device"))))
    (leftovers,) = [check for check in checks if check.name == "leftovers"]
    assert (leftovers.state, leftovers.found) == (judge.WARNING, "could not be looked at: no such device")


def test_room_is_looked_at_where_the_home_will_be_made(tmp_path: Path) -> None:
    facts = disk_facts("home", tmp_path / "a" / "b", writable=True)
    assert facts.problem is None
    assert facts.free_bytes is not None
    assert facts.free_bytes > 0


@contextmanager
def a_server(answers: Mapping[str, tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, b""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/api"
        finally:
            server.shutdown()
            thread.join()


def test_a_prefect_server_that_answers_tells_its_version() -> None:
    with a_server({"/api/health": (200, b"true"), "/api/admin/version": (200, b'"3.9.1"')}) as url:
        facts = prefect_facts(url, configured=True)
    assert (facts.server_version, facts.problem) == ("3.9.1", None)


@pytest.mark.parametrize("answers", [{}, {"/api/health": (200, b"ok"), "/api/admin/version": (200, b"<html>")}])
def test_something_else_on_that_port_is_not_taken_for_prefect(answers: dict[str, tuple[int, bytes]]) -> None:
    with a_server(answers) as url:
        assert prefect_facts(url, configured=True).problem


def test_nobody_there_is_a_reason_and_not_a_traceback() -> None:
    assert prefect_facts("http://127.0.0.1:9/api", configured=False).problem
    assert prefect_facts("not a url", configured=True).problem


def test_help_shows_an_example() -> None:
    assert "Example:" in call(doctor, "--help").output


def test_addresses_of_messages_are_counted_and_never_shown(tmp_path: Path) -> None:
    (none,) = [check for check in run_checks(sources(tmp_path)) if check.name == "messages"]
    assert (none.state, "nobody is told" in none.found) == (judge.OK, True)
    told = shown_all(["slack://t0k3n/a", "json://host/b"])
    (some,) = [check for check in run_checks(sources(tmp_path, told=told)) if check.name == "messages"]
    assert "slack://***" in some.found
    assert "t0k3n" not in some.found

"""`nightsweep watchdog` as a process, with Docker, PostgreSQL and Prefect all dead: it says so, and ends or goes on."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from nightsweep.store.owner import new_owner
from tests.component.sweep.kit import running, until


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    dead = {
        "NIGHTSWEEP_HOME": str(tmp_path),
        "NIGHTSWEEP_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "NIGHTSWEEP_PREFECT_API_URL": "http://127.0.0.1:1/api",
        "DOCKER_HOST": f"unix://{tmp_path}/no-docker.sock",
    }
    return {**os.environ, **dead}


def owed(home: Path, *, owner: str, restore_by: str) -> None:
    record = {"owner": owner, "restore_by": restore_by, "ready_timeout": 0.1}
    (home / "production.json").write_text(json.dumps({"prod": record}))


def test_with_nothing_owed_one_look_ends_well(tmp_path: Path, environ: dict[str, str]) -> None:
    with running("watchdog", "--once", environ=environ, folder=tmp_path) as command:
        assert command.end() == 0, command.said
    assert "nothing had to be brought back" in command.said


def test_production_that_cannot_be_brought_back_is_loud_and_stays_noted(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    owed(tmp_path, owner="", restore_by="2026-01-01T06:00:00+00:00")
    with running("watchdog", "--once", environ=environ, folder=tmp_path) as command:
        assert command.end() == 1, command.said
    assert "prod DOES NOT SERVE" in command.said
    assert "the Docker Engine does not answer" in command.said
    assert "Traceback" not in command.said
    assert "prod" in json.loads((tmp_path / "production.json").read_text())


def test_it_watches_until_it_is_told_to_end_and_says_a_thing_once(tmp_path: Path, environ: dict[str, str]) -> None:
    owed(tmp_path, owner=new_owner(), restore_by="2999-01-01T06:00:00+00:00")
    with running("watchdog", "--every", "100ms", environ=environ, folder=tmp_path) as command:
        command.wait_for("its sweep has until 2999-01-01")
        seen = (tmp_path / "watchdog.beat").stat().st_mtime if (tmp_path / "watchdog.beat").exists() else 0.0
        until(lambda: (tmp_path / "watchdog.beat").exists() and (tmp_path / "watchdog.beat").stat().st_mtime > seen)
        command.send(signal.SIGTERM)
        assert command.end() == 0, command.said
    assert command.said.count("its sweep has until") == 1


SLIPS = {"NIGHTSWEEP_NOTIFY": "rubbish", "NIGHTSWEEP_NOTIFY_ON": "donee", "NIGHTSWEEP_PREFECT_PORT": "abc"}


@pytest.mark.parametrize(("words", "code"), [(("restore",), 1), (("watchdog", "--once"), 1), (("serve",), 2)])
def test_a_slip_in_a_setting_that_it_does_not_need_keeps_nobody_from_bringing_production_back(
    tmp_path: Path, environ: dict[str, str], words: tuple[str, ...], code: int
) -> None:
    owed(tmp_path, owner="", restore_by="2026-01-01T06:00:00+00:00")
    slips = {**SLIPS, "NIGHTSWEEP_DATABASE_URL": "rubbish"}
    with running(*words, environ={**environ, **slips}, folder=tmp_path) as command:
        assert command.end() == code, command.said
    assert "prod DOES NOT SERVE: the Docker Engine does not answer" in " ".join(command.said.split())
    assert "Traceback" not in command.said
    for variable in slips:
        assert f"{variable}: found" in command.said


def test_a_database_address_that_only_its_driver_can_refuse_counts_as_a_database_that_is_away(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    owed(tmp_path, owner="", restore_by="2026-01-01T06:00:00+00:00")
    environ = {**environ, "NIGHTSWEEP_DATABASE_URL": "postgresql://u:secret@h:port/n"}
    with running("restore", environ=environ, folder=tmp_path) as command:
        assert command.end() == 1, command.said
    assert "prod DOES NOT SERVE" in command.said
    assert "NIGHTSWEEP_DATABASE_URL" in command.said
    assert "secret" not in command.said
    assert "Traceback" not in command.said


@pytest.mark.parametrize(
    ("damaged", "named"),
    [
        ('{"pr', "no name can be read"),
        ("[]", "no name can be read"),
        ('{"prod": {"ready_timeout": 0.1}, "oth', "still names prod"),
    ],
)
def test_a_damaged_file_without_a_database_is_never_taken_for_nothing_owed(
    tmp_path: Path, environ: dict[str, str], damaged: str, named: str
) -> None:
    file = tmp_path / "production.json"
    file.write_text(damaged)
    for words in (("restore",), ("watchdog", "--once")):
        with running(*words, environ=environ, folder=tmp_path) as command:
            assert command.end() == 1, command.said
        assert named in command.said
        assert str(file) in command.said
        assert "`nightsweep restore NAME`" in command.said
        assert "Traceback" not in command.said
        assert ("prod DOES NOT SERVE" in command.said) == ("prod" in named)
    with running("watchdog", "--every", "100ms", environ=environ, folder=tmp_path) as command:
        command.wait_for(named)
        until(lambda: (tmp_path / "watchdog.beat").exists())
        command.send(signal.SIGTERM)
        assert command.end() == 0, command.said
    assert file.read_text() == damaged


def test_a_field_that_cannot_be_read_is_told_and_the_container_still_brought_back(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    record = {"name": "prod", "ready_timeout": 0.1, "ports": "x", "restore_by": "noon"}
    (tmp_path / "production.json").write_text(json.dumps({"prod": record}))
    with running("restore", environ=environ, folder=tmp_path) as command:
        assert command.end() == 1, command.said
    assert "noted of prod, this cannot be read: ports, restore_by" in " ".join(command.said.split())
    assert "prod DOES NOT SERVE" in command.said
    assert "Traceback" not in command.said

"""`nightsweep db` from a home without anything to one that is stopped again."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nightsweep.cli.db import command
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.schema import HEAD
from tests.storekit.fixtures import a_home, throw_away


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    made = a_home()
    monkeypatch.setenv("NIGHTSWEEP_HOME", str(made))
    monkeypatch.delenv("NIGHTSWEEP_DATABASE_URL", raising=False)
    yield made
    throw_away(EmbeddedPostgres(made / "postgres"))


def said(*words: str) -> str:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_database_is_made_looked_at_and_stopped(home: Path) -> None:
    assert "not running" in said("status")
    assert not (home / "postgres" / "data").exists()
    assert f"schema {HEAD}" in said("upgrade")
    status = said("status")
    assert str(home / "postgres") in status
    assert f"schema     {HEAD} (the newest)" in status
    assert "windows    0" in status
    psql = [*shlex.split(said("psql-hint")), "-Atc", "SELECT count(*) FROM sweeps"]
    assert subprocess.run(psql, capture_output=True, text=True, check=True).stdout.strip() == "0"
    assert said("url").startswith("postgresql+psycopg://postgres@/nightsweep?host=")
    assert said("stop") == "stopped\n"
    assert said("stop") == "it was not running\n"


def test_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTSWEEP_DATABASE_URL", "postgresql://me:very-secret@db.lan/nightsweep")
    for word in ("url", "psql-hint", "stop"):
        assert "very-secret" not in said(word)

"""A home that cannot be used: one line that says what is needed and where, from every command, and no traceback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightsweep.errors import StoreUnavailable
from nightsweep.service.home import HomeUnusable, trouble_of
from nightsweep.service.only import only_service
from nightsweep.store.embedded import EmbeddedPostgres
from tests.component.sweep.kit import running
from tests.storekit.fixtures import a_home, throw_away


@pytest.mark.parametrize("words", [("serve",), ("status",)])
@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_home_that_is_a_file_or_below_one_is_told_in_a_line(
    tmp_path: Path, words: tuple[str, ...], place: str
) -> None:
    (tmp_path / "file").write_text("")
    with running(*words, environ={**os.environ, "NIGHTSWEEP_HOME": str(tmp_path / place)}, folder=tmp_path) as command:
        assert command.end() == 1, command.said
    assert "Traceback" not in command.said
    assert str(tmp_path / "file") in command.said
    assert len(command.said.strip().splitlines()) == 1


def test_what_the_system_says_of_a_home_is_told_and_of_anything_else_is_not(tmp_path: Path) -> None:
    read_only = OSError(30, "Read-only file system", str(tmp_path / "serve.lock"))
    told = trouble_of(tmp_path, read_only)
    assert told is not None
    assert "Read-only file system" in str(told)
    assert "MB are free" in str(told)
    assert "NIGHTSWEEP_HOME" in str(told)
    assert trouble_of(tmp_path, OSError(28, "No space left on device")) is not None
    assert trouble_of(tmp_path, OSError(30, "Read-only file system", "/elsewhere/file")) is None
    assert trouble_of(tmp_path, FileNotFoundError(2, "No such file", str(tmp_path / "x"))) is None


def test_a_service_says_what_is_wrong_with_its_home(tmp_path: Path) -> None:
    (tmp_path / "serve.lock").mkdir()
    with pytest.raises(HomeUnusable, match="cannot be used"), only_service(tmp_path):
        pass


@pytest.fixture
def cluster() -> Iterator[EmbeddedPostgres]:
    found = EmbeddedPostgres(a_home() / "postgres")
    yield found
    throw_away(found)


def test_a_disk_without_room_is_one_line_with_what_is_needed(
    cluster: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.place.root / "tool.log").mkdir()  # the system refuses something while the server is started
    with pytest.raises(StoreUnavailable, match="cannot start the embedded database"):
        cluster.ensure()
    real = shutil.disk_usage(cluster.place.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=4_000_000))
    with pytest.raises(StoreUnavailable, match=r"only 4 MB are free in .* needs 100 MB at least") as caught:
        cluster.ensure()
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=40_000_000))
    told = str(cluster._failed("initdb failed:\nNo space left on device\nremoving"))
    assert "only 40 MB are free" in told
    assert "\n" not in told
    assert "another fault" in str(cluster._failed("another fault")), "what is no want of room keeps its own words"

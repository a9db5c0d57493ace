"""Two services started by mistake: the second one says so, and touches nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nightsweep.errors import BoxBusy
from nightsweep.ports import Progress
from nightsweep.service.only import ServiceRuns, is_served, only_service
from nightsweep.store.queries import Queries
from tests.component.sweep.kit import PLAIN, Bench, a_file


def test_a_second_service_of_the_same_home_ends_with_a_message_and_starts_nothing(
    tmp_path: Path, database_url: str, queries: Queries
) -> None:
    bench = Bench(home=tmp_path, database_url=database_url, queries=queries)
    with only_service(tmp_path), bench.command("serve") as second:
        assert second.end() == 1
        assert f"a service serves {tmp_path} already" in second.said
        assert "NIGHTSWEEP_HOME" in second.said
        assert "Traceback" not in second.said
    assert not (tmp_path / "logs").exists()
    with only_service(tmp_path):
        pass


def test_within_a_home_only_one_is_let_in_and_a_gone_one_leaves_the_door_open(tmp_path: Path) -> None:
    with only_service(tmp_path), pytest.raises(ServiceRuns), only_service(tmp_path):
        raise AssertionError("two are in")
    with only_service(tmp_path):
        pass


def test_a_sweep_of_another_home_on_the_same_database_is_kept_off_the_box_and_told_who_has_it(
    tmp_path: Path, database_url: str, queries: Queries
) -> None:
    first, second = (Bench(home=tmp_path / home, database_url=database_url, queries=queries) for home in ("one", "two"))
    first.home.mkdir()
    second.home.mkdir()
    refused: list[BoxBusy] = []

    def hear(progress: Progress) -> None:
        if progress.phase == "ready":
            with pytest.raises(BoxBusy) as busy:
                second.play(a_file(PLAIN, name="other"))
            refused.append(busy.value)

    outcome = first.play(a_file(PLAIN, concurrency=[1]), hear=hear)
    assert (outcome.state, outcome.windows_done) == ("done", 1)
    assert len(refused) == 1
    said = str(refused[0])
    assert f"process {os.getpid()} on " in said
    assert "runs sweep 1 (night)" in said
    assert "`nightsweep cancel 1` ends it" in said
    assert [row.name for row in queries.sweeps() if row.repeats_clean] == ["night"]
    assert first.engines() == second.engines() == []


def test_whether_a_home_is_served_is_told_by_its_own_service(tmp_path: Path) -> None:
    assert not is_served(tmp_path)
    with only_service(tmp_path):
        assert is_served(tmp_path)
        assert not is_served(tmp_path / "another")
    assert not is_served(tmp_path)

"""Bringing production back by hand: what a slip of the keys does, and what becomes of a sweep that runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from nightsweep import rescue, wiring
from nightsweep.errors import ContainerMissing
from nightsweep.production.returning import Helpers
from nightsweep.service.mirror import FileMirror
from nightsweep.store.debts import Debt, Debts
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeHost
from tests.fakes.probe import FakeProbe

OWNER = "vm~1:2:3:4"


class Books:
    """Debts in memory; a sweep that is told to stop holds its box for three more looks."""

    def __init__(self) -> None:
        self.stopped: list[int] = []
        self.looks = 3

    def stop(self, debt: Debt) -> None:
        self.stopped.append(debt.sweep_id)

    def holders(self) -> dict[str, bool]:
        self.looks -= 1
        return {OWNER: False} if self.looks > 0 else {}


@pytest.fixture
def scene(tmp_path: Path) -> rescue.Scene:
    clock = FakeClock()
    host = FakeHost(clock=clock)
    host.add_foreign("prod", running=False)
    helpers = Helpers(host=host, probe=FakeProbe(clock=clock), clock=clock, say=lambda text: None)
    return rescue.Scene(
        mirror=FileMirror(tmp_path / "production.json"), host=lambda kind: host, helpers=helpers, say=lambda text: None
    )


def test_a_name_that_no_container_has_is_an_error_and_no_alarm(scene: rescue.Scene) -> None:
    with pytest.raises(ContainerMissing, match="tpyo"):
        scene.know(("tpyo",), noted={"prod": None})
    scene.know(("prod", "noted"), noted={"noted": None})


def test_a_sweep_that_runs_is_told_to_stop_at_once_and_waited_for(
    scene: rescue.Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "lives_here", lambda holder: holder == OWNER)
    books, said = Books(), list[str]()
    debt = Debt(1, 1, "spark-1", 7, "prod", "id", {}, OWNER, lease_over=False)
    here = replace(scene, debts=cast("Debts", cast("Any", books)), owed=(debt,), say=said.append)
    here.stop_for((), owners={"prod": OWNER})
    assert books.stopped == [], "it was not asked for by name: its sweep brings it back itself"
    begun = here.helpers.clock.monotonic()
    here.stop_for(("prod",), owners={"prod": OWNER})
    assert books.stopped == [7]
    assert here.helpers.clock.monotonic() - begun == pytest.approx(1.0)
    assert "sweep 7" in said[0]

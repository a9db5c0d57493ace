"""Production that a person gives up: its intent is closed, its file forgets it, and what that means is an event."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightsweep import rescue
from nightsweep.errors import NotFound, ProductionNotGone
from nightsweep.production.returning import Helpers
from nightsweep.service.mirror import FileMirror
from nightsweep.store.debts import Debts
from nightsweep.store.owner import new_owner
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeHost
from tests.fakes.probe import FakeProbe
from tests.storekit.builders import OWNER, a_box, a_night, a_production

GONE = "vllm-qwen"


class Scenery:
    """A rescue's scene on a real database, with a box of fakes."""

    def __init__(self, home: Path, engine: sa.Engine, store: PostgresStore) -> None:
        self.store, self.debts, self.mirror = store, Debts(engine), FileMirror(home / "production.json")
        clock = FakeClock()
        self.host, self.said = FakeHost(clock=clock), list[str]()
        self.helpers = Helpers(host=self.host, probe=FakeProbe(clock=clock), clock=clock)

    def now(self, *, box: str = "box-a") -> rescue.Scene:
        here = rescue.Scene(
            mirror=self.mirror,
            host=lambda kind: self.host,
            helpers=self.helpers,
            say=self.said.append,
            debts=self.debts,
        )
        owed = tuple(debt for debt in self.debts.open() if rescue._is_here(here, debt, box=box))
        return replace(here, owed=owed, holders=self.debts.holders())

    def taken_down(self, *, owner: str = OWNER, ended: bool = True) -> None:
        night = a_night(self.store, owner=owner, box=a_box("box-a"))
        self.store.open_intent(night.lease, a_production(GONE), restore_by=None, record={"image": "vllm/vllm-openai"})
        facts = {"owner": owner, "box_id": night.lease.box_id, "sweep_id": night.sweep_id}
        self.mirror.write(GONE, facts)
        if ended:
            self.store.release(night.lease, state="partial", note="")


@pytest.fixture
def scenery(tmp_path: Path, engine: sa.Engine, store: PostgresStore) -> Scenery:
    return Scenery(tmp_path, engine, store)


def test_one_that_was_removed_is_owed_no_more_and_an_event_says_what_that_means(
    scenery: Scenery, queries: Queries
) -> None:
    scenery.taken_down()
    here = scenery.now()
    here.close(GONE, here.gone(GONE), event=scenery.store.event)
    (row,) = queries.productions(1)
    assert (row.fares, row.outcome, row.closed is not None) == ("given up", "abandoned", True)
    assert (scenery.debts.open(), scenery.mirror.read()) == ((), {})
    (event,) = [each for each in queries.events(1, limit=20) if each.kind == "production_given_up"]
    assert event.level == "warning"
    assert "a person said that it is gone for good" in event.message
    assert scenery.said == [event.message]
    with pytest.raises(NotFound, match="so nothing is owed of it"):
        scenery.now().gone(GONE)


@pytest.mark.parametrize(("running", "word"), [(True, "it runs"), (False, "it exists, and is stopped")])
def test_one_that_exists_is_not_given_up(scenery: Scenery, running: bool, word: str) -> None:
    scenery.taken_down()
    scenery.host.add_foreign(GONE, running=running)
    with pytest.raises(ProductionNotGone, match=f"{word}: `nightsweep restore {GONE}`"):
        scenery.now().gone(GONE)
    assert len(scenery.debts.open()) == 1


def test_one_that_a_living_sweep_has_down_is_not_given_up(scenery: Scenery) -> None:
    scenery.taken_down(owner=new_owner(), ended=False)
    with pytest.raises(ProductionNotGone, match="`nightsweep cancel` ends that first"):
        scenery.now().gone(GONE)


def test_one_that_only_the_database_knows_is_owed_on_its_own_box_also_when_its_container_is_gone(
    scenery: Scenery,
) -> None:
    scenery.taken_down()
    scenery.mirror.clear(GONE)
    assert [debt.container for debt in scenery.now().owed] == [GONE]
    assert scenery.now(box="box-b").owed == ()


def test_one_that_only_the_file_knows_is_told_as_an_event_of_no_sweep(scenery: Scenery, queries: Queries) -> None:
    scenery.mirror.write("lost", {"owner": None})
    here = scenery.now()
    here.close("lost", here.gone("lost"), event=scenery.store.event)
    assert scenery.mirror.read() == {}
    assert "production_given_up" in [event.kind for event in queries.events(None, limit=5)]


def test_with_the_database_there_a_damaged_file_is_written_anew_from_it(scenery: Scenery, tmp_path: Path) -> None:
    scenery.taken_down()
    file = tmp_path / "production.json"
    file.write_text('{"vll')
    here = scenery.now()
    here.mend()
    here.whole(())
    assert list(scenery.mirror.read()) == [GONE]
    (record,) = here.records([GONE])
    assert record.image is not None
    assert (tmp_path / "production.damaged").read_text() == '{"vll'
    assert "written anew" in scenery.said[-1]
    file.write_text(f'{{"{GONE}": {{"own')
    here = scenery.now()
    assert here.records([GONE])[0].image == record.image, "what the file has lost, the database has"

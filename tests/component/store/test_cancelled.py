"""A run that a person cancels in Prefect: its process hears only that it is to end; the sweep says afterwards who wished it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from nightsweep.store.debts import Debts
from nightsweep.store.owner import new_owner
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import Night, a_night

RUN = "0193-a-run"


def a_dead_owner() -> str:
    host, _, start, word = new_owner().split(":")
    return f"{host}:{2**22 + 1}:{start}:{word}"


def carried(store: PostgresStore, *, owner: str | None = None) -> Night:
    night = a_night(store, owner=owner or new_owner())
    store.note_prefect_run(night.sweep_id, RUN)
    return night


@pytest.mark.parametrize(
    ("note", "rest"),
    [
        ("interrupted: received SIGTERM", ""),
        ("interrupted: received SIGTERM; vllm-qwen DOES NOT SERVE", "; vllm-qwen DOES NOT SERVE"),
    ],
)
def test_one_that_was_told_to_end_says_that_it_was_cancelled_and_how_it_goes_on(
    engine: sa.Engine, store: PostgresStore, queries: Queries, note: str, rest: str
) -> None:
    night = carried(store)
    store.release(night.lease, state="partial", note=note)
    said = Debts(engine).end_cancelled(RUN)
    assert said == f"cancelled in Prefect: `nightsweep resume {night.sweep_id}` goes on with it{rest}"
    sweep = queries.sweep_of(str(night.sweep_id))
    assert (sweep.state, sweep.note) == ("cancelled", said)
    assert [event.message for event in queries.events(night.sweep_id) if event.kind == "sweep_cancelled"] == [said]
    assert Debts(engine).end_cancelled(RUN) is None, "told twice it is said once"


def test_one_that_prefect_killed_says_so_too_and_is_free(
    engine: sa.Engine, store: PostgresStore, queries: Queries
) -> None:
    night = carried(store, owner=a_dead_owner())
    assert Debts(engine).end_cancelled(RUN) is not None
    sweep = queries.sweep_of(str(night.sweep_id))
    assert (sweep.state, sweep.owner, sweep.ended is not None) == ("cancelled", None, True)
    assert Debts(engine).holders() == {}


@pytest.mark.parametrize(
    ("state", "note"), [("done", "all is measured"), ("partial", "the night is over"), ("paused", "")]
)
def test_one_that_had_come_to_its_own_end_keeps_it(
    engine: sa.Engine, store: PostgresStore, queries: Queries, state: str, note: str
) -> None:
    night = carried(store)
    store.release(night.lease, state=state, note=note)
    assert Debts(engine).end_cancelled(RUN) is None
    sweep = queries.sweep_of(str(night.sweep_id))
    assert (sweep.state, sweep.note) == (state, note)


def test_one_that_somebody_has_taken_up_again_meanwhile_is_left_to_them(
    engine: sa.Engine, store: PostgresStore, queries: Queries
) -> None:
    night = carried(store)
    assert Debts(engine).end_cancelled(RUN) is None
    assert Debts(engine).end_cancelled("another run") is None
    assert queries.sweep_of(str(night.sweep_id)).state == "running"

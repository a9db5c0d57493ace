"""PostgreSQL goes away in the middle of a night: the sweep waits, and loses nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightsweep.errors import StoreUnavailable
from nightsweep.measurement.traffic import Traffic
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import PostgresStore, connect
from nightsweep.store.postmaster import postmaster_of
from nightsweep.store.queries import Queries
from nightsweep.store.session import Outage, Patient
from nightsweep.units import Seconds
from tests.fakes.clock import FakeClock
from tests.storekit.builders import EVENING, OWNER, TTL, a_night, a_production, a_window
from tests.storekit.fixtures import a_home, throw_away


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedPostgres]:
    """Yield a cluster that these tests may stop and kill."""
    made = EmbeddedPostgres(a_home())
    made.ensure()
    yield made
    throw_away(made)


@pytest.fixture
def away_engine(cluster: EmbeddedPostgres) -> Iterator[sa.Engine]:
    cluster.ensure()
    cluster.ensure_database("nightsweep")
    engine = connect(cluster.url("nightsweep"))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    upgrade(engine)
    yield engine
    engine.dispose()


def kill(cluster: EmbeddedPostgres) -> None:
    pid = postmaster_of(cluster.data)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def test_a_window_that_ends_while_the_server_restarts_is_stored(
    cluster: EmbeddedPostgres, away_engine: sa.Engine
) -> None:
    store = PostgresStore(away_engine, patience=Seconds(60.0))
    night = a_night(store)
    cluster.stop()
    restart = threading.Timer(0.3, cluster.ensure)
    restart.start()
    try:
        night.keep()
    finally:
        restart.join()
    assert list(store.stored(night.sweep_id).windows.values()) == [(True, 1)]


def test_a_killed_embedded_server_is_revived_by_the_write_that_needs_it(
    cluster: EmbeddedPostgres, away_engine: sa.Engine
) -> None:
    store = PostgresStore(away_engine, patience=Seconds(60.0), revive=cluster.ensure)
    night = a_night(store)
    kill(cluster)
    night.keep()
    store.renew(night.lease, ttl=TTL)
    store.release(night.lease, state="done", note="")


def test_production_goes_down_with_what_it_served_once_the_server_is_back(
    cluster: EmbeddedPostgres, away_engine: sa.Engine
) -> None:
    store = PostgresStore(away_engine, patience=Seconds(60.0), revive=cluster.ensure)
    night = a_night(store)
    traffic = Traffic(EVENING, requests=40, prompt_tokens=4e4, generation_tokens=8e3)
    kill(cluster)
    store.open_intent(night.lease, a_production(), restore_by=None, traffic=traffic)
    assert [row.traffic for row in Queries(away_engine).productions(night.sweep_id)] == [traffic]


def test_patience_ends_and_what_was_in_hand_can_be_sent_again(
    cluster: EmbeddedPostgres, away_engine: sa.Engine
) -> None:
    clock = FakeClock()
    store = PostgresStore(away_engine, clock=clock, patience=Seconds(120.0))
    night = a_night(store)
    before = clock.monotonic()
    cluster.stop()
    with pytest.raises(StoreUnavailable):
        night.keep()
    assert 110.0 < clock.monotonic() - before <= 120.0
    cluster.ensure()
    night.keep()


def test_renewing_does_not_wait_for_a_server_that_is_away(cluster: EmbeddedPostgres, away_engine: sa.Engine) -> None:
    clock = FakeClock()
    store = PostgresStore(away_engine, clock=clock)
    night = a_night(store)
    before = clock.monotonic()
    cluster.stop()
    with pytest.raises(StoreUnavailable):
        store.renew(night.lease, ttl=TTL)
    assert clock.monotonic() == before
    cluster.ensure()


def test_a_commit_whose_answer_was_lost_is_not_stored_twice(cluster: EmbeddedPostgres, away_engine: sa.Engine) -> None:
    store = PostgresStore(away_engine, clock=FakeClock())
    night = a_night(store)
    lost: list[bool] = []

    @sa.event.listens_for(away_engine, "commit")
    def lose_the_answer(connection: sa.Connection) -> None:
        if not lost:
            lost.append(True)
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.commit()  # the server has it; the client never hears so
            raise sa.exc.OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))

    for write in (
        lambda: night.keep(a_window()),
        lambda: store.event("note", "once", sweep_id=night.sweep_id),
        lambda: night.boot("another"),
        lambda: store.release(night.lease, state="partial", note=""),
        lambda: store.claim(night.sweep_id, owner=OWNER, ttl=TTL),
    ):
        lost.clear()
        write()
        assert lost
    with away_engine.connect() as connection:
        counts = [
            connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) for table in ("windows", "events", "boots")
        ]
    assert counts == [1, 1, 2]


def test_an_error_that_waiting_cannot_mend_is_not_waited_for(away_engine: sa.Engine) -> None:
    clock = FakeClock()
    patient = Patient(away_engine, clock=clock, outage=Outage(clock, patience=Seconds(60.0)), revive=None)
    before = clock.monotonic()
    with pytest.raises(sa.exc.ProgrammingError):
        patient.run(lambda connection: connection.execute(sa.text("SELECT no_such_column")))
    assert clock.monotonic() == before


def test_the_message_names_what_failed_and_no_statement(tmp_path: Path) -> None:
    engine = connect(f"postgresql+psycopg://postgres@/none?host={tmp_path}")
    with pytest.raises(StoreUnavailable) as refused:
        PostgresStore(engine, patience=Seconds(0.0)).stored(1)
    engine.dispose()
    assert "PostgreSQL is not available" in str(refused.value)
    assert "SELECT" not in str(refused.value)

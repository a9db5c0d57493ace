"""What PostgreSQL could not take lies in the spool: stored in order, once, under its fence; refused ones are kept aside."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightsweep.analysis.values import Filters
from nightsweep.errors import LeaseLost, RepeatAlreadyStored, StoreReadOnly, StoreUnavailable
from nightsweep.ports import Secret
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import connect
from nightsweep.store.postmaster import postmaster_of
from nightsweep.store.queries import Queries
from nightsweep.store.spool import Spool
from nightsweep.store.spooled import SpooledStore, name_of_database
from nightsweep.units import Seconds
from tests.fakes.clock import FakeClock
from tests.storekit.builders import (
    EVENING,
    TTL,
    Night,
    a_handle,
    a_night,
    a_plan,
    a_ready,
    a_window,
    some_lines,
    stopped,
)
from tests.storekit.fixtures import a_home, run, throw_away

EVERYTHING = Filters(with_flagged="yes")


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedPostgres]:
    """Yield a cluster that these tests may stop and kill."""
    made = EmbeddedPostgres(a_home())
    made.ensure()
    made.ensure_database("nightsweep")
    engine = connect(made.url("nightsweep"))
    upgrade(engine)
    engine.dispose()
    yield made
    throw_away(made)


@pytest.fixture
def base(cluster: EmbeddedPostgres) -> Iterator[sa.Engine]:
    cluster.ensure()
    engine = connect(cluster.url("nightsweep"))
    with engine.begin() as connection:
        connection.execute(sa.text("TRUNCATE boxes, configs, probes, conditions, images, events CASCADE"))
    yield engine
    engine.dispose()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


@pytest.fixture
def store(base: sa.Engine, spool: Spool) -> SpooledStore:
    """Return a store that gives up at once, as one does whose sweep is ending."""
    return SpooledStore(base, spool=spool, clock=FakeClock(), patience=Seconds(0.0))


@pytest.fixture
def night(store: SpooledStore) -> Night:
    return a_night(store)


def events(base: sa.Engine, kind: str) -> list[str]:
    return [event.message for event in Queries(base).events() if event.kind == kind]


def count(base: sa.Engine, table: str) -> int:
    with base.connect() as connection:
        return int(connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0)


def test_a_result_that_cannot_be_committed_lies_in_a_file_and_is_the_same_once_stored(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night, base: sa.Engine
) -> None:
    cluster.stop()
    with pytest.raises(StoreUnavailable) as away:
        night.keep()
    assert "1 writes wait in" in str(away.value)
    assert str(spool.folder) in str(away.value)
    (file,) = spool.waiting()
    assert file.stat().st_mode & 0o077 == 0 or spool.folder.stat().st_mode & 0o077 == 0
    cluster.ensure()
    assert store.drain() == 1
    assert spool.waiting() == ()
    assert events(base, "spool_stored") == ["PostgreSQL answers again: 1 writes that lay in the spool are stored"]
    assert list(store.stored(night.sweep_id).windows.values()) == [(True, 1)]
    assert night.keep() == night.keep(), "delivered a second time it is the same row: content and hash are equal"
    assert count(base, "windows") == 1


def test_everything_that_a_boot_writes_is_spooled_in_order_and_stored_by_the_next_run(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night, base: sa.Engine
) -> None:
    cluster.stop()
    store.boot_started(night.lease, night.boot_id, a_handle())
    store.add_log(night.boot_id, 0, some_lines("one", "two"))
    for waits in (
        lambda: store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING),
        night.keep,
        night.keep_prefill,
    ):
        with pytest.raises(StoreUnavailable):
            waits()
    store.event("note", "told while it was away", sweep_id=night.sweep_id, boot_id=night.boot_id)
    store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING)
    assert len(spool.waiting()) == 7
    assert [spool.read(path).method for path in spool.waiting()][::6] == ["boot_started", "end_boot"]
    cluster.ensure()
    following = SpooledStore(base, spool=spool, patience=Seconds(0.0))
    lease = following.claim(night.sweep_id, owner=night.lease.owner, ttl=TTL)  # a start drains before it claims
    assert lease.fence == night.lease.fence + 1
    assert (spool.waiting(), spool.refused()) == ((), ())
    queries = Queries(base)
    (boot,) = queries.boots(EVERYTHING)
    assert (boot.state, boot.cold_start, boot.image_digest, boot.windows) == ("stopped", 420.0, "sha256:abc", 1)
    assert [line.text for line in queries.boot_log(boot.boot_id)] == ["one", "two"]
    held = following.stored(night.sweep_id)
    assert list(held.prefills.values()) == list(held.windows.values()) == [(True, 1)]
    assert events(base, "note") == ["told while it was away"]


def test_a_sweep_waits_with_its_result_on_disk_until_the_server_is_back(
    cluster: EmbeddedPostgres, base: sa.Engine, spool: Spool
) -> None:
    store = SpooledStore(base, spool=spool, patience=Seconds(60.0))
    night = a_night(store)
    seen: list[int] = []
    cluster.stop()

    def back() -> None:
        seen.append(len(spool.waiting()))
        cluster.ensure()

    later = threading.Timer(0.4, back)
    later.start()
    try:
        assert night.keep() > 0
    finally:
        later.join()
    assert seen == [1]
    assert spool.waiting() == ()


def test_an_outage_is_waited_out_once_and_not_by_every_call_again(
    cluster: EmbeddedPostgres, base: sa.Engine, spool: Spool
) -> None:
    clock = FakeClock()
    store = SpooledStore(base, spool=spool, clock=clock, patience=Seconds(120.0))
    night = a_night(store)
    cluster.stop()
    store.be_patient(Seconds(10.0), until=clock.monotonic() + 300.0)  # type: ignore[arg-type]
    began = clock.monotonic()
    with pytest.raises(StoreUnavailable):
        night.keep()
    assert 295 < clock.monotonic() - began <= 300
    store.be_patient(Seconds(10.0))
    waited = clock.monotonic()
    for call in (lambda: store.release(night.lease, state="partial", note=""), lambda: store.stored(night.sweep_id)):
        with pytest.raises(StoreUnavailable):
            call()
    store.event("production_restored", "it serves", sweep_id=night.sweep_id)
    assert clock.monotonic() == waited, "what puts production back is not held up"


def taken_over(base: sa.Engine, tmp_path: Path) -> Night:
    """Take the sweep over from another home, whose spool is another one; its lease had run out."""
    with base.begin() as connection:
        connection.execute(sa.text("UPDATE sweeps SET lease_until = now() - interval '1 day'"))
    return a_night(SpooledStore(base, spool=Spool(tmp_path / "other"), patience=Seconds(0.0)), owner="box-b:1:1:two")


def spooled(cluster: EmbeddedPostgres, night: Night) -> None:
    cluster.stop()
    with pytest.raises(StoreUnavailable):
        night.keep()
    cluster.ensure()


def test_a_late_write_is_refused_while_another_holder_measures_and_kept_aside_with_an_event(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night, base: sa.Engine, tmp_path: Path
) -> None:
    spooled(cluster, night)
    other = taken_over(base, tmp_path)
    assert other.sweep_id == night.sweep_id
    assert store.drain() == 0
    assert spool.waiting() == ()
    (aside,) = spool.refused()
    (told,) = events(base, "late_write_refused")
    assert str(aside) in told
    assert "taken over" in told
    assert other.keep() > 0, "the holder's own write of the very same repeat is taken"
    assert count(base, "windows") == 1


def test_a_late_write_fills_the_gap_that_is_left_once_nobody_holds_the_sweep(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night, base: sa.Engine, tmp_path: Path
) -> None:
    spooled(cluster, night)
    other = taken_over(base, tmp_path)
    other.keep(index=1)
    other.store.release(other.lease, state="partial", note="")
    assert store.drain() == 1
    assert (spool.waiting(), spool.refused()) == ((), ())
    with base.connect() as connection:
        rows = connection.execute(sa.text("SELECT repeat, fence FROM windows ORDER BY repeat")).all()
    assert [tuple(row) for row in rows] == [(0, night.lease.fence), (1, other.lease.fence)]


def test_a_late_write_of_a_repeat_that_was_measured_meanwhile_is_never_a_second_one(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night, base: sa.Engine, tmp_path: Path
) -> None:
    spooled(cluster, night)
    other = taken_over(base, tmp_path)
    other.keep(a_window(99.0))
    other.store.release(other.lease, state="done", note="")
    assert store.drain() == 0
    assert len(spool.refused()) == 1
    assert [row.decode_rate for row in Queries(base).windows(EVERYTHING)] == [99.0]
    assert "stored already" in events(base, "late_write_refused")[0]


def test_a_result_that_is_refused_after_the_wait_says_so_to_its_sweep(
    cluster: EmbeddedPostgres, base: sa.Engine, spool: Spool, tmp_path: Path
) -> None:
    store = SpooledStore(base, spool=spool, patience=Seconds(60.0))
    night = a_night(store)
    cluster.stop()

    def back() -> None:
        with spool.turn():  # nobody drains before the other one has it
            cluster.ensure()
            taken_over(base, tmp_path)

    later = threading.Timer(0.2, back)
    later.start()
    try:
        with pytest.raises(LeaseLost):
            night.keep()
    finally:
        later.join()
    assert len(spool.refused()) == 1


def test_a_damaged_file_is_kept_aside_and_holds_up_nothing(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night, base: sa.Engine
) -> None:
    cluster.stop()
    for index in (0, 1, 2):
        with pytest.raises(StoreUnavailable):
            night.keep(index=index)
    first, second, _ = spool.waiting()
    first.write_bytes(first.read_bytes()[:-40])
    second.write_bytes(second.read_bytes().replace(b"a", b"b"))
    (spool.folder / "unfinished-0").write_bytes(b"cut short by a power loss")
    cluster.ensure()
    assert store.drain() == 1
    assert [row.repeat for row in Queries(base).windows(EVERYTHING)] == [2]
    assert len(spool.refused()) == 2
    assert len(events(base, "late_write_refused")) == 2


def test_a_spooled_file_holds_no_secret(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, night: Night
) -> None:
    cluster.stop()
    store.event("note", "told", data={"token": Secret("hf_never")}, sweep_id=night.sweep_id)
    (file,) = spool.waiting()
    assert spool.read(file).args["data"] == {"token": "***"}
    cluster.ensure()


def test_two_that_drain_at_once_store_each_write_once(
    cluster: EmbeddedPostgres, store: SpooledStore, spool: Spool, base: sa.Engine
) -> None:
    night = a_night(store, a_plan(repeats=12))
    cluster.stop()
    for index in range(12):
        with pytest.raises(StoreUnavailable):
            night.keep(index=index)
        store.event("note", f"{index}", sweep_id=night.sweep_id)
    cluster.ensure()
    drained: list[int] = []

    def drain() -> None:
        each = SpooledStore(base, spool=Spool(spool.folder), patience=Seconds(0.0))
        while spool.waiting():
            drained.append(each.drain())

    threads = [threading.Thread(target=drain) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(drained) == 24
    assert (count(base, "windows"), len(events(base, "note"))) == (12, 12)
    assert sorted(int(said) for said in events(base, "note")) == list(range(12))


def test_a_result_is_waited_with_in_memory_when_there_is_no_room_for_its_file(
    cluster: EmbeddedPostgres, base: sa.Engine, spool: Spool
) -> None:
    spool.folder.write_text("a file where the directory should be: nothing can be written there")
    store = SpooledStore(base, spool=spool, patience=Seconds(60.0))
    night = a_night(store)
    cluster.stop()
    later = threading.Timer(0.3, cluster.ensure)
    later.start()
    try:
        assert night.keep() > 0
    finally:
        later.join()
    assert count(base, "windows") == 1


def test_a_server_killed_after_it_committed_and_before_it_answered_has_the_window_once(
    cluster: EmbeddedPostgres, base: sa.Engine, spool: Spool
) -> None:
    store = SpooledStore(base, spool=spool, patience=Seconds(60.0), revive=cluster.ensure)
    night = a_night(store)
    lost: list[int] = []

    @sa.event.listens_for(base, "commit")
    def kill_after_the_commit(connection: sa.Connection) -> None:
        pid = postmaster_of(cluster.data)
        if not lost and pid is not None:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.commit()  # the server has it on disk
            lost.append(pid)
            os.kill(pid, signal.SIGKILL)
            raise sa.exc.OperationalError("COMMIT", None, Exception("server closed the connection unexpectedly"))

    first = night.keep()
    assert lost
    assert count(base, "windows") == 1
    assert night.keep() == first
    assert (spool.waiting(), spool.refused()) == ((), ())


def test_a_database_that_takes_no_writes_is_told_at_once_and_not_waited_for(
    cluster: EmbeddedPostgres, base: sa.Engine, spool: Spool
) -> None:
    run(cluster, "ALTER DATABASE nightsweep SET default_transaction_read_only = on")
    clock = FakeClock()
    engine = connect(cluster.url("nightsweep"))
    try:
        store = SpooledStore(engine, spool=spool, clock=clock, patience=Seconds(600.0))
        began = clock.monotonic()
        with pytest.raises(StoreReadOnly) as refused:
            a_night(store)
        assert clock.monotonic() == began
        assert "default_transaction_read_only" in str(refused.value)
    finally:
        engine.dispose()
        run(cluster, "ALTER DATABASE nightsweep RESET default_transaction_read_only")


def test_a_database_that_becomes_read_only_in_the_night_loses_no_result(
    cluster: EmbeddedPostgres, base: sa.Engine, store: SpooledStore, spool: Spool, night: Night
) -> None:
    run(cluster, "ALTER DATABASE nightsweep SET default_transaction_read_only = on")
    base.dispose()
    try:
        with pytest.raises(StoreReadOnly) as refused:
            night.keep()
        assert "1 writes wait in" in str(refused.value)
    finally:
        run(cluster, "ALTER DATABASE nightsweep RESET default_transaction_read_only")
        base.dispose()
    assert store.drain() == 1
    with pytest.raises(RepeatAlreadyStored):
        night.keep(a_window(1.0))


def test_the_spool_of_one_database_is_never_delivered_to_another_and_its_name_tells_no_password() -> None:
    names = {
        name_of_database(url)
        for url in (
            None,
            "postgresql+psycopg://a:secret@one/nightsweep",
            "postgresql+psycopg://a@two/nightsweep",
            "postgresql+psycopg://a@one/other",
            "postgresql+psycopg://a@/nightsweep?host=/run/one",
            "postgresql+psycopg://a@/nightsweep?host=/run/two",
        )
    }
    assert len(names) == 6
    assert name_of_database("postgresql+psycopg://b:other@one/nightsweep") in names

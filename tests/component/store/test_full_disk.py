"""A disk is full: of the database, of the spool, or of both. What is in hand is kept while there is anything to keep it in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightsweep.errors import StoreUnavailable
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import connect
from nightsweep.store.spool import Spool
from nightsweep.store.spooled import SpooledStore
from nightsweep.units import Seconds
from tests.storekit.builders import Night, a_night
from tests.storekit.fixtures import a_home, run, throw_away

BALLAST = "ballast"


@contextlib.contextmanager
def a_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """Have a file system of that size for the block; root may mount one."""
    folder.mkdir(exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("nobody here may mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Leave nothing free."""
    with (disk / BALLAST).open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65536))


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    home = a_home()
    with a_disk(home, megabytes=160) as mounted:
        yield mounted
    home.rmdir()


@pytest.fixture(scope="module")
def cluster(disk: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a cluster on that disk."""
    disk.chmod(0o711)
    made = EmbeddedPostgres(disk / "home")
    (disk / "home").mkdir(mode=0o711)
    made.ensure()
    run(made, "ALTER SYSTEM SET max_wal_size = '32MB'", "ALTER SYSTEM SET wal_recycle = off", "SELECT pg_reload_conf()")
    made.ensure_database("nightsweep")
    engine = connect(made.url("nightsweep"))
    upgrade(engine)
    engine.dispose()
    yield made
    (disk / BALLAST).unlink(missing_ok=True)
    throw_away(made)


@pytest.fixture
def engine(cluster: EmbeddedPostgres, disk: Path) -> Iterator[sa.Engine]:
    (disk / BALLAST).unlink(missing_ok=True)
    cluster.ensure()
    made = connect(cluster.url("nightsweep"))
    with made.begin() as connection:
        connection.execute(sa.text("TRUNCATE boxes, configs, probes, conditions, images, events CASCADE"))
    yield made
    made.dispose()


def keep_until_full(night: Night, *, most: int = 400) -> int:
    """Keep windows until one cannot be kept; return how many there were. What is preallocated takes some first."""
    for index in range(most):
        try:
            night.keep(index=index)
        except StoreUnavailable:
            return index
    raise AssertionError("the disk is not full")


def test_with_the_databases_disk_full_results_are_spooled_and_stored_once_there_is_room(
    cluster: EmbeddedPostgres, engine: sa.Engine, disk: Path, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "spool")
    store = SpooledStore(engine, spool=spool, patience=Seconds(0.0))
    night = a_night(store)
    fill(disk)
    kept = keep_until_full(night)
    assert len(spool.waiting()) == 1
    (disk / BALLAST).unlink()
    cluster.ensure()  # a server that had no room for its journal has ended
    assert store.drain() == 1
    assert len(store.stored(night.sweep_id).windows) == kept + 1
    assert spool.refused() == ()


def test_with_no_room_for_the_spool_either_the_result_waits_in_memory_for_the_room(
    cluster: EmbeddedPostgres, engine: sa.Engine, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(disk / "spool")

    def make_room() -> None:
        assert spool.waiting() == ()
        (disk / BALLAST).unlink(missing_ok=True)
        cluster.ensure()

    store = SpooledStore(engine, spool=spool, patience=Seconds(60.0), revive=make_room)
    night = a_night(store)
    fill(disk)
    index = 0
    while (disk / BALLAST).exists():  # until one had to wait for room
        night.keep(index=index)
        fill_again(disk)
        index += 1
    assert len(store.stored(night.sweep_id).windows) == index
    assert any("cannot take a file" in record.getMessage() for record in caplog.records)
    assert os.listdir(spool.folder) == []


def fill_again(disk: Path) -> None:
    """Take what a checkpoint gave back, unless room was made."""
    if (disk / BALLAST).exists():
        fill(disk)


def test_a_spool_that_may_write_no_file_is_said_and_nothing_half_written_stays(tmp_path: Path) -> None:
    script = (
        "import resource, signal, sys, uuid\n"
        "from pathlib import Path\n"
        "from nightsweep.store.spool import Spool, Write\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "write = Write(method='event', args={'message': 'x' * 500, 'kind': 'note'}, key=uuid.uuid4())\n"
        "try:\n"
        "    Spool(Path(sys.argv[1])).keep(write)\n"
        "except OSError as error:\n"
        "    print('refused', error.strerror)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "spool")], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("refused"), said
    assert os.listdir(tmp_path / "spool") == []

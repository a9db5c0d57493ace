"""The embedded cluster's life, and every way its owner or itself was seen to die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from nightsweep.errors import StoreUnavailable
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.pgbin import BIN_VARIABLE, ServerUser, find_bin, reaches
from nightsweep.store.place import POINTER
from nightsweep.store.postgres import connect
from nightsweep.store.postmaster import anything_works_in, postmaster_of
from tests.storekit.fixtures import a_home, run, throw_away

ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="only root drops to another user")
PROGRAM = """
import sys
from pathlib import Path
from nightsweep.store.embedded import EmbeddedPostgres
cluster = EmbeddedPostgres(Path(sys.argv[1]))
cluster.ensure()
print(cluster.alive(), cluster.place.root)
"""


@pytest.fixture(scope="module")
def seed() -> Iterator[Path]:
    """Return a home whose cluster was made and stopped; a copy of it starts in a fifth of the time."""
    cluster = EmbeddedPostgres(a_home())
    cluster.ensure()
    cluster.stop()
    yield cluster.home
    throw_away(cluster)


@pytest.fixture
def cluster(seed: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a cluster that is stopped, with a home of its own."""
    home = a_home()
    subprocess.run(["cp", "-a", f"{seed}/.", str(home)], check=True)
    made = EmbeddedPostgres(home)
    yield made
    throw_away(made)


def ask(cluster: EmbeddedPostgres, statement: str) -> str:
    with psycopg.connect(cluster.url("postgres").replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])


def keep_a_row(cluster: EmbeddedPostgres) -> None:
    run(cluster, "CREATE TABLE kept (number int)", "INSERT INTO kept VALUES (42)")


def postmaster(cluster: EmbeddedPostgres) -> int:
    pid = postmaster_of(cluster.data)
    assert pid is not None
    return pid


def wait_until_dead(pid: int) -> None:
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}") and Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.01)


# --- an ordinary life


def test_a_new_home_gets_a_cluster_in_utf8_with_checksums_and_no_network() -> None:
    cluster = EmbeddedPostgres(a_home() / "not" / "there" / "yet")
    try:
        assert not cluster.alive()
        cluster.ensure()
        assert cluster.alive()
        assert ask(cluster, "SHOW server_encoding") == "UTF8"
        assert ask(cluster, "SHOW data_checksums") == "on"
        assert ask(cluster, "SHOW listen_addresses") == ""
        assert ask(cluster, "SHOW max_connections") == "100"
        assert cluster.place.sockets.stat().st_mode & 0o777 == 0o700
    finally:
        throw_away(cluster)


def test_what_was_stored_is_there_after_stop_and_start(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    keep_a_row(cluster)
    cluster.stop()
    assert not cluster.alive()
    assert anything_works_in(cluster.data) is None
    cluster.ensure()
    assert ask(cluster, "SELECT number FROM kept") == "42"


def test_starting_twice_and_stopping_twice_is_once(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    pid = postmaster(cluster)
    EmbeddedPostgres(cluster.home).ensure()
    assert postmaster(cluster) == pid
    cluster.stop()
    cluster.stop()


def test_the_server_is_no_part_of_our_process_group_so_that_ctrl_c_spares_it(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    assert os.getpgid(postmaster(cluster)) != os.getpgid(0)


def test_databases_are_made_once_whatever_they_are_called(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    for _ in range(2):
        cluster.ensure_database('odd "name"')
    assert ask(cluster, "SELECT count(*) FROM pg_database WHERE datname = 'odd \"name\"'") == "1"


def test_asyncpg_reaches_the_same_server_as_prefect_will(cluster: EmbeddedPostgres) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    cluster.ensure()
    cluster.ensure_database("prefect")
    url = cluster.url("prefect", driver="asyncpg")
    assert url.startswith("postgresql+asyncpg://postgres@/prefect?host=")

    async def who() -> str:
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            await connection.execute("CREATE EXTENSION pg_trgm")
            return str(await connection.fetchval("SELECT current_database()"))
        finally:
            await connection.close()

    assert asyncio.run(who()) == "prefect"


def test_a_home_whose_path_is_too_long_for_a_socket_works_too() -> None:
    cluster = EmbeddedPostgres(a_home() / ("long" * 30))
    try:
        cluster.ensure()
        assert len(str(cluster.place.sockets)) < 80
        assert cluster.alive()
    finally:
        throw_away(cluster)


def test_a_home_may_be_called_anything(seed: Path) -> None:
    home = a_home() / "my home & 100% 'quoted', (once)"
    subprocess.run(["cp", "-a", str(seed), str(home)], check=True)
    cluster = EmbeddedPostgres(home)
    try:
        cluster.ensure()
        cluster.ensure_database("night sweep")
        engine = connect(cluster.url("night sweep"))
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT current_database()")) == "night sweep"
        engine.dispose()
        assert cluster.url("nightsweep").startswith("postgresql+psycopg://postgres@/nightsweep?host=/")
    finally:
        throw_away(cluster)


# --- deaths


def test_a_killed_postmaster_comes_back_with_all_that_was_committed(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    keep_a_row(cluster)
    pid = postmaster(cluster)
    os.kill(pid, signal.SIGKILL)
    wait_until_dead(pid)
    before = (cluster.place.logs / "server.log").stat().st_size
    cluster.ensure()
    assert postmaster(cluster) != pid
    assert ask(cluster, "SELECT number FROM kept") == "42"
    said = (cluster.place.logs / "server.log").read_text()[before:]
    assert "automatic recovery in progress" in said
    assert "FATAL" not in said, "it was called upon before it was ready"
    assert ask(cluster, "SHOW recovery_init_sync_method") == "syncfs"


def test_a_killed_tree_under_a_writer_loses_nothing_that_was_acknowledged(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    run(cluster, "CREATE TABLE kept (number int)")
    acknowledged = 0
    with psycopg.connect(cluster.url("postgres").replace("+psycopg", ""), autocommit=True) as writer:
        pids = [int(row[0]) for row in writer.execute("SELECT pid FROM pg_stat_activity").fetchall()]
        for number in range(200):
            writer.execute("INSERT INTO kept VALUES (%s)", (number,))
            acknowledged += 1
        for pid in (postmaster(cluster), *pids):
            with contextlib.suppress(ProcessLookupError):  # one that only looked in has ended by itself
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            for _ in range(1000):
                writer.execute("INSERT INTO kept VALUES (-1)")
    cluster.ensure()
    assert int(ask(cluster, "SELECT count(*) FROM kept WHERE number >= 0")) == acknowledged


def test_a_pid_file_that_names_a_process_of_somebody_else_is_not_believed(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    pid_file = cluster.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    cluster.stop()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    assert not cluster.alive()
    cluster.ensure()
    assert cluster.alive()


def test_a_pid_file_that_was_cut_short_is_not_believed(cluster: EmbeddedPostgres) -> None:
    (cluster.data / "postmaster.pid").write_text("")
    cluster.ensure()
    assert cluster.alive()


def test_nothing_is_started_beside_a_process_that_still_works_in_the_data_directory(
    cluster: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nightsweep.store.embedded.ORPHANS_TIMEOUT", 0.3)
    with subprocess.Popen(["sleep", "60"], cwd=cluster.data) as orphan:
        try:
            with pytest.raises(StoreUnavailable, match=f"process {orphan.pid} still works in"):
                cluster.ensure()
        finally:
            orphan.kill()
    cluster.ensure()
    assert cluster.alive()


def test_a_making_that_was_killed_half_way_is_begun_again(cluster: EmbeddedPostgres) -> None:
    (cluster.data / "PG_VERSION").write_text("18\n")
    shutil.rmtree(cluster.data / "base")
    (cluster.home / "initdb-unfinished").touch()
    cluster.ensure()
    assert cluster.alive()


def test_a_server_whose_socket_was_cleaned_away_is_started_anew(cluster: EmbeddedPostgres) -> None:
    cluster.ensure()
    keep_a_row(cluster)
    (cluster.place.sockets / ".s.PGSQL.5432").unlink()
    cluster.ensure()
    assert ask(cluster, "SELECT number FROM kept") == "42"


def test_six_processes_that_start_at_once_get_one_server(cluster: EmbeddedPostgres) -> None:
    command = [sys.executable, "-c", PROGRAM, str(cluster.home)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    answers = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [answer[0] for answer in answers] == ["True"] * 6
    assert ask(cluster, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'checkpointer'") == "1"


# --- refusals


def test_data_of_another_major_version_is_refused_and_not_touched(cluster: EmbeddedPostgres) -> None:
    (cluster.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(StoreUnavailable, match=r"is of PostgreSQL 17, the programs .* are 18"):
        cluster.ensure()
    assert (cluster.data / "PG_VERSION").read_text() == "17\n"
    assert (cluster.data / "base").is_dir()


def test_a_server_that_dies_at_start_says_why(cluster: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nightsweep.store.embedded.GONE_AFTER", 0.5)
    with (cluster.data / "postgresql.conf").open("a") as conf:
        conf.write("no_such_setting = 1\n")
    with pytest.raises(StoreUnavailable, match="no_such_setting"):
        cluster.ensure()


def test_a_server_that_is_ready_and_takes_nobody_says_so_before_the_timeout(
    cluster: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nightsweep.store.embedded.DEAF_AFTER", 0.2)
    (cluster.data / "pg_hba.conf").write_text("local all all reject\n")
    with pytest.raises(StoreUnavailable, match="pg_hba"):
        cluster.ensure()


def test_a_directory_without_programs_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path))
    with pytest.raises(StoreUnavailable, match=BIN_VARIABLE):
        find_bin(os.environ)


# --- users


@needs_root
def test_root_drops_to_another_user_and_opens_no_parent(cluster: EmbeddedPostgres) -> None:
    before = cluster.home.parent.stat().st_mode
    cluster.ensure()
    assert Path(f"/proc/{postmaster(cluster)}").stat().st_uid != 0
    assert cluster.data.stat().st_mode & 0o777 == 0o700
    assert cluster.home.parent.stat().st_mode == before


@needs_root
def test_a_home_behind_a_closed_directory_leads_elsewhere_and_the_same_way_next_time() -> None:
    closed = a_home()
    closed.chmod(0o700)
    home = closed / "home"
    home.mkdir()
    cluster = EmbeddedPostgres(home)
    try:
        cluster.ensure()
        assert not cluster.place.root.is_relative_to(closed)
        assert (home / POINTER).read_text().strip() == str(cluster.place.root)
        assert (cluster.place.root / "belongs-to").read_text().strip() == str(home)
        assert closed.stat().st_mode & 0o777 == 0o700
        closed.chmod(0o711)  # open by now: the data does not stay behind
        assert EmbeddedPostgres(home).place == cluster.place
        assert EmbeddedPostgres(home).alive()
        root = cluster.place.root
        cluster.remove()
        assert not root.exists()
        assert not home.exists()
    finally:
        throw_away(cluster)


@needs_root
def test_a_cluster_whose_temporary_home_is_gone_is_forgotten_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = a_home()
    monkeypatch.setattr(tempfile, "tempdir", str(closed))
    closed.chmod(0o711)
    (closed / "shut").mkdir(mode=0o700)
    try:
        first = EmbeddedPostgres(closed / "shut" / "first" / "home")
        abandoned = first.place.root
        shutil.rmtree(closed / "shut" / "first")
        second = EmbeddedPostgres(closed / "shut" / "second" / "home")
        assert second.place.root.is_relative_to(closed / "nightsweep-root")
        assert not abandoned.exists()
        assert second.place.root.exists()
    finally:
        shutil.rmtree(closed)


@needs_root
def test_data_that_its_user_can_no_longer_reach_is_not_left_behind_for_an_empty_cluster(seed: Path) -> None:
    closed = a_home()
    subprocess.run(["cp", "-a", str(seed), str(closed / "home")], check=True)
    closed.chmod(0o700)
    try:
        with pytest.raises(StoreUnavailable, match="Permission denied"):
            EmbeddedPostgres(closed / "home").ensure()
        assert not (closed / "home" / POINTER).exists()
    finally:
        shutil.rmtree(closed)


@needs_root
def test_programs_behind_a_closed_directory_are_copied_and_the_directory_stays_closed(
    cluster: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = find_bin(os.environ)
    package = programs.parent.parent
    closed = a_home()
    shutil.copytree(package, closed / package.name, symlinks=True)
    libraries = package.parent / f"{package.name}.libs"
    if libraries.exists():
        shutil.copytree(libraries, closed / libraries.name, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.setenv(BIN_VARIABLE, str(closed / programs.relative_to(package.parent)))
    try:
        cluster.ensure()
        assert os.readlink(f"/proc/{postmaster(cluster)}/exe").startswith(str(cluster.home))
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(closed)


def as_nobody(work: Callable[[], str]) -> str:
    """Return what `work` says when an ordinary user does it, in a child that gave root up."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a test runner's own threads do nothing in the child
        child = os.fork()
    if child == 0:
        try:
            nobody = pwd.getpwnam("nobody")
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            os.write(writing, work().encode())
        except BaseException as error:  # noqa: BLE001 - the child says what it was, and ends
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        answer = said.read()
    os.waitpid(child, 0)
    return answer


@pytest.fixture
def nobodys_home() -> Iterator[Path]:
    """Yield a directory that belongs to `nobody`; skip where even PostgreSQL's programs are closed to him."""
    nobody = pwd.getpwnam("nobody")
    if not reaches(ServerUser(nobody.pw_uid, nobody.pw_gid, "nobody"), find_bin(os.environ) / "postgres", test="-x"):
        pytest.skip("this environment is closed to other users")
    home = a_home()
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    yield home
    shutil.rmtree(home)


@needs_root
def test_an_ordinary_user_runs_the_server_as_himself(nobodys_home: Path) -> None:
    home = nobodys_home / "pg"

    def live() -> str:
        cluster = EmbeddedPostgres(home)
        cluster.ensure()
        alive = cluster.alive()
        owner = Path(f"/proc/{postmaster(cluster)}").stat().st_uid
        cluster.stop()
        return f"{alive} {owner == os.getuid()} {cluster.place.root}"

    assert as_nobody(live) == f"True True {home}"


@needs_root
def test_a_home_of_somebody_else_is_refused_with_the_way_out() -> None:
    home = a_home()

    def live() -> str:
        EmbeddedPostgres(home).ensure()
        return "it started"

    try:
        said = as_nobody(live)
        assert said.startswith("StoreUnavailable")
        assert "set NIGHTSWEEP_HOME to a folder of yours" in said
    finally:
        shutil.rmtree(home)

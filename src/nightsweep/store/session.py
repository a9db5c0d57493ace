"""Connections to PostgreSQL, and patience with one that is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.errors import StoreError, StoreReadOnly, StoreUnavailable
from nightsweep.units import MonotonicSeconds, Seconds

T = TypeVar("T")

AWAY = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)
"""What a server that is down, starting, shutting down or full looks like; also a deadlock, which goes away by trying again."""

FIRST_PAUSE = Seconds(0.05)
LONGEST_PAUSE = Seconds(2.0)
READ_ONLY = "25006"
"""SQLSTATE read_only_sql_transaction."""


class Waiting(Protocol):
    """A clock (`ports.Clock` is one)."""

    def monotonic(self) -> float:
        """Return seconds on the monotonic clock."""

    def now(self) -> datetime:
        """Return the time of day, in UTC and aware of it."""

    def sleep(self, seconds: Seconds) -> None:
        """Wait."""


class MachineTime:
    """This machine's own clock, where no other is given."""

    def monotonic(self) -> float:
        """Return seconds on the monotonic clock."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: Seconds) -> None:
        """Wait."""
        time.sleep(seconds)


def connect(url: str, *, application: str = "nightsweep") -> sa.Engine:
    """Return a pool of connections to the database; nothing is connected yet.

    Every checkout is tested, so that a restart of the server costs no error. No transaction may idle, none waits long for a
    lock: all of them are short.
    """
    return sa.create_engine(
        url,
        pool_size=5,
        max_overflow=5,
        pool_timeout=30,
        pool_pre_ping=True,
        pool_recycle=1800,
        use_native_hstore=False,  # no column is one: each connection would ask for the type
        connect_args={
            "application_name": application,
            "connect_timeout": 5,
            "options": "-c statement_timeout=60s -c idle_in_transaction_session_timeout=60s -c lock_timeout=10s",
        },
    )


class Outage:
    """How long the server has been away, seen by everybody who shares it, and when it is no longer waited for.

    Patience is of an outage, not of a call: once it has ended, further calls try once each until one gets through.

    Attributes:
        patience: How long an outage is waited out.
        deadline: It is waited out until then also beyond that; None is no deadline.
    """

    def __init__(self, clock: Waiting, *, patience: Seconds) -> None:
        self._clock = clock
        self._began: float | None = None
        self.patience = patience
        self.deadline: MonotonicSeconds | None = None

    @property
    def away(self) -> bool:
        """Whether the last try found nobody."""
        return self._began is not None

    def failed(self) -> None:
        """Note that a try found nobody."""
        if self._began is None:
            self._began = self._clock.monotonic()

    def ended(self) -> Seconds | None:
        """Note that a try got through; return how long nobody answered, None when that was no news."""
        began, self._began = self._began, None
        return None if began is None else Seconds(self._clock.monotonic() - began)

    def worth(self, pause: Seconds) -> bool:
        """Return whether it is worth to try again after a pause."""
        now = self._clock.monotonic()
        began = now if self._began is None else self._began
        end = began + self.patience
        return now + pause <= (end if self.deadline is None else max(end, self.deadline))


class Patient:
    """Runs transactions, and tries again while the server is away, as long as the outage is worth it; then StoreUnavailable.

    A transaction may have been committed although its answer was lost; what is run here must be idempotent.

    Args:
        outage: Shared by all who talk to this server.
        revive: Called before each further try; starts an embedded server again. Its StoreErrors are no reason to give up.
        shelter: Entered for each try, and left while the next one is waited for. An interrupt that strikes inside a driver's
            call leaves its connection in no state to roll back, and the error of that hides the interrupt.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        clock: Waiting,
        outage: Outage,
        revive: Callable[[], None] | None,
        shelter: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._engine, self._clock, self._outage = engine, clock, outage
        self._revive, self._shelter = revive, shelter

    @classmethod
    def alone(cls, engine: sa.Engine, *, patience: Seconds, revive: Callable[[], None] | None) -> Patient:
        """Return one that shares its outage with nobody."""
        clock = MachineTime()
        return cls(engine, clock=clock, outage=Outage(clock, patience=patience), revive=revive)

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Return what `work` returns, in a transaction of its own."""
        return self.persist(lambda: self.once(work))

    def once(self, work: Callable[[sa.Connection], T]) -> T:
        """As `run`, with a single try: for callers that come again by themselves."""
        try:
            with self._shelter(), self._engine.begin() as connection:
                done = work(connection)
        except AWAY as error:
            self._outage.failed()
            raise StoreUnavailable(reason=first_line(error)) from error
        except sa.exc.InternalError as error:
            if getattr(error.orig, "sqlstate", None) != READ_ONLY:
                raise
            raise StoreReadOnly(reason=first_line(error)) from error
        self._outage.ended()
        return done

    def persist(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` returns; it is called again while it finds the server away.

        Raises:
            StoreReadOnly: At once: a server that takes no writes is none to wait for.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except StoreReadOnly:
                raise
            except StoreUnavailable:
                if not self._outage.worth(pause):
                    raise
            self._clock.sleep(pause)
            pause = min(Seconds(pause * 2), LONGEST_PAUSE)
            self._try_to_revive()

    def _try_to_revive(self) -> None:
        if self._revive is not None:
            try:
                self._revive()
            except StoreError:
                return


def first_line(error: Exception) -> str:
    """Return an error's first line, which names what failed; SQLAlchemy's further lines hold the statement and its values."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def constraint_of(error: sa.exc.IntegrityError) -> str:
    """Return the name of the constraint that refused a write, or ""."""
    diagnosis = getattr(error.orig, "diag", None)
    return str(getattr(diagnosis, "constraint_name", None) or "")


def id_of(connection: sa.Connection, table: sa.Table, *, key: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """Return the id of the row with this unique key; it is made, with `values` besides, when it is not there."""
    new = insert(table).values(**key, **values).on_conflict_do_nothing().returning(table.c.id)
    made = connection.scalar(new)
    if made is None:
        same = sa.and_(*(table.c[name] == value for name, value in key.items()))
        made = connection.scalar(sa.select(table.c.id).where(same))
    assert made is not None, f"{table.name} has no row {dict(key)}, though it could not be inserted"
    return int(made)

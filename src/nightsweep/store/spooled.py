"""The store with a spool: what was measured and cannot be committed lies in a file until it can.

A write is tried once. With the server away it is spooled, and everything after it goes behind it: the order is kept. Results
and readiness are then waited for, so that nothing more is measured than is in hand; the rest (log, events, how a boot ended)
lies there until somebody drains the spool: this sweep's next write, or whoever opens the store of this home next.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightsweep.engine.values import LogLine
from nightsweep.errors import LateWriteRefused, StoreError, StoreUnavailable
from nightsweep.measurement.values import PrefillResult, WindowResult
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.model import EngineConfig, PrefillRepeat, Repeat
from nightsweep.ports import BootOutcome, BootReady, EngineHandle, Lease, Stored
from nightsweep.store.delivery import Delivery
from nightsweep.store.eventlog import log_event
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.session import MachineTime, Patient, Waiting
from nightsweep.store.spool import Spool, Write
from nightsweep.store.spooled_values import written as written  # loaded before a disk is full, not then
from nightsweep.units import Seconds

log = logging.getLogger("nightsweep.store")

UNSTORABLE = (StoreError, ValueError, TypeError, sa.exc.SQLAlchemyError)
"""What a spooled write may be refused with, other than by a server that is away."""


def name_of_database(url: str | None) -> str:
    """Return what the spool of a database is called; None is the embedded one. No password and no user is in it."""
    if url is None:
        return "embedded"
    where = sa.make_url(url)
    place = "|".join((where.host or "", str(where.port or ""), where.database or "", *map(str, where.query.values())))
    return hashlib.sha256(place.encode()).hexdigest()[:12]


class SpooledStore(PostgresStore):
    """`PostgresStore`, which loses nothing while PostgreSQL is away; see the module.

    Errors:
        StoreUnavailable names the spool when something waits in it.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        spool: Spool,
        clock: Waiting | None = None,
        patience: Seconds = Seconds(120.0),
        revive: Callable[[], None] | None = None,
        shelter: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        clock = clock or MachineTime()
        super().__init__(engine, clock=clock, patience=patience, revive=revive, shelter=shelter)
        self.spool = spool
        once = Patient(engine, clock=clock, outage=self._outage, revive=None, shelter=shelter)
        self._delivery = Delivery(once)
        self._refusals: dict[Path, Exception] = {}
        self._ids: dict[Path, int] = {}
        self._sweep_id: int | None = None  # of the newest write that was delivered

    # --- the spool

    def drain(self) -> int:
        """Store what lies in the spool, oldest first, with a single try; return how many writes were stored.

        What the store refuses is kept aside with an event. Does nothing while somebody else drains.

        Raises:
            StoreUnavailable: The server is away; what is left stays where it is.
        """
        stored = 0
        if not self.spool.waiting():
            return stored
        with self.spool.turn() as ours:
            for path in self.spool.waiting() if ours else ():
                stored += self._drain_one(path)
        if stored:
            self._tell_stored(stored)
        return stored

    def _tell_stored(self, stored: int) -> None:
        said = f"PostgreSQL answers again: {stored} writes that lay in the spool are stored"
        log.warning("%s", said)
        with contextlib.suppress(StoreUnavailable):  # away again: what counts is stored
            self._delivery.tell(
                "spool_stored", said, level="warning", key=uuid.uuid4(), sweep_id=self._sweep_id, at=self._clock.now()
            )

    def _drain_one(self, path: Path) -> bool:
        write: Write | None = None
        try:
            write = self.spool.read(path)
            found = self._delivery.deliver(write, late=True)
        except FileNotFoundError:
            return False
        except StoreUnavailable:
            raise
        except UNSTORABLE as error:
            self._refuse(path, write, error)
            return False
        if found is not None:
            self._ids[path] = int(found)
        self._sweep_id = write.sweep_id or self._sweep_id
        self.spool.done(path)
        return True

    def _refuse(self, path: Path, write: Write | None, error: Exception) -> None:
        aside = self.spool.aside(path)
        what = "a file" if write is None else write.method
        said = str(error) if isinstance(error, StoreError) else type(error).__name__
        self._delivery.tell(
            "late_write_refused",
            f"spooled {what} was refused and is kept in {aside}: {said}",
            level="error",
            key=uuid.uuid5(uuid.NAMESPACE_URL, aside.name),
            sweep_id=None if write is None else write.sweep_id,
            at=self._clock.now(),
        )
        log.error("a spooled write was refused: %s", said)
        self._refusals[path] = error
        self.spool.refuse(path)

    def _settle(self) -> None:
        """Have the spool empty: wait for the server while the outage is worth it (raises StoreUnavailable)."""
        if self.spool.waiting():
            self._wait(self._emptied)

    def _emptied(self) -> None:
        self.drain()
        self._raise_if(self.spool.waiting())

    def _raise_if(self, waiting: Sequence[Path]) -> None:
        if waiting:  # somebody else's turn to deliver it
            raise StoreUnavailable(reason="another process stores what was spooled")

    def _wait(self, attempt: Callable[[], None]) -> None:
        try:
            self._do.persist(attempt)
        except StoreUnavailable as error:
            count = len(self.spool.waiting())
            if not count:
                raise
            kept = f"{error.facts['reason']}; {count} writes wait in {self.spool.folder} and are stored by the next run"
            raise type(error)(reason=kept) from error

    def _keep(self, method: str, *, wait: bool, **args: Any) -> Any:
        """Store one write, or spool it.

        Args:
            wait: Whether to come back only when it is stored.

        Raises:
            LeaseLost, RepeatAlreadyStored: Refused, now or when it was delivered.
        """
        write = Write(method=method, args=args, key=uuid.uuid4())
        if not self.spool.waiting():
            with contextlib.suppress(StoreUnavailable):
                return self._delivery.deliver(write, late=False)
        path = self._spooled(write)
        if path is None:  # no room for a file either: it is in hand only, and waited with
            return self._do.persist(lambda: self._delivery.deliver(write, late=False))
        if not wait:
            with contextlib.suppress(StoreUnavailable):
                self.drain()
            return None
        self._wait(lambda: self._delivered(path))
        known = self._ids.pop(path, None)  # None: another process delivered it
        return known or self._do.persist(lambda: self._delivery.deliver(write, late=True))

    def _spooled(self, write: Write) -> Path | None:
        first = not self.spool.waiting()
        try:
            path = self.spool.keep(write)
        except OSError as error:
            log.error(
                "PostgreSQL is away, and %s cannot take a file (%s): what is in hand waits here",
                self.spool.folder,
                error,
            )
            return None
        if first:
            log.warning("PostgreSQL is away: results lie in %s until it answers", self.spool.folder)
        return path

    def _delivered(self, path: Path) -> None:
        self.drain()
        refused = self._refused_of(path)
        if refused is not None:
            raise refused
        self._raise_if([each for each in self.spool.waiting() if each == path])

    def _refused_of(self, path: Path) -> Exception | None:
        known = self._refusals.pop(path, None)
        if known is None and self.spool.aside(path).exists():
            return LateWriteRefused(path=str(self.spool.aside(path)))
        return known

    # --- what is spooled and waited for: results, and that a boot may be measured in

    def boot_ready(self, lease: Lease, boot_id: int, ready: BootReady, *, at: datetime) -> None:
        """See `ports.Store`."""
        self._keep("boot_ready", wait=True, lease=lease, boot_id=boot_id, told=ready, at=at)

    def add_window(
        self,
        lease: Lease,
        boot_id: int,
        repeat: Repeat,
        result: WindowResult,
        *,
        attempt: int,
        conditions: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """See `ports.Store`."""
        what: dict[str, Any] = {"lease": lease, "boot_id": boot_id, "repeat": repeat, "result": result}
        return int(self._keep("add_window", wait=True, **what, attempt=attempt, under=conditions, at=at))

    def add_prefill(
        self,
        lease: Lease,
        boot_id: int,
        repeat: PrefillRepeat,
        result: PrefillResult,
        *,
        attempt: int,
        conditions: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """See `ports.Store`."""
        what: dict[str, Any] = {"lease": lease, "boot_id": boot_id, "repeat": repeat, "result": result}
        return int(self._keep("add_prefill", wait=True, **what, attempt=attempt, under=conditions, at=at))

    # --- what is spooled and not waited for: it must hold up no ending

    def boot_started(self, lease: Lease, boot_id: int, handle: EngineHandle) -> None:
        """See `ports.Store`."""
        self._keep("boot_started", wait=False, lease=lease, boot_id=boot_id, handle=handle)

    def end_boot(self, lease: Lease, boot_id: int, outcome: BootOutcome, *, at: datetime) -> None:
        """See `ports.Store`."""
        self._keep("end_boot", wait=False, lease=lease, boot_id=boot_id, outcome=outcome, at=at)

    def add_log(self, boot_id: int, seq: int, lines: Sequence[LogLine]) -> None:
        """See `ports.Store`."""
        self._keep("add_log", wait=False, boot_id=boot_id, seq=seq, lines=tuple(lines))

    def event(
        self,
        kind: str,
        message: str,
        *,
        level: str = "info",
        sweep_id: int | None = None,
        boot_id: int | None = None,
        data: Mapping[str, Any] | None = None,
        key: uuid.UUID | None = None,
        at: datetime | None = None,
    ) -> None:
        """See `PostgresStore`."""
        if key is None:
            log_event(kind, message, level=level, sweep_id=sweep_id, boot_id=boot_id, data=data or {})
        told: dict[str, Any] = {"kind": kind, "message": message, "level": level, "data": data or {}}
        told |= {"sweep_id": sweep_id, "boot_id": boot_id}
        self._keep("event", wait=False, **told, key=key or uuid.uuid4(), at=at or self._clock.now())

    # --- what must see everything that was spooled before it

    def stored(self, sweep_id: int) -> Stored:
        """See `ports.Store`."""
        self._settle()
        return super().stored(sweep_id)

    def drawn(self, sweep_id: int) -> tuple[Drawn, ...]:
        """See `ports.Store`."""
        self._settle()
        return super().drawn(sweep_id)

    def claim(self, sweep_id: int, *, owner: str, ttl: Seconds) -> Lease:
        """See `ports.Store`. What a dead holder left in the spool is stored first, while its fence is still current."""
        self._settle()
        return super().claim(sweep_id, owner=owner, ttl=ttl)

    def begin_boot(
        self,
        lease: Lease,
        config: EngineConfig,
        *,
        boot_round: int,
        boot_key: str,
        command: Sequence[str],
        at: datetime,
    ) -> int:
        """See `ports.Store`."""
        self._settle()
        return super().begin_boot(lease, config, boot_round=boot_round, boot_key=boot_key, command=command, at=at)

    def release(self, lease: Lease, *, state: str, note: str) -> None:
        """See `ports.Store`."""
        self._settle()
        super().release(lease, state=state, note=note)

"""Delivers one write of the spool: the very call that could not be made, in one transaction, with a single try."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from nightsweep.errors import LeaseLost, NotFound
from nightsweep.store import boots, catalog, measured
from nightsweep.store.leases import hold_gap
from nightsweep.store.session import Patient
from nightsweep.store.spool import Write

Work = Callable[..., Any]

METHODS: Mapping[str, Work] = {
    "boot_started": boots.started,
    "boot_ready": boots.ready,
    "end_boot": boots.end,
    "add_log": boots.add_log,
    "add_window": measured.add_window,
    "add_prefill": measured.add_prefill,
    "event": catalog.add_event,
}
FILLING = ("end_boot", "add_window", "add_prefill")
"""What may be stored after its sweep was taken over: a fact of that boot, or a repeat that nobody measured meanwhile."""


class Delivery:
    """Calls the function of a write's method. Idempotent, as all of them are."""

    def __init__(self, patient: Patient) -> None:
        self._patient = patient

    def deliver(self, write: Write, *, late: bool) -> Any:
        """Store a write and return what its function returns.

        Args:
            late: The sweep may have been taken over meanwhile: what fills a gap of one that nobody holds is stored all the
                same, under the fence that it was measured under.

        Raises:
            StoreUnavailable: The server is away.
            LeaseLost: It was taken over, and there is no gap to fill.
            RepeatAlreadyStored, BootAlreadyEnded, NotFound: As of the method.
        """
        try:
            return self._call(write)
        except LeaseLost:
            if not late or write.method not in FILLING:
                raise
        return self._call(write, guard=hold_gap)

    def tell(self, kind: str, message: str, *, level: str, key: uuid.UUID, sweep_id: int | None, at: datetime) -> None:
        """Keep an event of the spool, once; of no sweep where its sweep is not in this database."""
        event: dict[str, Any] = {"kind": kind, "message": message, "level": level, "at": at}
        try:
            self._patient.once(lambda c: catalog.add_event(c, key, sweep_id=sweep_id, **event))
        except NotFound:
            self._patient.once(lambda c: catalog.add_event(c, key, **event))

    def _call(self, write: Write, **guard: Any) -> Any:
        """Call the function of a write (raises ValueError for a method that is none of the spool's)."""
        if write.method not in METHODS:
            raise ValueError(f"{write.method!r} is nothing that could have been spooled")
        work = METHODS[write.method]
        return self._patient.once(lambda connection: work(connection, **write.args, **guard))

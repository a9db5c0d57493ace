"""How long a sweep waits for its database: to the night's end while it measures, a moment while it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nightsweep.sweep.tools import Tools
from nightsweep.units import MonotonicSeconds, Seconds

NO_END = Seconds(1800.0)
"""Seconds that an outage is waited out in a sweep without an end: then production serves again, and the spool keeps the rest."""
ENDING = Seconds(5.0)
"""The same while engine and production are put back: enough for a server that restarts, and no more."""


@contextlib.contextmanager
def database_waited_for(tools: Tools, *, left: Seconds | None) -> Iterator[None]:
    """Have the database waited for while the block measures; the engine stays up meanwhile, and nothing more is measured.

    Args:
        left: Seconds until everything is dropped so that production serves in time; None without an end.
    """
    if left is None:
        tools.store.be_patient(NO_END)
    else:
        tools.store.be_patient(ENDING, until=MonotonicSeconds(tools.clock.monotonic() + left))
    try:
        yield
    finally:
        tools.store.be_patient(ENDING)

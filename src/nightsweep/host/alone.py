"""One measurer a machine: two homes, each with a database of its own, must not measure real engines beside each other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nightsweep.errors import BoxBusy

LOCK = Path(tempfile.gettempdir()) / "nightsweep-measures.lock"


@contextlib.contextmanager
def only_measurer(owner: str, *, box: str, lock: Path = LOCK) -> Iterator[None]:
    """Be the only one on this machine who measures, for the block. A killed one leaves nothing to be cleared away.

    Where the file cannot be opened (another user's, a read-only folder) nobody is kept out: leases still hold within a database.

    Raises:
        BoxBusy: Another process measures.
    """
    try:
        held = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = os.pread(held, 200, 0).decode("utf-8", "replace").strip() or "somebody"
            raise BoxBusy(box=box, owner=who) from error
        os.ftruncate(held, 0)
        os.pwrite(held, owner.encode(), 0)
        yield
    finally:
        os.close(held)

"""One service a home: a second one, started by mistake, says so and ends before it has touched anything."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from nightsweep.errors import HostError
from nightsweep.service.home import unusable


class ServiceRuns(HostError):
    """A service serves this home already."""

    summary = (
        "a service serves {home} already (process {pid}): stop that one first, "
        "or give this one a home of its own by NIGHTSWEEP_HOME"
    )


@contextlib.contextmanager
def only_service(home: Path) -> Iterator[None]:
    """Be the only service of this home for the block. A killed one leaves nothing that would have to be cleared away.

    Raises:
        ServiceRuns: Another process is.
        HomeUnusable: The home cannot be made or written.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = os.open(home / "serve.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(home, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ServiceRuns(home=str(home), pid=os.pread(lock, 20, 0).decode("ascii", "replace") or "?") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode("ascii"), 0)
        yield
    finally:
        os.close(lock)


def is_served(home: Path) -> bool:
    """Whether a service of this home runs: another home's may answer on the same port."""
    try:
        lock = os.open(home / "serve.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False

"""A home that cannot be used, in one line: what is needed, where, and how much room there is."""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path

from nightsweep.errors import HostError

TROUBLES = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EEXIST,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class HomeUnusable(HostError):
    """The home cannot be written."""

    summary = (
        "the home {home} cannot be used ({reason}{room}): the database, records of engines and what must come back are kept "
        "there; have it writable, with 100 MB free at least, or give another directory by NIGHTSWEEP_HOME"
    )


def unusable(home: Path, error: OSError) -> HomeUnusable:
    """Return what an error of the system means for the home."""
    where = f": {error.filename}" if error.filename is not None else ""
    return HomeUnusable(home=str(home), reason=f"{error.strerror or error}{where}", room=_room(home))


def trouble_of(home: Path, error: OSError) -> HomeUnusable | None:
    """Return what an error of the system says of the home; None when it is about something else."""
    if error.errno not in TROUBLES:
        return None
    named = None if error.filename is None else Path(str(error.filename)).absolute()
    if named is None:
        return unusable(home, error) if error.errno in NO_ROOM else None
    return unusable(home, error) if named == home or home in named.parents or named in home.parents else None


def _room(home: Path) -> str:
    for place in (home, *home.parents):
        with contextlib.suppress(OSError):
            return f"; {shutil.disk_usage(place).free / 1e6:.0f} MB are free"
    return ""

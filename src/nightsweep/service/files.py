"""Files that people name to be written: an existing one is replaced whole or stays as it is; pipes and devices are written to."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

MOST_LINKS = 40
"""Links that are followed at most, as by the system."""


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all; what is no regular file (a pipe, a device, `/dev/stdout`) is opened and written to.

    A link is followed. An existing file keeps its mode, and its owner where the system lets it; a new one has the umask's.

    Raises:
        OSError: It cannot be written; an existing file is as it was.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    number, found = _descriptor(path), _status(path)
    if number is not None:
        _write_all(os.dup(number), data)  # opened anew, what is behind it would be written over from its start
    elif found is not None and not stat.S_ISREG(found.st_mode):
        _write_all(os.open(path, os.O_WRONLY), data)
    else:
        _replace(Path(os.path.realpath(path)), data, found=found)


def is_replaced(path: Path) -> bool:
    """Return whether writing a path puts a file in place of one, or makes one: False for pipes, devices and `/dev/stdout`."""
    try:
        found = _status(path)
    except OSError:  # it is told when it is written
        return True
    return _descriptor(path) is None and (found is None or stat.S_ISREG(found.st_mode))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _descriptor(path: Path) -> int | None:
    """Return which of the process' own descriptors a path means, as `/dev/stdout` and `/dev/fd/63` do; None for other paths."""
    own = os.path.realpath("/dev/fd")
    step = path.absolute()
    for _ in range(MOST_LINKS):
        if step.name.isdecimal() and len(step.name) < 10 and os.path.realpath(step.parent) == own:
            return int(step.name)
        if not step.is_symlink():
            return None
        step = step.parent / os.readlink(step)
    return None


def _write_all(number: int, data: bytes) -> None:
    with os.fdopen(number, "wb") as file:
        file.write(data)


def _replace(target: Path, data: bytes, *, found: os.stat_result | None) -> None:
    if found is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only", str(target))
    made = target.parent / f".nightsweep-{secrets.token_hex(8)}"
    mode = 0o666 if found is None else stat.S_IMODE(found.st_mode)
    number = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(number, "wb") as file:
            if found is not None:
                with contextlib.suppress(OSError):  # another's file becomes ours, as it would by any editor
                    os.fchown(number, found.st_uid, found.st_gid)
                os.fchmod(number, mode)
            file.write(data)
        os.replace(made, target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise

"""Which processes work in a data directory. Zombies count as dead: pid 1 of a container often does not reap."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported where it is asked: who finds the server answering needs no process table
    import psutil


def postmaster_of(data: Path) -> int | None:
    """Return the pid of a live server of this data directory, or None.

    The pid file is only a hint: after a reboot its pid may be anybody's. It counts when that process works in the
    directory and is a `postgres`.
    """
    import psutil

    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        process = psutil.Process(pid)
        if process.status() in _dead() or not _works_in(process, data):
            return None
        return pid if Path(process.exe()).name.startswith("postgres") else None
    except (OSError, ValueError, psutil.Error):
        return None


def anything_works_in(data: Path) -> int | None:
    """Return a live process (a server, or a backend that lost its own) whose working directory is this one, or None."""
    import psutil

    for process in psutil.process_iter():
        try:
            if _works_in(process, data) and process.status() not in _dead():
                return process.pid
        except psutil.Error:
            continue
    return None


def _dead() -> tuple[str, ...]:
    import psutil

    return psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD


def _works_in(process: psutil.Process, data: Path) -> bool:
    return bool(process.cwd()) and Path(process.cwd()) == data.resolve()

"""Processes that belong together: found whole, ended whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "NIGHTSWEEP_BOOT"
"""Environment variable by which a process of an engine is known, also when it left its session and lost its parent."""


def birth(pid: int) -> str | None:
    """Return when a process was born, in the system's own ticks; None when it is gone or only waits to be reaped.

    With the pid this names a process for as long as the machine is up; a clock that is set does not move it.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return ticks(pid)
    except psutil.Error:
        return None


def boot_of_machine() -> str:
    """Return a name of this run of the machine: pids of an earlier one mean nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


def members(*, mark: str, leader: int | None, leader_birth: str | None) -> dict[int, str]:
    """Return the living processes of an engine, each with its birth: its session, its descendants, all with its mark."""
    found: dict[int, str] = {}
    session = leader if leader is not None and _session_is_still_its(leader, leader_birth) else None
    for process in psutil.process_iter():
        pid = process.pid
        belongs = _session_of(pid) == session if session is not None else False
        if belongs or _mark_of(process) == mark:
            _keep(found, pid)
    if leader is not None and leader_birth is not None and birth(leader) == leader_birth:
        _keep(found, leader)
        for pid in descendants(leader):
            _keep(found, pid)
    return found


def descendants(pid: int) -> frozenset[int]:
    """Return all children of a process and their children; empty when it is gone."""
    try:
        return frozenset(child.pid for child in psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return frozenset()


def send(pids: Iterable[int], sig: signal.Signals) -> None:
    """Send a signal to each; who is gone meanwhile is no error."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sig)


def user_ids(pid: int) -> frozenset[int]:
    """Return the user ids of a process and its descendants; empty when it is gone."""
    found = set()
    for member in {pid, *descendants(pid)}:
        with suppress(psutil.Error):
            found.add(int(psutil.Process(member).uids().effective))
    return frozenset(found)


def _keep(found: dict[int, str], pid: int) -> None:
    born = birth(pid)
    if born is not None and pid != os.getpid():
        found[pid] = born


def _session_is_still_its(leader: int, leader_birth: str | None) -> bool:
    """A session outlives its leader, and its number is not given out again before its last member is gone."""
    now = ticks(leader)
    return now is None or now == leader_birth


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None


def ticks(pid: int) -> str | None:
    """Return a process's birth also when it has ended and waits to be reaped; None when it is gone.

    Source:
        proc(5), /proc/pid/stat: field 22, starttime, in clock ticks since boot.
    """
    if not Path("/proc/self/stat").exists():
        try:
            return f"{psutil.Process(pid).create_time():.2f}"
        except psutil.Error:
            return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return stat.rpartition(b")")[2].split()[19].decode("ascii")

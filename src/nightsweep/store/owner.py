"""Who holds a lease: "host:pid:starttime:uuid", so that a dead holder on this machine is known to be dead."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import uuid
from pathlib import Path

import psutil


def new_owner() -> str:
    """Return a name for one run of the loop in this process; two calls never give the same one."""
    return f"{_host()}:{os.getpid()}:{_start_time(os.getpid())}:{uuid.uuid4().hex[:12]}"


def owner_is_dead(owner: str) -> bool:
    """Return whether the owner was a process of this machine (this boot, this process namespace) and surely is gone.

    An owner elsewhere, or one that cannot be read, is never dead: its lease has to run out.
    """
    parts = owner.split(":")
    if len(parts) != 4 or parts[0] != _host() or not parts[1].isdigit():
        return False
    return _start_time(int(parts[1])) != parts[2]


def lives_here(owner: str) -> bool:
    """Return whether the owner is a process of this machine (this boot, this process namespace) that lives."""
    return owner.split(":")[0] == _host() and not owner_is_dead(owner)


def is_stopped(owner: str) -> bool:
    """Return whether the owner is a process of this machine that is there and does not run (SIGSTOP, a debugger)."""
    if not lives_here(owner):
        return False
    with contextlib.suppress(psutil.Error):
        return psutil.Process(int(owner.split(":")[1])).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return False


def _host() -> str:
    """Return the host's name with a hash of what makes pids comparable: the boot and the process namespace."""
    marks = [str(uuid.getnode())]
    with contextlib.suppress(OSError):
        marks.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        marks.append(os.readlink("/proc/self/ns/pid"))
    return f"{socket.gethostname().replace(':', '-')}~{hashlib.sha256('|'.join(marks).encode()).hexdigest()[:8]}"


def _start_time(pid: int) -> str:
    """Return when the process started, as a word that only equality is asked of; "gone" for one that does not live."""
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return "gone"
        with contextlib.suppress(OSError, IndexError):
            # Clock ticks since boot: unlike a time of day they do not move when the clock is set.
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        return str(round(process.create_time()))
    except psutil.NoSuchProcess:
        return "gone"

"""Who listens on a port of this machine."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def free_port() -> int:
    """Return a port that nobody listens on now, from the range that the system gives out."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_held(port: int) -> bool:
    """Return whether somebody listens on the port, on any address of this machine.

    Binding is the test and not connecting: a listener whose queue is full refuses connections too. SO_REUSEADDR lets connections
    that are still winding down not count.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as refusal:
            return refusal.errno == errno.EADDRINUSE
        return False


def listening_pids(port: int) -> tuple[frozenset[int], bool]:
    """Return the processes that listen on a port, and whether there are listeners whose process we may not see.

    Sockets of other users are seen only with root's rights.
    """
    try:
        found = [c for c in psutil.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.AccessDenied:  # macOS without root
        return frozenset(), is_held(port)
    pids = [c.pid for c in found if c.laddr and c.laddr.port == port]
    return frozenset(pid for pid in pids if pid), any(not pid for pid in pids)


def listens_by_itself(pids: Iterable[int], port: int) -> bool:
    """Return whether one of these processes listens on the port, asked of each: some systems show no more than that."""
    for pid in pids:
        with suppress(psutil.Error):
            connections = psutil.Process(pid).net_connections(kind="tcp")
            if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections):
                return True
    return False


def listening_users(port: int) -> frozenset[int]:
    """Return the user ids of the sockets that listen on a port; readable without any rights.

    Source:
        proc(5), /proc/net/tcp: state 0A is LISTEN, the eighth column is the user.
    """
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                    found.add(int(columns[7]))
    return frozenset(found)


def holder(port: int, published: Iterable[tuple[int, str]] = ()) -> str:
    """Return who holds a port, in words.

    Args:
        published: (host port, container name) of running containers: a better name than that of Docker's proxy.
    """
    for host_port, name in published:
        if host_port == port:
            return f"container {name}"
    pids, hidden = listening_pids(port)
    names = [f"{_name(pid)} (pid {pid})" for pid in sorted(pids)]
    if hidden:
        names.append("a process of another user")
    return ", ".join(names) or "an unknown process"


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "a process"

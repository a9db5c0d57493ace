"""A real engine as a benchmark sees it: started by a command or running already, on cores of its own, with its CPU time."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

BOOT = 900.0
ENDING = 30.0


@dataclass(frozen=True)
class Server:
    """An engine that serves. `pid` is its first process where it is known, else None."""

    url: str
    pid: int | None = None

    def cpu_seconds(self) -> float | None:
        """CPU time of all its processes so far, by the scheduler in nanoseconds; None where it cannot be told."""
        if self.pid is None:
            return None
        try:
            first = psutil.Process(self.pid)
            return sum(_used(process.pid) for process in (first, *first.children(recursive=True)))
        except (psutil.NoSuchProcess, OSError):
            return None


def _used(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that ended meanwhile
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


@dataclass(frozen=True)
class Cores:
    """Cores for the engine and for the client; empty where they are not told apart."""

    engine: tuple[int, ...] = ()
    client: tuple[int, ...] = ()


def apart() -> Cores:
    """The last core for the client (of eight and more, the last two), the others for the engine; none where there is one."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(allowed) < 2 or not shutil.which("taskset"):
        return Cores()
    ours = 2 if len(allowed) >= 8 else 1
    return Cores(engine=tuple(allowed[:-ours]), client=tuple(allowed[-ours:]))


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """Keep this process, and whatever it starts, on these cores inside the block."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pinned(command: Sequence[str], cores: Sequence[int]) -> list[str]:
    """The command on these cores."""
    return ["taskset", "-c", ",".join(map(str, cores)), *command] if cores else list(command)


@contextmanager
def started(command: str, *, cores: Sequence[int], log: Path) -> Iterator[Server]:
    """Start a server by its command line, in which {port} stands for a free port; it is gone when the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    log.parent.mkdir(parents=True, exist_ok=True)
    words = pinned(shlex.split(command.replace("{port}", str(port))), cores)
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    server = Server(url=f"http://127.0.0.1:{port}", pid=process.pid)
    try:
        _until_healthy(server, process, log)
        yield server
    finally:
        _end(process)


def _until_healthy(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + BOOT
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.url}/health", timeout=5.0) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    tail = log.read_text(errors="replace")[-1500:]
    raise RuntimeError(f"the server did not come up ({log}): {tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group: an engine's workers outlive their first process."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=ENDING)

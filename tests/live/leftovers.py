"""What a run may leave behind on the machine: containers, volumes, processes, listening ports. Looked at from outside."""

from __future__ import annotations

import contextlib
import json
import subprocess
from dataclasses import dataclass

import psutil


def docker(*words: str) -> str:
    """What the docker command says."""
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout


@dataclass(frozen=True)
class Belongings:
    """What is there at one moment."""

    containers: frozenset[str]
    volumes: frozenset[str]
    ports: frozenset[tuple[str, int]]
    processes: frozenset[tuple[int, float]]

    @classmethod
    def now(cls) -> Belongings:
        """Look."""
        return cls(
            containers=frozenset(docker("ps", "-aq", "--no-trunc").split()),
            volumes=frozenset(docker("volume", "ls", "-q").split()),
            ports=frozenset((c.laddr.ip, c.laddr.port) for c in psutil.net_connections("tcp") if c.status == "LISTEN"),
            processes=frozenset(_processes()),
        )


def _processes() -> list[tuple[int, float]]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append((process.pid, process.create_time()))
    return found


def owned_containers() -> list[str]:
    """Containers that the product started (tests of the hosts use other values of the label), running or not."""
    listed = docker("ps", "-a", "--filter", "label=nightsweep.owned=1", "--format", "{{json .}}").splitlines()
    return [str(json.loads(line)["Names"]) for line in listed]


def processes_of(home: str) -> list[str]:
    """Processes that name this home in their command line, their environment or their working directory."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            places = [*process.cmdline(), process.cwd(), process.environ().get("NIGHTSWEEP_HOME", "")]
            if any(home in place for place in places):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
    return found

"""Everything that a chaos run needs, up for a block: a home, a Docker Engine where one can be had, a supervised service."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from nightsweep.store.embedded import EmbeddedPostgres
from tests.chaos.checker import Container, touched
from tests.chaos.containers import ENDED, PRODUCTION, RUNNING, Dock, dock, docker_possible
from tests.chaos.evidence import Evidence
from tests.chaos.service import Supervised
from tests.component.sweep.kit import engines_of, free_port
from tests.storekit.fixtures import a_home, throw_away


@dataclass
class World:
    """What is up.

    Attributes:
        dock: None where no Docker Engine can be had: then there is no production either.
        stranger: A process like an engine, and not ours.
        before: Foreign containers as they were at the beginning.
    """

    form: str
    home: Path
    service: Supervised
    evidence: Evidence
    dock: Dock | None
    stranger: psutil.Popen
    before: tuple[Container, ...]

    def foreign_problems(self) -> tuple[str, ...]:
        """Return what was done to containers and processes that are not ours."""
        problems: list[str] = []
        if not self.stranger.is_running() or self.stranger.status() == psutil.STATUS_ZOMBIE:
            problems.append("the foreign process was ended")
        if self.dock is not None:
            for one in self.before:
                problems += touched(one, self.dock.seen(one.name, with_life=one.life is not None))
        return tuple(problems)

    def engines(self) -> dict[str, int]:
        """Return engines of ours that live, with a pid each."""
        found = {str(process.pid): process.pid for process in engines_of(self.home)}
        if self.dock is not None:
            found |= self.dock.own_engines()
        return found

    def serves(self, *, within: float) -> float | None:
        """Return after how many seconds production served a token; None when it did not in time. The service is seen to."""
        assert self.dock is not None
        began = time.monotonic()
        while not self.dock.production_serves():
            if time.monotonic() - began > within:
                return None
            self.service.tend()
            time.sleep(0.2)
        return time.monotonic() - began


@contextlib.contextmanager
def world(form: str, *, keep: Path | None) -> Iterator[World]:
    """Have a world up for the block; nothing of it is left.

    Args:
        keep: Folder that the service's logs are copied to at the end; None keeps none.
    """
    with contextlib.ExitStack() as up:
        docker = up.enter_context(dock()) if docker_possible() else None
        if form == "docker" and docker is None:
            raise SystemExit("the Docker form starts a Docker Engine of its own, which needs root and dockerd")
        home = a_home()
        up.callback(throw_away, EmbeddedPostgres(home / "postgres"))
        up.callback(_end_all, home)
        if keep is not None:
            up.callback(_keep, home, keep)
        log = up.enter_context(open(home / "serve.log", "ab"))
        port, box = free_port(), f"chaos-{os.getpid()}"
        service = Supervised(home=home, environ=_environ(home, box, port, docker), port=port, box=box, log=log)
        stranger = up.enter_context(_stranger())
        before = () if docker is None else tuple(_foreign(docker))
        evidence = Evidence(home, meanwhile=service.tend)
        up.callback(evidence.close)
        up.callback(service.stop)
        yield World(form, home, service, evidence, docker, stranger, before)


def _environ(home: Path, box: str, port: int, docker: Dock | None) -> dict[str, str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTSWEEP_", "PREFECT_"))}
    environ |= {"NIGHTSWEEP_HOME": str(home), "NIGHTSWEEP_BOX": box, "NIGHTSWEEP_PREFECT_PORT": str(port)}
    nowhere = f"unix://{home}/no-docker.sock"
    return environ | {"DOCKER_HOST": nowhere if docker is None else docker.daemon.url}


def _foreign(docker: Dock) -> Iterator[Container]:
    for name in (PRODUCTION, RUNNING, ENDED):
        found = docker.seen(name, with_life=name != PRODUCTION)
        assert found is not None
        yield found


@contextlib.contextmanager
def _stranger() -> Iterator[psutil.Popen]:
    command = [sys.executable, "-c", "import time; time.sleep(86400)", "nightsweep.simulator", "vllm", "serve"]
    with psutil.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _end_all(home: Path) -> None:
    for process in (*Supervised(home, {}, 0, "", log=None).living(), *engines_of(home)):  # type: ignore[arg-type]
        with contextlib.suppress(psutil.Error):
            process.kill()


def _keep(home: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    logs = (home / "serve.log", *(home / "logs").glob("*.log"), *(home / "postgres" / "log").glob("*.log"))
    for log in logs:
        with contextlib.suppress(OSError):
            (keep / log.name).write_bytes(log.read_bytes())

"""Who is killed: found in the process table, in Docker and in the lease; never asked of the product."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

from nightsweep.store.postmaster import postmaster_of
from tests.chaos.containers import AWAY
from tests.chaos.evidence import Scene
from tests.chaos.world import World

DAEMON_AWAY = 1.0
"""Seconds until the supervisor of a killed Docker Engine starts it again."""


def strike(world: World, victim: str, scene: Scene | None) -> str | None:
    """Kill it; return what was killed, in words, or None when there is no such victim now."""
    if victim == "dockerd":
        assert world.dock is not None
        world.dock.kill_daemon(away=DAEMON_AWAY)
        return "dockerd"
    pids = _pids(world, victim, scene)
    gone = [pid for pid in pids if _kill(pid)]
    if victim.startswith("service") and world.service.process is not None and gone:
        world.service.process.wait(10.0)
    return f"{victim} ({len(gone)} processes)" if len(gone) > 1 else victim if gone else None


def holder_of(scene: Scene | None) -> int | None:
    """Return the pid of the process that holds the sweep and lives; None when there is none."""
    if scene is None or scene.state != "running" or scene.owner is None:
        return None
    pid = int(scene.owner.split(":")[1])
    with contextlib.suppress(psutil.Error):
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            return pid
    return None


def _pids(world: World, victim: str, scene: Scene | None) -> list[int]:
    service, data = world.service, world.evidence.data
    if victim.startswith("service"):
        if service.process is None or service.process.poll() is not None:
            return []
        own = [service.process.pid]
        return own if victim == "service" else [*own, *(pid for pid in service.group(data) if pid != own[0])]
    if victim == "flow":
        holder = holder_of(scene)
        return [holder] if holder is not None else _starting_flow(world)
    if victim == "engine":
        with contextlib.suppress(*AWAY):
            return [pid for pid in world.engines().values() if pid][:1]
        return []
    if victim.startswith("Postgres"):
        postmaster = postmaster_of(data)
        if postmaster is None:
            return []
        return [postmaster] if victim == "Postgres" else _backend(postmaster)
    found = service.runner() if victim == "runner" else service.prefect_server()
    return [] if found is None else [found.pid]


def _starting_flow(world: World) -> list[int]:
    runner = world.service.runner()
    with contextlib.suppress(psutil.Error):
        if runner is not None:
            return [
                child.pid for child in runner.children(recursive=True) if "resource_tracker" not in child.cmdline()
            ][:1]
    return []


def _backend(postmaster: int) -> list[int]:
    """Return the newest backend that serves a client of our database; the server then restarts all of them."""
    found = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(postmaster).children():
            with contextlib.suppress(psutil.Error):
                if "nightsweep [local]" in " ".join(child.cmdline()):
                    found.append(child.pid)
    return found[-1:]


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    end = time.monotonic() + 5.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE and process.is_running() and time.monotonic() < end:
            time.sleep(0.005)
    return True

"""The end of an engine's processes: asked, killed, and proven."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

import psutil

from nightsweep.errors import EngineNotGone
from nightsweep.host import process_tree
from nightsweep.ports import Clock
from nightsweep.units import Seconds

POLL = Seconds(0.05)
ORPHANS = 1.0
"""Seconds that the others get when the engine's first process has ended: they have nobody left to serve."""

KILL_PATIENCE = 20.0
"""Seconds after which a process that was killed and is still there (stuck in a driver) counts as not gone."""

Living = Callable[[], Mapping[int, str]]


def end_all(living: Living, *, leader: int | None, grace: Seconds, reap: Callable[[], object], clock: Clock) -> None:
    """End all processes of an engine: SIGTERM, `grace`, SIGKILL until none is left.

    Killing the first process alone does not do: vLLM's EngineCore and workers outlive a killed API server.

    Args:
        living: Returns the processes that are there now, with their births.
        reap: Collects children of ours that have ended, so that they do not stay as zombies.

    Raises:
        EngineNotGone: Some are still there.
    """
    here = dict(living())
    if not here:
        return
    process_tree.send(here, signal.SIGTERM)
    _wait(here, leader=leader, grace=grace, reap=reap, clock=clock)
    begun = clock.monotonic()
    while here := dict(living()):
        if clock.monotonic() - begun > KILL_PATIENCE:
            raise EngineNotGone(handle=str(leader), waited=clock.monotonic() - begun, reason=_names(here))
        process_tree.send(here, signal.SIGKILL)
        clock.sleep(POLL)
        reap()


def _wait(
    here: Mapping[int, str], *, leader: int | None, grace: Seconds, reap: Callable[[], object], clock: Clock
) -> None:
    begun = clock.monotonic()
    until = begun + grace
    while clock.monotonic() < until:
        reap()
        left = [pid for pid, born in here.items() if process_tree.birth(pid) == born]
        if not left:
            return
        if leader not in left:
            until = min(until, clock.monotonic() + ORPHANS)
            leader = left[0]
        clock.sleep(POLL)


def _names(pids: Mapping[int, str]) -> str:
    return "still there: " + ", ".join(f"{_name(pid)} (pid {pid})" for pid in sorted(pids))


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "process"

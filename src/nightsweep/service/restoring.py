"""Bringing production back outside a sweep: by hand, by a hook, at the service's start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nightsweep.errors import DockerUnavailable, HostError, ProductionNotRestored
from nightsweep.ports import Clock, Host, Probe
from nightsweep.service.mirror import FileMirror
from nightsweep.units import Seconds

READY_TIMEOUT = Seconds(1200.0)
LEFTOVER_GRACE = Seconds(5.0)


@dataclass(frozen=True)
class Restored:
    """What became of one container that had been taken down."""

    container: str
    serving: bool
    detail: str


def restore_containers(
    names: tuple[str, ...],
    *,
    host: Host,
    probe: Probe,
    clock: Clock,
    ready_timeout: Seconds = READY_TIMEOUT,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Restored, ...]:
    """Start each container and wait until it answers on /health; never raises for one, so that all are tried."""
    return tuple(
        _restored(name, host=host, probe=probe, clock=clock, patience=ready_timeout, say=say) for name in names
    )


def _restored(
    name: str, *, host: Host, probe: Probe, clock: Clock, patience: Seconds, say: Callable[[str], None]
) -> Restored:
    try:
        say(f"starting {name}")
        host.start_foreign(name)
        port = next(iter(host.foreign(name).ports.values()), None)
        if port is None:
            return Restored(name, serving=True, detail="runs; no published port to ask")
        say(f"waiting until {name} answers on port {port}")
        _wait(name, port, host=host, probe=probe, clock=clock, patience=patience)
    except HostError as error:
        return Restored(name, serving=False, detail=str(error))
    return Restored(name, serving=True, detail=f"answers on port {port}")


def _wait(name: str, port: int, *, host: Host, probe: Probe, clock: Clock, patience: Seconds) -> None:
    started = clock.monotonic()
    while not probe.healthy(f"http://127.0.0.1:{port}/health", timeout=Seconds(5.0)):
        if clock.monotonic() - started > patience:
            raise ProductionNotRestored(name=name, reason=f"port {port} does not answer after {patience:.0f} s")
        if not host.foreign(name).running:
            raise ProductionNotRestored(name=name, reason="it was started and has ended again")
        clock.sleep(Seconds(0.5))


def noted(mirror: FileMirror) -> tuple[str, ...]:
    """Return the containers that the file says were taken down."""
    with contextlib.suppress(OSError):
        return tuple(sorted(mirror.read()))
    return ()


def orphaned(mirror: FileMirror, *, lives: Callable[[str | None], bool]) -> tuple[str, ...]:
    """Return, of the containers that were taken down, those whose sweep is dead: a living one brings its own back.

    Args:
        lives: Says of a lease's owner whether it is a living process of this machine.
    """
    with contextlib.suppress(OSError):
        return tuple(sorted(name for name, facts in mirror.read().items() if not lives(_owner(facts))))
    return ()


def _owner(facts: object) -> str | None:
    found = facts.get("owner") if isinstance(facts, dict) else None
    return found if isinstance(found, str) else None


def stop_leftovers(
    hosts: Sequence[Host], *, say: Callable[[str], None], lives: Callable[[str], bool] = lambda holder: False
) -> None:
    """Stop engines that a dead sweep left running. A host that does not answer has none that could be stopped.

    An engine whose holder lives is another service's, of another home on the same machine: it is left alone.
    """
    for host in hosts:
        try:
            for handle in host.owned():
                holder = handle.facts.get("holder")
                if holder and lives(str(holder)):
                    say(f"engine {handle.boot_key} belongs to a sweep that lives ({holder}): left alone")
                    continue
                say(f"stopping engine {handle.boot_key}, which a dead sweep left behind")
                host.stop(handle, grace=LEFTOVER_GRACE)
        except DockerUnavailable:  # then it runs no engine of ours either
            continue
        except HostError as error:
            say(f"leftover engines of host {host.kind}: {error}")

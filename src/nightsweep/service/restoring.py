"""Bringing production back outside a sweep: by hand, by a hook, at the service's start."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from nightsweep.errors import ContainerMissing, HostError, ProductionNotRestored
from nightsweep.ports import Clock, Host, Probe
from nightsweep.service.mirror import FileMirror
from nightsweep.units import Seconds

READY_TIMEOUT = Seconds(1200.0)


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
    except (HostError, ContainerMissing) as error:
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

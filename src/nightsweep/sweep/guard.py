"""The production guard: what is stopped for the sweep comes back, however the sweep ends.

The intent (what runs, how it comes back) is in the database, and in a file beside it, before production is touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime

from nightsweep.errors import HostError, LeaseLost, ProductionNotRestored, StoreError
from nightsweep.plan.model import Production
from nightsweep.ports import ForeignContainer, Host, Lease
from nightsweep.sweep.signals import signals_deferred
from nightsweep.sweep.tools import Tools
from nightsweep.units import Seconds

STOP_GRACE = Seconds(60.0)
HEALTH_POLL = Seconds(0.5)


@contextlib.contextmanager
def production_down(
    tools: Tools, lease: Lease, production: Production | None, *, restore_by: datetime | None
) -> Iterator[None]:
    """Take production down for the block, and have it serving again after it.

    With the sweep taken over by another holder it is that one's to bring back: it found the intent open, and measures now.

    Raises:
        ContainerMissing: There is no such container; nothing was touched.
        ProductionNotRestored: It does not serve again.
    """
    if production is None:
        yield
        return
    host = tools.host("docker")
    found = host.foreign(production.container)
    if not found.running and not _taken_down_before(tools, lease, production):
        tools.store.event(
            "production_not_running",
            f"{production.container} was not running before the sweep: it is left as it is",
            level="warning",
            sweep_id=lease.sweep_id,
        )
        yield
        return
    ours = True
    try:
        take_down(tools, lease, found, host=host, restore_by=restore_by)
        yield
    except LeaseLost:
        ours = False
        raise
    finally:
        if ours:
            with signals_deferred():
                restore(tools, host, production, box_id=lease.box_id, sweep_id=lease.sweep_id)


@contextlib.contextmanager
def nothing_forgotten(tools: Tools, lease: Lease) -> Iterator[None]:
    """Bring back, after the block, what an earlier, dead holder of this box took down, whatever plan it followed.

    Raises:
        ProductionNotRestored: One does not serve again; the others were tried.
    """
    ours = True
    try:
        yield
    except LeaseLost:
        ours = False
        raise
    finally:
        if ours:
            _restore_forgotten(tools, lease)


def _restore_forgotten(tools: Tools, lease: Lease) -> None:
    names: set[str] = set()
    with contextlib.suppress(StoreError):  # the file beside the database still knows
        names = {name for _, name in tools.store.open_intents(lease.box_id)}
    problem: ProductionNotRestored | None = None
    for name in sorted(names):
        with signals_deferred():
            try:
                host = tools.host("docker")
                restore(tools, host, Production(container=name), box_id=lease.box_id, sweep_id=lease.sweep_id)
            except ProductionNotRestored as error:
                problem = error
    if problem is not None:
        raise problem


def _taken_down_before(tools: Tools, lease: Lease, production: Production) -> bool:
    """Whether an earlier, dead holder took it down: then it is ours to bring back."""
    return any(name == production.container for _, name in tools.store.open_intents(lease.box_id))


def take_down(tools: Tools, lease: Lease, found: ForeignContainer, *, host: Host, restore_by: datetime | None) -> None:
    """Commit the intent, then stop production."""
    if not _open(tools, lease, found):
        tools.store.open_intent(lease, found, restore_by=restore_by)
    if tools.mirror is not None:
        facts = {"id": found.id, "image": found.image, "owner": lease.owner, "box_id": lease.box_id}
        tools.mirror.write(found.name, facts)
    tools.store.event("production_stopping", f"{found.name} is stopped for the sweep", sweep_id=lease.sweep_id)
    host.stop_foreign(found.name, grace=STOP_GRACE)


def _open(tools: Tools, lease: Lease, found: ForeignContainer) -> bool:
    return any(name == found.name for _, name in tools.store.open_intents(lease.box_id))


def restore(tools: Tools, host: Host, production: Production, *, box_id: int, sweep_id: int | None) -> None:
    """Start production, wait until it serves, close the intent. Idempotent; works without the store, but says so later.

    Raises:
        ProductionNotRestored: With what is wrong; the intent stays open.
    """
    name = production.container
    try:
        host.start_foreign(name)
        _wait_serving(tools, host, production)
    except HostError as error:
        with contextlib.suppress(StoreError):
            tools.store.event("production_not_restored", str(error), level="error", sweep_id=sweep_id)
        if isinstance(error, ProductionNotRestored):
            raise
        raise ProductionNotRestored(name=name, reason=str(error)) from error
    if tools.mirror is not None:
        tools.mirror.clear(name)
    with contextlib.suppress(StoreError):  # production serves; the next start of the service closes the intent
        for intent_id, container in tools.store.open_intents(box_id):
            if container == name:
                tools.store.close_intent(intent_id, outcome="restored")
        tools.store.event("production_restored", f"{name} serves again", sweep_id=sweep_id)


def _wait_serving(tools: Tools, host: Host, production: Production) -> None:
    found = host.foreign(production.container)
    url = production.url or _published(found)
    if url is None:
        return  # nothing to ask: it runs, and no port is published
    health = url.rstrip("/").removesuffix("/v1") + "/health"
    started = tools.clock.monotonic()
    while not tools.probe.healthy(health, timeout=Seconds(5.0)):
        waited = tools.clock.monotonic() - started
        if waited > production.ready_timeout:
            raise ProductionNotRestored(name=found.name, reason=f"{health} does not answer after {waited:.0f} s")
        if not host.foreign(production.container).running:
            raise ProductionNotRestored(name=found.name, reason="it was started and has ended again")
        tools.clock.sleep(HEALTH_POLL)


def _published(found: ForeignContainer) -> str | None:
    port = next(iter(found.ports.values()), None)
    return None if port is None else f"http://127.0.0.1:{port}"

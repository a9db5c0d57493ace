"""Brings production back and proves it: started, ready, a token served, compared with what was recorded. The one place for it.

The sweep's guard, `nightsweep restore`, the service's start and the watchdog all call it. Needs Docker alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nightsweep.errors import (
    ContainerMissing,
    DockerUnavailable,
    HostError,
    NotForeign,
    ProductionComing,
    ProductionNotRestored,
)
from nightsweep.ports import Clock, ForeignContainer, Host, Probe
from nightsweep.production.asking import Asked, ask
from nightsweep.production.door import door_of
from nightsweep.production.record import Record, differences, made_again
from nightsweep.units import MonotonicSeconds, Seconds

POLL = Seconds(0.5)
AGAIN = Seconds(60.0)
"""After which what is waited for is said again."""
HURRIED = Seconds(20.0)
"""How long production is still waited for once whoever waits is told to end: a service has 60 s to stop, engine and all."""


@dataclass(frozen=True)
class Back:
    """Production that serves again.

    Attributes:
        started: Whether it had to be started; else it ran already.
        checks: What was checked, for the record: how it was ready, the token, what differs, seconds from start to proof.
        differences: How it differs from what was stopped.
        unchecked: What could not be checked, and why.
    """

    name: str
    started: bool
    checks: Mapping[str, Any]
    differences: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """The proof in a sentence's half, for people."""
        token = f"served a token as {self.checks['model']}" if self.checks.get("token") == "served" else None
        where = f"at {self.checks['url']}" if "url" in self.checks else None
        ready = f"ready by {self.checks.get('ready')}"
        return "; ".join([" ".join(filter(None, (token or ready, where))), *self.unchecked, *self.differences])


@dataclass(frozen=True)
class Helpers:
    """Who brings production back, and who is told.

    Attributes:
        began: Called when it was found down and has just been started.
        hurried: Whether whoever waits has been told to end: then it is waited for only `HURRIED` longer.
    """

    host: Host
    probe: Probe
    clock: Clock
    say: Callable[[str], None] = lambda text: None
    began: Callable[[], None] = lambda: None
    hurried: Callable[[], bool] = lambda: False


def bring_back(record: Record, helpers: Helpers) -> Back:
    """Start production, wait until it serves, and prove it. Idempotent.

    Raises:
        ProductionNotRestored: With what is wrong and, for a container that was removed, how it is made again.
        ProductionComing: It was started, and is not proven yet; whoever waited was told to end.
    """
    patience = _Patience(helpers, record)
    try:
        started = _start(record, helpers, patience)
        found, asked = _until_proven(record, helpers, patience)
    except ContainerMissing as error:
        again = made_again(record)
        raise ProductionNotRestored(name=record.name, reason="its container was removed", again=again) from error
    except (ProductionNotRestored, ProductionComing, NotForeign):
        raise
    except HostError as error:
        raise ProductionNotRestored(name=record.name, reason=str(error)) from error
    differ = differences(record, found)
    checks = {**asked.checks, "started": started, "differences": list(differ), "unchecked": list(asked.unchecked)}
    checks |= {"container_id": found.id, "image": found.image, "image_digest": found.image_digest}
    if started:
        checks["start_s"] = round(patience.waited(), 3)
    return Back(record.name, started=started, checks=checks, differences=differ, unchecked=asked.unchecked)


class _Patience:
    """Knows how long production may still take."""

    def __init__(self, helpers: Helpers, record: Record) -> None:
        self._helpers = helpers
        self._record = record
        self._begun = helpers.clock.monotonic()
        self._hurried: MonotonicSeconds | None = None
        self._told, self._told_at = "", self._begun

    def waited(self) -> float:
        return self._helpers.clock.monotonic() - self._begun

    def wait(self, missing: str) -> None:
        """Wait a moment. What is missing, and for how long it is waited for at most, is said at once, and each minute.

        Raises:
            ProductionNotRestored, ProductionComing: There is no more time.
        """
        now, name = self._helpers.clock.monotonic(), self._record.name
        if self._hurried is None and self._helpers.hurried():
            self._hurried = now
        if self.waited() > self._record.ready_timeout:
            raise ProductionNotRestored(name=name, reason=f"{missing}, {self.waited():.0f} s after its start")
        if self._hurried is not None and now - self._hurried >= HURRIED:
            raise ProductionComing(name=name, waited=self.waited(), missing=missing)
        if missing != self._told or now - self._told_at >= AGAIN:
            self._say(missing)
            self._told, self._told_at = missing, now
        self._helpers.clock.sleep(POLL)

    def _say(self, missing: str) -> None:
        waited, limit = self.waited(), self._record.ready_timeout
        most = f"for {limit:.0f} s at most" if waited < 1.0 else f"for {waited:.0f} s now, {limit:.0f} s at most"
        self._helpers.say(f"waiting for {self._record.name}, {most}: {missing}")


def _start(record: Record, helpers: Helpers, patience: _Patience) -> bool:
    """Start it unless it runs; return whether that was needed. A Docker that is away for a while is waited for."""
    while True:
        try:
            found = helpers.host.foreign(record.name)
            if found.running and not found.paused:
                return False
            helpers.say(f"starting {record.name}")
            helpers.host.start_foreign(record.name)
            helpers.began()  # after it: a database that is away must not hold production up
            return True
        except DockerUnavailable as error:
            patience.wait(str(error))


def _until_proven(record: Record, helpers: Helpers, patience: _Patience) -> tuple[ForeignContainer, Asked]:
    while True:
        try:
            found = helpers.host.foreign(record.name)
        except DockerUnavailable as error:
            patience.wait(str(error))
            continue
        if not found.running:
            raise ProductionNotRestored(name=record.name, reason="it was started and has ended again")
        asked = ask(door_of(found, url=record.url), helpers.probe)
        if asked.missing is None:
            return found, asked
        patience.wait(asked.missing)

"""Runs of which Prefect never heard the end: their processes were killed together with whoever would have reported it.

Nothing is decided by them, but people see them, and whoever watches one would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from nightsweep.errors import SweepError
from nightsweep.ports import Clock
from nightsweep.service.prefect_api import FlowRun
from nightsweep.units import MonotonicSeconds, Seconds

EVERY = Seconds(30.0)
OPEN = ("RUNNING", "PENDING", "CANCELLING")
MESSAGE = "its process is gone, and the service that started it as well"


class Carried(Protocol):
    """What our database holds of the sweep that a run carries out."""

    @property
    def live(self) -> bool:
        """Whether somebody who is not known to be dead holds it."""


class OpenRuns(Protocol):
    """Prefect, as far as it is asked here. Each call may raise PrefectUnavailable."""

    def deployment_id(self, name: str) -> str | None:
        """Return the id of the box's deployment."""

    def open_runs(self, deployment_id: str, states: tuple[str, ...]) -> tuple[FlowRun, ...]:
        """Return the deployment's runs in these types of state."""

    def lay(self, run_id: str, *, message: str) -> None:
        """Say of a run that it crashed."""


class Ghosts:
    """Called as often as one likes; every `EVERY` seconds it lays the runs that an earlier service has left behind.

    Args:
        carried_by: Returns what our database holds of a run's sweep (may raise StoreUnavailable). An orphan that still
            holds its sweep is none: it ends in order, and says so itself.
        started: When this service came up, before any runner of its own.
    """

    def __init__(
        self,
        api: OpenRuns,
        *,
        box: str,
        carried_by: Callable[[str], Carried | None],
        started: datetime,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._api, self._box, self._carried_by = api, box, carried_by
        self._started, self._clock, self._say = started, clock, say
        self._next = clock.monotonic()

    def __call__(self) -> None:
        """Look if it is time to. What is away is asked again at the next look."""
        if self._clock.monotonic() < self._next:
            return
        self._next = MonotonicSeconds(self._clock.monotonic() + EVERY)
        try:
            self._look()
        except SweepError:
            return

    def _look(self) -> None:
        deployment = self._api.deployment_id(self._box)
        for run in () if deployment is None else self._api.open_runs(deployment, OPEN):
            if run.since is None or run.since >= self._started:
                continue
            carried = self._carried_by(run.id)
            if carried is None or not carried.live:
                self._api.lay(run.id, message=MESSAGE)
                self._say(f"run {run.name} was {run.state_name} in Prefect for ever: {MESSAGE}")

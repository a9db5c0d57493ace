"""Runs that Prefect would show as running for ever."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from nightsweep.service.ghosts import EVERY, Ghosts
from nightsweep.service.prefect_api import FlowRun
from nightsweep.service.prefect_server import PrefectUnavailable
from tests.fakes.clock import FakeClock


@dataclass(frozen=True)
class Sweep:
    live: bool


@dataclass
class Prefect:
    """Prefect with some runs."""

    runs: list[FlowRun]
    away: bool = False
    laid: list[str] = field(default_factory=list)

    def deployment_id(self, name: str) -> str | None:
        if self.away:
            raise PrefectUnavailable(url="http://here", reason="refused")
        return f"deployment of {name}"

    def open_runs(self, deployment_id: str, states: tuple[str, ...]) -> tuple[FlowRun, ...]:
        return tuple(run for run in self.runs if run.state_type in states and run.id not in self.laid)

    def lay(self, run_id: str, *, message: str) -> None:
        self.laid.append(run_id)


CLOCK = FakeClock()
STARTED = CLOCK.now()


def a_run(name: str, *, minutes: float = -5.0, state: str = "RUNNING") -> FlowRun:
    """Return a run that came to its state so many minutes after the service's start."""
    return FlowRun(name, name, state, state.capitalize(), None, since=STARTED + timedelta(minutes=minutes))


def looking(prefect: Prefect, clock: FakeClock, **carried: Sweep) -> Ghosts:
    return Ghosts(prefect, box="bench", carried_by=carried.get, started=STARTED, clock=clock, say=lambda text: None)


def test_a_run_of_an_earlier_service_that_nobody_carries_out_is_laid() -> None:
    prefect = Prefect([a_run("dead"), a_run("broken"), a_run("pending", state="PENDING")])
    looking(prefect, FakeClock(), broken=Sweep(live=False))()
    assert prefect.laid == ["dead", "broken", "pending"]


def test_an_orphan_that_holds_its_sweep_and_runs_of_this_service_are_left_alone() -> None:
    prefect = Prefect([a_run("orphan"), a_run("ours", minutes=1.0), a_run("waits", state="SCHEDULED")])
    looking(prefect, FakeClock(), orphan=Sweep(live=True))()
    assert prefect.laid == []


def test_a_server_that_is_away_is_asked_again_after_a_while() -> None:
    clock, prefect = FakeClock(), Prefect([a_run("dead")], away=True)
    look = looking(prefect, clock)
    look()
    prefect.away = False
    look()
    assert prefect.laid == []
    clock.sleep(EVERY)
    look()
    assert prefect.laid == ["dead"]

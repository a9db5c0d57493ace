"""Looks at what is due: every few seconds, and what goes wrong in one is told once and ends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from nightsweep.errors import StoreUnavailable
from nightsweep.service.dispatch import Dispatcher
from nightsweep.service.looking import EVERY, Looking
from tests.fakes.clock import FakeClock


@dataclass
class Ticks:
    """A dispatcher that fails as told."""

    errors: list[Exception | None]
    at: list[datetime] = field(default_factory=list)

    def tick(self, now: datetime) -> None:
        self.at.append(now)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


def looks(ticks: Ticks, clock: FakeClock) -> tuple[Looking, list[str]]:
    said: list[str] = []
    return Looking(cast(Dispatcher, ticks), clock=clock, say=said.append), said


def test_it_looks_every_few_seconds_however_often_it_is_called() -> None:
    clock, ticks = FakeClock(), Ticks([])
    look, _ = looks(ticks, clock)
    for _ in range(20):
        look()
        clock.advance(EVERY / 4)
    assert len(ticks.at) == 5


def test_what_is_away_is_told_once_and_again_when_it_is_back() -> None:
    clock = FakeClock()
    away = StoreUnavailable(reason="connection refused")
    ticks = Ticks([away, away, None, KeyError("cron"), KeyError("cron"), None])
    look, said = looks(ticks, clock)
    for _ in range(6):
        look()
        clock.advance(EVERY)
    assert len(ticks.at) == 6
    assert [line.split(":", 1)[1].split(";")[0].strip() for line in said] == [
        "PostgreSQL is not available: connection refused",
        "it answers again",
        "KeyError: 'cron'",
        "it answers again",
    ]

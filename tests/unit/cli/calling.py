"""Calls a reading command on rows in memory, as its user would."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
from click.testing import CliRunner, Result

from nightsweep.analysis.spool import SpoolFacts
from nightsweep.cli.reading import Access
from nightsweep.plan.queue import Scheduled
from nightsweep.service.doctor_checks import DoctorSources
from tests.fakes.clock import FakeClock
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import EVENING, an_event, seed_night

MORNING = EVENING + timedelta(hours=9)


def seed_queries(*, simulated: bool = False) -> FakeQueries:
    sweep, boots, windows, prefills, plan = seed_night(simulated=simulated)
    return FakeQueries(
        window_rows=windows,
        prefill_rows=prefills,
        boot_rows=boots,
        sweep_rows=[sweep],
        event_rows=[an_event(), an_event(at=EVENING + timedelta(hours=4), level="error", kind="boot_failed")],
        plans={1: plan},
    )


NOTHING_SPOOLED = SpoolFacts("")


def call(
    command: click.Command,
    *words: str,
    queries: FakeQueries | None = None,
    clock: FakeClock | None = None,
    doctor: DoctorSources | None = None,
    schedules: Sequence[Scheduled] = (),
    spool: SpoolFacts = NOTHING_SPOOLED,
    dead: frozenset[str | None] = frozenset(),
    charset: str = "utf-8",
) -> Result:
    """Return the result; an error that `main` would turn into a message stands in `exception`.

    Args:
        charset: Encoding of standard output, as of PYTHONIOENCODING.
    """
    clock = clock or FakeClock(start=MORNING)
    rows = queries or FakeQueries()

    def no_doctor() -> DoctorSources:
        if doctor is None:
            raise AssertionError("this command does not ask the doctor")
        return doctor

    reach = Access(
        queries=rows.open,
        now=clock.now,
        sleep=lambda seconds: clock.advance(seconds),
        doctor=no_doctor,
        spool=lambda: spool,
        schedules=lambda: schedules,
        dead=lambda holder: holder in dead,
    )
    return CliRunner(charset=charset).invoke(command, list(words), obj=reach)


def now() -> datetime:
    return MORNING


def json_of(result: Result) -> Any:
    import json

    assert result.exception is None, result.output
    return json.loads(result.stdout)

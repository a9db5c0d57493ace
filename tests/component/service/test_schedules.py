"""Schedules on the real parts: `nightsweep serve` starts what is due, in turn, and goes on after a flow was killed."""

from __future__ import annotations

import json
import signal

import pytest

from nightsweep import wiring
from tests.component.service.kit import House
from tests.component.sweep.kit import EVERYTHING, PLAIN, a_file, engines_of, kill, until

pytestmark = pytest.mark.slow


def schedule(house: House, *words: str) -> str:
    with house.command("schedule", *words) as command:
        assert command.end() == 0, command.said
        return command.said


def test_what_is_scheduled_runs_by_priority_and_goes_on_in_its_night_after_its_flow_was_killed(house: House) -> None:
    chosen = wiring.settings(house.environ)
    long, short = house.home / "long.yaml", house.home / "short.yaml"
    long.write_text(a_file(PLAIN, name="long", concurrency=[1], repeats=15))
    short.write_text(a_file(PLAIN, name="short", concurrency=[1]))
    assert "`nightsweep serve`" in schedule(house, "--now", str(short))
    schedule(house, "--now", str(long), "--priority", "5", "--until", "07:00", "--timezone", "Asia/Kolkata")
    with (
        wiring.open_queries(chosen) as queries,
        wiring.open_schedules(chosen) as records,
        house.command("serve") as service,
    ):

        def kept(name: str) -> list[int]:
            rows = queries.windows(EVERYTHING)
            return sorted(row.repeat for row in rows if row.sweep_name == name and not row.flags)

        def nights() -> dict[str, tuple[str, int]]:
            rows = records.all("bench")
            return {row.name: (row.night.state, row.night.runs) for row in rows if row.night is not None}

        until(lambda: len(kept("long")) > 2, seconds=300, every=0.2)
        assert nights() == {"long": ("running", 1), "short": ("queued", 0)}
        (engine,) = engines_of(house.home)
        flow = engine.parent()
        assert flow is not None
        kill(flow)
        until(lambda: nights()["short"][0] == "done", seconds=300, every=0.2)
        assert nights() == {"long": ("done", 2), "short": ("done", 1)}
        assert kept("long") == list(range(15))
        service.send(signal.SIGTERM)
        assert service.end(seconds=60) == 0, service.said
    assert "Traceback" not in service.said
    (found, _) = json.loads(schedule(house, "--list", "--json"))["schedules"]
    assert (found["name"], found["left_repeats"], found["next_start"]) == ("long", 0, None)

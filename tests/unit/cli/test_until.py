"""`--until` of `run` and `resume`: whose clock it is on, and what it may be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import click
import pytest
from click.testing import CliRunner

from nightsweep.analysis.schedules import on_clocks
from nightsweep.cli import resume, run
from nightsweep.cli.running import limits_of
from nightsweep.plan.model import Schedule
from tests.unit.plan.builders import a_plan

TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize("schedule", [None, Schedule(), Schedule(until="07:00"), Schedule(cron="0 1 * * *")])
def test_a_file_without_a_zone_means_this_machines_clock_and_both_are_said(
    schedule: Schedule | None, capsys: pytest.CaptureFixture[str]
) -> None:
    end = limits_of(schedule, "12:00").until
    assert end is not None
    assert end.astimezone(TOKYO).strftime("%H:%M") == "12:00"
    assert f"the box is free by {end.astimezone(TOKYO):%a} 12:00 JST ({end:%a} 03:00 UTC)" in capsys.readouterr().err


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(("zone", "said"), [("UTC", "UTC"), ("Etc/GMT-1", "+01")])
def test_a_zone_that_the_file_names_stays_its_clock(zone: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    end = limits_of(Schedule(timezone=zone, names_zone=True), "12:00").until
    assert end is not None
    assert end.astimezone(ZoneInfo(zone)).strftime("%H:%M") == "12:00"
    assert f"12:00 {said} (" in capsys.readouterr().err


@pytest.mark.usefixtures("tokyo")
def test_the_files_own_end_is_utc_where_it_names_no_zone_and_is_said_on_this_clock_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    end = limits_of(Schedule(until="07:00"), None).until
    assert end is not None
    assert end.strftime("%H:%M") == "07:00"
    assert f"07:00 UTC ({end.astimezone(TOKYO):%a} 16:00 JST)" in capsys.readouterr().err


def test_a_zone_is_named_also_where_it_is_utc() -> None:
    assert on_clocks(datetime(2026, 12, 1, 7, tzinfo=ZoneInfo("UTC")), "UTC", "Etc/UTC", None) == "Tue 07:00 UTC"


@pytest.mark.parametrize("zone", ["UTC", "Europe/Amsterdam"])
def test_a_sweep_file_tells_whether_it_names_a_zone(zone: str) -> None:
    said = "timezone: Europe/Amsterdam, "
    schedules = [a_plan((said, new)).schedule for new in (f"timezone: {zone}, ", "")]
    assert [(each.timezone, each.names_zone) for each in schedules if each] == [(zone, True), ("UTC", False)]


@pytest.mark.parametrize("given", ["07", "06:30+05:00", "06:30:15", "T0630", "25:00", "", "soon"])
@pytest.mark.parametrize("command", [run.command, resume.command])
def test_what_a_sweep_file_would_refuse_is_refused(command: click.Command, given: str) -> None:
    result = CliRunner().invoke(command, ["sweep.yaml", "--until", given])
    assert result.exit_code == 2
    assert f"found {given!r}; give a time of day" in " ".join(result.output.split())


@pytest.mark.parametrize("words", [["--until", "07:00"], ["--json"]])
def test_lifting_a_pause_takes_nothing_that_is_for_a_run(words: list[str]) -> None:
    result = CliRunner().invoke(resume.command, ["depth", "--lift", *words])
    assert result.exit_code == 2
    assert "--lift starts nothing" in result.output

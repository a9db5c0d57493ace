"""`nightsweep schedule` on a real database: what is made, changed, listed, and told when it makes no sense."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from nightsweep import wiring
from nightsweep.cli.cancel import command as cancel
from nightsweep.cli.schedule import command
from nightsweep.errors import NotFound, PlanError, SweepPaused
from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import QUEUED, RUNNING, Night, Scheduled
from nightsweep.ports import BoxFacts
from nightsweep.store.postgres import PostgresStore, connect
from nightsweep.store.schedules import Schedules
from tests.component.sweep.kit import PLAIN, a_file, free_port

Call = Callable[..., Result]


@pytest.fixture
def call(database_url: str, tmp_path: Path) -> Call:
    environ = {
        "NIGHTSWEEP_DATABASE_URL": database_url,
        "NIGHTSWEEP_HOME": str(tmp_path),
        "NIGHTSWEEP_BOX": "bench",
        "NIGHTSWEEP_PREFECT_PORT": str(free_port()),
    }

    def run(*words: str, of: click.Command = command) -> Result:
        return CliRunner().invoke(of, list(words), env=environ)

    return run


@pytest.fixture
def kept(database_url: str) -> Callable[[], dict[str, Scheduled]]:
    def look() -> dict[str, Scheduled]:
        engine = connect(database_url)
        try:
            return {row.name: row for row in Schedules(engine).all("bench")}
        finally:
            engine.dispose()

    return look


Kept = Callable[[], dict[str, Scheduled]]


def a_sweep(folder: Path, name: str = "depth", schedule: str = "") -> str:
    path = folder / f"{name}.yaml"
    path.write_text(a_file(PLAIN, name=name) + schedule)
    return str(path)


def test_the_files_own_section_is_the_default_and_options_change_it(call: Call, kept: Kept, tmp_path: Path) -> None:
    section = '\nschedule: {cron: "30 22 * * *", timezone: Europe/Amsterdam, until: "07:00", priority: 2}\n'
    file = a_sweep(tmp_path, schedule=section)
    result = call(file)
    assert result.exit_code == 0, result.output
    assert "schedule depth is made: 22:30 every day (Europe/Amsterdam), until 07:00, priority 2" in result.output
    assert "`nightsweep serve`" in result.output  # nothing serves: it says so, and how
    first = kept()["depth"]
    assert first.when == Schedule("30 22 * * *", "Europe/Amsterdam", "07:00", 2)
    assert (first.source, first.base) == (file, str(tmp_path))
    assert "depth" in first.file_text
    call(file, "--cron", "0 1 * * SAT", "--until", "never", "--priority", "-3")
    assert kept()["depth"].when == Schedule("0 1 * * SAT", "Europe/Amsterdam", None, -3)


def test_a_file_that_says_nothing_changes_nothing_that_was_given_before(call: Call, kept: Kept, tmp_path: Path) -> None:
    file = a_sweep(tmp_path)
    call(file, "--cron", "30 22 * * *", "--timezone", "Europe/Berlin", "--until", "7:00", "--priority", "1")
    Path(file).write_text(a_file(PLAIN, name="depth", repeats=4))
    result = call(file)
    assert "schedule depth is changed" in result.output
    row = kept()["depth"]
    assert row.when == Schedule("30 22 * * *", "Europe/Berlin", "07:00", 1)
    assert "repeats: 4" in row.file_text


def test_a_start_that_nothing_names_is_an_error_that_says_what_to_do(call: Call, kept: Kept, tmp_path: Path) -> None:
    error = call(a_sweep(tmp_path)).exception
    assert isinstance(error, PlanError)
    assert "--cron" in str(error)
    assert "--now" in str(error)
    assert kept() == {}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--cron", "30 22 * *", "five fields"),
        ("--cron", "0 0 30 2 *", "five fields"),
        ("--timezone", "Europe/Amsterdm", "Did you mean `Europe/Amsterdam`?"),
        ("--until", "25:00", "a time of day"),
        ("--priority", "99999999999999", "-1000<=x<=1000"),
        ("--priority", "-1001", "-1000<=x<=1000"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(call: Call, tmp_path: Path, option: str, value: str, says: str) -> None:
    words = [a_sweep(tmp_path), "--cron", "0 1 * * *", option, value]
    result = call(*words)
    assert result.exit_code == 2
    assert option in result.output
    assert says in " ".join(result.output.split())


def test_paused_resumed_started_and_removed_by_name_or_by_file(call: Call, kept: Kept, tmp_path: Path) -> None:
    file = a_sweep(tmp_path)
    call(file, "--cron", "30 22 * * *")
    assert call("--pause", "depth").exit_code == 0
    assert kept()["depth"].paused
    refused = call("--now", "depth").exception
    assert isinstance(refused, PlanError)
    assert "--resume depth" in str(refused)
    assert call("--resume", file).exit_code == 0
    assert not kept()["depth"].paused
    before = datetime.now(UTC)
    result = call("depth", "--now")
    assert "next start: at once" in result.output
    once = kept()["depth"].once_at
    assert once is not None
    assert once >= before
    assert call("--remove", "depth").exit_code == 0
    assert kept() == {}


def test_a_file_is_started_once_without_any_cron(call: Call, kept: Kept, tmp_path: Path) -> None:
    assert call("--now", a_sweep(tmp_path), "--name", "by hand", "--until", "06:00").exit_code == 0
    row = kept()["by hand"]
    assert (row.when.cron, row.when.until) == (None, "06:00")
    assert row.once_at is not None


@pytest.mark.parametrize("action", ["--pause", "--resume", "--remove", "--now"])
def test_an_unknown_name_lists_those_there_are(call: Call, tmp_path: Path, action: str) -> None:
    call("--now", a_sweep(tmp_path, "one"))
    call("--now", a_sweep(tmp_path, "two"))
    error = call(action, "three").exception
    assert isinstance(error, NotFound)
    assert "'one', 'two'" in str(error)


def listed(call: Call) -> dict[str, Any]:
    (row,) = json.loads(call("--list", "--json").stdout)["schedules"]
    return dict(row)


def test_the_list_says_what_is_left_and_how_the_last_night_ended(
    call: Call, kept: Kept, tmp_path: Path, database_url: str
) -> None:
    assert "`nightsweep schedule FILE`" in call().output
    call(a_sweep(tmp_path), "--cron", "30 22 * * *", "--until", "07:00")
    row = listed(call)
    assert (row["left_repeats"], row["planned_repeats"], row["night_state"]) == (2, 2, None)
    assert row["next_start"].endswith("+00:00")
    engine = connect(database_url)
    night = Night(datetime(2026, 11, 28, 22, 30, tzinfo=UTC), "missed", note="nothing served this box")
    assert Schedules(engine).move(kept()["depth"], night, at=datetime.now(UTC))
    engine.dispose()
    output = call().output
    assert "22:30 every day, UTC" in output
    assert "missed (nothing served this box)" in output
    assert "2 of 2 repeats" in output


def test_what_cannot_be_meant_is_a_mistake_of_use(call: Call) -> None:
    assert "needs a schedule's name" in call("--pause").output
    assert "--json is for the list" in call("depth", "--json").output


def test_two_wishes_at_once_are_a_usage_error_and_nothing_is_removed(call: Call, kept: Kept, tmp_path: Path) -> None:
    call(a_sweep(tmp_path), "--cron", "30 22 * * *")
    result = call("--pause", "--remove", "depth")
    assert result.exit_code == 2
    assert "--pause and --remove are two wishes" in result.output
    assert not kept()["depth"].paused


def test_a_schedule_is_changed_by_its_name_without_its_file(call: Call, kept: Kept, tmp_path: Path) -> None:
    file = a_sweep(tmp_path)
    call(file, "--cron", "30 22 * * *", "--until", "07:00")
    Path(file).unlink()
    result = call("depth", "--timezone", "Europe/Amsterdam", "--until", "06:30")
    assert result.exit_code == 0, result.output
    assert kept()["depth"].when == Schedule("30 22 * * *", "Europe/Amsterdam", "06:30", 0)
    assert "depth" in kept()["depth"].file_text


def test_a_name_that_is_neither_file_nor_schedule_says_both(call: Call, tmp_path: Path) -> None:
    call(a_sweep(tmp_path), "--cron", "30 22 * * *")
    for words in (("nofile.yaml", "--now"), ("nofile.yaml",)):
        error = call(*words).exception
        assert isinstance(error, NotFound)
        assert "there is no" in str(error)
        assert "depth" in str(error)


def test_an_end_just_before_the_start_is_said_to_be_a_day_away(call: Call, tmp_path: Path) -> None:
    result = call(a_sweep(tmp_path), "--cron", "30 22 * * *", "--until", "22:29")
    assert "23 h 59 min after its start" in result.output
    assert "a long night" not in call("depth", "--until", "07:00").output


def test_a_sweep_that_a_person_paused_is_not_started_by_hand_through_its_schedule(
    call: Call, database_url: str, tmp_path: Path
) -> None:
    file = a_sweep(tmp_path)
    call(file, "--cron", "30 22 * * *")
    plan, _ = wiring.load_plan(Path(file).read_text(), source=file, base=tmp_path)
    engine = connect(database_url)
    try:
        store = PostgresStore(engine)
        box_id = store.box_id(BoxFacts(name="bench", fingerprint="f", facts={}, simulated=True))
        sweep_id = store.open_sweep(plan, box_id=box_id, file_text=Path(file).read_text())
        assert store.pause_idle(sweep_id)
    finally:
        engine.dispose()
    for words in (("--now", "depth"), ("--now", file)):
        assert isinstance(call(*words).exception, SweepPaused)


def test_a_sweep_that_waits_in_the_queue_is_said_to_be_kept_off_by_its_schedule(call: Call, tmp_path: Path) -> None:
    call(a_sweep(tmp_path), "--cron", "30 22 * * *")
    error = call("depth", of=cancel).exception
    assert isinstance(error, NotFound)
    assert "`nightsweep schedule --pause depth`" in str(error)


@pytest.fixture
def at_night(database_url: str, kept: Kept) -> Callable[[Night], None]:
    def put(night: Night) -> None:
        engine = connect(database_url)
        assert Schedules(engine).move(kept()["depth"], night, at=datetime.now(UTC))
        engine.dispose()

    return put


AtNight = Callable[[Night], None]


def test_another_end_is_said_not_to_be_that_of_the_night_that_runs(
    call: Call, kept: Kept, at_night: AtNight, tmp_path: Path
) -> None:
    call(a_sweep(tmp_path), "--cron", "30 22 * * *", "--until", "07:00")
    ends = "until Tue 2026-12-01 07:00 UTC"
    at_night(Night(datetime.now(UTC), RUNNING, note=ends, prefect_run="run-1", runs=1))
    said = call("depth", "--until", "06:30").stdout
    assert f"the night that runs goes on as it began ({ends}): what is changed counts from the next start" in said
    assert "`nightsweep cancel depth`" in said
    assert f"running ({ends})" in call().output
    assert kept()["depth"].when.until == "06:30"


def test_a_night_that_waits_is_said_to_end_by_the_new_end(call: Call, at_night: AtNight, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    call(a_sweep(tmp_path), "--cron", "0 0 1 1 *", "--until", f"{now + timedelta(hours=2):%H:%M}")
    at_night(Night(now, QUEUED))
    end = now + timedelta(hours=1)
    result = call("depth", "--until", f"{end:%H:%M}")
    assert f"the night that waits ends by then, too: {end:%a %Y-%m-%d %H:%M} UTC" in result.output
    assert "a long night" not in result.output
    late = call("depth", "--until", f"{now - timedelta(minutes=2):%H:%M}")
    assert "a long night: it would end" in late.stderr


def test_a_night_that_waits_and_is_over_by_the_new_end_is_said_to_be(
    call: Call, at_night: AtNight, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    call(a_sweep(tmp_path), "--cron", "0 0 1 1 *", "--until", f"{now + timedelta(hours=2):%H:%M}")
    at_night(Night(now - timedelta(hours=1), QUEUED))
    said = call("depth", "--until", f"{now - timedelta(minutes=10):%H:%M}").output
    assert "the night that waits is over by that" in said


def test_an_end_is_said_with_its_zone_also_without_a_cron(call: Call, tmp_path: Path) -> None:
    result = call("--now", a_sweep(tmp_path), "--until", "12:17")
    assert "by hand, until 12:17 (UTC)" in result.stdout
    assert "its times are UTC" in result.stderr
    result = call("depth", "--timezone", "Asia/Tokyo")
    assert "by hand, until 12:17 (Asia/Tokyo)" in result.stdout
    assert "its times are UTC" not in result.stderr
    assert "12:17 Asia/Tokyo" in " ".join(call().output.split())


def test_a_start_by_hand_takes_an_end_and_a_priority_for_a_name_as_for_a_file(
    call: Call, kept: Kept, tmp_path: Path
) -> None:
    call(a_sweep(tmp_path), "--cron", "30 22 * * *")
    result = call("--now", "depth", "--until", "11:30", "--priority", "1")
    assert "until 11:30, priority 1" in result.output
    assert "next start: at once" in result.output
    row = kept()["depth"]
    assert (row.when.until, row.when.priority, row.once_at is None) == ("11:30", 1, False)
    assert call("--now", "depth", "--name", "other").exit_code == 2
    assert call("--now", "depth", "--cron", "rubbish").exit_code == 2


@pytest.mark.parametrize("action", ["--pause", "--resume", "--remove"])
@pytest.mark.parametrize(
    ("option", "value"),
    [("--cron", "rubbish"), ("--until", "07:00"), ("--timezone", "UTC"), ("--priority", "7"), ("--name", "other")],
)
def test_options_that_would_be_dropped_are_refused(
    call: Call, kept: Kept, tmp_path: Path, action: str, option: str, value: str
) -> None:
    call(a_sweep(tmp_path), "--cron", "30 22 * * *")
    before = kept()["depth"]
    result = call(action, "depth", option, value)
    assert result.exit_code == 2
    assert f"{action} and {option} cannot go together" in result.output
    assert kept()["depth"] == before


@pytest.mark.parametrize("words", [("--list", "depth"), ("--list", "--until", "07:00"), ("--priority", "3")])
def test_a_list_takes_neither_a_name_nor_a_change(call: Call, words: tuple[str, ...]) -> None:
    assert call(*words).exit_code == 2


def test_a_night_that_is_to_be_made_again_says_when(call: Call, at_night: AtNight, tmp_path: Path) -> None:
    call(a_sweep(tmp_path), "--cron", "0 0 1 1 *")
    again = datetime.now(UTC) + timedelta(seconds=40)
    at_night(Night(datetime.now(UTC), QUEUED, note="it broke off", runs=1, retry_at=again))
    assert f"next start: is tried again {again:%H:%M:%S} UTC" in call("depth").output

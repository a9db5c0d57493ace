"""`nightsweep status` and `nightsweep report`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from nightsweep.analysis.spool import SpoolFacts
from nightsweep.analysis.values import ProductionRow, SweepRow
from nightsweep.cli.report import command as report
from nightsweep.cli.status import command as status
from nightsweep.errors import NotFound
from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import Night, Scheduled
from tests.fakes.clock import FakeClock
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import EVENING, a_plan, a_sweep, a_window

from .calling import call, json_of, seed_queries


class Moving(FakeQueries):
    """Each look finds one repeat more; the last ends the sweep."""

    def sweep_of(self, name_or_id: str) -> SweepRow:
        clean = len(self.window_rows) + 1
        self.window_rows = [*self.window_rows, a_window(window_id=clean, repeat=clean)]
        state = "done" if clean == 3 else "running"
        return a_sweep(state=state, repeats_clean=clean, repeats_planned=3, ended=None, phase=f"window {clean}")


def test_sweeps_are_listed_newest_first_with_how_far_they_are() -> None:
    rows = [
        a_sweep(sweep_id=1, name="old", state="done"),
        a_sweep(sweep_id=2, name="new", state="running", repeats_clean=3, phase="window 2 of mtp"),
    ]
    lines = call(status, queries=FakeQueries(sweep_rows=rows)).output.splitlines()
    new, old = (next(line for line in lines if name in line) for name in (" new ", " old "))
    assert lines.index(new) < lines.index(old)
    assert "█████░░░░░ 3/6" in new
    assert "window 2 of mtp" in new
    assert "██████████ 6/6" in old


def test_what_waits_in_the_spool_is_said_below_the_sweeps() -> None:
    said = call(status, spool=SpoolFacts("/srv/spool", waiting=1)).output.splitlines()[-1]
    assert said == "spool: 1 write in /srv/spool for a database that was away"


def test_an_empty_store_says_what_to_do() -> None:
    result = call(status)
    assert result.exit_code == 0
    assert "nightsweep demo" in result.output


def test_a_sweep_shows_what_is_done_what_is_left_and_what_happened_last() -> None:
    output = call(status, "dflash2-depth", queries=seed_queries()).output
    assert "23 of 48 clean (48%), 4 flagged windows" in output
    assert "until 07:00 reached" in output
    assert "in 3 boots; about" in output
    lines = output.splitlines()
    broken = next(line for line in lines if line.startswith("dflash2 k=9"))
    assert "12 cannot be measured: the engine does not come up" in broken
    assert lines[-1].split()[2:4] == ["error", "boot_failed"]
    assert "simulated" not in output.lower()


def test_a_simulated_sweep_says_so_in_the_first_line() -> None:
    assert "SIMULATED" in call(status, "1", queries=seed_queries(simulated=True)).output.splitlines()[0]


def test_a_sweep_whose_file_is_not_readable_any_more_still_has_a_status() -> None:
    queries = replace(seed_queries(), plans={})
    result = call(status, "1", queries=queries)
    assert result.exit_code == 0
    assert "23 of 48 clean" in result.output
    assert json_of(call(status, "1", "--json", queries=queries))["configs"] is None


def test_the_number_of_events_can_be_limited() -> None:
    output = call(status, "1", "--limit", "1", queries=seed_queries()).output
    assert "boot_failed" in output
    assert "is ready" not in [line.split()[-1] for line in output.splitlines() if "info" in line]


def test_status_for_programs_is_one_document() -> None:
    document = json_of(call(status, "dflash2-depth", "--json", queries=seed_queries()))
    assert document["sweep"]["repeats_clean"] == 23
    assert document["sweep"]["started"] == "2026-11-28T22:30:00+00:00"
    assert document["configs"][0]["left"] == 4
    assert document["events"][0]["kind"] == "boot_failed"
    assert document["left_seconds"] > 0


def test_watching_shows_what_changed_until_the_sweep_ends_and_then_returns() -> None:
    clock = FakeClock(start=EVENING)
    result = call(status, "night", "--watch", queries=Moving(plans={1: a_plan(concurrency=(1,))}), clock=clock)
    assert result.exit_code == 0
    shown = [line for line in result.output.splitlines() if "repeats  " in line]
    assert [line.split()[2] for line in shown if "clean" in line] == ["1", "2", "3"]
    assert clock.monotonic() == 1004.0


def test_watching_is_refused_for_programs() -> None:
    assert call(status, "--watch", "--json").exit_code == 2


def test_an_unknown_sweep_offers_near_names() -> None:
    result = call(status, "depth", queries=seed_queries())
    assert isinstance(result.exception, NotFound)
    assert "did you mean 'dflash2-depth'?" in str(result.exception)


def test_a_report_goes_to_standard_output_or_whole_into_a_file(tmp_path: Path) -> None:
    shown = call(report, "dflash2-depth", queries=seed_queries())
    assert shown.stdout.startswith("# Sweep report: dflash2-depth\n")
    target = tmp_path / "night.md"
    target.write_text("older")
    written = call(report, "dflash2-depth", "-o", str(target), queries=seed_queries())
    assert written.exit_code == 0
    assert target.read_text(encoding="utf-8") == shown.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["night.md"]


def test_a_report_into_a_directory_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    queries = seed_queries()
    result = call(report, "1", "-o", str(tmp_path / "none" / "night.md"), queries=queries)
    assert result.exit_code == 2
    assert queries.opened == 0


def test_a_report_of_an_unknown_sweep_is_not_found() -> None:
    assert isinstance(call(report, "nightly", queries=seed_queries()).exception, NotFound)


@pytest.mark.parametrize("command", [status, report])
def test_help_shows_an_example(command: object) -> None:
    assert "Example:" in call(command, "--help").output  # type: ignore[arg-type]


def test_the_queue_is_shown_in_the_order_that_schedules_get_the_box() -> None:
    def due(id: int, name: str, priority: int, night: Night | None) -> Scheduled:
        when = Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00", priority=priority)
        return Scheduled(id, "bench", name, when, "", "f.yaml", None, False, EVENING - timedelta(days=9), night=night)

    rows = [
        due(1, "later", 0, Night(EVENING, "done")),
        due(2, "waits", 1, Night(EVENING, "queued")),
        due(3, "first", 9, Night(EVENING, "queued")),
        due(4, "runs", 0, Night(EVENING, "running")),
    ]
    lines = call(status, schedules=rows).output.splitlines()
    shown = [line.split()[0] for line in lines if "every day" in line]
    assert shown == ["runs", "first", "waits", "later"]
    later = next(line for line in lines if line.startswith("later"))
    assert "22:30 every day, Europe/Amsterdam" in later
    assert " 22:30 CET " in later
    document = json_of(call(status, "--json", schedules=rows))
    assert [each["name"] for each in document["schedules"]] == shown


def test_a_run_of_a_schedule_that_is_gone_is_not_said_to_run() -> None:
    when = Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00")
    night = Night(EVENING, "running", prefect_run="run-1")
    row = Scheduled(1, "bench", "dead", when, "", "f.yaml", None, False, EVENING, night=night, lost=True)
    (line,) = [line for line in call(status, schedules=[row]).output.splitlines() if line.startswith("dead")]
    assert "its run is over: `nightsweep serve` sees to it" in line
    assert "runs now" not in line
    (document,) = json_of(call(status, "--json", schedules=[row]))["schedules"]
    assert document["run_is_gone"] is True


def test_a_wish_to_stop_is_shown_until_it_is_obeyed() -> None:
    row = a_sweep(name="n", state="running", phase="window 2 of mtp", ended=None, stop_wish="pause")
    lines = call(status, "n", queries=FakeQueries(sweep_rows=[row])).output.splitlines()
    assert any(line.startswith("  asked    to pause after what it measures now") for line in lines)


def test_a_sweep_whose_process_was_killed_is_not_called_running_and_what_it_left_down_is_named() -> None:
    row = a_sweep(sweep_id=3, name="n", state="running", phase="mtp is ready", ended=None, owner="vm~1:2:3:4")
    down = ProductionRow(
        container="vllm-qwen",
        opened=EVENING,
        stopped=EVENING,
        restore_by=None,
        restore_started=None,
        closed=None,
        outcome=None,
    )
    queries = FakeQueries(sweep_rows=[row], production_rows=[down])
    shown = call(status, "n", queries=queries, dead=frozenset({"vm~1:2:3:4"})).output
    assert "died" in shown
    assert "`nightsweep resume 3` goes on" in shown
    assert "mtp is ready" not in shown
    assert "vllm-qwen since" in shown
    assert "`nightsweep restore` brings it back" in shown
    assert "died" in call(status, queries=queries, dead=frozenset({"vm~1:2:3:4"})).output
    taken = down._replace(taken_over_by=9, taken_over=EVENING)
    shown = call(status, "n", queries=FakeQueries(sweep_rows=[row], production_rows=[taken])).output
    assert "vllm-qwen was taken over by sweep 9 on" in shown
    assert "it is down for sweep 9, which brings it back" in shown
    assert "nightsweep restore" not in shown
    alive = call(status, "n", queries=queries).output
    assert "running" in alive
    assert "nightsweep restore" not in alive

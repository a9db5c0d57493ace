"""`nightsweep summary`, `notify` and the settings behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from nightsweep.cli.notify import command as notify
from nightsweep.cli.summary import command as summary
from nightsweep.errors import NotFound, Unwritable
from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import Scheduled
from nightsweep.settings import InvalidSetting, from_environment
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import EVENING
from tests.unit.cli.calling import call, seed_queries


def test_without_a_name_it_is_of_the_sweep_that_ran_last_and_of_its_last_night() -> None:
    told = call(summary, queries=seed_queries())
    assert told.exception is None
    assert told.stdout.startswith("# Night of Sat 28 November 2026: dflash2-depth\n")


def test_when_it_goes_on_is_what_the_service_has_on_record_and_by_hand_otherwise() -> None:
    when = Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00")

    def goes_on(*, paused: bool, state: str = "partial") -> str:
        queries = seed_queries()
        queries.sweep_rows = [queries.sweep_rows[0]._replace(state=state)]
        row = Scheduled(1, "spark-1", "dflash2-depth", when, "", "f.yaml", None, paused, EVENING)
        told = call(summary, queries=queries, schedules=[row])
        return next(line for line in told.stdout.splitlines() if line.startswith("- goes on: "))

    assert goes_on(paused=False).startswith(
        "- goes on: Sun 29 November, 22:30 (Europe/Amsterdam), as its schedule says"
    )
    assert goes_on(paused=True) == "- goes on: by `nightsweep resume 1`"
    assert goes_on(paused=False, state="paused") == "- goes on: it is paused until `nightsweep resume 1`"
    assert "nothing is left" in goes_on(paused=False, state="done")


def test_a_file_s_name_says_its_format(tmp_path: Path) -> None:
    for name, begins in (("night.html", "<!doctype html>"), ("night.md", "# Night of ")):
        told = call(summary, "dflash2-depth", "-o", str(tmp_path / name), queries=seed_queries())
        assert told.exception is None
        assert (tmp_path / name).read_text().startswith(begins)
    told = call(summary, "--format", "html", queries=seed_queries())
    assert told.stdout.startswith("<!doctype html>")


def test_a_night_is_named_by_the_day_it_begins_on_and_one_without_anything_is_not_found() -> None:
    named = call(summary, "--night", "2026-11-28", queries=seed_queries())
    assert "Night of Sat 28 November" in named.stdout
    absent = call(summary, "--night", "2026-11-20", queries=seed_queries())
    assert isinstance(absent.exception, NotFound)
    assert "2026-11-20" in str(absent.exception)


def test_a_wrong_date_an_absent_folder_and_an_empty_store_say_what_to_do(tmp_path: Path) -> None:
    wrong = call(summary, "--night", "yesterday", queries=seed_queries())
    assert wrong.exit_code == 2
    assert "2026-11-29, or last" in wrong.stderr
    nowhere = call(summary, "-o", str(tmp_path / "no" / "n.md"), queries=seed_queries())
    assert isinstance(nowhere.exception, Unwritable)
    assert "No such file or directory" in str(nowhere.exception)
    nothing = call(summary, queries=FakeQueries())
    assert isinstance(nothing.exception, NotFound)
    assert "`nightsweep demo` shows a night" in str(nothing.exception)
    assert "`nightsweep run FILE` makes one" in str(nothing.exception)


def test_addresses_are_parted_by_blanks_or_commas_and_may_hold_commas_themselves() -> None:
    given = "json://h/a, mailto://u:p@h?to=a,b\n  ntfys://ntfy.sh/t,prefect://slack-webhook/n"
    chosen = from_environment({"NIGHTSWEEP_NOTIFY": given, "NIGHTSWEEP_NOTIFY_ON": "failed, done"})
    assert chosen.notify == (
        "json://h/a",
        "mailto://u:p@h?to=a,b",
        "ntfys://ntfy.sh/t",
        "prefect://slack-webhook/n",
    )
    assert chosen.notify_on == ("failed", "done")
    assert "ntfy.sh" not in repr(chosen)
    assert from_environment({}).notify == ()


def test_a_wrong_address_is_refused_without_being_shown_and_a_wrong_word_with_the_right_ones() -> None:
    with pytest.raises(InvalidSetting) as refused:
        from_environment({"NIGHTSWEEP_NOTIFY": "json://h xoxb-t0k3n"})
    assert "address 2 without a scheme" in str(refused.value)
    assert "t0k3n" not in str(refused.value)
    with pytest.raises(InvalidSetting, match="night_over"):
        from_environment({"NIGHTSWEEP_NOTIFY_ON": "sometimes"})


def test_notify_without_addresses_says_so_and_with_them_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NIGHTSWEEP_NOTIFY", raising=False)
    unset = CliRunner().invoke(notify, ["--test"])
    assert unset.exit_code == 2
    assert "NIGHTSWEEP_NOTIFY is not set" in unset.output
    monkeypatch.setenv("NIGHTSWEEP_NOTIFY", "slack://t0k3n-a/t0k3n-b")
    shown = CliRunner().invoke(notify, [])
    assert shown.exit_code == 0
    assert "slack://*** (address 1 of NIGHTSWEEP_NOTIFY)" in shown.output
    assert "t0k3n" not in shown.output

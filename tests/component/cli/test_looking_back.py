"""Lists, single things whole, history, and frames for notebooks: on rows of a real PostgreSQL."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

import nightsweep
from nightsweep.analysis.grouping import BESIDE_CONFIG
from nightsweep.cli import shaping
from nightsweep.cli.boots import command as boots
from nightsweep.cli.cells import command as cells
from nightsweep.cli.configs import command as configs
from nightsweep.cli.history import command as history
from nightsweep.cli.reading import Access
from nightsweep.cli.show import command as show
from nightsweep.cli.sweeps import command as sweeps
from nightsweep.engine.registry import engine_for
from nightsweep.errors import BadFilter, ExtraMissing, NotFound, SeveralConfigs, Unwritable
from nightsweep.measurement.derive import derive
from nightsweep.notebook import Notebook
from nightsweep.settings import InvalidSetting
from nightsweep.store.keys import NAMED
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import (
    EVENING,
    Night,
    a_config,
    a_handle,
    a_night,
    a_plan,
    a_raw,
    a_reading,
    a_ready,
    a_window,
    some_conditions,
    some_lines,
    stopped,
)

BOOTS = 10
CHANGED = 5
CONFIGS = (a_config("dflash k=5"), a_config("mtp", k=3, method="mtp"))


def derived(concurrency: int) -> Any:
    """Return a window whose numbers are those of its raw readings: flagged, for its streams were not there all the time."""
    before = a_reading(
        1000.0, generation_tokens=100.0, steps=40.0, drafts=40.0, draft_tokens=200.0, accepted_tokens=60.0
    )
    after = a_reading(
        1004.0, generation_tokens=228.0, steps=88.0, drafts=88.0, draft_tokens=440.0, accepted_tokens=140.0
    )
    raw = replace(a_raw(concurrency), before=before, after=after)
    return derive(raw, dialect=engine_for("vllm").dialect("0.28.0"), num_speculative_tokens=5)


@pytest.fixture
def night(store: PostgresStore) -> Night:
    """Ten boots of one config that is faster from the sixth on, when the driver is another; one boot of a second config."""
    night = a_night(store, a_plan(*CONFIGS, repeats=2 * BOOTS + 1))
    for number in range(BOOTS):
        if number:
            night.boot_id = _boot(store, night, 0, number)
        else:
            _up(store, night, "night-box-a:1:1:one-1")
        driver = {"driver": "580.2" if number >= CHANGED else "580.1"}
        for repeat in range(2):
            rate = (33.0 if number >= CHANGED else 30.0) + 0.1 * math.sin(7 * number + repeat)
            at = EVENING + timedelta(hours=number)
            night.keep(a_window(rate, started=at), index=2 * number + repeat, conditions=some_conditions(**driver))
        if number == 0:
            night.keep(derived(4), index=2 * BOOTS, concurrency=4)
        store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING + timedelta(hours=number))
    night.boot_id = _boot(store, night, 1, BOOTS)
    night.keep(a_window(20.0), config=1)
    store.add_log(night.boot_id, 0, some_lines("INFO first line", "INFO Model loading took 24.92 GiB"))
    return night


def _boot(store: PostgresStore, night: Night, config: int, number: int) -> int:
    at = EVENING + timedelta(hours=number)
    boot = store.begin_boot(
        night.lease, CONFIGS[config], boot_round=number, boot_key=f"key-{number}", command=("vllm", "serve"), at=at
    )
    night.boot_id = boot
    _up(store, night, f"key-{number}")
    return boot


def _up(store: PostgresStore, night: Night, key: str) -> None:
    store.boot_started(night.lease, night.boot_id, a_handle(key))
    store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)


@pytest.fixture
def call(queries: Queries) -> Any:
    @contextmanager
    def opened() -> Iterator[Queries]:
        yield queries

    def no_doctor() -> Any:
        raise AssertionError("nobody asks the doctor")

    reach = Access(
        queries=opened, now=lambda: EVENING + timedelta(days=1), sleep=lambda seconds: None, doctor=no_doctor
    )

    def called(command: click.Command, *words: str) -> Result:
        return CliRunner().invoke(command, list(words), obj=reach)

    return called


def _json(result: Result) -> Any:
    assert result.exception is None, (result.output, result.exception)
    return json.loads(result.stdout)


def test_lists_choose_sort_and_limit_their_columns(night: Night, call: Any, tmp_path: Path) -> None:
    found = _json(
        call(cells, "--columns", "config,decode_rate,n,cv", "--sort", "-decode_rate", "--limit", "2", "--json")
    )
    rates = [row["decode_rate_tokens_per_second_mean"] for row in found["cells"]]
    assert rates == sorted(rates, reverse=True)
    assert len(rates) == 2
    shown = call(cells, "--columns", "config,decode_rate", "--limit", "1").output
    assert "decode_rate_tokens_per_second_n" in shown, "a mean stands beside its run count"
    assert (
        call(boots, "--columns", "boot_id", "--sort", "-boot_id", "--limit", "2", "--csv").output == "boot_id\n11\n10\n"
    )
    assert call(boots, "--columns", "boot_id", "--limit", "2", "--csv").output == "boot_id\n1\n2\n"
    listed = _json(call(configs, "--where", "method=dflash", "--json"))["configs"]
    assert [(row["names"], row["boots"], row["windows_clean"]) for row in listed] == [(["dflash k=5"], 10, 20)]
    assert [row["name"] for row in _json(call(sweeps, "--state", "running", "--json"))["sweeps"]] == ["night"]
    assert call(sweeps, "--before", "2d").output == "no sweeps match --before 2026-11-28T22:30\n"
    assert call(cells, "--columns", "frobnicate").exit_code == 2
    file = tmp_path / "cells.parquet"
    assert call(cells, "--columns", "config,n", "--parquet", str(file)).exit_code == 0
    import pandas

    assert list(pandas.read_parquet(file).columns) == ["config", "decode_rate_tokens_per_second_n"]
    with pytest.raises(Unwritable, match="cannot be written"):
        raise call(cells, "--parquet", str(tmp_path / "no" / "such.parquet")).exception


def test_groups_pool_by_any_key_and_say_what_they_pool(night: Night, call: Any) -> None:
    found = _json(call(cells, "--group-by", "method,args.max-model-len", "--json"))["groups"]
    one = {group["method"]: group for group in found}["dflash"]
    assert one["args.max-model-len"] == 4096
    assert (one["cells"], one["conditions_pooled"]) == (1, 2)
    assert one["decode_rate_tokens_per_second"]["n"] == 20
    assert one["decode_rate_tokens_per_second"]["boots"] == BOOTS
    assert one["windows_flagged"] == 1
    assert "several cells or conditions in one mean" in call(cells, "--group-by", "method").output


def test_a_key_that_no_config_has_is_a_mistake_and_not_one_group_of_everything(night: Night, call: Any) -> None:
    assert set(BESIDE_CONFIG) == set(NAMED)
    wrong = call(cells, "--group-by", "method,tempratur")
    assert wrong.exit_code == 2
    assert "no config of these cells has the key 'tempratur'. Did you mean `temperature`?" in wrong.stderr
    assert call(cells, "--group-by", "image,model_revision").exit_code == 0


@pytest.mark.parametrize("key", ["a{b", 'a"b', "a\\b", "args.}", "null", "args."])
def test_any_character_may_stand_in_a_key(night: Night, call: Any, key: str) -> None:
    for sweep in ((), ("--sweep", "night")):
        wrong = call(cells, "--group-by", key, *sweep)
        assert (wrong.exit_code, f"no config of these cells has the key {key!r}" in wrong.stderr) == (2, True)


def test_where_says_that_no_config_has_the_key(night: Night, call: Any) -> None:
    said = call(cells, "--where", "nope=x").stdout
    assert "no config has the key 'nope': `nightsweep configs --json` shows which keys there are" in said
    assert "has the key" not in call(cells, "--where", "num_speculative_tokens=77").stdout
    assert call(cells, "--where", "args.=x").exit_code == 0


@pytest.mark.parametrize("pattern", ["[!]*", "[!]]*", "[^x]*", "[[:z:]", "[]-a]*", "mtp[.-]*", "*[\\-a]"])
def test_any_pattern_is_looked_for(night: Night, call: Any, pattern: str) -> None:
    for option in ("--config", "--box", "--image"):
        assert call(cells, option, pattern).exception is None


def test_what_the_database_cannot_look_for_is_a_filter_that_cannot_be_meant(night: Night, call: Any) -> None:
    for words in (("--config", "m[z-a]p"), ("--box", "a\0"), ("--image", "a\0*"), ("--group-by", "a\0")):
        assert isinstance(call(cells, *words).exception, BadFilter), words


def test_a_window_is_shown_with_its_raw_data_and_derived_again(night: Night, call: Any, engine: sa.Engine) -> None:
    (cell,) = _json(call(cells, "--concurrency", "4", "--json"))["cells"]
    assert (cell["decode_rate_tokens_per_second"], cell["windows_flagged"]) == (None, 1)
    with engine.begin() as connection:
        window = connection.execute(sa.text("SELECT window_id FROM windows_flat WHERE concurrency = 4")).scalar_one()
    shown = call(show, "window", str(window)).output
    assert "derived again: equal" in shown
    assert "generation_tokens" in shown
    assert "Conditions" in shown
    document = _json(call(show, "window", str(window), "--json"))
    assert document["derived_again"]["equal"]
    assert {row["name"]: row["change"] for row in document["counters"]}["generation_tokens"] == 128.0
    assert len(document["requests"]) == 4
    assert document["config_document"]["speculative"]["method"] == "dflash"
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE windows SET decode_rate = 99 WHERE id = :id"), {"id": window})
    assert "derived again: DIFFERENT: decode_rate stored 99.0, derived 32.0" in call(show, "window", str(window)).output


def test_a_window_whose_raw_data_was_taken_out_is_shown_with_what_is_left(
    night: Night, call: Any, engine: sa.Engine, queries: Queries
) -> None:
    with engine.begin() as connection:
        first = "SELECT window_id, decode_rate FROM windows_flat WHERE clean ORDER BY window_id LIMIT 1"
        window, rate = connection.execute(sa.text(first)).one()
        for table in ("readings", "request_timings", "box_samples"):
            connection.execute(sa.text(f"DELETE FROM {table} WHERE window_id = :id"), {"id": window})
    shown = call(show, "window", str(window))
    assert shown.exit_code == 0, shown.exception
    assert (
        "cannot be derived again: its requests and samples and its reading before and its reading after "
        "are no longer kept; the numbers are as they were stored" in shown.output
    )
    assert f"{rate:.10g}" in shown.output
    assert "Counters" not in shown.output, "no empty table of what is not there"
    assert "Requests" not in shown.output
    document = _json(call(show, "window", str(window), "--json"))
    assert document["derived_again"]["equal"] is None
    assert (document["requests"], document["counters"], document["occupancy_samples"]) == (None, None, None)
    for what, number in (("boot", 1), ("cell", 1)):
        assert call(show, what, str(number)).exit_code == 0
    assert call(show, "window", str(window), "--log").exception is not None, "its boot has no log: told, not guessed"
    with pytest.raises(NotFound, match="requests of window"):
        Notebook(queries).requests(window)
    with pytest.raises(NotFound, match="window 'newest' is not in the store: a window has a number"):
        Notebook(queries).requests("newest")  # type: ignore[arg-type]


def test_a_boot_is_shown_with_the_lines_of_its_facts_and_its_log(night: Night, call: Any) -> None:
    shown = call(show, "boot", str(night.boot_id)).output
    assert "Model loading took 24.92 GiB" in shown
    assert "enable-x: this model has none" in shown
    log = call(show, "boot", str(night.boot_id), "--log").output
    assert log.splitlines() == ["INFO first line", "INFO Model loading took 24.92 GiB"]
    assert len(_json(call(show, "boot", "1", "--json"))["measured"]) == 3
    assert len(_json(call(show, "cell", "1", "--json"))["windows"]) == 2 * BOOTS
    for what in ("window", "boot", "cell"):
        assert isinstance(call(show, what, "4711").exception, NotFound)


def test_history_says_where_the_level_changed_and_what_was_new(night: Night, call: Any) -> None:
    shown = call(history, "dflash k=5", "--at", "c=1").output
    (line,) = [line for line in shown.splitlines() if "level changed" in line]
    assert line.startswith(f"* level changed at boot {CHANGED + 1} ")
    assert line.count("(n=10, 5 boots)") == 2
    assert "new there: driver: 580.1 → 580.2" in line
    (series,) = _json(call(history, "dflash k=5", "--at", "c=1,T=0.7", "--json"))["series"]
    (change,) = series["changes"]
    assert (change["boots_before"], change["boots_after"]) == (5, 5)
    assert change["ratio"] == pytest.approx(1.1, rel=0.01)
    assert "too few boots to tell a change from chance: 1 of at least 8" in call(history, "mtp").output
    assert isinstance(call(history, "*").exception, SeveralConfigs)
    assert isinstance(call(history, "eagle").exception, NotFound)


def test_notebooks_get_frames_by_the_same_filters(night: Night, database_url: str, call: Any) -> None:
    with nightsweep.open(database_url) as ns:
        frame = ns.cells(where=["method=dflash", "num_speculative_tokens>=5"], concurrency=[1, 2])
        asked = ("--where", "method=dflash", "--where", "num_speculative_tokens>=5", "--concurrency", "1,2")
        assert len(frame) == len(_json(call(cells, *asked, "--json"))["cells"]) == 2
        assert set(frame["decode_rate_tokens_per_second_n"]) == {10}
        assert len(ns.windows(config="mtp")) == 1
        assert ns.windows(concurrency=4, flagged=True)["decode_rate_tokens_per_second"].tolist() == [32.0]
        assert len(ns.boots()) == BOOTS + 1
        assert ns.groups(["method"])["decode_rate_tokens_per_second_n"].sum() == 21
        assert ns.groups("method, concurrency").columns.tolist()[:2] == ["method", "concurrency"]
        assert ns.sweeps()["name"].tolist() == ["night"]
        assert len(ns.configs()) == 2
        assert len(ns.requests(1)) == 1
        assert ns.prefills().empty
        assert ns.events(limit=3).columns.tolist()[0] == "at"
        assert len(ns.cells(since=date(2020, 1, 1), where=None, concurrency=None)) == len(ns.cells())  # type: ignore[arg-type]
        for wrong in (
            {"where": "k>=deep"},
            {"since": "yesterday"},
            {"concurrency": 0},
            {"colour": "red"},
            {"config": ["mtp*"]},
            {"box": 5},
            {"image": b"a"},
            {"where": 5},
            {"since": 5},
            {"imported": "yes"},
        ):
            with pytest.raises(BadFilter):
                ns.cells(**wrong)  # type: ignore[arg-type]
        for by in ("", [], ["method", ""], [1], 5, "tempratur"):
            with pytest.raises(BadFilter):
                ns.groups(by)  # type: ignore[arg-type]


def test_what_needs_the_extra_says_so(night: Night, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        nightsweep.open(database_url) as ns,
        pytest.raises(ExtraMissing, match=r"pip install 'nightsweep\[notebook\]'"),
    ):
        ns.cells()
    with pytest.raises(ExtraMissing, match="pyarrow"):
        shaping.write_parquet([], columns=(), path=Path("never"))


def test_importing_the_package_imports_nothing_heavy() -> None:
    said = "import sys, nightsweep; print({'pandas', 'sqlalchemy', 'numpy', 'nightsweep.notebook'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_a_notebook_takes_a_url_as_the_environment_does_and_refuses_what_is_none(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NIGHTSWEEP_HOME", str(tmp_path))
    plain = database_url.replace("postgresql+psycopg://", "postgres://")
    with nightsweep.open(plain) as notebook:
        assert notebook.cells().empty
    with pytest.raises(InvalidSetting, match="give a PostgreSQL URL"), nightsweep.open("garbage"):
        pass

"""The reading commands on rows of a real PostgreSQL, and as a program of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from nightsweep.analysis.values import Filters
from nightsweep.cli.boots import command as boots
from nightsweep.cli.cells import command as cells
from nightsweep.cli.reading import Access
from nightsweep.cli.report import command as report
from nightsweep.cli.show import command as show
from nightsweep.cli.status import command as status
from nightsweep.plan.model import Cell, Repeat
from nightsweep.plan.sweepfile import load
from nightsweep.service.doctor_checks import DoctorSources
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import (
    EVENING,
    OWNER,
    TTL,
    Night,
    a_box,
    a_handle,
    a_prefill,
    a_ready,
    a_window,
    begin,
    failed,
    some_conditions,
    some_lines,
    stopped,
)

FILE = """
name: dflash-depth
engine:
  kind: vllm
  host: docker
  image: vllm/vllm-openai:v0.28.0
  model: org/model
  served_name: m
configs:
  - name: "dflash k={num_speculative_tokens}"
    speculative: {method: dflash, model: org/draft}
    grid: {num_speculative_tokens: [4, 5]}
  - name: mtp
    speculative: {method: mtp, num_speculative_tokens: 3}
probe:
  prompts: code
  concurrency: [1, 8]
  temperature: [0.7]
  window: 40s
  repeats: 2
  prefill: {tokens: 2000, repeats: 1}
"""


@pytest.fixture
def night(store: PostgresStore) -> Night:
    """Two configs measured (one with a flagged window), a third that did not boot."""
    plan = load(FILE, source="night.yaml")
    box_id = store.box_id(a_box())
    sweep_id = store.open_sweep(plan, box_id=box_id, file_text=FILE)
    lease = store.claim(sweep_id, owner=OWNER, ttl=TTL)
    night = Night(store, plan, box_id, sweep_id, lease, boot_id=0)
    for number, rates in enumerate(((20.0, 21.0), (30.0, 33.0))):
        night.boot(f"key-{number}", config=number, at=EVENING + timedelta(hours=number))
        store.boot_started(lease, night.boot_id, a_handle(f"key-{number}"))
        store.boot_ready(lease, night.boot_id, a_ready(), at=EVENING)
        store.add_log(night.boot_id, 0, some_lines(f"boot {number} begins", "ready"))
        for index, rate in enumerate(rates):
            night.keep(a_window(rate), index=index, config=number)
        if number == 0:
            night.keep_prefill(a_prefill(2000.0))
        store.end_boot(lease, night.boot_id, stopped(), at=EVENING + timedelta(hours=number + 1))
    night.keep(a_window(500.0, concurrency=8, flags=("foreign_load",)), concurrency=8, config=1)
    broken = begin(store, lease, plan.configs[2], key="key-2", at=EVENING + timedelta(hours=3))
    store.end_boot(lease, broken, failed(), at=EVENING + timedelta(hours=4))
    store.event("boot_failed", "mtp does not boot", level="error", sweep_id=sweep_id, boot_id=broken)
    return night


def call(command: click.Command, *words: str, queries: Queries) -> Result:
    @contextmanager
    def opened() -> Iterator[Queries]:
        yield queries

    def no_doctor() -> DoctorSources:
        raise AssertionError("not asked for")

    reach = Access(queries=opened, now=lambda: EVENING + timedelta(hours=9), sleep=lambda _: None, doctor=no_doctor)
    return CliRunner().invoke(command, list(words), obj=reach)


def cells_found(queries: Queries, *words: str) -> list[tuple[str, int, float | None, int]]:
    result = call(cells, "--json", *words, queries=queries)
    assert result.exception is None, result.output
    return [
        (cell["config"], cell["concurrency"], mean_of(cell), cell["windows_flagged"])
        for cell in json.loads(result.stdout)["cells"]
    ]


def mean_of(cell: dict[str, Any]) -> float | None:
    rate = cell["decode_rate_tokens_per_second"]
    return None if rate is None else round(rate["mean"], 6)


K4 = ("dflash k=4", 1, 20.5, 0)
K5 = ("dflash k=5", 1, 31.5, 0)
FLAGGED = ("dflash k=5", 8, None, 1)


FILTERS: list[tuple[tuple[str, ...], list[Any]]] = [
    ((), [K4, K5, FLAGGED]),
    (("--where", "num_speculative_tokens>=5"), [K5, FLAGGED]),
    (("--where", "speculative.method=dflash", "--where", "num_speculative_tokens<5"), [K4]),
    (("--where", "method=mtp"), []),
    (("--config", "*k=4"), [K4]),
    (("--concurrency", "8"), [FLAGGED]),
    (("--temperature", "0.70", "--concurrency", "1"), [K4, K5]),
    (("--temperature", "1.0"), []),
    (("--box", "box-a", "--sweep", "dflash-depth"), [K4, K5, FLAGGED]),
    (("--box", "spark-1"), []),
    (("--image", "*0.28*"), [K4, K5, FLAGGED]),
    (("--image", "*0.27*"), []),
    (("--since", "30d"), [K4, K5, FLAGGED]),
    (("--since", "2026-11-30"), []),
]
"""Options and the cells that they leave."""


def test_filters_reach_the_database(night: Night, queries: Queries) -> None:
    assert [(words, cells_found(queries, *words)) for words, _ in FILTERS] == FILTERS


def test_runs_of_other_conditions_are_not_pooled(night: Night, queries: Queries) -> None:
    night.keep(
        a_window(99.0, concurrency=8),
        index=1,
        concurrency=8,
        config=1,
        conditions=some_conditions(engine_version="0.29.0"),
    )
    assert [cell for cell in cells_found(queries) if cell[1] == 8] == [FLAGGED, ("dflash k=5", 8, 99.0, 0)]
    shown = call(cells, "--concurrency", "8", queries=queries).output
    assert "conditions" in shown


def test_flagged_prefills_and_single_batch_runs_are_seen_with_their_reasons(night: Night, queries: Queries) -> None:
    store, plan = night.store, night.plan
    boot = night.boot("key-4", at=EVENING + timedelta(hours=5))
    lost = replace(a_prefill(None, flags=("cache_hit",)), detail="1,984 of 2,000 tokens came from the cache", ttft=None)
    night.keep_prefill(lost, index=1)
    alone = Cell(plan.configs[0].fingerprint, 1, Decimal("0.7"), kind="single_batch")
    flagged = replace(a_window(40.0, flags=("preempted",)), flag_details={"preempted": "preempted once"})
    store.add_window(
        night.lease,
        boot,
        Repeat(cell=alone, index=0, boot_round=0),
        flagged,
        attempt=1,
        conditions=some_conditions(),
        at=EVENING,
    )
    shown = call(cells, "--flagged", queries=queries).output
    assert "Flagged prefills" in shown
    assert "cache_hit: 1,984 of 2,000 tokens came from the cache" in shown
    assert "preempted: preempted once" in shown
    assert "single_batch" in shown, "it is no decode window"
    document = json.loads(call(cells, "--flagged", "--json", queries=queries).stdout)
    assert [one["detail"] for one in document["flagged_prefills"]] == [lost.detail]
    assert "Flagged prefills" not in call(cells, queries=queries).output

    whole = call(show, "boot", str(boot), queries=queries).output
    assert "cache_hit: 1,984 of 2,000 tokens came from the cache" in whole
    assert "single_batch" in whole
    (prefill,) = json.loads(call(show, "boot", str(boot), "--json", queries=queries).stdout)["prefills"]
    assert (prefill["tokens"], prefill["flags"], prefill["prefill_rate_tokens_per_second"]) == (
        2000,
        ["cache_hit"],
        None,
    )


def test_a_sweep_with_nothing_but_lost_prefills_shows_them(night: Night, queries: Queries) -> None:
    night.boot("key-4", config=2, at=EVENING + timedelta(hours=5))
    where = ("--flagged", "--where", "method=mtp")
    assert call(cells, *where, queries=queries).output.startswith("no cells match")
    lost = replace(a_prefill(None, flags=("engine_exited",)), detail="HTTP 500", ttft=None)
    repeat = replace(night.prefill_repeat(), config=night.plan.configs[2].fingerprint)
    night.store.add_prefill(
        night.lease, night.boot_id, repeat, lost, attempt=1, conditions=some_conditions(), at=EVENING
    )
    assert "engine_exited: HTTP 500" in call(cells, *where, queries=queries).output


def test_only_flagged_prefills_are_listed_where_only_they_are_asked_for(night: Night, queries: Queries) -> None:
    night.boot("key-4", at=EVENING + timedelta(hours=5))
    night.keep_prefill(a_prefill(None, flags=("cache_hit",)), index=1)
    asked = (Filters(with_flagged=word) for word in ("no", "yes", "only"))
    assert [len(queries.prefills(one)) for one in asked] == [1, 2, 1]


def test_boots_tell_what_came_up_and_why_one_did_not(night: Night, queries: Queries) -> None:
    output = call(boots, "--sweep", "dflash-depth", queries=queries).output
    assert "838,501" in output
    assert "3.20 at 262,144" in output
    assert "failed: bad_flag (arguments), exit code 2" in output
    assert "| error: unrecognized arguments: --no-such" in output


def test_a_boot_log_comes_back_whole(night: Night, queries: Queries) -> None:
    first = json.loads(call(boots, "--json", queries=queries).stdout)["boots"][0]["boot_id"]
    assert call(boots, "--log", str(first), queries=queries).output == "boot 0 begins\nready\n"


def test_status_says_what_is_left_from_the_stored_file(night: Night, queries: Queries) -> None:
    document = json.loads(call(status, "dflash-depth", "--json", queries=queries).stdout)
    assert document["sweep"]["state"] == "running"
    left = {config["config"]: (config["clean"], config["left"]) for config in document["configs"]}
    assert left == {"dflash k=4": (2, 2), "dflash k=5": (2, 2), "mtp": (0, 0)}
    shown = call(status, str(night.sweep_id), queries=queries).output
    assert "4 of 12 clean" in shown
    assert "mtp does not boot" in shown


def test_the_report_of_stored_rows_names_everything_that_is_missing(night: Night, queries: Queries) -> None:
    text = call(report, "dflash-depth", queries=queries).output
    assert text.startswith("# Sweep report: dflash-depth\n")
    assert "| dflash k=4 | 1 | 0.7 | 20.5 | 2 | 1 | 20.0–21.0 |" in text
    assert "vllm serve org/model" in text
    assert "| dflash k=4 | 2,000 | 2,000 | 1 | one run |" in text
    assert "Without any number because the engine did not come up or did not stay up: mtp (bad_flag)." in text
    assert "No clean window, so no number: dflash k=5 at 8 streams, T=0.7 (foreign_load)." in text
    assert "why foreign_load" in text


def test_the_page_of_stored_rows_has_its_plots_and_its_time(night: Night, queries: Queries, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "night.html"
    shown = call(report, "dflash-depth", "--html", str(target), queries=queries)
    assert shown.exit_code == 0, shown.output
    page = target.read_text(encoding="utf-8")
    assert '<figure id="decode-rate-t0-7">' in page
    assert '<figure id="timeline">' in page
    assert page.count("<svg ") == page.count("<figure ")


PROGRAM = (sys.executable, "-m", "nightsweep.cli")


def environment(url: str, home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "NIGHTSWEEP_DATABASE_URL": url, "NIGHTSWEEP_HOME": str(home), "NO_COLOR": "1", **more}


def program(*words: str, url: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, env=environment(url, home), timeout=60)


def program_with_closed(closed: str, *words: str, url: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run it as a shell does with `>&-` and the like."""
    line = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, *words]
    return subprocess.run(line, stderr=subprocess.PIPE, text=True, env=environment(url, home), timeout=60)


def test_the_program_finds_its_store_and_its_exit_codes_are_those_of_the_contract(
    night: Night, database_url: str, tmp_path: Path
) -> None:
    shown = program("cells", "--csv", url=database_url, home=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[1].startswith("dflash k=4,")
    unknown = program("status", "dflash-dept", url=database_url, home=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == "error: sweep 'dflash-dept' is not in the store: did you mean 'dflash-depth'?\n"
    wrong = program("cells", "--concurrency", "zero", url=database_url, home=tmp_path)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr


def test_an_empty_database_is_no_fault(database_url: str, tmp_path: Path) -> None:
    for words in (("cells",), ("boots",), ("status",)):
        shown = program(*words, url=database_url, home=tmp_path)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout


def test_a_database_that_is_away_is_one_line_and_not_a_traceback(tmp_path: Path) -> None:
    shown = program("cells", url="postgresql://nobody:secret@127.0.0.1:9/none", home=tmp_path)
    assert shown.returncode == 1
    assert shown.stderr.startswith("error: PostgreSQL is not available")
    assert "secret" not in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words", [("cells",), ("cells", "--json"), ("status", "dflash-depth"), ("report", "dflash-depth")]
)
def test_output_that_cannot_be_written_is_no_success(
    words: tuple[str, ...], unbuffered: str, night: Night, database_url: str, tmp_path: Path
) -> None:
    mine = environment(database_url, tmp_path, PYTHONUNBUFFERED=unbuffered)
    with open("/dev/full", "w") as full:
        shown = subprocess.run([*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=mine, timeout=60)
    assert shown.returncode == 1
    assert shown.stderr == "error: the output could not be written: No space left on device\n"


@pytest.mark.parametrize(
    "words", [("cells",), ("cells", "--json"), ("status",), ("report", "dflash-depth"), ("--help",)]
)
def test_a_closed_output_is_no_success(words: tuple[str, ...], night: Night, database_url: str, tmp_path: Path) -> None:
    shown = program_with_closed(">&-", *words, url=database_url, home=tmp_path)
    assert shown.returncode == 1
    assert shown.stderr == "error: the output could not be written: it is closed\n"


def test_what_goes_into_a_file_needs_no_standard_output(night: Night, database_url: str, tmp_path: Path) -> None:
    target = tmp_path / "night.md"
    words = ["report", "dflash-depth", "-o", str(target)]
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        target.unlink(missing_ok=True)
        shown = program_with_closed(closed, *words, url=database_url, home=tmp_path)
        assert shown.returncode == 0
        assert "dflash k=4" in target.read_text(encoding="utf-8")


def test_the_windows_behind_a_line_of_cells_are_one_command_away(night: Night, queries: Queries) -> None:
    shown = call(show, "cell", "dflash k=4", "--at", "c=1,T=0.7", queries=queries)
    assert shown.exit_code == 0, shown.output
    told = json.loads(call(show, "cell", "dflash k=4", "--at", "c=1", "--json", queries=queries).output)
    wanted = [
        row
        for row in queries.windows(Filters(with_flagged="yes"))
        if (row.config, row.concurrency) == ("dflash k=4", 1)
    ]
    assert [row["window_id"] for row in told["windows"]] == [row.window_id for row in wanted]
    assert told["left_out"] == 0
    for row in wanted:
        assert f"\n{row.window_id:>6} " in shown.output or f" {row.window_id} " in shown.output
    one = call(show, "cell", "dflash k=4", "--sweep", "dflash-depth", queries=queries)
    assert "Windows of sweep dflash-depth" in one.output
    absent = call(show, "cell", "dflash k=4", "--at", "c=3", queries=queries)
    assert absent.exit_code != 0
    for words in (("window", "1", "--at", "c=1"), ("cell", "dflash k=4", "--log"), ("boot", "x"), ("cell", "0")):
        assert call(show, *words, queries=queries).exit_code == 2

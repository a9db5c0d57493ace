"""`nightsweep import` on a real PostgreSQL: published tables lead to their published conclusions, and stay apart from windows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
import sqlalchemy as sa
from alembic import command
from click.testing import CliRunner, Result

from nightsweep.cli.boots import command as boots
from nightsweep.cli.cells import command as cells
from nightsweep.cli.compare import command as compare
from nightsweep.cli.configs import command as configs
from nightsweep.cli.decide import command as decide
from nightsweep.cli.deciding import Reach
from nightsweep.cli.decisions import command as decisions
from nightsweep.cli.effects import command as effects
from nightsweep.cli.history import command as history
from nightsweep.cli.importing import Reach as ImportReach
from nightsweep.cli.importing import command as import_
from nightsweep.cli.reading import Access
from nightsweep.cli.report import command as report
from nightsweep.cli.show import command as show
from nightsweep.cli.summary import command as summary
from nightsweep.cli.sweeps import command as sweeps
from nightsweep.errors import InvalidImport, NotComparable, NotFound, StillNeeded
from nightsweep.notebook import Notebook
from nightsweep.plan.sweepfile import load
from nightsweep.ports import ForeignContainer
from nightsweep.service.doctor_checks import DoctorSources
from nightsweep.store.decisions import Decisions
from nightsweep.store.imports import Imports
from nightsweep.store.migrate import alembic_config, upgrade
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import EVENING, a_box
from tests.storekit.byhand import enter

DATA = Path(__file__).parents[2] / "data"
PUBLISHED = DATA / "published"
FIVE, SEVEN = "DFlash2 k=5 greedy/standard", "DFlash2 k=7 greedy/standard"
RULE = "DFlash2 k=5 probabilistic/standard"
LINE = "mtp k=3,vllm,org/model,box-a,1,0.7"
HEADER = "config,engine,model,box,concurrency,temperature,decode_rate,date"
MEASURED = """\
name: measured
engine: {kind: vllm, host: process, command: [], model: org/model}
configs: [{name: mtp k=3}]
probe: {concurrency: [1], temperature: [0.7], repeats: 2}
"""


@dataclass
class Desk:
    """A store, and the commands on it."""

    engine: sa.Engine
    store: PostgresStore
    hours: int = 9
    queries: Queries = field(init=False)

    def __post_init__(self) -> None:
        self.queries = Queries(self.engine)

    def call(self, command: click.Command, *words: object) -> Result:
        @contextmanager
        def opened(what: Any) -> Iterator[Any]:
            yield what

        def nothing(*_: object) -> DoctorSources:
            raise AssertionError("not asked for")

        def no_container(name: str) -> ForeignContainer:
            raise AssertionError(name)

        now = EVENING + timedelta(hours=self.hours)
        reach: object = Access(lambda: opened(self.queries), lambda: now, lambda _: None, nothing)
        if command is import_:
            reach = ImportReach(lambda: opened(Imports(self.engine)), lambda: now)
        elif command in (decide, decisions):
            kept = Decisions(self.engine)
            reach = Reach(
                lambda: opened(kept), lambda: opened(self.queries), lambda: now, no_container, lambda _: "a" * 64
            )
        result = CliRunner().invoke(command, [str(word) for word in words], obj=reach)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def bring(self, *words: object) -> Any:
        self.hours += 1
        return json.loads(self.call(import_, *words, "--json").stdout)

    def listed(self, command: click.Command, *words: object) -> Any:
        return json.loads(self.call(command, *words, "--json").stdout)

    def count(self, table: str) -> int:
        with self.engine.connect() as connection:
            return int(connection.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(statement))]


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> Desk:
    return Desk(engine, store)


def a_table(folder: Path, *lines: str, name: str = "spring.csv", header: str = HEADER) -> Path:
    path = folder / name
    path.write_text("\n".join((header, *lines)) + "\n", encoding="utf-8")
    return path


# --- the published reports -------------------------------------------------------------------------------------------


def test_a_mean_of_runs_is_neither_one_run_nor_several_windows_wherever_it_is_shown(desk: Desk, tmp_path: Path) -> None:
    header = f"{HEADER},n,speculative.num_speculative_tokens"
    lines = ("k3,vllm,m,b,16,0.7,181,2026-05,3,3", "k4,vllm,m,b,16,0.7,170,2026-05,,4")
    desk.bring(a_table(tmp_path, *lines, header=header))
    for words in ((), ("--sweep", "spring")):  # from the sums that the database keeps, and from the windows
        listed = desk.call(cells, *words).output
        assert "mean of 3 runs, spread unknown" in listed
        assert "unknown number of runs" in listed
        assert "one run" not in listed
        found = {one["config"]: one for one in desk.listed(cells, *words)["cells"]}
        assert [(one["decode_rate_tokens_per_second"]["n"], one["runs"]) for one in found.values()] == [
            (1, 3),
            (1, None),
        ]
        assert desk.call(cells, *words, "--csv").stdout.splitlines()[0].endswith(",runs")
    written = desk.call(report, "spring").output
    assert "181.0 (mean of 3 runs, spread unknown)" in written
    assert not [line for line in written.splitlines() if "one run" in line and "tells nothing of spread" not in line]
    for config, said in (("k3", "mean of 3 runs, spread unknown"), ("k4", "unknown number of runs")):
        assert said in desk.call(history, config).output
    grouped = desk.call(cells, "--imported", "--group-by", "config").output
    assert "mean of 3 runs, spread unknown" in grouped
    assert "one run" not in grouped
    shown = desk.call(compare, "k4", "k3").output
    assert "A: unknown number of runs; B: mean of 3 runs, spread unknown" in shown
    assert "one run" not in shown
    said = desk.call(decide, "spring", "--choose", "k3", "--fallback", "k4").output
    assert "181.0 is one number (mean of 3 runs, spread unknown): measure it again (k3 at 16 streams, T=0.7)" in said
    assert "170.0 is one number (unknown number of runs): measure it again" in said
    kept = desk.call(decisions, "show", 1).output  # as it is read back
    assert "181.0 (mean of 3 runs, spread unknown)" in kept
    assert "rests on one run" not in said + kept
    (cell,) = desk.listed(compare, "k4", "k3")["cells"]
    assert (cell["ratio_low"], cell["verdict"]) == (None, "undecided")


def test_several_numbers_that_a_choice_rests_on_are_each_told_with_what_they_stand_for(
    desk: Desk, tmp_path: Path
) -> None:
    header = f"{HEADER},n,speculative.num_speculative_tokens"
    lines = [
        f"k{k},vllm,m,b,{at},0.7,{80 + k + at},2026-05,{runs},{k}"
        for k, at, runs in ((3, 1, 3), (3, 16, ""), (4, 1, 1))
    ]
    desk.bring(a_table(tmp_path, *lines, header=header))
    said = desk.call(decide, "spring", "--choose", "k3", "--fallback", "k4").output
    assert "3 of 3 rows were not measured here" in said
    each = "one number each: a run, or a mean of runs that are not known"
    assert f"2 cells of the choice k3 rest on {each}: measure them again" in said
    assert (
        "84.0 at 1 stream, T=0.7, mean of 3 runs, spread unknown; 99.0 at 16 streams, T=0.7, unknown number of runs"
        in said
    )


def test_a_lone_run_that_leads_is_to_be_measured_again_wherever_it_would_decide(desk: Desk) -> None:
    tables = (PUBLISHED / "spark-depth.csv", PUBLISHED / "spark-drafting-rule.csv")
    desk.bring(*tables, "--name", "spark")
    listed = desk.call(cells, "--concurrency", 8).output
    assert (
        f"a lone run is ahead, measure it again before it decides anything: 178.5 ({RULE} at 8 streams, T=0.7)"
        in listed
    )
    (cell,) = desk.listed(compare, FIVE, RULE, "--at", "c=8")["cells"]
    assert (cell["verdict"], cell["windows_needed"] >= 1) == ("undecided", True)
    assert "one run is not a measurement" in cell["why"]
    said = desk.call(decide, "spark", "--choose", RULE, "--fallback", FIVE, "--at", "c=8").output
    assert f"WARNING: 178.5 rests on one run: measure it again ({RULE} at 8 streams, T=0.7)" in said
    assert "rows were not measured here (imported:csv)" in said
    (caveat,) = [line for line in desk.call(report, "spark").output.splitlines() if "A lone run is ahead" in line]
    assert f"{RULE} at 8 streams, T=0.7 (178.5)" in caveat

    desk.bring(PUBLISHED / "spark-again.csv", "--name", "spark")
    again = desk.call(cells, "--concurrency", 8).output
    assert "a lone run is ahead" not in again
    (cell,) = [one for one in desk.listed(cells, "--concurrency", 8)["cells"] if one["config"] == RULE]
    rate = cell["decode_rate_tokens_per_second"]
    assert (rate["n"], rate["min"], rate["max"]) == (4, 160.9, 178.5)


def test_five_is_the_block_is_questioned_by_an_imported_drafting_rule_and_asks_depth_under_it(desk: Desk) -> None:
    desk.bring(PUBLISHED / "spark-depth.csv", "--name", "depth")
    chosen = ("--choose", FIVE, "--fallback", "MTP k=3", "--question", "five is the block", "--at", "c=1,T=0.7")
    desk.call(decide, "depth", *chosen)
    (one,) = desk.listed(decisions)["decisions"]
    assert (one["state"], one["premises"]["config.speculative.draft_sample_method"]) == ("standing", "greedy")

    desk.bring(PUBLISHED / "spark-drafting-rule.csv")
    (one,) = desk.listed(decisions)["decisions"]
    assert one["state"] == "questioned"
    changed = {change["premise"]: (change["old"], change["new"]) for change in one["changes"]}
    assert changed["config.speculative.draft_sample_method"] == ("greedy", "probabilistic")
    assert set(changed) <= {f"config.speculative.{key}_sample_method" for key in ("draft", "rejection")}

    text = desk.call(decisions, "show", "1", "--reask").stdout
    plan = load(text)
    asked = [config.speculative or {} for config in plan.configs]
    under_it = [one for one in asked if one.get("draft_sample_method") == "probabilistic"]
    assert sorted(one["num_speculative_tokens"] for one in under_it) == [4, 5, 7]
    assert plan.probe.concurrency == (1,)
    assert "# Volumes, devices, environment and production are not known" in text
    assert "# The image is not known" in text


def test_block_alone_and_probabilistic_alone_show_the_interaction(desk: Desk) -> None:
    desk.bring(PUBLISHED / "spark-interaction.csv")
    found = desk.listed(effects, "spark-interaction")
    ratio = {(one["kind"], one["change"]): one["ratio"] for one in found["effects"]}
    block, probabilistic = "rejection_sample_method=block", "draft_sample_method=probabilistic"
    assert ratio["alone", block] < 0.9
    assert ratio["alone", probabilistic] == pytest.approx(26.0 / 20.95)
    both = f"{probabilistic} and {block}"
    assert ratio["together", both] == pytest.approx(24.7 / 20.95)
    assert ratio["interaction", both] == pytest.approx(ratio["together", both] / ratio["alone", block] / (26.0 / 20.95))
    assert ratio["interaction", both] > 1.05
    assert all(
        one["stands"] is False for one in found["effects"] if one["kind"] == "interaction"
    )  # so few runs show none


def test_the_gain_of_the_retrained_drafter_is_of_two_things_at_once(desk: Desk) -> None:
    desk.bring(PUBLISHED / "dspark-5090.csv")
    old, new = "DSpark BF16", "DSpark NVFP4 (retrained)"
    shown = desk.call(compare, old, new, "--single-batch").output
    assert "speculative.draft_model_quantization: absent -> modelopt_fp4" in shown
    assert "speculative.draft_model_path: DSpark BF16 -> DSpark NVFP4 retrained" in shown
    assert "2 things differ at once: a difference of the rates is of all of them together, and of none alone." in shown
    assert "pooled" not in shown, "single-batch runs have one concurrency: there is nothing to pool over"
    (cell,) = desk.listed(compare, old, new, "--single-batch")["cells"]
    assert (round(cell["ratio"], 3), cell["temperature"]) == (1.113, None)
    told = {one["config"]: one["kv_cache_tokens"] for one in desk.listed(boots)["boots"]}
    assert (told[old], told[new]) == (34_377, 55_285)


# --- nothing twice, nothing half --------------------------------------------------------------------------------------


def test_the_same_file_again_adds_nothing_and_a_file_that_has_grown_adds_its_new_rows(
    desk: Desk, tmp_path: Path
) -> None:
    path = a_table(tmp_path, f"{LINE},20.0,2026-05-12", f"{LINE},20.0,2026-05-12")
    first = desk.bring(path)
    assert [one["rows_added"] for one in first["boxes"]] == [2]
    assert desk.bring(path)["boxes"][0] == {
        "box": "box-a",
        "sweep_id": None,
        "rows_added": 0,
        "configs": 0,
        "rows_known": {"spring": 2},
        "rows_known_as": {},
        "other_names": [],
    }
    a_table(tmp_path, f"{LINE},20.0,2026-05-12", f"{LINE},20.0,2026-05-12", f"{LINE},21.0,2026-05-13")
    grown = desk.bring(path)["boxes"][0]
    assert (grown["rows_added"], grown["sweep_id"]) == (1, first["boxes"][0]["sweep_id"])
    (cell,) = desk.listed(cells)["cells"]
    assert (cell["decode_rate_tokens_per_second"]["n"], desk.count("imports"), desk.count("sweeps")) == (3, 2, 1)


def test_a_broken_file_among_several_leaves_nothing_behind(desk: Desk, tmp_path: Path) -> None:
    good = a_table(tmp_path, f"{LINE},20.0,", name="good.csv")
    bad = a_table(tmp_path, f"{LINE},fast,", name="bad.csv")
    with pytest.raises(InvalidImport, match=r"bad.csv:2: decode_rate: found .fast."):
        desk.call(import_, good, bad)
    with pytest.raises(InvalidImport, match="No such file"):
        desk.call(import_, good, tmp_path / "none.csv")
    assert [desk.count(table) for table in ("sweeps", "windows", "boxes", "configs")] == [0, 0, 0, 0]


def test_a_dry_run_shows_what_would_be_stored_and_stores_nothing(desk: Desk) -> None:
    shown = desk.call(import_, PUBLISHED / "spark-depth.csv", "--dry-run").output
    assert "20 rows of 4 configs would be stored in sweep spark-depth of box GB10 Spark" in shown
    assert "spark-depth.csv:5" in shown
    assert [desk.count(table) for table in ("sweeps", "windows", "boxes", "configs", "imports")] == [0] * 5


def test_a_sweeps_folder_is_read_without_its_warm_up_and_its_summary_adds_nothing(desk: Desk, tmp_path: Path) -> None:
    folder = DATA / "vllm_bench" / "depth"
    found = desk.bring(folder, "--box", "cpu")
    assert [one["rows_added"] for one in found["boxes"]] == [8]
    assert desk.bring(folder / "summary.csv", "--box", "cpu")["boxes"][0]["rows_added"] == 0
    with pytest.raises(InvalidImport, match="the folder holds neither"):
        desk.call(import_, tmp_path)


def test_an_import_that_was_a_mistake_is_taken_out_again_with_its_sums(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, f"{LINE},20.0,2026-05-12", name="one.csv"))
    kept = desk.listed(cells)
    desk.bring(a_table(tmp_path, f"{LINE},99.0,2026-05-12", f"{LINE.replace(',1,', ',4,')},9,", name="two.csv"))
    assert "2 imported rows removed" in desk.call(import_, "--remove", "two").output
    assert (desk.listed(cells), desk.count("sweeps"), desk.count("boots")) == (kept, 1, 1)
    with pytest.raises(NotFound, match="sweeps --imported"):
        desk.call(import_, "--remove", "two")
    assert desk.call(import_).exit_code == 2


def test_neither_a_measured_sweep_nor_one_that_a_decision_rests_on_is_removed(desk: Desk, tmp_path: Path) -> None:
    enter(desk.store, MEASURED, {"mtp k=3": {1: [30.0, 31.0]}}, box=a_box(), prompts_hash="a" * 64)
    with pytest.raises(NotFound):
        desk.call(import_, "--remove", "measured")
    with pytest.raises(InvalidImport, match="was measured here: give another one, --name NAME"):
        desk.call(import_, a_table(tmp_path, f"{LINE},20.0,", name="measured.csv"))
    desk.bring(PUBLISHED / "spark-depth.csv")
    desk.call(decide, "spark-depth", "--choose", FIVE, "--fallback", "MTP k=3")
    with pytest.raises(StillNeeded, match="decision 1 rests on it"):
        desk.call(import_, "--remove", "spark-depth")


# --- apart from what was measured -------------------------------------------------------------------------------------


@pytest.fixture
def both(desk: Desk, tmp_path: Path) -> Desk:
    """One config, measured here and imported, on boxes of one name."""
    enter(desk.store, MEASURED, {"mtp k=3": {1: [30.0, 31.0]}}, box=a_box(), prompts_hash="a" * 64)
    desk.bring(a_table(tmp_path, f"{LINE},20.0,2026-05-12", f"{LINE},21.0,2026-05-12"))
    return desk


def test_imported_and_measured_windows_of_one_config_are_never_one_cell(both: Desk) -> None:
    found = both.listed(cells)["cells"]
    assert len({one["config_fingerprint"] for one in found}) == 1
    means = {one["source"]: one["decode_rate_tokens_per_second"]["mean"] for one in found}
    assert (means["imported:csv"], len(means)) == (20.5, 2)
    (only,) = both.listed(cells, "--imported")["cells"]
    assert only["source"] == "imported:csv"
    (group,) = both.listed(cells, "--group-by", "config", "--imported")["groups"]
    assert group["decode_rate_tokens_per_second"]["mean"] == 20.5
    (group,) = both.listed(cells, "--group-by", "config")["groups"]
    assert group["decode_rate_tokens_per_second"]["mean"] == 30.5
    assert "what was imported is left out" in both.call(cells, "--group-by", "config").output
    apart = both.listed(cells, "--group-by", "config,source")["groups"]
    assert [one["source"] for one in apart] == ["imported:csv", "measured"]
    assert "imported:csv" in both.call(cells).output


def test_comparing_across_the_source_is_refused_and_names_it_first(both: Desk) -> None:
    with pytest.raises(NotComparable) as refused:
        both.call(compare, "sweep:measured/mtp k=3", "sweep:spring/mtp k=3")
    assert "they differ in source (" in str(refused.value)
    assert "--across" in str(refused.value)
    shown = both.call(compare, "sweep:measured/mtp k=3", "sweep:spring/mtp k=3", "--across").output
    assert "Differs besides the config:\n  source:" in shown
    assert "B was not measured here (imported:csv)" in shown


def test_every_list_and_view_says_where_a_row_is_from(both: Desk) -> None:
    assert [one["source"] for one in both.listed(sweeps, "--imported")["sweeps"]] == ["imported:csv"]
    (boot,) = both.listed(boots, "--imported")["boots"]
    assert (boot["source"], boot["cold_start_seconds"]) == ("imported:csv", None)
    assert "imported:csv" in both.call(boots).output
    (measured, imported) = both.listed(history, "mtp k=3")["series"]
    assert (measured["source"], imported["source"]) == ("measured", "imported:csv")
    assert both.rows("SELECT source, decode_rate_n FROM cells_clean WHERE source LIKE 'imported:%'") == [
        ("imported:csv", 2)
    ]
    assert both.rows("SELECT count(*) FROM windows_flat WHERE source = 'imported:csv'") == [(2,)]
    assert both.rows("SELECT count(*) FROM boots_flat WHERE imported") == [(1,)]
    assert both.rows("SELECT sweep FROM nights") == [("measured",)]
    ((window,),) = both.rows("SELECT max(window_id) FROM windows_flat WHERE source = 'imported:csv'")
    shown = both.call(show, "window", window).output
    assert "it was imported" in shown
    told = both.listed(show, "window", window)
    assert (told["requests"], told["counters"], told["derived_again"]["equal"]) == (None, None, None), (
        "absent, not none"
    )


def test_a_whole_runs_rate_is_under_a_name_of_its_own_everywhere(desk: Desk) -> None:
    desk.bring(DATA / "vllm_bench" / "depth", "--box", "cpu")
    found = desk.listed(cells)
    assert (found["cells"], len(found["whole_runs"])) == ([], 4)
    first = found["whole_runs"][0]
    assert "decode_rate_tokens_per_second" not in first
    assert first["whole_run_rate_tokens_per_second"]["n"] == 2
    header = desk.call(cells, "--whole-runs", "--csv").stdout.splitlines()[0]
    assert "whole_run_rate_tokens_per_second_mean" in header
    assert "decode_rate" not in header
    counted = "count(decode_rate), count(whole_run_rate)"
    assert desk.rows(f"SELECT {counted} FROM windows_flat") == [(0, 8)]
    assert desk.rows("SELECT count(*) FROM cells_clean") == [(0,)]
    ((window,),) = desk.rows("SELECT max(window_id) FROM windows_flat")
    told = desk.listed(show, "window", window)
    assert (told["decode_rate_tokens_per_second"], "decode_rate" in told["stored"]) == (None, False)
    assert told["whole_run_rate_tokens_per_second"] == told["stored"]["whole_run_rate"]
    assert told["stored"]["sources"] == {"whole_run_rate": "imported:vllm-bench-sweep"}
    assert {one["whole_runs_clean"] for one in desk.listed(configs, "--imported")["configs"]} == {4}
    assert "repeat             1\n" in desk.call(show, "window", window - 1).output, "as lists have it: from 1"
    names = [one["config"] for one in found["whole_runs"]]
    shown = desk.call(compare, names[0], names[-1], "--whole-runs").output
    assert "rate over a whole run (ramp, prefill and tail in it)" in shown


def test_notebooks_have_the_same_filter_and_whole_runs_in_a_frame_of_their_own(both: Desk) -> None:
    pytest.importorskip("pandas")
    both.bring(DATA / "vllm_bench" / "depth", "--box", "cpu")
    book = Notebook(both.queries)
    assert list(book.cells(imported=True)["source"]) == ["imported:csv"]
    assert list(book.windows(imported=False)["source"]) == ["measured", "measured"]
    assert list(book.sweeps(imported=True)["name"]) == ["depth", "spring"]
    frame = book.whole_runs()
    assert (len(frame), "decode_rate_tokens_per_second_mean" in frame) == (4, False)
    assert set(frame["source"]) == {"imported:vllm-bench-sweep"}


def test_a_report_of_whole_runs_states_no_probe_that_nobody_ran(desk: Desk) -> None:
    desk.bring(DATA / "vllm_bench" / "depth", "--box", "cpu")
    written = desk.call(report, "depth").output
    assert "## Whole runs" in written
    assert "no decode rate" in written
    assert "imported:vllm-bench-sweep; conditions are with each window" in written
    for claimed in ("sampling sent", "prompts: code", "warm-up", "Timeline", "Nothing was measured", "planned repeats"):
        assert claimed not in written


def test_a_report_of_whole_runs_has_their_counts_caveats_and_plots(desk: Desk, tmp_path: Path) -> None:
    desk.bring(DATA / "vllm_bench" / "depth", "--box", "cpu")
    written = desk.call(report, "depth").output
    head, caveats = written.split("## What ran")[0], written.split("## Caveats")[1]
    assert "not measured here, identity not proven; 8 rows" in head
    assert "4 cells of whole runs with numbers" in head
    assert "as the files state" in head
    for said in ("ramp, prefill and tail in it", "Nobody proved which engine answered", "measured in one boot only"):
        assert said in caveats
    pytest.importorskip("matplotlib")
    desk.call(report, "depth", "--markdown", tmp_path / "d.md")
    assert sorted(path.stem for path in (tmp_path / "d-plots").iterdir()) == [
        "whole-run-acceptance-t0-0",
        "whole-run-pareto-t0-0",
        "whole-run-rate-t0-0",
        "whole-run-spread",
    ]
    assert "Rate over the whole run by concurrency" in (tmp_path / "d.md").read_text()


def test_what_has_no_date_is_nowhere_said_to_be_of_the_day_of_its_import(desk: Desk, tmp_path: Path) -> None:
    header = f"{HEADER},speculative.num_speculative_tokens"
    desk.bring(a_table(tmp_path, "a,vllm,m,b,1,0.7,20,,3", "c,vllm,m,b,1,0.7,22,2026-05-12,4", header=header))
    said = desk.call(compare, "a", "c").output
    assert "1 window of sweep spring, of a date that is not known" in said
    assert "the newest of 2026-05-12 00:00 UTC" in said
    assert "a row whose file has no date stands at the time of its import" in desk.call(history, "a").output
    with pytest.raises(NotFound, match=r"a night of sweep spring is not in the store: it was imported"):
        desk.call(summary, "spring")


def test_a_row_that_is_in_no_mean_is_said_when_it_is_imported(desk: Desk, tmp_path: Path) -> None:
    one = json.loads((DATA / "vllm_bench" / "depth" / "SERVE-k3-BENCH-c1" / "run=0.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(one | {"failed": 2}))
    told = desk.call(import_, tmp_path / "run.json", "--box", "b").output
    assert "1 row flagged request_failed: stored, and in no mean" in told


def test_a_report_of_an_import_states_no_time_and_no_boots_that_its_file_does_not(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, f"{LINE},22.0,2026-05-12", f"{LINE},23.0,"))
    written = desk.call(report, "spring").output
    assert "measured from 2026-05-12 00:00 to 2026-05-12 00:00 UTC, as the files state; 1 row without a date" in written
    assert "an unknown number of boots of 1 config" in written
    assert "Of how many boots the runs of 1 imported config are is not known" in written
    assert "in one boot only" not in written


def test_the_schema_before_imports_keeps_what_was_measured_and_nothing_else(both: Desk) -> None:
    with both.engine.begin() as connection:
        command.downgrade(alembic_config(connection), "0010")
        assert connection.scalar(sa.text("SELECT count(*) FROM windows_flat")) == 2
        assert connection.scalars(sa.text("SELECT decode_rate_n FROM cells_clean")).all() == [2]
        assert connection.scalar(sa.text("SELECT count(*) FROM sweeps")) == 1
    upgrade(both.engine)
    assert [one["source"] for one in both.listed(cells)["cells"]] == ["measured"]


def test_what_an_import_tells_of_a_box_is_no_measure_of_the_box(both: Desk, tmp_path: Path) -> None:
    line = f"{LINE},22.0,2026-05-12,9.5,1000"
    both.bring(a_table(tmp_path, line, name="told.csv", header=f"{HEADER},weights_gib,cold_start_s"))
    box_id = both.store.box_id(a_box())
    assert {one.longest.seconds for one in both.store.past_starts(box_id).engines} == {420.0}
    assert {one.weights for one in both.store.past_residents(box_id).values()} == {24.92}


def test_a_sweep_says_which_rows_of_its_files_are_in_an_earlier_one(desk: Desk, tmp_path: Path) -> None:
    one, two, three = (f"{LINE},{rate},2026-05-12" for rate in (22.0, 23.0, 24.0))
    desk.bring(a_table(tmp_path, one))
    desk.bring(a_table(tmp_path, one, two, name="more.csv"))
    said = "1 row of its files is in sweep spring since an earlier import, and not in this one"
    desk.bring(a_table(tmp_path, two, three, name="more.csv"))
    (header,) = (line for line in desk.call(report, "more").stdout.splitlines() if "state: " in line)
    assert header.count(said) == 1
    assert "in sweep more" not in header
    assert "since an earlier import" not in desk.call(report, "spring").stdout


def test_the_weights_of_a_draft_stand_in_a_report_and_in_the_list_of_boots(desk: Desk, tmp_path: Path) -> None:
    line = f"{LINE},22.0,2026-05-12,9.5,1.35"
    desk.bring(a_table(tmp_path, line, header=f"{HEADER},weights_gib,draft_weights_gib"))
    assert [(one["weights_gib"], one["draft_weights_gib"]) for one in desk.listed(boots)["boots"]] == [(9.5, 1.35)]
    for shown in (desk.call(boots).stdout, desk.call(report, "spring").stdout):
        assert "draft" in shown
        assert "1.35" in shown
    desk.bring(a_table(tmp_path, LINE.replace("box-a", "box-b") + ",23.0,2026-05-12", name="less.csv"))
    assert "draft" not in desk.call(boots, "--sweep", "less").stdout


def test_older_history_that_is_imported_later_questions_no_decision(desk: Desk, tmp_path: Path) -> None:
    header = f"{HEADER},speculative.method,speculative.num_speculative_tokens,speculative.draft_sample_method"
    lines = [f"k={k},vllm,m,b,1,0.7,{20 + k},2026-05-12,dflash,{k},greedy" for k in (4, 5)]
    desk.bring(a_table(tmp_path, *lines, name="may.csv", header=header))
    desk.call(decide, "may", "--choose", "k=5", "--fallback", "k=4")
    older = "p,vllm,m,b,1,0.7,25,2026-04-01,dflash,5,probabilistic"
    desk.bring(a_table(tmp_path, older, name="april.csv", header=header))
    assert [one["state"] for one in desk.listed(decisions)["decisions"]] == ["standing"]
    newer = older.replace("2026-04-01", "2026-06-01").replace("25", "26", 1)
    desk.bring(a_table(tmp_path, newer, name="june.csv", header=header))
    assert [one["state"] for one in desk.listed(decisions)["decisions"]] == ["questioned"]


def test_equal_conditions_of_two_imports_pool_and_others_do_not(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, f"{LINE},20.0,2026-05-12", name="one.csv"))
    desk.bring(a_table(tmp_path, f"{LINE},22.0,2026-06-12", name="two.csv"))
    with_version = a_table(tmp_path, f"{LINE},24.0,2026-06-12,0.28.0", name="x.csv", header=f"{HEADER},engine_version")
    desk.bring(with_version)
    counts = sorted(one["decode_rate_tokens_per_second"]["n"] for one in desk.listed(cells)["cells"])
    assert counts == [1, 2]


# --- a temperature that nobody told ------------------------------------------------------------------------------------


def test_a_temperature_that_nobody_told_is_a_number_nowhere(desk: Desk, tmp_path: Path) -> None:
    header = f"{HEADER},speculative.num_speculative_tokens"
    lines = [
        f"k{k},vllm,m,b,{streams},unknown,{rate + more},2026-05,{k}"
        for k, rate in ((3, 100), (4, 150), (5, 120))
        for streams in (1, 16)
        for more in (0, 0.3, 0.8)
    ]
    desk.bring(a_table(tmp_path, *lines, header=header))
    desk.call(decide, "spring", "--choose", "k4", "--fallback", "k3")
    ((window, cell, boot),) = desk.rows("SELECT max(window_id), max(cell_id), max(boot_id) FROM windows_flat")
    asked: list[tuple[click.Command, tuple[object, ...]]] = [
        (cells, ()),
        (cells, ("--pooled",)),
        *((cells, ("--group-by", by, "--imported")) for by in ("temperature", "sweep,temperature")),
        (show, ("window", window)),
        (show, ("cell", cell)),
        (show, ("boot", boot)),
        (history, ("k3", "--at", "T=unknown")),
        (compare, ("k3", "k4", "--at", "T=unknown")),
        (effects, ("spring",)),
        (decisions, ("show", "1")),
        (report, ("spring",)),
        (report, ("spring", "--html")),
    ]
    for one, words in asked:
        for form in ("", "--json", "--csv"):
            if form in {option for each in one.params for option in each.opts} | {""}:
                shown = desk.call(one, *words, *((form,) if form else ())).output
                assert not MINUS_ONE.search(shown), (one.name, words, form, MINUS_ONE.findall(shown))
                assert shown, (one.name, words, form)
    for table in ("cells_clean", "windows_flat"):
        assert desk.rows(f"SELECT count(temperature), count(*) > 0 FROM {table}") == [(0, True)]


MINUS_ONE = re.compile(r".{0,40}(?<![\w.+-])-1(?:\.0+)?(?![\w.%-]).{0,20}")


def test_a_temperature_that_nobody_told_is_asked_for_by_its_word_and_is_absent_in_frames(
    desk: Desk, tmp_path: Path
) -> None:
    desk.bring(a_table(tmp_path, *("k3,vllm,m,b,1,unknown,100,2026-05", "k3,vllm,m,b,1,0.7,110,2026-05")))
    assert [one["temperature"] for one in desk.listed(cells, "--temperature", "unknown")["cells"]] == [None]
    assert [one["temperature"] for one in desk.listed(cells, "--temperature", "0.7")["cells"]] == [0.7]
    for words in (("--temperature", "-1"), ("--temperature=-1",), ("--temperature", "-1.00")):
        assert desk.call(cells, *words).exit_code == 2
    book = Notebook(desk.queries)
    for frame in (book.cells(), book.windows(), book.groups(["temperature"], imported=True)):
        values = frame["temperature"]
        assert (values.isna().sum(), values.min()) == (1, 0.7)
    file = tmp_path / "cells.parquet"
    desk.call(cells, "--group-by", "temperature", "--imported", "--parquet", file)
    import pandas

    assert pandas.read_parquet(file)["temperature"].min() == 0.7

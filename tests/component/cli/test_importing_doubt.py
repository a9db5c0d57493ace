"""`nightsweep import` of runs that failed and of what contradicts itself; what no import can know is not said of one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nightsweep.cli.cells import command as cells
from nightsweep.cli.compare import command as compare
from nightsweep.cli.effects import command as effects
from nightsweep.cli.importing import command as import_
from nightsweep.cli.report import command as report
from nightsweep.cli.show import command as show
from nightsweep.errors import InvalidImport

from .test_importing import DATA, PUBLISHED, Desk, a_table, desk

__all__ = ["desk"]

NOTHING_CAME = {"completed": 0, "failed": 8, "output_throughput": 0, "total_output_tokens": 0}


def test_a_run_that_failed_altogether_is_flagged_and_keeps_no_other_run_out(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "depth"
    shutil.copytree(DATA / "vllm_bench" / "depth", folder)
    (folder / "summary.csv").unlink(missing_ok=True)
    every = len(list(folder.rglob("run=*.json")))
    broken = folder / "SERVE-k3-BENCH-c1" / "run=0.json"
    broken.write_text(json.dumps(json.loads(broken.read_text()) | NOTHING_CAME))
    said = desk.call(import_, folder, "--box", "spark-1").output
    assert f"{every} rows of " in said
    assert "1 row flagged request_failed: stored, and in no mean" in said
    (row,) = desk.listed(cells, "--flagged", "--json")["flagged_windows"]
    assert (row["kind"], row["flags"]) == ("whole_run", ["request_failed"])
    assert row["decode_rate_tokens_per_second"] is None
    assert "flag request_failed: 8 requests failed" in desk.call(show, "window", row["window_id"]).output
    assert "request_failed" in desk.call(report, "depth").output
    assert desk.bring(folder, "--box", "spark-1")["boxes"][0]["rows_added"] == 0


HEADER = "config,engine,model,speculative.k,box,concurrency,temperature,decode_rate,boot,date"
ROWS = [
    f"k={k},vllm,org/model,{k},box-a,1,0.7,{rate},{boot},2026-05-12"
    for k, rate, boot in ((3, 20.0, ""), (3, 21.0, ""), (5, 30.0, "x"), (5, 31.0, "y"))
]


def test_an_imported_boot_proves_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, *ROWS, header=HEADER))
    for boot in range(1, 4):
        said = desk.call(show, "boot", boot).output
        assert "no proof: imported:csv, and an import proves nothing" in said
        assert "as asked" not in said
        assert "never ready" not in said


def test_a_number_of_boots_that_no_file_tells_is_not_known(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, *ROWS, header=HEADER))
    said = desk.call(compare, "k=3", "k=5").output
    assert "2 rows, boots not known: 20.0–21.0" in said
    assert "2 rows in 2 boots: 30.0–31.0" in said


def test_effects_of_imported_numbers_say_where_these_are_from(desk: Desk) -> None:
    desk.bring(PUBLISHED / "spark-interaction.csv")
    assert (
        "! not measured here (imported:csv): its engine was not proven"
        in desk.call(effects, "spark-interaction").output
    )
    found = desk.listed(effects, "spark-interaction")
    assert {found["source"], *(one["source"] for one in found["effects"])} == {"imported:csv"}
    header, *lines = desk.call(effects, "spark-interaction", "--csv").output.splitlines()
    assert header.endswith(",source")
    assert all(line.endswith(",imported:csv") for line in lines)


OF_BOOTS = HEADER + ",cold_start_s,weights_gib"


@pytest.mark.parametrize(
    ("facts", "column"), [("300,35", "weights_gib: found 35, and 20"), ("310,20", "cold_start_s: found 310, and 300")]
)
def test_one_boot_of_which_two_things_are_said_is_refused_with_both_rows(
    desk: Desk, tmp_path: Path, facts: str, column: str
) -> None:
    one, other = f"{ROWS[2]},300,20", f"{ROWS[2]},{facts}"
    apart = [a_table(tmp_path, line, name=name, header=OF_BOOTS) for name, line in (("a.csv", one), ("b.csv", other))]
    for words in ([a_table(tmp_path, one, other, header=OF_BOOTS)], apart):
        with pytest.raises(InvalidImport) as refused:
            desk.call(import_, *words)
        (problem,) = refused.value.facts["problems"]
        assert f'{column} in {words[0].name}:2 of the same boot ("x")' in problem
    assert desk.count("windows") == 0
    another_config = f"{ROWS[0]},{facts}".replace(",20.0,,", ",20.0,x,")
    several = (one, f"{ROWS[3]},{facts}", another_config)  # and another word
    assert desk.bring(a_table(tmp_path, *several, name="c.csv", header=OF_BOOTS))["boxes"][0]["rows_added"] == 3

"""`nightsweep import` of runs that failed, and of what contradicts itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from nightsweep.cli.cells import command as cells
from nightsweep.cli.importing import command as import_
from nightsweep.cli.report import command as report
from nightsweep.cli.show import command as show

from .test_importing import DATA, Desk, desk

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

"""An import of more rows than are sent together keeps each as one alone would be."""

from __future__ import annotations

from pathlib import Path

from nightsweep.analysis.summary import summarise
from nightsweep.analysis.values import Filters
from nightsweep.store.import_windows import TOGETHER

from .test_importing import Desk, a_table, desk

__all__ = ["desk"]

HEADER = "config,engine,model,box,concurrency,temperature,decode_rate,boot,cold_start_s,acceptance_length,date"
MANY = TOGETHER + 100


def test_many_rows_are_summed_up_by_boots_and_stand_in_their_order(desk: Desk, tmp_path: Path) -> None:
    lengths = ("", "2.5")  # not every row has the same columns
    rows = [
        f"mtp,vllm,org/model,box-a,{1 + row % 2},0.7,{20 + row / 1000},{row % 3},{300 + row % 3},"
        f"{lengths[row // 50 % 2]},2026-05-12"
        for row in range(MANY)
    ]
    assert desk.bring(a_table(tmp_path, *rows, header=HEADER))["boxes"][0]["rows_added"] == MANY
    (lines,) = zip(*desk.rows("SELECT (facts -> 'imported' ->> 'line')::int FROM windows ORDER BY id"), strict=True)
    assert list(lines) == list(range(2, MANY + 2))
    assert desk.count("request_timings") == MANY
    assert desk.rows("SELECT DISTINCT cold_start_s FROM boots ORDER BY 1") == [(300.0,), (301.0,), (302.0,)]
    kept = {cell.concurrency: cell for cell in desk.queries.cells(Filters())}
    for cell in summarise(desk.queries.windows(Filters())):
        found = kept[cell.concurrency]
        for mine, its in ((found.decode_rate, cell.decode_rate), (found.acceptance_length, cell.acceptance_length)):
            assert mine is not None
            assert its is not None
            assert (mine.n, mine.boots, round(mine.mean, 9)) == (its.n, its.boots, round(its.mean, 9))
            assert mine.boots == 3

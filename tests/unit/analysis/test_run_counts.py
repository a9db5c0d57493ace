"""Where a table shows a number, it shows of how many runs and boots it is, and how far they lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nightsweep.analysis.grouping import NUMBERS, GroupSummary, groups_table
from nightsweep.analysis.summary import summarise, summarise_prefills
from nightsweep.analysis.tables import Table, prefills_table, single_batch_table
from nightsweep.analysis.values import Spread
from nightsweep.analysis.whole_runs import whole_runs_table
from nightsweep.plan.words import SINGLE_BATCH, WHOLE_RUN

from .builders import a_prefill, a_window


def some_windows(kind: str, *, boots: Sequence[int]) -> list[Any]:
    rates = (20.0, 21.0, 22.0)
    return [
        a_window(window_id=i, boot_id=boot, kind=kind, decode_rate=rate)
        for i, (boot, rate) in enumerate(zip(boots, rates, strict=True))
    ]


def shown(table: Table) -> dict[str, str]:
    """Return the only row's values by heading."""
    (group,) = table.groups
    (row,) = group.rows
    return dict(zip((column.heading for column in table.columns), row.values, strict=True))


def test_whole_runs_and_single_batch_runs_have_boots_and_cv_as_cells_have() -> None:
    tables = ((WHOLE_RUN, whole_runs_table), (SINGLE_BATCH, single_batch_table))
    for kind, table_of in tables:
        told = shown(table_of(summarise(some_windows(kind, boots=(1, 1, 2))), title="t"))
        assert (told["n"], told["boots"], told["range"], told["CV"]) == ("3", "2", "20.0–22.0", "4.8%")
        assert "boots" not in shown(table_of(summarise(some_windows(kind, boots=(1, 1, 1))), title="t"))


def test_prefills_have_boots_and_cv_too_and_the_run_count_of_a_time_that_has_fewer() -> None:
    prefills = [
        a_prefill(prefill_id=i, boot_id=i, repeat=i, rate=2000.0 + i, ttft=None if i else 6.0) for i in range(3)
    ]
    told = shown(prefills_table(summarise_prefills(prefills), title="t"))
    assert (told["n"], told["boots"], told["CV"]) == ("3", "3", "0.0%")
    assert told["TTFT"] == "6,000 (n=1)"


def a_spread(mean: float, *, n: int) -> Spread:
    return Spread(mean=mean, n=n, boots=1, minimum=mean, maximum=mean, sd=0.0)


def test_a_number_of_a_group_that_rests_on_fewer_rows_says_on_how_many() -> None:
    numbers = dict.fromkeys(NUMBERS) | {
        "decode_rate": a_spread(30.0, n=112),
        "acceptance_length": a_spread(2.5, n=64),
        "step_time": a_spread(0.1, n=112),
    }
    group = GroupSummary({"source": "imported:csv"}, numbers, cells=1, conditions=1, flagged=0, simulated=False)
    told = shown(groups_table([group], by=("source",), title="t"))
    assert told["acceptance length"] == "2.50 (n=64; 2.50–2.50)"
    assert told["step time"] == "100.0 (100.0–100.0)"

"""What an imported row stands for: one number of several runs is neither one run nor several observations."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.analysis import text
from nightsweep.analysis.caveats import caveats
from nightsweep.analysis.cell_documents import cell_document
from nightsweep.analysis.leading import lone_leads
from nightsweep.analysis.stated import stated_among, stated_in, stated_of
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.tables import cells_table, pivot_table
from nightsweep.analysis.values import CellSummary, Spread
from nightsweep.plan.words import NO_COUNT

from .builders import a_sweep, a_window

MEAN_OF_3 = "a mean of 3 runs, of which each is not known"


def a_cell(*notes: str, **facts: Any) -> CellSummary:
    (cell,) = summarise([a_window(notes=notes, source="imported:csv", **facts)])
    return cell


def rate_of(cell: CellSummary) -> Spread:
    assert cell.decode_rate is not None
    return cell.decode_rate


@pytest.mark.parametrize(("notes", "runs"), [((), 1), ((MEAN_OF_3,), 3), ((NO_COUNT,), None), (("else",), 1)])
def test_a_row_stands_for_as_many_runs_as_its_file_states(notes: tuple[str, ...], runs: int | None) -> None:
    assert stated_in(notes) == runs
    assert rate_of(a_cell(*notes)).stated == runs


def test_rows_of_several_kinds_have_no_common_count() -> None:
    assert stated_of([(MEAN_OF_3,), (MEAN_OF_3,)]) == 3
    assert stated_of([(MEAN_OF_3,), ()]) is None
    assert stated_among([MEAN_OF_3], n=1) == 3
    assert stated_among([MEAN_OF_3], n=2) is None  # the other one may be a single run
    assert stated_among(["else"], n=2) == 1


def test_a_mean_of_three_runs_is_called_so_in_tables_and_is_one_observation_all_the_same() -> None:
    cell = a_cell(MEAN_OF_3)
    rate = rate_of(cell)
    assert (rate.n, rate.runs, rate.sd, cell.single) == (1, 3, None, False)
    assert text.runs(rate) == "mean of 3"
    assert text.value_range(rate, digits=1) == "mean of 3 runs, spread unknown"
    table = cells_table([cell], title="")
    assert not any("one run" in note for note in table.notes)
    assert table.groups[0].rows[0].mark == ""
    assert pivot_table([cell], title="").groups[0].rows[0].values[1] == "20.0 (mean of 3 runs, spread unknown)"


def test_a_row_without_a_count_is_not_called_one_run() -> None:
    rate = rate_of(a_cell(NO_COUNT))
    assert (text.runs(rate), text.value_range(rate, digits=1)) == ("?", "unknown number of runs")
    assert rate.runs is None


def test_several_rows_that_are_no_single_runs_are_called_rows() -> None:
    rows = [a_window(window_id=at, notes=(NO_COUNT,), source="imported:csv", decode_rate=20.0 + at) for at in (1, 2)]
    rate = rate_of(summarise(rows)[0])
    assert (text.runs(rate), text.value_range(rate, digits=0)) == ("2 rows", "21–22")


def test_programs_get_the_rows_and_the_runs_apart() -> None:
    of_three, unknown = cell_document(a_cell(MEAN_OF_3)), cell_document(a_cell(NO_COUNT))
    assert (of_three["decode_rate_tokens_per_second"]["n"], of_three["runs"]) == (1, 3)
    assert (unknown["decode_rate_tokens_per_second"]["n"], unknown["runs"]) == (1, None)
    measured = summarise([a_window(), a_window(window_id=2, repeat=1)])[0]
    assert cell_document(measured)["runs"] == 2


def test_a_number_in_another_unit_stands_for_as_many_runs() -> None:
    per_stream = a_cell(MEAN_OF_3, concurrency=8).per_stream
    assert per_stream is not None
    assert per_stream.stated == 3


def test_caveats_and_leads_tell_means_apart_from_lone_runs() -> None:
    mean = a_cell(MEAN_OF_3, config="b", config_fingerprint="fp-b", decode_rate=30.0)
    unknown = a_cell(NO_COUNT)
    found = "\n".join(caveats(a_sweep(), boots=(), cells=[mean, unknown]))
    assert "n=1: one run" not in found
    assert "One number for several runs" in found
    assert "b at 1 stream, T=0.7 (3)" in found
    assert "does not say of how many runs a number is. 1 cell: mtp at 1 stream, T=0.7" in found
    assert "or a mean whose runs are not known" in found
    assert lone_leads([mean, unknown]) == []

"""Windows become cells: what pools, what stays apart, and that no mean stands alone."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.analysis.cell_documents import cell_document
from nightsweep.analysis.summary import in_plan_order, spread_of, summarise, summarise_prefills
from nightsweep.analysis.tables import cells_table, single_batch_table
from nightsweep.analysis.values import scaled
from nightsweep.analysis.whole_runs import whole_runs_table
from nightsweep.units import Tokens

from .builders import WARM, a_prefill, a_window

measured = st.floats(min_value=1e-3, max_value=1e6, allow_nan=False)


def test_a_mean_comes_with_run_count_boots_and_range() -> None:
    rows = [
        a_window(window_id=1, boot_id=1, decode_rate=161.8),
        a_window(window_id=2, boot_id=1, decode_rate=167.8, repeat=1),
        a_window(window_id=3, boot_id=2, decode_rate=160.9, repeat=2),
    ]
    (cell,) = summarise(rows)
    assert cell.decode_rate is not None
    assert (cell.decode_rate.n, cell.decode_rate.boots) == (3, 2)
    assert cell.decode_rate.mean == pytest.approx(163.5)
    assert (cell.decode_rate.minimum, cell.decode_rate.maximum) == (160.9, 167.8)
    assert cell.decode_rate.sd == pytest.approx(statistics.stdev([161.8, 167.8, 160.9]))


def test_one_run_has_no_deviation_and_is_marked() -> None:
    (cell,) = summarise([a_window(decode_rate=178.5)])
    assert cell.decode_rate is not None
    assert cell.decode_rate.sd is None
    assert cell.decode_rate.relative_range is None
    assert cell.single


def test_a_flagged_window_is_counted_and_enters_no_mean() -> None:
    rows = [
        a_window(window_id=1, decode_rate=20.0),
        a_window(window_id=2, decode_rate=90.0, flags=("foreign_load", "underfilled")),
        a_window(window_id=3, decode_rate=80.0, flags=("underfilled",)),
    ]
    (cell,) = summarise(rows)
    assert cell.decode_rate is not None
    assert (cell.decode_rate.mean, cell.decode_rate.n) == (20.0, 1)
    assert cell.flagged == 2
    assert cell.flag_counts == {"underfilled": 2, "foreign_load": 1}


def test_a_cell_with_only_flagged_windows_is_there_without_a_number() -> None:
    (cell,) = summarise([a_window(flags=("engine_exited",), decode_rate=None)])
    assert cell.decode_rate is None
    assert cell.per_stream is None
    assert not cell.single
    assert (cell.flagged, cell.flags) == (1, ("engine_exited",))


def test_other_conditions_another_box_and_a_simulated_one_are_not_pooled() -> None:
    rows = [
        a_window(window_id=1),
        a_window(window_id=2, conditions="cond-b"),
        a_window(window_id=3, box="spark-2"),
        a_window(window_id=4, simulated=True),
    ]
    assert [cell.decode_rate.n for cell in summarise(rows) if cell.decode_rate] == [1, 1, 1, 1]


def test_temperatures_that_are_written_differently_are_one_cell() -> None:
    rows = [
        a_window(window_id=1, temperature=Decimal("0.7")),
        a_window(window_id=2, temperature=Decimal("0.70"), repeat=1),
    ]
    (cell,) = summarise(rows)
    assert cell.decode_rate is not None
    assert cell.decode_rate.n == 2


def test_equal_conditions_pool_over_sweeps() -> None:
    rows = [a_window(window_id=1, sweep_id=1), a_window(window_id=2, sweep_id=2, boot_id=9)]
    (cell,) = summarise(rows)
    assert cell.decode_rate is not None
    assert (cell.decode_rate.n, cell.decode_rate.boots) == (2, 2)


def test_an_absent_number_is_left_out_and_not_taken_for_zero() -> None:
    rows = [
        a_window(window_id=1, acceptance_length=None, decode_rate=20.0),
        a_window(window_id=2, acceptance_length=3.0, decode_rate=22.0, repeat=1),
    ]
    (cell,) = summarise(rows)
    assert cell.acceptance_length is not None
    assert cell.decode_rate is not None
    assert (cell.acceptance_length.mean, cell.acceptance_length.n) == (3.0, 1)
    assert cell.decode_rate.n == 2


def test_per_stream_is_the_rate_by_the_concurrency_with_the_same_runs() -> None:
    rows = [a_window(window_id=n, concurrency=8, decode_rate=rate) for n, rate in enumerate((120.0, 128.0), start=1)]
    (cell,) = summarise(rows)
    assert cell.per_stream is not None
    assert (cell.per_stream.n, cell.per_stream.mean) == (2, 15.5)
    assert (cell.per_stream.minimum, cell.per_stream.maximum) == (15.0, 16.0)


def test_configs_come_in_the_order_of_their_first_window_then_temperature_then_streams() -> None:
    rows = [
        a_window(window_id=3, config="b", config_fingerprint="fp-b"),
        a_window(window_id=4, config="a", config_fingerprint="fp-a", temperature=WARM),
        a_window(window_id=5, config="a", config_fingerprint="fp-a", concurrency=16),
        a_window(window_id=6, config="a", config_fingerprint="fp-a", concurrency=2),
    ]
    found = [(cell.config, cell.concurrency, str(cell.temperature)) for cell in summarise(rows)]
    assert found == [("b", 1, "0.7"), ("a", 2, "0.7"), ("a", 16, "0.7"), ("a", 1, "1.0")]


def test_plan_order_rules_where_there_is_a_plan() -> None:
    cells = summarise([a_window(window_id=1), a_window(window_id=2, config="other", config_fingerprint="fp-other")])
    ordered = in_plan_order(cells, fingerprints=["fp-other", "fp-mtp"])
    assert [cell.config for cell in ordered] == ["other", "mtp"]


def test_a_renamed_config_goes_by_its_newest_name() -> None:
    rows = [a_window(window_id=1, config="old"), a_window(window_id=2, config="new", repeat=1)]
    assert [cell.config for cell in summarise(rows)] == ["new"]


def test_nothing_measured_is_no_cell() -> None:
    assert summarise([]) == []
    assert spread_of([], boots=[]) is None


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        spread_of([20.0, math.nan], boots=[1, 1])


def test_prefills_pool_by_prompt_length_and_conditions() -> None:
    rows = [
        a_prefill(prefill_id=1, rate=2000.0),
        a_prefill(prefill_id=2, rate=2080.0, repeat=1),
        a_prefill(prefill_id=3, rate=9000.0, repeat=2, flags=("cache_hit",)),
        a_prefill(prefill_id=4, rate=1500.0, prompt_tokens=Tokens(60000)),
        a_prefill(prefill_id=5, rate=1000.0, conditions="cond-b"),
    ]
    found = [
        (cell.prompt_tokens, cell.conditions, cell.rate.mean, cell.rate.n, cell.flagged)
        for cell in summarise_prefills(rows)
        if cell.rate is not None
    ]
    assert found == [
        (12000, "cond-a", 2040.0, 2, 1),
        (12000, "cond-b", 1000.0, 1, 0),
        (60000, "cond-a", 1500.0, 1, 0),
    ]


@given(st.lists(measured, min_size=1, max_size=40))
def test_a_mean_lies_in_its_range(values: list[float]) -> None:
    spread = spread_of(values, boots=[1])
    assert spread is not None
    assert spread.minimum <= spread.mean <= spread.maximum
    assert spread.mean == pytest.approx(statistics.fmean(values), rel=1e-12)


@given(st.lists(measured, min_size=2, max_size=40))
def test_the_deviation_is_the_exact_one(values: list[float]) -> None:
    spread = spread_of(values, boots=[1])
    assert spread is not None
    assert spread.sd is not None
    assert spread.sd == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-9)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20))
def test_a_small_spread_on_a_large_value_is_kept(parts: list[float]) -> None:
    values = [1e9 + part for part in parts]
    spread = spread_of(values, boots=[1])
    assert spread is not None
    assert spread.sd == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-7)


@given(st.lists(measured, min_size=2, max_size=20), st.sampled_from([0.125, 0.5, 1000.0]))
def test_a_spread_in_another_unit_is_the_spread_of_the_scaled_runs(values: list[float], by: float) -> None:
    spread, other = spread_of(values, boots=[1, 2]), spread_of([value * by for value in values], boots=[1, 2])
    assert spread is not None
    assert other is not None
    assert scaled(spread, by=by).mean == pytest.approx(other.mean)
    assert scaled(spread, by=by).sd == pytest.approx(other.sd, rel=1e-9, abs=1e-6)
    assert scaled(spread, by=by).n == other.n


@given(st.lists(st.tuples(st.sampled_from([1, 8]), st.booleans(), st.sampled_from(["a", "b"])), max_size=30))
def test_every_window_is_in_exactly_one_cell(kinds: list[tuple[int, bool, str]]) -> None:
    base = a_window()
    rows = [
        base._replace(window_id=n, concurrency=streams, flags=("aborted",) if flagged else (), conditions=conditions)
        for n, (streams, flagged, conditions) in enumerate(kinds)
    ]
    cells = summarise(rows)
    assert sum((cell.decode_rate.n if cell.decode_rate else 0) + cell.flagged for cell in cells) == len(rows)
    assert sum(cell.flagged for cell in cells) == sum(flagged for _, flagged, _ in kinds)


def test_a_cell_tells_how_full_its_windows_were_and_how_many_streams_a_step_ran() -> None:
    rows = [
        a_window(window_id=place, repeat=place, occupancy=0.999, streams_per_step=3.2 + 0.1 * place)
        for place in range(3)
    ]
    (cell,) = summarise(rows)
    document = cell_document(cell)
    assert document["occupancy"]["mean"] == pytest.approx(0.999)
    assert (document["streams_per_step"]["min"], document["streams_per_step"]["max"]) == (3.2, pytest.approx(3.4))


def test_rows_of_one_cell_under_other_conditions_are_told_apart_in_every_table_of_cells() -> None:
    rows = [
        a_window(window_id=at, conditions=name, kind="single_batch") for at, name in enumerate(("cond-a", "cond-b"))
    ]
    for table_of in (cells_table, single_batch_table, whole_runs_table):
        several, one = table_of(summarise(rows), title=""), table_of(summarise(rows[:1]), title="")
        assert "conditions" in [column.heading for column in several.columns]
        assert {value for row in several.groups[0].rows for value in row.values} >= {"cond-a", "cond-b"}
        assert "conditions" not in [column.heading for column in one.columns]

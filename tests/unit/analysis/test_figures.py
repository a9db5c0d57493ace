"""What the plots of cells show: which series in which order, every clean window a dot, run counts, and why one is left out."""

from __future__ import annotations

from typing import Any

from nightsweep.analysis.figures import (
    Measured,
    acceptance_figure,
    acceptance_table,
    decode_rate_figure,
    spread_figure,
    spread_table,
    step_time_figure,
)
from nightsweep.analysis.plots import Curves, Strips
from nightsweep.analysis.series import TOGETHER, known_series, run_counts
from nightsweep.analysis.values import WindowRow
from nightsweep.plan.model import CONTROL_ROUND
from nightsweep.plan.words import UNKNOWN_TEMPERATURE

from .builders import COLD, WARM, a_window


def measured(*rows: WindowRow, order: tuple[str, ...] = (), simulated: bool = False) -> Measured:
    return Measured(rows, known_series(rows, fingerprints=order), simulated)


def runs(config: str, *rates: float, first: int, **facts: Any) -> list[WindowRow]:
    return [
        a_window(window_id=first + n, config=config, config_fingerprint=f"fp-{config}", decode_rate=rate, **facts)
        for n, rate in enumerate(rates)
    ]


def curves(figure: object) -> Curves:
    plot = figure.plot  # type: ignore[attr-defined]
    assert isinstance(plot, Curves)
    return plot


def test_every_clean_window_is_a_dot_and_flagged_ones_are_counted_and_not_drawn() -> None:
    rows = [*runs("a", 20.8, 20.1, first=1), *runs("a", 99.0, first=3, flags=("disturbed",))]
    figure = decode_rate_figure(measured(*rows), temperature=COLD)
    (panel,) = curves(figure).panels
    (mark,) = panel.series[0].marks
    assert mark.values == (20.8, 20.1)
    assert (mark.spread.n, mark.spread.minimum, mark.spread.maximum) == (2, 20.1, 20.8)
    assert "1 flagged window is not drawn." in figure.caption


def test_the_controls_extra_windows_are_not_drawn() -> None:
    rows = [*runs("a", 20.8, first=1), *runs("a", 30.0, first=2, boot_round=CONTROL_ROUND)]
    (panel,) = curves(decode_rate_figure(measured(*rows), temperature=COLD)).panels
    assert panel.series[0].marks[0].values == (20.8,)


def test_a_place_says_its_concurrency_and_its_run_counts() -> None:
    rows = [*runs("a", 20.0, 21.0, 22.0, first=1), *runs("b", 25.0, first=4), *runs("a", 90.0, first=5, concurrency=8)]
    (panel,) = curves(decode_rate_figure(measured(*rows), temperature=COLD)).panels
    assert [tick.label for tick in panel.ticks] == ["1\nn=1–3", "8\nn=1"]
    assert [mark.at for mark in panel.series[0].marks] == [0.0, 1.0]


def test_a_place_without_a_run_has_no_run_count() -> None:
    assert run_counts([]) == ""
    assert run_counts([3, 3]) == "n=3"


def test_series_come_in_the_order_of_the_plan_and_look_the_same_in_every_plot() -> None:
    rows = [*runs("b", 25.0, first=1), *runs("a", 20.0, first=2), *runs("b", 24.0, first=3, temperature=WARM)]
    told = measured(*rows, order=("fp-a", "fp-b"))
    cold, warm = (decode_rate_figure(told, temperature=at) for at in (COLD, WARM))
    assert [(one.name, one.style) for one in curves(cold).panels[0].series] == [("a", 0), ("b", 1)]
    assert [(one.name, one.style) for one in curves(warm).panels[0].series] == [("b", 1)]


def test_a_config_under_two_sets_of_conditions_is_two_series_that_say_so() -> None:
    rows = [*runs("a", 20.0, first=1), *runs("a", 22.0, first=2, conditions="cond-b")]
    (panel,) = curves(decode_rate_figure(measured(*rows), temperature=COLD)).panels
    assert [one.name for one in panel.series] == ["a (conditions cond-a)", "a (conditions cond-b)"]


def test_more_configs_than_colours_get_a_panel_each_with_the_others_behind() -> None:
    many = TOGETHER + 1
    rows = [row for n in range(many) for row in runs(f"c{n}", 20.0 + n, first=n)]
    plot = curves(decode_rate_figure(measured(*rows), temperature=COLD))
    assert [panel.title for panel in plot.panels] == [f"c{n}" for n in range(many)]
    assert all(len(panel.series) == 1 and len(panel.behind) == many - 1 for panel in plot.panels)
    few = [row for row in rows if row.config != "c0"]
    assert len(curves(decode_rate_figure(measured(*few), temperature=COLD)).panels) == 1


def test_the_axis_of_rates_is_logarithmic_where_zero_would_hide_the_least_and_says_so() -> None:
    near = [*runs("a", 20.0, first=1), *runs("a", 200.0, first=2, concurrency=16)]
    assert not curves(decode_rate_figure(measured(*near), temperature=COLD)).log
    far = [*near, *runs("a", 4000.0, first=3, concurrency=256)]
    figure = decode_rate_figure(measured(*far), temperature=COLD)
    assert curves(figure).log
    assert "log scale" in curves(figure).y_label
    assert "logarithmic" in figure.caption
    nothing = [*far, *runs("b", 0.0, first=4)]
    assert not curves(decode_rate_figure(measured(*nothing), temperature=COLD)).log


def test_step_time_is_in_milliseconds_and_absent_step_times_leave_the_plot_out() -> None:
    figure = step_time_figure(measured(*runs("a", 20.0, first=1, step_time=0.1215)), temperature=COLD)
    assert curves(figure).panels[0].series[0].marks[0].values == (121.5,)
    assert "(ms)" in curves(figure).y_label
    none = step_time_figure(measured(*runs("a", 20.0, first=1, step_time=None)), temperature=COLD)
    assert none.plot is None
    assert "no step counter" in none.missing


def test_acceptance_by_position_takes_windows_of_all_concurrencies_in_percent_position_0_first() -> None:
    rows = [
        *runs("k2", 20.0, first=1, positions=(0.75, 0.5)),
        *runs("k2", 90.0, first=2, positions=(0.65, 0.4), concurrency=8),
        *runs("k3", 20.0, first=3, positions=(0.8, 0.6, 0.4)),
    ]
    (panel,) = curves(acceptance_figure(measured(*rows), temperature=COLD)).panels
    assert panel.series[0].marks[0].values == (75.0, 65.0)
    assert [tick.label for tick in panel.ticks] == ["0\nn=1–2", "1\nn=1–2", "2\nn=1"]
    table = acceptance_table(measured(*rows), temperature=COLD)
    assert table is not None
    assert table.groups[0].rows[0].values == ("k2", "2", "1", "70 (65–75)", "45 (40–50)", "–")


def test_without_speculation_acceptance_is_left_out_and_the_line_says_why() -> None:
    told = measured(*runs("a", 20.0, first=1, positions=None))
    figure = acceptance_figure(told, temperature=COLD)
    assert figure.plot is None
    assert "nothing speculates" in figure.missing
    assert acceptance_table(told, temperature=COLD) is None


def test_spread_is_told_against_the_mean_of_each_windows_own_cell() -> None:
    rows = [*runs("a", 90.0, 110.0, first=1), *runs("a", 190.0, 210.0, first=3, concurrency=8, boot_id=2)]
    told = measured(*rows, *runs("lone", 20.0, first=9))
    plot = spread_figure(told).plot
    assert isinstance(plot, Strips)
    (row,) = plot.rows  # the lone run tells nothing of spread
    assert [round(value, 9) for value in row.values] == [-10.0, 10.0, -5.0, 5.0]
    assert row.note == "n=4"
    table = spread_table(told)
    assert table is not None
    assert table.groups[0].rows[0].values == ("a", "2", "4", "2", "-10.0 to +10.0", "20.0% (1 stream, T=0.7)")


def test_lone_runs_have_no_spread() -> None:
    told = measured(*runs("a", 20.0, first=1))
    assert spread_figure(told).missing == "no cell has two clean windows: one run tells nothing of spread"
    assert spread_table(told) is None


def test_a_figure_of_a_simulated_sweep_is_marked() -> None:
    rows = runs("a", 20.0, first=1)
    assert decode_rate_figure(measured(*rows, simulated=True), temperature=COLD).simulated
    assert not decode_rate_figure(measured(*rows), temperature=COLD).simulated


def test_an_import_without_a_temperature_has_a_figure_whose_name_is_fit_for_a_file() -> None:
    rows = runs("a", 20.0, first=1, temperature=UNKNOWN_TEMPERATURE, source="imported:csv")
    figure = decode_rate_figure(measured(*rows), temperature=UNKNOWN_TEMPERATURE)
    assert figure.name == "decode-rate-t-unknown"
    assert figure.plot is not None

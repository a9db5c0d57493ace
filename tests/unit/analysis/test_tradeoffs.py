"""KV cache tokens against rate, one stream against many: which configs are on the front, where axes begin."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.analysis.figures import Measured
from nightsweep.analysis.plots import Fields, Figure
from nightsweep.analysis.series import known_series
from nightsweep.analysis.tradeoffs import (
    begins_at,
    kv_figure,
    kv_tokens_of,
    not_beaten,
    pareto_figure,
    rates_at,
    tradeoff_table,
)
from nightsweep.analysis.values import WindowRow

from .builders import COLD, a_boot, a_window

RATES = {"mtp": (20.8, 202.7, 1), "dflash": (28.5, 216.1, 2), "slow": (19.0, 150.0, 3), "wide": (23.0, 229.7, 4)}
"""tokens / second at 1 and 16 streams, and the boot, by config."""


def a_night(**facts: Any) -> list[WindowRow]:
    rows = []
    for name, (few, many, boot) in RATES.items():
        for streams, rate in ((1, few), (16, many)):
            rows.append(
                a_window(
                    window_id=len(rows),
                    config=name,
                    config_fingerprint=name,
                    concurrency=streams,
                    decode_rate=rate,
                    boot_id=boot,
                    **facts,
                )
            )
    return rows


def measured(rows: list[WindowRow]) -> Measured:
    return Measured(rows, known_series(rows, fingerprints=[]), False)


BOOTS = [a_boot(boot_id=boot, kv_tokens=1_000_000 - 50_000 * boot) for boot in (1, 2, 3, 4)]


def fields(figure: Figure) -> Fields:
    assert isinstance(figure.plot, Fields)
    return figure.plot


def test_the_front_holds_what_no_other_config_beats_in_both_rates() -> None:
    (field,) = fields(pareto_figure(measured(a_night()), temperature=COLD)).fields
    assert [spot.name for spot in field.front] == ["wide", "dflash"]
    assert "1 stream" in field.x_label
    assert "16 streams" in field.y_label
    assert "tokens/s" in field.x_label


def test_a_field_of_two_numbers_says_how_many_runs_its_marks_stand_for() -> None:
    rows = [*a_night(), a_window(window_id=99, config="wide", config_fingerprint="wide", repeat=7)]
    counts = {key: len(found) for key, found in rates_at(measured(rows), 1).items()}
    least, most = min(counts.values()), max(counts.values())
    said = pareto_figure(measured(rows), temperature=COLD).caption
    assert f"Across it has n={least}–{most}, up n=" in said
    assert "up n=" in kv_figure(measured(a_night()), boots=BOOTS, temperature=COLD).caption


def test_equal_configs_do_not_beat_each_other() -> None:
    key = ("fp", "cond", "box")
    other = ("fp2", "cond", "box")
    assert not_beaten({key: (1.0, 2.0), other: (1.0, 2.0)}) == {key, other}


def test_one_concurrency_is_no_trade_off() -> None:
    rows = [row for row in a_night() if row.concurrency == 1]
    assert pareto_figure(measured(rows), temperature=COLD).missing == "one concurrency alone was measured"


def test_a_config_without_a_window_at_one_end_is_no_spot() -> None:
    rows = [row for row in a_night() if not (row.config == "mtp" and row.concurrency == 16)]
    (field,) = fields(pareto_figure(measured(rows), temperature=COLD)).fields
    assert "mtp" not in [spot.name for spot in field.spots]


def test_kv_tokens_are_those_of_the_boots_that_the_windows_come_from() -> None:
    figure = kv_figure(measured(a_night()), boots=BOOTS, temperature=COLD)
    few, many = fields(figure).fields
    assert (few.title, many.title) == ("1 stream", "16 streams")
    assert {spot.name: spot.y.mean for spot in few.spots} == {
        "mtp": 950_000,
        "dflash": 900_000,
        "slow": 850_000,
        "wide": 800_000,
    }


def test_kv_tokens_come_from_a_second_source_where_the_log_states_none() -> None:
    second = {"vllm:cache_config_info": {"tokens": None}, "/server_info": {"tokens": 74_880}}
    assert kv_tokens_of(a_boot(kv_tokens=None, kv_second=second)) == 74_880
    assert kv_tokens_of(a_boot(kv_tokens=None)) is None


def test_without_kv_tokens_the_plot_is_left_out_and_says_why() -> None:
    figure = kv_figure(measured(a_night()), boots=[], temperature=COLD)
    assert figure.plot is None
    assert "KV cache tokens" in figure.missing


def test_the_table_has_run_counts_boots_and_acceptance_beside_every_number() -> None:
    table = tradeoff_table(measured(a_night(acceptance_length=2.55)), boots=BOOTS, temperature=COLD)
    assert table is not None
    row = table.groups[0].rows[0].values
    assert row[:5] == ("mtp", "20.8", "1", "1", "one run")
    assert row[9] == "2.55; 2.55–2.55"
    assert row[10:] == ("950,000", "1", "")
    assert [row.values[-1] for row in table.groups[0].rows] == ["", "yes", "", "yes"]


@pytest.mark.parametrize(
    ("values", "begin"),
    [([20.0, 100.0], 0.0), ([0.0, 1.0], 0.0), ([], 0.0)],
)
def test_an_axis_begins_at_zero_where_the_values_reach_far(values: list[float], begin: float) -> None:
    assert begins_at(values) == begin


def test_an_axis_begins_below_the_least_where_zero_would_leave_half_of_it_empty() -> None:
    assert 750_000 < begins_at([813_427, 1_014_892]) < 813_427
    assert begins_at([100.0]) < 100.0

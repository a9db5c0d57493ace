"""What was expected beside what was found, and the bandwidth estimate."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from nightsweep.analysis.bandwidth import bandwidth_of, estimates
from nightsweep.analysis.expected import (
    Expected,
    Found,
    expected_and_found,
    expected_table,
    limits,
    worth_reading,
)
from nightsweep.plan.expect import FROM_BANDWIDTH, FROM_FILE, Prediction, Resident
from nightsweep.units import GiB, Seconds, Tokens
from tests.storekit.builders import a_config, a_plan
from tests.unit.analysis.builders import COLD, EVENING, a_window


def expected(
    quantity: str = "decode_rate", low: float | None = 19.0, high: float | None = 21.0, **facts: object
) -> Expected:
    told = Prediction("fp-mtp", 1, COLD, quantity, FROM_FILE, low, high)
    return Expected(replace(told, **facts), "mtp", None, EVENING, after_fact=False)  # type: ignore[arg-type]


def found_of(one: Expected, *rates: float) -> Found:
    windows = [a_window(window_id=at, repeat=at, decode_rate=rate) for at, rate in enumerate(rates)]
    return expected_and_found([one], windows)[0]


def test_an_interval_inside_the_range_is_as_expected() -> None:
    found = found_of(expected(), 20.0, 20.1, 19.9)
    assert (found.verdict, found.n, found.boots) == ("as expected", 3, 1)
    assert found.low is not None
    assert 19.0 < found.low < 20.0


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(25.0, 30.0, "lower"), (10.0, 15.0, "higher"), (20.0, 30.0, "open")]
)
def test_an_interval_outside_is_told_and_one_that_holds_a_limit_is_open(low: float, high: float, verdict: str) -> None:
    assert found_of(expected(low=low, high=high), 20.0, 20.1, 19.9).verdict == verdict


def test_one_run_decides_nothing() -> None:
    found = found_of(expected(low=170.0, high=180.0), 178.5)
    assert (found.verdict, found.n, found.low) == ("open", 1, None)


def test_one_run_decides_nothing_though_other_cells_tell_how_runs_scatter() -> None:
    others = [
        a_window(window_id=10 + at, repeat=at, config_fingerprint="fp-x", decode_rate=20.0 + at) for at in range(4)
    ]
    (found,) = expected_and_found([expected(low=100.0, high=120.0)], [a_window(decode_rate=213.7), *others])
    assert found.low is not None
    assert (found.verdict, found.why) == ("open", "one run is not a measurement")
    ratio = expected("ratio", 1.0, 2.0, against="fp-x")
    (found,) = expected_and_found([ratio], [a_window(decode_rate=213.7), *others])
    assert (found.verdict, found.why) == ("open", "one run is not a measurement")


def test_step_time_scatters_as_it_does_at_its_own_concurrency_and_not_by_the_rule_for_rates() -> None:
    alone = [a_window(window_id=at, repeat=at, step_time=Seconds(0.0120 + at * 0.00002)) for at in range(3)]
    crowd = [
        a_window(window_id=10 + at, repeat=at, concurrency=8, step_time=Seconds(0.030 * (1 + 0.05 * (at % 2))))
        for at in range(9)
    ]
    one = expected("step_time", 0.011, None)
    (found,) = expected_and_found([one], [*alone, *crowd])
    assert found.low is not None
    assert found.high is not None
    assert found.high / found.low < 1.02
    assert found.verdict == "as expected"
    (lone,) = expected_and_found([one], [*alone[:1], *crowd])
    assert (lone.verdict, lone.low, lone.n) == ("open", None, 1)


def test_the_side_of_a_ratio_that_was_not_measured_is_named() -> None:
    one = replace(expected("ratio", 1.6, 2.4, against="fp-dflash"), against="dflash2 k=7")
    (found,) = expected_and_found([one], [a_window(window_id=at, repeat=at) for at in range(3)])
    assert (found.verdict, found.n) == ("not measured", 3)
    assert found.why == "no clean window of dflash2 k=7 here"
    table = expected_table([found], title="Expected", simulated=False)
    assert "not measured: no clean window of dflash2 k=7 here" in table.groups[0].rows[0].values


def test_what_was_not_measured_is_said_to_be_so() -> None:
    assert found_of(expected()).verdict == "not measured"


def test_flagged_and_control_windows_count_for_nothing() -> None:
    windows = [a_window(flags=("foreign_load",)), a_window(boot_round=1000)]
    assert expected_and_found([expected()], windows)[0].n == 0


def test_a_ratio_is_of_two_configs_in_one_cell() -> None:
    one = expected("ratio", 1.6, 2.4, against="fp-dflash")
    windows = [a_window(window_id=at, repeat=at, decode_rate=40.0 + at * 0.1) for at in range(3)]
    windows += [
        a_window(window_id=9 + at, repeat=at, decode_rate=20.0 + at * 0.1, config_fingerprint="fp-dflash", boot_id=2)
        for at in range(3)
    ]
    found = expected_and_found([one], windows)[0]
    assert found.verdict == "as expected"
    assert found.mean == pytest.approx(2.0, rel=0.01)


def test_an_expectation_after_the_fact_is_marked_in_the_table() -> None:
    late = replace(expected(), after_fact=True)
    table = expected_table([found_of(late, 20.0, 20.1)], title="Expected", simulated=False)
    assert "after the fact" in table.groups[0].rows[0].values[-1]
    assert any("no prediction" in note for note in table.notes)


def test_limits_are_written_as_people_write_them() -> None:
    given = [(38.0, 46.0), (0.098, None), (None, 40.0), (42.0, 42.0)]
    assert [limits(expected(low=low, high=high).prediction, digits=1) for low, high in given] == [
        "38.0–46.0",
        ">= 0.1",
        "<= 40.0",
        "42.0",
    ]


# --- bandwidth ---------------------------------------------------------------------------------------------------


def test_a_step_takes_at_least_the_weights_by_the_bandwidth() -> None:
    """The seed report's arithmetic: 24.92 GiB at 273 GB/s are 98 ms; the step that was found took 121 to 123."""
    plan = a_plan(a_config(k=5))
    found = estimates(
        plan.configs[0], plan.probe, Resident(GiB(24.92)), bandwidth=273e9, acceptance={(1, Decimal("0.7")): 3.45}
    )
    step = next(one for one in found if one.quantity == "step_time" and one.concurrency == 1)
    assert (step.low, step.high, step.source) == (pytest.approx(0.098, abs=0.0005), None, FROM_BANDWIDTH)
    rate = next(one for one in found if one.quantity == "decode_rate" and one.concurrency == 1)
    assert rate.high == pytest.approx(3.45 / 0.098, rel=0.01)
    assert "24.92 GiB of weights at 273 GB/s" in rate.basis


def test_without_an_expected_acceptance_every_draft_token_counts_as_accepted() -> None:
    plan = a_plan(a_config(k=5), a_config("plain", k=None))
    for config, length in zip(plan.configs, (6.0, 1.0), strict=True):
        found = estimates(config, plan.probe, Resident(GiB(1.0)), bandwidth=1e9, acceptance={})
        step, rate = found[0], found[1]
        assert step.low is not None
        assert rate.high == pytest.approx(length / step.low)


def test_the_kv_cache_is_read_too_where_its_size_is_known() -> None:
    plan = a_plan()
    known = Resident(GiB(24.92), kv_cache=GiB(36.0), kv_tokens=Tokens(838_501))
    steps = [
        one.low or 0
        for one in estimates(plan.configs[0], plan.probe, known, bandwidth=273e9, acceptance={})
        if one.high is None
    ]
    assert steps[0] < steps[-1]  # four streams hold more than one


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("NVIDIA GB10", 273e9),
        ("NVIDIA GeForce RTX 5090", 1792e9),
        ("NVIDIA H100 80GB HBM3", 3350e9),
        ("NVIDIA H100 PCIe", 2000e9),
        ("NVIDIA H200", 4800e9),
        ("NVIDIA L40S", 864e9),
        ("NVIDIA GH200 480GB", 4000e9),
        ("NVIDIA A100-SXM4-80GB", 2039e9),
        ("Some Other Card", None),
    ],
)
def test_an_accelerator_is_known_by_the_words_of_its_name(name: str, bandwidth: float | None) -> None:
    assert bandwidth_of({"accelerators": [{"name": name}, {"name": name}]}, written=None) == bandwidth


def test_what_the_file_says_of_the_bandwidth_counts_first_and_unequal_cards_are_not_guessed() -> None:
    mixed = {"accelerators": [{"name": "NVIDIA L4"}, {"name": "NVIDIA H200"}]}
    assert bandwidth_of(mixed, written=None) is None
    assert bandwidth_of(mixed, written=1e9) == 1e9
    assert bandwidth_of({}, written=None) is None


def test_a_report_shows_all_that_a_person_wrote_and_few_of_the_estimates() -> None:
    def one(streams: int, source: str, verdict: str) -> Found:
        return Found(expected(concurrency=streams, source=source), verdict=verdict)

    shown = [one(1, FROM_BANDWIDTH, "as expected"), one(8, FROM_FILE, "open"), one(8, FROM_BANDWIDTH, "lower")]
    assert worth_reading([*shown, one(8, FROM_BANDWIDTH, "as expected")]) == shown

"""A night is estimated from the box's history where there is any, else from defaults that are said."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.plan.estimate import ANY, COLD_START, PER_BOOT, PER_WINDOW, Estimate, estimate, night_length
from nightsweep.plan.model import Schedule, SweepPlan
from nightsweep.plan.order import boot_tasks
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_night, a_plan


def estimated(plan: SweepPlan, history: dict[str, float] | None = None) -> Estimate:
    return estimate(plan, boot_tasks(plan), history=history)


def test_without_history_the_defaults_are_summed_and_said() -> None:
    told = estimated(load(a_night(configs=2)))

    per_boot = COLD_START + PER_BOOT + 30.0 + 12 * (40.0 + PER_WINDOW) + 2 * (1000 / 2000 + 1.0)
    assert told.seconds == pytest.approx(2 * per_boot)
    assert told.cold_starts == pytest.approx(2 * COLD_START)
    assert (told.boots, told.windows, told.prefills) == (2, 24, 4)
    assert "cold start of 2 configs: 360 s, a default (no history on this box)" in told.assumptions


def test_the_worst_case_holds_what_a_failing_engine_is_waited_for_and_every_measurement_taken_again() -> None:
    plan = load(a_night(configs=2, boots=3))
    told = estimated(plan)

    assert plan.configs[0].engine.boot_timeout == 1200.0
    assert told.failing_round == pytest.approx(2 * (1200.0 + PER_BOOT))
    windows = (told.windows * (40.0 + PER_WINDOW) + told.prefills * (1000 / 2000 + 1.0)) * plan.probe.max_attempts
    assert told.worst == pytest.approx(6 * told.failing_round + 6 * 30.0 + windows)
    assert estimate(plan, ()).worst == 0.0


def test_the_worst_case_holds_a_production_that_is_busy_and_slow() -> None:
    section = "production: {container: x, ready_timeout: 10m, idle_limit: 20m}"
    plan = a_plan(("name: depth", f"name: depth\n{section}"))

    assert estimated(plan).worst == pytest.approx(estimated(a_plan()).worst + 600.0 + 1200.0)


@given(
    configs=st.integers(1, 3), boots=st.integers(1, 3), timeout=st.sampled_from(["5s", "10m", "3h"]), past=st.booleans()
)
@settings(max_examples=30, deadline=None)
def test_no_estimate_from_defaults_is_longer_than_the_worst_case(
    configs: int, boots: int, timeout: str, *, past: bool
) -> None:
    text = a_night(configs=configs, boots=boots)
    plan = load(text.replace("model: org/target}", f"model: org/target, boot_timeout: {timeout}}}"))
    assert plan.configs[0].engine.boot_timeout in (5.0, 600.0, 10_800.0)
    told = estimated(plan, {ANY: plan.configs[0].engine.boot_timeout} if past else None)

    assert told.seconds <= told.worst


def test_a_short_boot_timeout_says_that_a_short_cold_start_is_expected() -> None:
    assert estimated(a_plan(("20m", "90s"))).cold_starts == pytest.approx(3 * 30.0)


def test_a_config_s_own_history_goes_before_the_box_s_median() -> None:
    plan = load(a_night(configs=3))
    first, second, _ = (config.fingerprint for config in plan.configs)

    told = estimated(plan, {first: 100.0, second: 200.0, ANY: 150.0})

    assert told.cold_starts == pytest.approx(100.0 + 200.0 + 150.0)
    assert "cold start: this box's history for 2 of 3 configs, median 150 s" in told.assumptions
    assert "cold start of 1 configs: 150 s, the median over this box's history" in told.assumptions


def test_production_s_own_cold_start_is_part_of_the_night() -> None:
    plan = a_plan(("name: depth", "name: depth\nproduction: {container: x}"))

    with_history = estimated(plan, {"production": 77.0, ANY: 10.0})

    assert with_history.cold_starts == pytest.approx(3 * 10.0 + 77.0)
    assert "production's own cold start: 77 s, from history" in with_history.assumptions
    assert estimated(plan).cold_starts == pytest.approx(4 * COLD_START)


def test_the_wait_for_an_idle_production_is_counted_in_each_night_and_said_with_its_limit() -> None:
    asked = "production: {container: x, idle_for: 300s, idle_limit: 20m}"
    quiet, not_asked = (
        estimated(a_plan(("name: depth", f"name: depth\n{section}")))
        for section in (asked, asked.replace("300s", "0s"))
    )

    assert (quiet.idle, not_asked.idle) == (300.0, 0.0)
    assert quiet.seconds == pytest.approx(not_asked.seconds + 300.0)
    assert any("must be idle for 300 s" in line and "up to 1200 s" in line for line in quiet.assumptions)
    assert any("whether it is idle or not" in line for line in not_asked.assumptions)
    assert estimated(a_plan()).idle == 0.0


def test_a_night_that_the_wait_for_idleness_fills_is_too_short_for_a_boot() -> None:
    section = "production: {container: x, idle_for: %s, idle_limit: 9h}"
    plans = [a_plan(("name: depth", f"name: depth\n{section % idle}")) for idle in ("60s", "500m")]

    short, long = map(estimated, plans)

    assert (short.fits, short.nights) == (True, 1)
    assert (long.fits, long.nights) == (False, None)


def test_the_night_is_from_the_schedule_s_start_to_until_in_local_time() -> None:
    assert night_length(Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00")) == 8.5 * 3600
    assert night_length(Schedule(cron="0 1 * * *", timezone="Asia/Kolkata", until="06:30")) == 5.5 * 3600


@pytest.mark.parametrize("schedule", [None, Schedule(), Schedule(cron="0 1 * * *"), Schedule(until="07:00")])
def test_a_night_without_start_or_end_has_no_length_and_no_verdict(schedule: Schedule | None) -> None:
    assert night_length(schedule) is None


def test_a_night_on_which_the_clock_is_put_forward_is_an_hour_shorter() -> None:
    schedule = Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00")

    assert night_length(schedule, start=datetime(2026, 3, 28, 21, 30, tzinfo=UTC)) == 7.5 * 3600


def test_a_sweep_that_fits_says_so_and_one_that_does_not_says_how_many_nights() -> None:
    short, long = estimated(a_plan()), estimated(a_plan(("repeats: 3", "repeats: 200")))

    assert (short.fits, short.nights) == (True, 1)
    assert long.fits is False
    assert long.nights is not None
    assert (long.nights - 1) * 8.5 * 3600 < long.seconds


def test_a_night_shorter_than_production_s_own_start_fits_nothing() -> None:
    plan = a_plan(("name: depth", "name: depth\nproduction: {container: x}"), ('"07:00"', '"22:35"'))

    told = estimated(plan)

    assert (told.fits, told.nights) == (False, None)


def test_nothing_left_takes_only_production_s_own_start() -> None:
    plan = a_plan(("name: depth", "name: depth\nproduction: {container: x}"))

    told = estimate(plan, (), history={"production": 60.0})

    assert (told.seconds, told.boots, told.fits, told.nights) == (60.0, 0, True, 0)


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_more_work_is_never_estimated_shorter(configs: int, repeats: int, boots: int) -> None:
    boots = min(boots, repeats)
    less = estimated(load(a_night(configs=configs, repeats=repeats, boots=boots)))
    more = estimated(load(a_night(configs=configs, repeats=repeats + 1, boots=boots)))

    assert less.seconds < more.seconds
    assert less.measuring + less.cold_starts <= less.seconds

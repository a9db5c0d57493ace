"""How far a sweep is."""

from __future__ import annotations

from dataclasses import replace

from nightsweep.analysis.progress import progress_of, time_left
from nightsweep.plan.remaining import MAX_FAILED_BOOTS

from .builders import a_boot, a_config, a_failed_boot, a_plan, a_prefill, a_window


def test_what_is_left_is_the_plan_less_the_clean_repeats() -> None:
    windows = [a_window(window_id=n, repeat=n) for n in range(2)]
    (mtp,) = progress_of(a_plan(), windows=windows, prefills=[a_prefill()], boots=[])
    assert (mtp.planned, mtp.clean, mtp.left, mtp.boots_left) == (6, 2, 4, 1)
    assert (mtp.prefills_planned, mtp.prefills_clean) == (3, 1)


def test_repeats_that_are_not_asked_for_any_more_count_for_nothing() -> None:
    windows = [a_window(window_id=n, repeat=n) for n in range(1, 9)]
    windows += [a_window(window_id=n, repeat=5, attempt=n, flags=("underfilled",)) for n in (10, 11, 12)]
    (mtp,) = progress_of(a_plan(), windows=windows, prefills=[], boots=[])
    assert (mtp.planned, mtp.clean, mtp.given_up, mtp.left) == (6, 2, 0, 4)


def test_a_repeat_that_was_measured_again_counts_once() -> None:
    windows = [a_window(window_id=1, flags=("underfilled",)), a_window(window_id=2, attempt=2)]
    (mtp,) = progress_of(a_plan(), windows=windows, prefills=[], boots=[])
    assert (mtp.clean, mtp.given_up, mtp.left) == (1, 0, 5)


def test_a_repeat_flagged_as_often_as_allowed_is_given_up_and_not_left() -> None:
    windows = [a_window(window_id=n, attempt=n, flags=("underfilled",)) for n in (1, 2, 3)]
    (mtp,) = progress_of(a_plan(), windows=windows, prefills=[], boots=[])
    assert (mtp.clean, mtp.given_up, mtp.left) == (0, 1, 5)


def test_a_config_that_fails_the_same_way_again_has_nothing_left() -> None:
    (mtp,) = progress_of(a_plan(), windows=[], prefills=[], boots=[a_failed_boot()])
    assert (mtp.left, mtp.boots_left, mtp.boots_failed) == (0, 0, 1)


def test_a_boot_that_may_succeed_later_is_still_left() -> None:
    (mtp,) = progress_of(a_plan(), windows=[], prefills=[], boots=[a_failed_boot(retry="after_memory")])
    assert (mtp.left, mtp.boots_left) == (6, 1)


def test_a_round_that_failed_as_often_as_it_may_is_not_left_and_another_one_is() -> None:
    plan = a_plan()
    failures = [a_failed_boot(retry="after_memory", boot_round=0) for _ in range(MAX_FAILED_BOOTS)]
    (mtp,) = progress_of(plan, windows=[], prefills=[], boots=failures)
    assert (mtp.planned, mtp.left, mtp.boots_left) == (6, 0, 0)
    two = replace(plan, probe=replace(plan.probe, boots=2))
    (mtp,) = progress_of(two, windows=[], prefills=[], boots=failures)
    assert mtp.left == 2, "the second boot's repeat of each of two cells"


def test_boots_that_another_hand_stopped_leave_what_they_were_for() -> None:
    failures = [a_failed_boot(retry="outside", boot_round=0) for _ in range(MAX_FAILED_BOOTS)]
    (mtp,) = progress_of(a_plan(), windows=[], prefills=[], boots=failures)
    assert (mtp.left, mtp.boots_left) == (6, 1)


def test_a_sweep_with_only_prefills_left_still_needs_its_boot() -> None:
    windows = [a_window(window_id=n, repeat=n % 3, concurrency=(1, 8)[n // 3]) for n in range(6)]
    (mtp,) = progress_of(a_plan(), windows=windows, prefills=[], boots=[a_boot()])
    assert (mtp.left, mtp.boots_left) == (0, 1)


def test_time_left_is_cold_starts_and_windows_and_not_told_before_a_boot_has_shown_one() -> None:
    plan = a_plan(a_config(), a_config("other"))
    progress = progress_of(plan, windows=[], prefills=[], boots=[])
    assert time_left(plan, progress, boots=[]) is None
    seconds = time_left(plan, progress, boots=[a_boot(cold_start=300.0)])
    assert seconds is not None
    assert seconds > 2 * 300.0 + 12 * 40.0

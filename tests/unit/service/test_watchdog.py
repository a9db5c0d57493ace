"""When the watchdog acts, and when it must not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nightsweep.service.watchdog import Owing, Rules, judge
from nightsweep.units import Seconds

UNTIL = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
DEAD = Owing("prod", restore_by=UNTIL, ready_timeout=Seconds(1200.0), alive=False)
LIVES = replace(DEAD, alive=True, lease_over=False)


def at(minutes: float) -> datetime:
    return UNTIL + timedelta(minutes=minutes)


@pytest.mark.parametrize("owing", [DEAD, LIVES, replace(LIVES, lease_over=True), replace(LIVES, stopped=True)])
@pytest.mark.parametrize("minutes", [-300.0, -0.1, 1.9])
def test_nothing_is_touched_before_the_sweeps_end_and_some_grace(owing: Owing, minutes: float) -> None:
    assert not judge(owing, Rules(), now=at(minutes)).restore


def test_a_dead_sweeps_production_is_brought_back_after_its_time() -> None:
    assert judge(DEAD, Rules(), now=at(2.1)).restore


def test_a_dead_sweep_without_an_end_is_over_at_once() -> None:
    assert judge(replace(DEAD, restore_by=None), Rules(), now=at(-300)).restore


@pytest.mark.parametrize(
    ("hung", "why"), [({"lease_over": True}, "not renewed its lease"), ({"stopped": True}, "its process is stopped")]
)
def test_a_living_holder_that_lost_its_lease_or_is_stopped_is_hung(hung: dict[str, bool], why: str) -> None:
    verdict = judge(replace(LIVES, **hung), Rules(), now=at(3))  # type: ignore[arg-type]
    assert (verdict.restore, verdict.hung) == (True, True)
    assert why in verdict.why


def test_a_living_sweep_that_is_late_is_given_time_to_end_and_then_counts_as_hung() -> None:
    assert not judge(LIVES, Rules(), now=at(9)).restore
    assert judge(LIVES, Rules(), now=at(11)).hung


def test_production_that_is_on_its_way_back_is_given_its_own_time() -> None:
    coming = replace(LIVES, began=at(1))
    assert not judge(coming, Rules(), now=at(30)).restore
    assert judge(coming, Rules(), now=at(32)).hung


def test_a_holder_in_another_process_namespace_is_no_dead_one() -> None:
    elsewhere = replace(DEAD, alive=None)
    assert not judge(elsewhere, Rules(), now=at(5)).restore
    assert judge(elsewhere, Rules(), now=at(11)).restore
    assert judge(replace(elsewhere, lease_over=True), Rules(), now=at(3)).restore


def test_a_living_sweep_without_an_end_is_left_alone_for_ever_while_it_holds_its_lease() -> None:
    assert not judge(replace(LIVES, restore_by=None), Rules(), now=at(5000)).restore

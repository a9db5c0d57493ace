"""The wall clock is set by hours while a sweep runs: the night's end is where it was, and production is not down for longer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from nightsweep.ports import Progress
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.patience import ENDING, NO_END
from nightsweep.sweep.steady import LASTING, SteadyClock
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps
from nightsweep.units import Seconds
from tests.fakes.clock import EVENING, FakeClock
from tests.unit.sweep.builders import World, a_plan

TWO_HOURS = 7200.0


@pytest.mark.parametrize("step", [TWO_HOURS, -TWO_HOURS])
def test_a_step_does_not_move_the_runs_time_of_day_and_is_told_once(step: float) -> None:
    wall = FakeClock()
    clock = SteadyClock(wall)
    wall.advance(60.0)
    wall.step(step)
    wall.advance(60.0)
    assert clock.now() == EVENING + timedelta(seconds=120)
    (said,) = clock.news()
    assert ("forward by 7200 s" if step > 0 else "back by 7200 s") in said
    assert clock.news() == ()


def test_a_step_that_is_taken_back_changes_nothing() -> None:
    wall = FakeClock()
    clock = SteadyClock(wall)
    wall.step(TWO_HOURS)
    clock.now()
    wall.advance(LASTING - 60.0)
    wall.step(-TWO_HOURS)
    wall.advance(LASTING)
    assert clock.now() == EVENING + timedelta(seconds=2 * LASTING - 60.0)
    assert [said.split(";")[1] for said in clock.news()][-1] == " it agrees again with the time that has passed"


def test_a_clock_that_stays_ahead_is_believed_after_ten_minutes_and_one_that_is_behind_never() -> None:
    ahead, behind = FakeClock(), FakeClock()
    clocks = SteadyClock(ahead), SteadyClock(behind)
    ahead.step(TWO_HOURS)
    behind.step(-TWO_HOURS)
    for wall, clock in zip((ahead, behind), clocks, strict=True):
        before = clock.now()
        wall.advance(LASTING + 1)
        assert clock.now() >= before
    assert clocks[0].now() == EVENING + timedelta(seconds=TWO_HOURS + LASTING + 1)
    assert clocks[1].now() == EVENING + timedelta(seconds=LASTING + 1)
    assert "goes by it from now on" in clocks[0].news()[-1]


def test_drift_is_no_step() -> None:
    wall = FakeClock()
    clock = SteadyClock(wall)
    for _ in range(10):
        wall.advance(3600.0)
        wall.step(1.0)
        clock.now()
    assert clock.news() == ()


def play_stepped(world: World, step: float, *, until: float) -> tuple[Outcome, float]:
    """Play a night of `until` seconds whose wall clock is set after the first window; return it, and how long it took."""
    clock = SteadyClock(world.clock)
    began = world.clock.monotonic()

    def hear(progress: Progress) -> None:
        if progress.phase == "window" and progress.windows_done == 1:
            world.clock.step(step)

    tools = replace(world.tools(), clock=clock, clock_news=clock.news)
    limits = Limits(until=clock.now() + timedelta(seconds=until), reserve=Seconds(5.0))
    outcome = run_sweep(a_plan(repeats=12), tools, file_text="", steps=PlainSteps(hear), limits=limits)
    return outcome, world.clock.monotonic() - began


@pytest.mark.parametrize("step", [TWO_HOURS, -TWO_HOURS])
def test_a_sweep_goes_on_over_a_step_and_ends_when_it_would_have(step: float) -> None:
    whole, short = World(), World()
    done, _ = play_stepped(whole, step, until=600.0)
    assert (done.state, done.windows_left) == ("done", 0), "a step forward ended no night"
    (told,) = [event for event in whole.store.events if event.kind == "clock_stepped"]
    assert "by 7200 s" in told.message
    cut, lasted = play_stepped(short, step, until=75.0)
    assert (cut.state, cut.windows_left > 0) == ("partial", True)
    assert lasted <= 75.0, "a step back keeps production down no longer"


def test_the_database_is_waited_for_until_production_is_due_and_a_moment_while_the_sweep_ends() -> None:
    world = World()
    heard: list[object] = []
    tools = world.tools()
    steps = PlainSteps(lambda progress: heard.append(world.store.patience) if progress.phase == "window" else None)
    limits = Limits(until=world.clock.now() + timedelta(seconds=600), reserve=Seconds(100.0))
    began = world.clock.monotonic()
    run_sweep(a_plan(), tools, file_text="", steps=steps, limits=limits)
    assert set(heard) == {(ENDING, began + 500.0)}
    assert world.store.patience == (ENDING, None)
    heard.clear()
    run_sweep(a_plan(repeats=4), tools, file_text="", steps=steps, limits=Limits())
    assert set(heard) == {(NO_END, None)}

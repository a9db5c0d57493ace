"""The end of a night: `until` is kept, whatever starts take; what does not fit is left for the next one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from benchmarks.nights import exceptional, late, rows, unexplained
from nightsweep.plan.fit import FREEING, Longest, PastStart, PastStarts, program_of
from nightsweep.plan.model import Production, SweepPlan
from nightsweep.ports import Launch
from nightsweep.sweep.tools import Limits
from nightsweep.units import Seconds
from tests.fakes.host import Script
from tests.fakes.nights import PRODUCTION, NightResult, Nights
from tests.unit.sweep.builders import World, a_config, a_plan

STOP = 5.0 + FREEING  # of the builders' engines


def before(world: World, seconds: float) -> Limits:
    """Return a night of so many seconds before the moment at which everything is dropped."""
    return Limits(until=world.clock.now() + timedelta(seconds=seconds + STOP))


def with_past(world: World, plan: SweepPlan, **seconds: float) -> None:
    """Give the box a past by config name; "prod" is production's."""
    starts = {name: Longest(Seconds(took), 1000) for name, took in seconds.items() if name == "prod"}
    engines = tuple(
        PastStart(config.fingerprint, program_of(config.document), "mtp", Longest(Seconds(seconds[config.name]), 1000))
        for config in plan.configs
        if config.name in seconds
    )
    world.store.past_starts = lambda box_id: PastStarts(engines, starts)  # type: ignore[method-assign]


def booted(world: World) -> list[str]:
    names = {config.fingerprint: config.name for sweep in world.store.sweeps.values() for config in sweep.plan.configs}
    return [names[boot.config] for boot in world.store.boots.values()]


def test_a_night_in_which_nothing_fits_leaves_production_alone_and_says_what_was_lacking() -> None:
    world = World()
    world.host.add_foreign("prod")
    plan = a_plan(production=Production("prod", ready_timeout=Seconds(300.0), idle_for=Seconds(0.0)))
    outcome = world.play(plan, limits=before(world, 300.0 + 50.0))
    assert (outcome.state, outcome.windows_done) == ("partial", 0)
    assert "the next boot does not fit any more: mtp needs 38 s for a first window" in outcome.note
    assert "20 s, a default: no past cold start on this box" in outcome.note
    assert "300 s, its ready_timeout" in outcome.note
    assert not [call for call in world.host.calls if call[0] in ("start", "stop_foreign")]


def test_a_cheaper_boot_of_what_is_left_comes_first_when_only_that_fits() -> None:
    world = World()
    plan = a_plan(a_config("first"), a_config("dear", k=4), a_config("cheap", k=5), repeats=1)
    with_past(world, plan, first=5.0, dear=59.0, cheap=5.0)
    outcome = world.play(plan, limits=before(world, 95.0))
    assert booted(world) == ["first", "cheap"]
    assert outcome.state == "partial"
    assert "dear needs" in outcome.note
    again = world.play(plan, limits=before(world, 1000.0))
    assert (again.state, booted(world)) == ("done", ["first", "cheap", "dear"])


def test_a_window_that_would_not_be_over_in_time_is_not_begun() -> None:
    world = World()
    plan = a_plan(concurrency=(1, 2, 3, 4), repeats=3)
    with_past(world, plan, mtp=5.0)
    outcome = world.play(plan, limits=before(world, 50.0))
    assert "the next window takes 8 s and does not fit any more" in outcome.note
    assert 0 < outcome.windows_done < 12
    assert world.flags() == [()] * outcome.windows_done


def test_an_engine_that_is_not_ready_when_production_must_start_is_dropped_and_the_note_says_what_was_expected() -> (
    None
):
    world = World()
    world.host.add_foreign("prod")
    plan = a_plan(production=Production("prod", idle_for=Seconds(0.0)))
    with_past(world, plan, mtp=5.0, prod=100.0)
    world.probe.healthy_when = lambda: world.host.foreigners["prod"].running
    outcome = world.play(plan, limits=before(world, 110.1 + 55.0))
    assert outcome.state == "partial"
    assert "mtp was dropped 5" in outcome.note
    assert "by the longest of 1000 past cold starts of this config (5 s)" in outcome.note
    assert world.host.foreigners["prod"].running


def test_a_window_that_runs_on_is_dropped_when_production_must_start() -> None:
    world = World()
    plan = a_plan(repeats=1)
    with_past(world, plan, mtp=5.0)

    def slow(target: object, request: object) -> None:
        for _ in range(1000):
            world.clock.advance(1.0)
            world.probe.alive()  # type: ignore[attr-defined]

    real = world.probe.window

    def window(target, request, *, alive):  # type: ignore[no-untyped-def]
        world.probe.alive = alive  # type: ignore[attr-defined]
        return real(target, request, alive=alive)

    world.probe.window = window  # type: ignore[method-assign]
    world.probe.windows = [slow]  # type: ignore[list-item]
    limits = before(world, 60.0)
    outcome = world.play(plan, limits=limits)
    assert "what was being measured is dropped" in outcome.note
    assert world.store.windows == {}
    assert limits.until is not None
    assert world.clock.now() <= limits.until


def test_without_an_until_nothing_is_estimated_and_nothing_asked() -> None:
    world = World()
    world.store.past_starts = None  # type: ignore[assignment, method-assign]
    assert world.play(a_plan()).state == "done"


def test_what_is_kept_free_may_be_given() -> None:
    world = World()
    until = world.clock.now() + timedelta(seconds=100.0)
    outcome = world.play(a_plan(), limits=Limits(until=until, reserve=Seconds(90.0)))
    assert outcome.windows_done == 0
    assert "90 s, as given" in outcome.note


def test_a_config_that_exits_at_once_does_not_end_the_night() -> None:
    bad = a_config("bad", k=9)

    def script(launch: Launch) -> Script:
        wrong = '"num_speculative_tokens":9' in " ".join(launch.command).replace(" ", "")
        return Script(exits_at=0.5, exit_code=2) if wrong else Script()

    world = World(script=script)
    world.probe.healthy_when = lambda: any("9" not in world.host.launches[-1].command[-1] for _ in world.host.running)
    outcome = world.play(a_plan(bad, a_config("good", k=None)), limits=before(world, 600.0))
    assert (outcome.state, outcome.windows_done) == ("done", 4)


# --- several nights, with starts that are drawn


def test_production_is_ready_by_until_in_nights_of_starts_that_vary_by_thirty_percent() -> None:
    nights = Nights(seed=1, configs=30)
    results = [nights.night() for _ in range(3)]
    assert late(results) == []
    assert [night.outcome.state for night in results[:1]] == ["partial"]
    assert all(night.production_start is not None and night.windows > 0 for night in results)
    assert len(list(rows(results))) == 5


def test_production_that_starts_slower_than_ever_is_late_and_the_note_says_so() -> None:
    nights = Nights(seed=1, configs=4, repeats=50)  # so much to measure in a boot that a night is used to its end
    nights.night()
    nights.host.draw = lambda what: 1190.0 if what == PRODUCTION else 400.0
    result = nights.night()
    assert result.slack < 0
    assert exceptional(result)
    assert f"production served again {-result.slack:.0f} s after until" in result.outcome.note
    assert result.outcome.note in nights.store.sweeps[1].note  # type: ignore[operator]
    assert [event.level for event in nights.store.events if event.kind == "production_late"] == ["error"]
    assert unexplained([result]) == []


@pytest.mark.parametrize(("start", "longest", "unexcused"), [(500.0, 400.0, 0), (300.0, 400.0, 1), (None, 400.0, 1)])
def test_a_late_night_is_excused_by_a_start_beyond_every_past_one_only(
    start: float | None, longest: float, unexcused: int
) -> None:
    result = Nights(seed=1, configs=1).night()
    outcome = replace(result.outcome, note="production served again 5 s after until")
    night: NightResult = replace(
        result,
        outcome=outcome,
        production_start=start,
        longest_before=longest,
        ready=result.until + timedelta(seconds=5),
    )
    assert len(unexplained([night])) == unexcused

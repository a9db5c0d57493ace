"""The box around a measurement, on fakes: watched in every window, its page cache freed where the file says so."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from nightsweep.errors import DockerUnavailable
from nightsweep.measurement.boxstate import BoxSample, DeviceSample
from nightsweep.plan.model import CONTROL_ROUND, ControlSpec, SweepPlan
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.measure import warmed_temperatures
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps
from nightsweep.units import MonotonicSeconds, Seconds
from tests.fakes.boxstate import FakeBoxSampler
from tests.unit.sweep.builders import World, a_config, a_plan


def play(world: World, plan: SweepPlan, sampler: FakeBoxSampler) -> Outcome:
    tools = replace(world.tools(), box_sampler=sampler)
    return run_sweep(plan, tools, file_text="", steps=PlainSteps(), limits=Limits())


def braked(at: MonotonicSeconds) -> BoxSample:
    return BoxSample(at=at, devices=(DeviceSample(index=0, engines=True, reasons=("hw_power_brake",)),))


def test_every_window_is_watched_and_keeps_its_samples_and_their_summary() -> None:
    world = World()
    sampler = FakeBoxSampler(world.clock)
    outcome = play(world, a_plan(), sampler)
    boxes = [row.result.box for row in world.store.windows.values()]
    assert (outcome.state, len(boxes)) == ("done", 4)
    assert [call for call, _ in sampler.calls] == ["watch"] * 4
    assert all(box is not None and box.state.samples >= 4 and len(box.samples) >= box.state.samples for box in boxes)
    assert world.flags() == [()] * 4


def test_a_throttled_window_is_measured_again_as_often_as_any_flagged_one() -> None:
    world = World()
    play(world, a_plan(concurrency=(1,), repeats=1), FakeBoxSampler(world.clock, sample_at=braked))
    assert world.flags() == [("throttled",)] * 3
    (event, *_) = [event for event in world.store.events if event.kind == "window_flagged"]
    assert "hw_power_brake in 100% of the samples" in event.message


def test_a_window_that_is_flagged_already_keeps_its_own_flag_alone() -> None:
    world = World()
    world.host.script = replace(world.host.script, port_problem="another process listens")  # type: ignore[type-var]
    sampler = FakeBoxSampler(world.clock, sample_at=braked)
    play(world, a_plan(concurrency=(1,), repeats=1), sampler)
    assert all("throttled" not in flags for flags in world.flags())


def test_a_host_that_cannot_say_whose_port_it_is_condemns_no_config_the_next_run_boots_it_again() -> None:
    """A Docker Engine that is on its way back says nothing of the engine: nobody shall read of a wrong engine then."""
    world, plan = World(), a_plan(concurrency=(1,), repeats=1)
    world.host.silent_about_ports = [DockerUnavailable(reason="connection refused")]
    with pytest.raises(DockerUnavailable):
        play(world, plan, FakeBoxSampler(world.clock))
    assert [row.outcome.failure for row in world.store.boots.values() if row.outcome is not None] == [None]
    assert play(world, plan, FakeBoxSampler(world.clock)).state == "done"
    assert world.flags() == [()]


def test_a_window_whose_engine_cannot_be_proven_is_kept_flagged_and_measured_again() -> None:
    world = World()
    world.host.silent_about_ports = [None, DockerUnavailable(reason="connection refused")]
    play(world, a_plan(concurrency=(1,), repeats=1), FakeBoxSampler(world.clock))
    assert world.flags() == [("identity_lost",), ()]
    (event,) = [event for event in world.store.events if event.kind == "window_flagged"]
    assert "cannot be proven" in event.message


def test_others_on_the_cpu_flag_an_engine_on_the_cpu_and_no_simulated_one() -> None:
    def busy(at: MonotonicSeconds) -> BoxSample:
        return BoxSample(at=at, cpu_busy=Seconds(at * 8.0), cpu_engine=Seconds(at * 1.0), cpu_own=Seconds(0.0))

    real, simulated = World(), World()
    play(real, a_plan(concurrency=(1,), repeats=1), FakeBoxSampler(real.clock, sample_at=busy))
    config = a_config()
    config = replace(config, engine=replace(config.engine, simulated=True))
    simulated.probe.answers["version"] = {"version": "0.32.0", "simulated": True}
    play(simulated, a_plan(config, concurrency=(1,), repeats=1), FakeBoxSampler(simulated.clock, sample_at=busy))
    assert real.flags() == [("disturbed",)] * 3
    assert simulated.flags() == [()]


# --- the page cache ----------------------------------------------------------------------------------------------


def a_dropping_plan() -> SweepPlan:
    config = a_config()
    return a_plan(replace(config, engine=replace(config.engine, drop_page_cache=True)), concurrency=(1,), repeats=1)


def test_the_page_cache_is_freed_before_the_engine_starts_and_its_state_is_kept_with_the_boot() -> None:
    world = World()
    sampler = FakeBoxSampler(world.clock)
    play(world, a_dropping_plan(), sampler)
    assert [call for call, _ in sampler.calls] == ["drop", "watch"]
    (boot,) = world.store.boots.values()
    assert boot.ready is not None
    assert boot.ready.cache_state == {
        "page_cache": "dropped",
        "page_cache_bytes": 1 << 30,
        "page_cache_bytes_before": 7 << 30,
    }
    assert any("was freed before the boot (6.0 GiB)" in event.message for event in world.store.events)


def test_a_page_cache_that_may_not_be_freed_is_said_with_the_remedy_and_the_boot_goes_on() -> None:
    world = World()
    outcome = play(world, a_dropping_plan(), FakeBoxSampler(world.clock, refused="drop_caches: Permission denied"))
    assert outcome.state == "done"
    (event,) = [event for event in world.store.events if event.kind == "page_cache"]
    assert event.level == "warning"
    assert "Permission denied" in event.message
    assert "as root" in event.message
    (boot,) = world.store.boots.values()
    assert boot.ready is not None
    assert boot.ready.cache_state["page_cache"] == "not dropped"


def test_without_being_asked_the_page_cache_is_left_alone_and_its_size_is_known() -> None:
    world = World()
    sampler = FakeBoxSampler(world.clock)
    play(world, a_plan(concurrency=(1,), repeats=1), sampler)
    assert "drop" not in {call for call, _ in sampler.calls}
    (boot,) = world.store.boots.values()
    assert boot.ready is not None
    assert boot.ready.cache_state == {"page_cache": "as it was", "page_cache_bytes": 7 << 30}


# --- control and warm-up -----------------------------------------------------------------------------------------


def test_a_controls_extra_windows_start_at_the_same_prompt_and_are_stored_apart() -> None:
    world = World()
    control = a_config("a")
    plan = replace(a_plan(control, a_config("b", k=None)), control=ControlSpec(control.fingerprint, every=1))
    outcome = world.play(plan)
    assert (outcome.state, outcome.windows_left) == ("done", 0)
    assert outcome.windows_done == outcome.windows_planned == 8 + 2 * 2
    asked = [facts["request"] for call, facts in world.probe.calls if call == "window"]
    extra = [row for row in world.store.windows.values() if row.key[-1] >= CONTROL_ROUND]
    assert len(extra) == 4
    own, extra_boots = asked[:4], (asked[4:6], asked[10:12])
    first = {
        request.concurrency: min(r.first_prompt for r in own if r.concurrency == request.concurrency) for request in own
    }
    for requests in extra_boots:
        assert {request.concurrency: request.first_prompt for request in requests} == first
    assert any("control boot 1" in progress.message for progress in world.heard)


@pytest.mark.parametrize(
    ("planned", "warmed"),
    [
        (("0.7", "1.0"), ("1.0",)),
        (("0", "0.7", "1.0"), ("1.0", "0")),
        (("0",), ("0",)),
    ],
)
def test_both_ways_to_decode_are_warmed_up(planned: tuple[str, ...], warmed: tuple[str, ...]) -> None:
    assert warmed_temperatures([Decimal(each) for each in planned]) == tuple(Decimal(each) for each in warmed)


def test_the_warm_up_runs_at_the_highest_concurrency_once_for_each_way_to_decode() -> None:
    world = World()
    plan = a_plan(concurrency=(1, 8, 4), repeats=1)
    plan = replace(plan, probe=replace(plan.probe, temperature=(Decimal(0), Decimal("0.7"))))
    world.play(plan)
    warmed = [facts["request"] for call, facts in world.probe.calls if call == "warm_up"]
    assert [(request.concurrency, request.temperature) for request in warmed] == [(8, 0.7), (8, 0.0)]

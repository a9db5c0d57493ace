"""An image that is not here: pulled while production serves, and given up when the night would be too short for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from nightsweep.errors import ImageMissing
from nightsweep.plan.fit import FREEING
from nightsweep.plan.model import EngineConfig, Production, SweepPlan
from nightsweep.sweep.tools import Limits
from nightsweep.units import Seconds
from tests.unit.sweep.builders import World, a_config, a_plan

NEW, OLD = "vllm/vllm-openai:v0.29.0", "vllm/vllm-openai:v0.28.0"
KEPT = 5.0 + FREEING + 300.0  # an engine's stop, and production's longest start


def from_image(name: str, image: str, *, k: int = 3) -> EngineConfig:
    made = a_config(name, k=k)
    return replace(made, engine=replace(made.engine, host="docker", image=image))


def a_night(*configs: EngineConfig) -> SweepPlan:
    production = Production("prod", ready_timeout=Seconds(300.0), idle_for=Seconds(0.0))
    return a_plan(*configs, repeats=1, production=production)


def a_world(**pulls: float | Exception) -> World:
    world = World()
    world.host.add_foreign("prod")
    world.host.pulls = {{"new": NEW, "old": OLD}[name]: takes for name, takes in pulls.items()}
    return world


def ends_in(world: World, seconds: float) -> Limits:
    return Limits(until=world.clock.now() + timedelta(seconds=seconds + KEPT))


def order_of(world: World) -> list[str]:
    return [what for what, _ in world.host.calls if what in ("fetch", "stop_foreign", "start", "start_foreign")]


def events(world: World, kind: str) -> list[str]:
    return [event.message for event in world.store.events if event.kind == kind]


def test_an_image_is_pulled_while_production_still_serves_and_told_with_its_time() -> None:
    world = a_world(new=90.0)
    outcome = world.play(a_night(from_image("new", NEW)))
    assert outcome.state == "done"
    assert order_of(world) == ["fetch", "stop_foreign", "start", "start_foreign"]
    assert events(world, "image_pulled") == [f"image {NEW} was not here: it was pulled in 90 s"]
    assert f"pulling image {NEW}, which is not here" in [said.message for said in world.heard]


def test_the_time_of_a_pull_is_no_part_of_a_cold_start() -> None:
    world = a_world(new=90.0)
    world.play(a_night(from_image("new", NEW)))
    assert [boot.ready.cold_start < 5.0 for boot in world.store.boots.values() if boot.ready] == [True]


def test_a_pull_that_would_end_too_late_is_given_up_before_production_is_touched() -> None:
    world = a_world(new=3600.0)
    limits = ends_in(world, 600.0)
    outcome = world.play(a_night(from_image("new", NEW)), limits=limits)
    assert (outcome.state, outcome.windows_left) == ("partial", 2)
    assert "the next boot does not fit any more" in outcome.note
    (said,) = events(world, "image_not_in_time")
    assert f"image {NEW} is not here, and its pull was given up after 5" in said
    assert f"`docker pull {NEW}` by day" in said
    assert outcome.problems == (said,)
    assert order_of(world) == ["fetch"]
    assert world.store.boots == {}


def test_the_next_night_measures_a_config_whose_image_was_not_in_time() -> None:
    world = a_world(new=3600.0)
    plan = a_night(from_image("new", NEW))
    world.play(plan, limits=ends_in(world, 600.0))
    world.host.images[NEW] = "sha256:1"
    assert world.play(plan, limits=ends_in(world, 600.0)).state == "done"


def test_what_is_here_is_measured_in_the_time_that_a_slow_pull_left() -> None:
    world = a_world(new=3600.0)
    slow, here = from_image("new", NEW), from_image("old", OLD, k=4)
    slow = replace(
        slow, engine=replace(slow.engine, boot_timeout=Seconds(600.0))
    )  # reckoned with 200 s, the other with 20 s
    outcome = world.play(a_night(slow, here), limits=ends_in(world, 900.0))
    assert outcome.state == "partial"
    assert [boot.config for boot in world.store.boots.values()] == [here.fingerprint]
    assert outcome.windows_left == 2
    assert world.host.foreigners["prod"].running


def test_an_image_that_vanished_meanwhile_is_pulled_again_and_given_up_without_a_boot() -> None:
    world = a_world(new=3600.0)
    world.host.images[NEW] = "sha256:1"
    real = world.host.stop_foreign

    def stop_and_prune(name: str, *, grace: Seconds) -> None:
        real(name, grace=grace)
        world.host.images.clear()

    world.host.stop_foreign = stop_and_prune  # type: ignore[method-assign]
    limits = ends_in(world, 600.0)
    outcome = world.play(a_night(from_image("new", NEW)), limits=limits)
    assert outcome.state == "partial"
    assert world.store.boots == {}
    assert order_of(world) == ["stop_foreign", "fetch", "start_foreign"]
    assert limits.until is not None
    assert world.clock.now() <= limits.until


def test_a_pull_without_an_until_may_take_as_long_as_it_likes() -> None:
    world = a_world(new=36000.0)
    assert world.play(a_night(from_image("new", NEW))).state == "done"


def test_a_sweep_that_is_cancelled_in_a_pull_ends_at_once_with_nothing_touched() -> None:
    world = a_world(new=3600.0)
    plan = a_night(from_image("new", NEW))
    asked = world.store.stop_wish
    world.store.stop_wish = lambda sweep_id: asked(sweep_id) if len(world.heard) < 2 else "drop"  # type: ignore[method-assign]
    begun = world.clock.monotonic()
    assert world.play(plan).state == "cancelled"
    assert world.clock.monotonic() - begun < 10.0
    assert order_of(world) == ["fetch"]


def test_an_image_that_cannot_be_had_is_a_failed_boot_with_the_reason() -> None:
    world = a_world(new=ImageMissing(image=NEW, reason="no such host"))
    outcome = world.play(a_night(from_image("new", NEW)))
    failures = [boot.outcome.failure for boot in world.store.boots.values() if boot.outcome]
    assert {failure.kind for failure in failures if failure} == {"image_missing"}
    assert any("no such host" in problem for problem in outcome.problems)


def test_production_that_is_busy_until_nothing_fits_any_more_is_not_taken_down() -> None:
    world = a_world()
    world.host.images[NEW] = "sha256:1"
    production = Production("prod", ready_timeout=Seconds(300.0), idle_for=Seconds(60.0), idle_limit=Seconds(3600.0))
    real = world.probe.read

    def busy(target):  # type: ignore[no-untyped-def]
        reading = real(target)
        return replace(reading, values={**reading.values, "running": 1.0})

    world.probe.read = busy  # type: ignore[method-assign]
    plan = replace(a_night(from_image("new", NEW)), production=production)
    outcome = world.play(plan, limits=ends_in(world, 600.0))
    assert outcome.state == "partial"
    assert "production was not idle in time, and nothing was touched: the next boot does not fit" in outcome.note
    assert order_of(world) == []

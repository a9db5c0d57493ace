"""While hundreds of streams come up, people hear how many have, and not too often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.errors import RequestFailed
from nightsweep.plan.fingerprint import with_prompts_hash
from nightsweep.plan.model import SingleBatchSpec
from nightsweep.ports import WindowRequest
from nightsweep.units import Seconds
from tests.unit.sweep.builders import World, a_config, a_plan


def slowly(world: World, *, each: float) -> None:
    """Have every window's streams come up one by one, so many seconds apart, with a look at the engine ten times a second."""
    plain = world.probe.window

    def window(target: Any, request: WindowRequest, *, alive: Any) -> Any:
        for up in range(1, request.concurrency + 1):
            for _ in range(round(each * 10)):
                world.clock.sleep(Seconds(0.1))
                assert alive()
            request.coming_up(up)
        assert alive()
        return plain(target, replace(request, coming_up=lambda up: None), alive=alive)

    world.probe.window = window  # type: ignore[method-assign]


def said(world: World) -> list[str]:
    return [one.message for one in world.heard if one.phase == "ramp"]


def test_a_load_that_comes_up_slowly_is_told_of_every_ten_seconds_and_when_it_is_up() -> None:
    world = World()
    slowly(world, each=6.0)
    world.play(a_plan(a_config("mtp"), concurrency=(4,), repeats=1))
    assert said(world) == [
        "mtp c=4 T=0.7: 1 of 4 streams have had their first token, after 10 s",
        "mtp c=4 T=0.7: 3 of 4 streams have had their first token, after 20 s",
        "mtp c=4 T=0.7: all 4 streams are up, after 24 s",
    ]


def test_a_load_that_comes_up_at_once_is_no_news() -> None:
    world = World()
    slowly(world, each=1.0)
    world.play(a_plan(a_config("mtp"), concurrency=(4,), repeats=1))
    assert said(world) == []


def test_what_else_is_waited_for_is_told_every_ten_seconds_while_it_lasts() -> None:
    world = World()
    plain = world.probe.window

    def window(target: Any, request: WindowRequest, *, alive: Any) -> Any:
        request.coming_up(request.concurrency)
        request.waiting("for the engine to run all 4 streams: it reports 2 running, 2 waiting")
        _pass(world, 25.0, alive)
        request.waiting("")
        _pass(world, 25.0, alive)
        return plain(target, request, alive=alive)

    world.probe.window = window  # type: ignore[method-assign]
    world.play(a_plan(a_config("mtp"), concurrency=(4,), repeats=1))
    told = "mtp c=4 T=0.7: waiting for the engine to run all 4 streams: it reports 2 running, 2 waiting, after"
    assert [one.message for one in world.heard if one.phase == "waiting"] == [f"{told} 10 s", f"{told} 20 s"]


@pytest.mark.parametrize("kind", ["prefill", "single_batch"])
def test_a_wait_for_an_idle_engine_is_told(kind: str) -> None:
    world = World()
    plain = getattr(world.probe, kind)

    def measured(target: Any, *args: Any, alive: Any, **more: Any) -> Any:
        waiting = more["waiting"] if kind == "prefill" else args[0].waiting
        waiting("for the engine to be idle")
        _pass(world, 12.0, alive)
        return plain(target, *args, alive=alive, **more)

    setattr(world.probe, kind, measured)
    plan = a_plan(a_config("mtp"), concurrency=(4,), repeats=1, prefill=kind == "prefill")
    if kind == "single_batch":
        plan = with_prompts_hash(
            replace(plan, probe=replace(plan.probe, single_batch=SingleBatchSpec(runs=1))), "a" * 64
        )
    world.play(plan)
    what = "prefill of 2,000 tokens #1" if kind == "prefill" else "single batch #1"
    told = [one.message for one in world.heard if one.phase == "waiting"]
    assert told == [f"mtp {what}: waiting for the engine to be idle, after 10 s"]


def test_a_warm_up_that_fails_is_said() -> None:
    world = World()

    def warm_up(target: Any, request: WindowRequest, *, alive: Any) -> None:
        raise RequestFailed(url="u", reason="streams keep failing: HTTP 503")

    world.probe.warm_up = warm_up  # type: ignore[method-assign]
    world.play(a_plan(a_config("mtp"), concurrency=(4,), repeats=1))
    told = [one.message for one in world.heard if one.phase == "warmup"]
    assert "mtp is not warmed up: " in told[-1]
    assert "HTTP 503" in told[-1]
    assert [event.message for event in world.store.events if event.kind == "warmup_failed"] == told[-1:]


def _pass(world: World, seconds: float, alive: Any) -> None:
    for _ in range(round(seconds * 10)):
        world.clock.sleep(Seconds(0.1))
        assert alive()


def test_a_warm_up_is_told_before_it_begins() -> None:
    world = World()
    world.play(a_plan(a_config("mtp"), concurrency=(1, 4), repeats=1))
    told = [one.message for one in world.heard if one.phase == "warmup"]
    assert told == ["mtp warm-up, T=0.7: 4 streams, up to 30 s"]

"""A decision in the loop, on fakes: asked for round by round from what is stored, and told."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from nightsweep.measurement.values import RawWindow
from nightsweep.plan.expand import with_prompts_hash
from nightsweep.plan.model import DecideSpec, EngineConfig, SweepPlan
from nightsweep.ports import Launch
from nightsweep.sweep.tools import Limits
from tests.fakes.host import Script
from tests.fakes.probe import a_raw_window
from tests.unit.sweep.builders import World, a_config
from tests.unit.sweep.builders import a_plan as a_plain_plan

ACCEPTED = {2: (0.6, 0.3), 3: (0.8, 0.6), 4: (0.8, 0.58), 5: (0.5, 0.1)}
"""By draft length: what is accepted by position. 3 is the best, 4 close behind."""


def a_plan(
    *lengths: int, most: int = 6, incumbent: int | None = None, extra: tuple[EngineConfig, ...] = ()
) -> SweepPlan:
    configs = tuple(a_config(f"k={k}", k=k) for k in lengths)
    plan = a_plain_plan(*configs, *extra, concurrency=(1, 4), repeats=1)
    plan = replace(plan, probe=replace(plan.probe, draws_by_repeat=True))
    weights = tuple((streams, Decimal("0.7"), 1.0) for streams in (1, 4))
    serves = None if incumbent is None else next(c.fingerprint for c in configs if c.name == f"k={incumbent}")
    spec = DecideSpec(tuple(config.fingerprint for config in configs), weights, most=most, incumbent=serves)
    return with_prompts_hash(replace(plan, decide=spec), "a" * 64)


def length_of(command: tuple[str, ...]) -> int:
    text = "".join(command).replace(" ", "")
    return next((k for k in ACCEPTED if f'"num_speculative_tokens":{k}' in text), 0)


def a_world(*, noise: float = 0.03, script: Script | Callable[[Launch], Script] | None = None) -> World:
    """Return a world whose engines accept by their draft length, with noise that goes with the prompts and with luck."""
    world = World(script=script or Script())

    def window(target: Any, request: Any) -> RawWindow:
        k = length_of(world.host.launches[-1].command)
        prompts = random.Random(f"{request.first_prompt}/{request.concurrency}").gauss(0, noise)
        luck = random.Random(f"{request.first_prompt}/{request.concurrency}/{k}").gauss(0, noise / 3)
        positions = [share * (1 + prompts + luck) for share in ACCEPTED.get(k, ())]
        world.clock.sleep(request.window)
        return a_raw_window(concurrency=request.concurrency, seconds=4.0, positions=positions)

    world.probe.windows = [window] * 400
    return world


def counts(world: World) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in world.store.windows.values():
        name = next(c.name for c in world.store.sweeps[1].plan.configs if c.fingerprint == row.key[0])
        found[name] = found.get(name, 0) + row.result.clean
    return found


def told(world: World, kind: str) -> list[str]:
    return [event.message for event in world.store.events if event.kind == kind]


def test_a_decision_spends_its_windows_where_it_is_open_and_says_what_it_found() -> None:
    world = a_world()
    outcome = world.play(a_plan(2, 3, 4, 5))
    found = counts(world)
    assert outcome.state == "done"
    assert outcome.note.startswith("decided after")
    assert "k=3 leads k=4 by" in outcome.note
    assert found["k=3"] > found["k=2"] == found["k=5"] == 2
    assert (outcome.windows_done, outcome.windows_planned, outcome.windows_left) == (sum(found.values()),) * 2 + (0,)
    rounds = told(world, "decision_round")
    assert rounds[0].startswith("round 1 begins: the opening: each of 4 configs once at 2 places")
    assert "round 2 begins" in rounds[1]
    assert told(world, "decision") == [outcome.note.split("; everything")[0]]
    heard = [progress.message for progress in world.heard if progress.phase == "decision_round"]
    assert heard == rounds
    data = next(event.data for event in world.store.events if event.kind == "decision")
    assert (data["state"], data["standings"][0]["config"]) == ("decided", "k=3")


def test_a_repeat_draws_the_same_prompts_for_every_config_whatever_its_most_windows_are() -> None:
    drawn: dict[int, set[tuple[int, int]]] = {}
    for most in (4, 6):
        world = a_world(noise=0.3)
        asked: set[tuple[int, int]] = set()
        window = world.probe.windows[0]
        assert callable(window)

        def seen(target: Any, request: Any, into: set[tuple[int, int]] = asked, by: Any = window) -> RawWindow:
            into.add((request.concurrency, request.first_prompt))
            return by(target, request)  # type: ignore[no-any-return]

        world.probe.windows = [seen] * 400
        world.play(a_plan(3, 4, most=most))
        drawn[most] = asked
    assert drawn[4] <= drawn[6]
    assert len({first for _, first in drawn[6]}) == len(drawn[6]), "no stretch is drawn at two places"


def test_a_decision_that_was_cut_goes_on_with_the_same_round_and_measures_nothing_twice() -> None:
    whole = a_world(noise=0.2)
    whole.play(a_plan(3, 4))
    asked = told(whole, "decision_round")
    assert len(asked) > 1, "it must be close enough for a second round"
    cut = a_world(noise=0.2)
    window = cut.probe.windows[0]

    def killed(target: Any, request: Any) -> RawWindow:
        raise KeyboardInterrupt

    cut.probe.windows = [window] * 5 + [killed] + [window] * 400
    with pytest.raises(KeyboardInterrupt):
        cut.play(a_plan(3, 4))
    asked_for, clean = cut.store.sweeps[1].repeats_planned, sum(counts(cut).values())
    assert asked_for > clean == 5, "the round in hand is planned: nobody reads 100% in the middle of it"
    outcome = cut.play(a_plan(3, 4))
    assert cut.store.sweeps[1].repeats_planned == outcome.windows_planned == sum(counts(cut).values())
    assert outcome.state == "done"
    again = told(cut, "decision_round")
    assert again[:2] == asked[:2]
    assert again[2] == asked[1].replace("begins", "goes on")
    assert again[3:] == asked[2:]
    keys = [row.key for row in cut.store.windows.values()]
    assert len(keys) == len(set(keys))
    assert {row.key for row in whole.store.windows.values()} == set(keys)


def test_the_nights_end_leaves_it_open_and_the_next_night_goes_on() -> None:
    world = a_world(noise=0.2)
    first = world.play(a_plan(3, 4), limits=Limits(until=world.clock.now() + timedelta(seconds=75)))
    assert first.state == "partial"
    assert first.note.startswith("undecided")
    assert told(world, "decision")[0].startswith("stopped before it stands: undecided")
    assert world.play(a_plan(3, 4)).state == "done"


def test_a_contender_that_does_not_come_up_is_told_and_the_decision_is_made_without_it() -> None:
    def script(launch: Launch) -> Script:
        lines = ((0.0, "vllm: error: unrecognized arguments: --no-such-flag"),)
        return Script(lines=lines, exits_at=0.5, exit_code=2) if length_of(launch.command) == 3 else Script()

    world = a_world(script=script)
    world.probe.healthy_when = lambda: bool(world.host.running) and length_of(world.host.launches[-1].command) != 3
    outcome = world.play(a_plan(2, 3, 4))
    assert outcome.state == "done"
    assert told(world, "contender_dropped") == ["k=3 is out of the decision: its engine does not come up"]
    assert "k=4 leads k=2" in outcome.note
    assert "k=3 is out" in outcome.note


def test_a_config_that_does_not_contend_gets_the_opening_only() -> None:
    world = a_world(noise=0.2)
    world.play(a_plan(3, 4, extra=(a_config("plain", k=None),)))
    assert counts(world)["plain"] == 2
    assert counts(world)["k=3"] > 2


def test_more_windows_allowed_go_on_with_the_same_sweep() -> None:
    world = a_world(noise=0.3)
    first = world.play(a_plan(3, 4, most=2))
    assert "`max`" in first.note
    second = world.play(a_plan(3, 4, most=8))
    assert first.sweep_id == second.sweep_id
    assert second.windows_done > first.windows_done


def test_a_decided_sweep_boots_nothing_when_called_again_and_says_what_it_found() -> None:
    world = a_world()
    first = world.play(a_plan(2, 3))
    starts = world.starts()
    again = world.play(a_plan(2, 3))
    assert (again.state, world.starts()) == ("done", starts)
    assert again.note.split(";")[0] == first.note.split(";")[0]

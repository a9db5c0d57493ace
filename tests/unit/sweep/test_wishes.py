"""Wishes to stop, on fakes: what is dropped, what is finished, and what a pause keeps off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.errors import SweepPaused
from nightsweep.ports import Target
from nightsweep.sweep.tools import Limits
from tests.fakes.probe import FakeProbe
from tests.unit.sweep.builders import World, a_plan

ASKED_FOR = 5.0
"""Seconds that a fake measurement asks whether it shall go on, five times each."""


class AskingProbe(FakeProbe):
    """Asks `alive` as often as the real probe does, while time passes; wishes `wish` in the measurement named."""

    def wishes(self, world: World, method: str, wish: str) -> AskingProbe:
        self.world, self.method, self.wish = world, method, wish
        self.asked = 0.0
        return self

    def _hold(self, method: str, alive: Any) -> None:
        if method == self.method:
            self.world.store.wish_stop(1, wish=self.wish)
            for _ in range(int(ASKED_FOR / 0.2)):
                self.clock.sleep(0.2)  # type: ignore[arg-type]
                self.asked += 0.2
                alive()

    def window(self, target: Target, request: Any, *, alive: Any) -> Any:
        self._hold("window", alive)
        return super().window(target, request, alive=alive)

    def prefill(self, target: Target, *, alive: Any, **facts: Any) -> Any:
        self._hold("prefill", alive)
        return super().prefill(target, alive=alive, **facts)

    def warm_up(self, target: Target, request: Any, *, alive: Any) -> None:
        self._hold("warm_up", alive)
        super().warm_up(target, request, alive=alive)

    def single_batch(self, target: Target, request: Any, *, alive: Any) -> Any:
        self._hold("single_batch", alive)
        return super().single_batch(target, request, alive=alive)


def asking(method: str, wish: str) -> tuple[World, AskingProbe]:
    world = World()
    probe = AskingProbe(
        clock=world.clock,
        healthy_when=lambda: bool(world.host.running),
        speculates=lambda: True,
        answers={"models": {"data": [{"id": "m"}]}, "version": {"version": "0.32.0"}},
    )
    world.probe = probe
    return world, probe.wishes(world, method, wish)


@pytest.mark.parametrize("method", ["window", "prefill", "warm_up"])
def test_a_wish_to_drop_ends_what_is_measured_within_two_seconds(method: str) -> None:
    world, probe = asking(method, "drop")
    outcome = world.play(a_plan(prefill=True))
    assert (outcome.state, world.host.running) == ("cancelled", ())
    assert probe.asked <= 2.0
    assert len(world.store.windows) == 0


def test_what_was_dropped_is_told_and_measured_when_the_sweep_goes_on() -> None:
    world, probe = asking("window", "drop")
    world.play(a_plan())
    told = [event.message for event in world.store.events if event.kind == "measurement_dropped"]
    assert len(told) == 1
    assert "T=0.7 #1 was dropped" in told[0]
    probe.method = "nothing"
    again = world.play(a_plan())
    assert (again.state, again.windows_done) == ("done", 4)
    assert {row.attempt for row in world.store.windows.values()} == {1}


@pytest.mark.parametrize(("wish", "state"), [("finish", "cancelled"), ("pause", "paused")])
def test_other_wishes_let_a_window_end_and_keep_it(wish: str, state: str) -> None:
    world, probe = asking("window", wish)
    outcome = world.play(a_plan())
    assert (outcome.state, outcome.windows_done) == (state, 1)
    assert probe.asked == pytest.approx(ASKED_FOR)
    assert world.store.sweeps[1].state == state


def test_any_wish_ends_a_warm_up() -> None:
    world, probe = asking("warm_up", "finish")
    assert world.play(a_plan()).state == "cancelled"
    assert probe.asked <= 2.0


def test_a_schedule_does_not_start_a_paused_sweep_and_a_person_does() -> None:
    world, probe = asking("window", "pause")
    world.play(a_plan())
    probe.method = "nothing"
    with pytest.raises(SweepPaused, match="nightsweep resume 1"):
        world.play(a_plan(), limits=Limits(lifts_pause=False))
    assert world.store.sweeps[1].state == "paused"
    assert world.play(a_plan()).state == "done"


def test_a_wish_of_a_holder_that_died_ends_the_next_start_before_production_is_touched() -> None:
    world = World()
    plan = a_plan()
    sweep_id = world.store.open_sweep(plan, box_id=world.store.box_id(world.host.box()), file_text="")
    world.store.sweeps[sweep_id] = replace(world.store.sweeps[sweep_id], state="interrupted", wish="pause")
    outcome = world.play(plan)
    assert (outcome.state, world.starts()) == ("paused", 0)

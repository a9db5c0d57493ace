"""Production that somebody makes anew between the death of a sweep and the next one: which of the two comes back is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.errors import NotForeign
from nightsweep.production.record import document, recorded
from nightsweep.units import Seconds
from tests.fakes.store import FakeIntent
from tests.unit.sweep.builders import World
from tests.unit.sweep.test_guard import PROD, TWO, Noted, a_world, change, in_first_window, kinds, said, with_mirror

NEW = {"id": "new", "image": "vllm/vllm-openai:v0.29.0", "shown_command": ("--model", "some/model", "--seed", "1")}


def left_by_a_dead_sweep(world: World) -> FakeIntent:
    """Have production recorded and stopped by a sweep that was killed then."""
    sweep = world.store.open_sweep(TWO, box_id=world.store.box_id(world.host.box()), file_text="")
    dead = world.store.claim(sweep, owner="dead:1:1:1", ttl=Seconds(60.0))
    found = world.host.foreign("prod")
    record = document(recorded(found, PROD, restore_by=None))
    intent = world.store.open_intent(dead, found, restore_by=None, record=record)
    change(world, running=False)
    world.clock.advance(61.0)
    return world.store.intents[intent]


def test_what_serves_when_the_next_sweep_comes_is_what_comes_back_and_the_earlier_one_is_not_lost() -> None:
    world, mirror = a_world(), Noted()
    intent = left_by_a_dead_sweep(world)
    change(world, running=True, **NEW)
    assert with_mirror(world, TWO, mirror).state == "done"
    assert (intent.record["id"], intent.record["image"], intent.closed) == ("new", NEW["image"], True)
    assert (mirror.states[0]["id"], mirror.states[0]["image"]) == ("new", NEW["image"]), "the file says the same"
    assert intent.checks["differences"] == [], "it came back as it was stopped"
    assert "production_differs" not in kinds(world)
    told = said(world, "production_replaced")
    assert "another container of that name: was foreign-prod, is new" in told
    assert "was vllm/vllm-openai:v0.28.0, is vllm/vllm-openai:v0.29.0" in told
    assert "docker run -d --name prod" in told.rsplit("the earlier one", 1)[1]
    assert "v0.28.0" in told.rsplit("the earlier one", 1)[1]
    assert kinds(world).index("production_replaced") < kinds(world).index("production_stopping")


@pytest.mark.parametrize(
    ("container", "health", "why"),
    [
        ({}, 503, "/health answers HTTP 503"),
        ({"ports": {}}, None, "no port that this machine reaches"),
    ],
)
def test_one_that_does_not_prove_that_it_serves_takes_nobodys_place(
    container: dict[str, Any], health: int | None, why: str
) -> None:
    world = a_world()
    intent = left_by_a_dead_sweep(world)
    change(world, running=True, **NEW, **container)
    if health is not None:
        world.probe.statuses["/health"] = health
    in_first_window(world, world.probe.statuses.clear)
    assert world.play(TWO).state == "done"
    assert (intent.record["id"], intent.record["image"]) == ("foreign-prod", "vllm/vllm-openai:v0.28.0")
    assert "production_replaced" not in kinds(world)
    assert why in said(world, "production_differs").splitlines()[0]
    assert len(intent.checks["differences"]) == 3, "told again when it is back"
    assert world.host.foreigners["prod"].running


@pytest.mark.parametrize("state", [{"running": False}, {"running": True, "paused": True}])
def test_one_that_was_made_anew_and_does_not_run_takes_nobodys_place(state: dict[str, Any]) -> None:
    world = a_world()
    intent = left_by_a_dead_sweep(world)
    change(world, **NEW, **state)
    assert world.play(TWO).state == "done"
    assert intent.record["id"] == "foreign-prod"
    assert "production_replaced" not in kinds(world)


def test_the_same_container_that_somebody_only_started_is_as_it_was_recorded() -> None:
    world = a_world()
    intent = left_by_a_dead_sweep(world)
    change(world, running=True)
    before = dict(intent.record)
    assert world.play(TWO).state == "done"
    assert (dict(intent.record), intent.checks["differences"]) == (before, [])
    assert {"production_replaced", "production_differs"}.isdisjoint(kinds(world))


def test_an_engine_of_ours_under_productions_name_is_never_recorded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world()
    intent = left_by_a_dead_sweep(world)

    def ours(name: str) -> object:
        raise NotForeign(name=name)

    monkeypatch.setattr(world.host, "foreign", ours)
    with pytest.raises(NotForeign):
        world.play(TWO)
    assert (intent.record["id"], intent.closed) == ("foreign-prod", False)

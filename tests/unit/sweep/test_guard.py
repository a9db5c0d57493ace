"""The guard's promises: production is stopped only when idle, stays down while measured beside, and comes back proven."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from nightsweep.errors import GpuBusy, NotNoted, ProductionNotRestored
from nightsweep.measurement.traffic import Traffic
from nightsweep.plan.model import Production, SweepPlan
from nightsweep.ports import Lease
from nightsweep.production.record import document, from_document
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.signals import Terminated, raise_on_sigterm
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps
from nightsweep.units import Seconds
from tests.fakes.probe import a_raw_window
from tests.unit.sweep.builders import World, a_config, a_plan

PROD = Production(container="prod")
TWO = a_plan(a_config("a"), a_config("b"), concurrency=(1,), repeats=1, production=PROD)


def a_world(**container: Any) -> World:
    world = World()
    world.host.add_foreign("prod")
    change(world, **container)
    return world


def change(world: World, **container: Any) -> None:
    world.host.foreigners["prod"] = replace(world.host.foreigners["prod"], **container)


def kinds(world: World) -> list[str]:
    return [event.kind for event in world.store.events]


def said(world: World, kind: str) -> str:
    return "\n".join(event.message for event in world.store.events if event.kind == kind)


def stops(world: World) -> int:
    return world.host.calls.count(("stop_foreign", "prod"))


def in_first_window(world: World, act: Callable[[], object]) -> None:
    def script(target: object, request: Any) -> Any:
        act()
        return a_raw_window(concurrency=request.concurrency, seconds=4.0)

    world.probe.windows = [script]


# --- recorded ----------------------------------------------------------------------------------------------------


class Noted:
    """A mirror in memory that remembers every state."""

    def __init__(self, *, full: bool = False) -> None:
        self.noted: dict[str, Mapping[str, Any]] = {}
        self.states: list[Mapping[str, Any]] = []
        self.full = full

    def write(self, container: str, facts: Mapping[str, Any]) -> None:
        if self.full:
            raise OSError(28, "No space left on device", "/home/production.json")
        self.noted[container] = facts
        self.states.append(facts)

    def clear(self, container: str) -> None:
        self.noted.pop(container, None)

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        return self.noted


def with_mirror(world: World, plan: SweepPlan, mirror: Noted, *, limits: Limits = Limits()) -> Outcome:  # noqa: B008
    tools = replace(world.tools(), mirror=mirror)
    return run_sweep(plan, tools, file_text="", steps=PlainSteps(world.heard.append), limits=limits)


def test_the_intent_tells_when_it_was_stopped_and_started_and_what_was_checked() -> None:
    world = a_world()
    world.play(TWO)
    (intent,) = world.store.intents.values()
    assert intent.stopped_at is not None
    assert intent.restore_started_at is not None
    assert intent.restore_started_at >= intent.stopped_at
    assert (intent.checks["token"], intent.checks["started"], intent.checks["differences"]) == ("served", True, [])


def test_file_and_database_hold_the_same_record_and_it_is_enough_to_come_back_by() -> None:
    world, mirror = a_world(command=("--model", "some/model", "--api-key", "sk-1")), Noted()
    world.probe.wanted_key = None
    until = world.clock.now() + timedelta(hours=8)
    production = replace(PROD, url="https://gateway.lan/v1", ready_timeout=Seconds(77.0))
    with_mirror(world, replace(TWO, production=production), mirror, limits=Limits(until=until))
    before, after = mirror.states[0], mirror.states[-1]
    (intent,) = world.store.intents.values()
    record = from_document("prod", before)
    assert document(record) == {key: intent.record[key] for key in document(record)}
    assert (record.url, record.ready_timeout, record.restore_by) == ("https://gateway.lan/v1", 77.0, until)
    assert (before["owner"], before["sweep_id"]) == ("me:1:1:1", 1)
    assert "restore_started_at" not in before
    assert "restore_started_at" in after
    assert "sk-1" not in repr(mirror.states)
    assert mirror.noted == {}


def test_a_file_that_cannot_be_written_keeps_production_untouched() -> None:
    world = a_world()
    with pytest.raises(NotNoted, match=r"No space left on device.*production was not touched"):
        with_mirror(world, TWO, Noted(full=True))
    assert stops(world) == 0
    assert all(intent.closed for intent in world.store.intents.values())


# --- idle --------------------------------------------------------------------------------------------------------


def test_production_that_works_is_waited_for_and_then_the_night_is_skipped_with_nothing_touched() -> None:
    world = a_world()
    world.probe.values = {"running": 3.0, "waiting": 1.0}
    begun = world.clock.monotonic()
    outcome = world.play(TWO)
    assert outcome.state == "partial"
    assert "skipped: production was busy" in outcome.note
    assert "3 requests running, 1 waiting" in outcome.note
    assert 1800.0 <= world.clock.monotonic() - begun < 1900.0
    assert (stops(world), world.starts(), world.store.intents) == (0, 0, {})
    assert "night_skipped" in kinds(world)


def test_the_wait_for_an_idle_production_ends_with_the_night() -> None:
    world = a_world()
    world.probe.values = {"running": 3.0}
    outcome = world.play(TWO, limits=Limits(until=world.clock.now() + timedelta(minutes=25)))
    assert outcome.state == "partial"
    assert stops(world) == 0
    assert world.clock.monotonic() - 1000.0 < 25 * 60.0 + 10.0


def test_production_that_becomes_idle_is_stopped_then() -> None:
    world = a_world()
    world.probe.values = {"running": 0.0, "waiting": 0.0}
    assert world.play(TWO).state == "done"
    assert "prod is idle for 60 s" in said(world, "production_idle")


def test_a_production_that_cannot_be_asked_is_stopped_with_a_warning_unless_a_proof_was_asked_for() -> None:
    silent = a_world()
    silent.probe.values = None
    assert silent.play(TWO).state == "done"
    assert "production_idle_unknown" in kinds(silent)
    strict = a_world()
    strict.probe.values = None
    outcome = strict.play(replace(TWO, production=replace(PROD, idle_for=Seconds(30.0))))
    assert outcome.state == "partial"
    assert "`production.idle_for: 0` does not ask" in outcome.note
    assert stops(strict) == 0


def test_idle_for_zero_does_not_ask() -> None:
    world = a_world()
    world.probe.values = {"running": 3.0}
    assert world.play(replace(TWO, production=replace(PROD, idle_for=Seconds(0.0)))).state == "done"
    assert stops(world) == 1


def test_a_wish_to_stop_is_heard_while_production_is_waited_for() -> None:
    world = a_world()
    world.probe.values = {"running": 3.0}
    real = world.probe.read

    def read(target: Any) -> Any:
        if world.clock.monotonic() > 1100.0:
            world.store.wish_stop(1, wish="finish")
        return real(target)

    world.probe.read = read  # type: ignore[method-assign]
    assert world.play(TWO).state == "cancelled"
    assert world.clock.monotonic() < 1110.0
    assert stops(world) == 0


# --- what it has served ------------------------------------------------------------------------------------------

SERVED = {"served_requests": 40.0, "served_prompt_tokens": 4e4, "served_generation_tokens": 8e3}
IDLE = {"running": 0.0, "waiting": 0.0}


def served(world: World) -> Traffic | None:
    (intent,) = world.store.intents.values()
    return intent.traffic


def test_what_production_served_is_kept_with_its_intent() -> None:
    world = a_world()
    world.probe.values = {**IDLE, **SERVED}
    assert world.play(TWO).state == "done"
    found = served(world)
    assert found is not None
    assert (found.requests, found.mean_prompt_tokens, found.mean_generation_tokens) == (40, 1000.0, 200.0)
    assert found.read < world.clock.now()
    assert (found.engine, found.version) == ("vllm", "0.32.0")


@pytest.mark.parametrize(
    ("values", "idle_for", "container", "why"),
    [
        (None, None, {}, "cannot read"),
        (IDLE, None, {}, "does not count the tokens of finished requests"),
        ({**IDLE, **SERVED}, 0.0, {}, "it was not asked (`production.idle_for: 0`)"),
        ({**IDLE, **SERVED}, None, {"paused": True}, "it was paused"),
        ({**IDLE, **SERVED}, None, {"entrypoint": ("nginx",), "command": (), "image": "nginx"}, "no vLLM or SGLang"),
        ({**IDLE, **SERVED, "served_requests": 3.0}, None, {}, "3 requests"),
    ],
)
def test_what_cannot_be_counted_is_unknown_with_why_and_keeps_nothing_from_going_on(
    values: dict[str, float] | None, idle_for: float | None, container: dict[str, Any], why: str
) -> None:
    world = a_world(**container)
    world.probe.values = values
    production = PROD if idle_for is None else replace(PROD, idle_for=Seconds(idle_for))
    assert world.play(replace(TWO, production=production)).state == "done"
    found = served(world)
    assert found is not None
    assert why in str(found.unknown)
    assert found.mean_prompt_tokens is None
    assert world.host.foreigners["prod"].running


def test_production_that_an_earlier_holder_took_down_keeps_what_was_counted_then() -> None:
    world = a_world()
    first = Traffic(read=world.clock.now(), requests=40, prompt_tokens=4e4, generation_tokens=8e3)
    sweep = world.store.open_sweep(TWO, box_id=world.store.box_id(world.host.box()), file_text="")
    dead = world.store.claim(sweep, owner="dead:1:1:1", ttl=Seconds(60.0))
    world.store.open_intent(dead, world.host.foreign("prod"), restore_by=None, traffic=first)
    world.clock.advance(61.0)
    world.host.foreigners["prod"] = replace(world.host.foreigners["prod"], running=False)
    assert world.play(TWO).state == "done"
    assert served(world) == first


def test_production_that_somebody_started_after_a_death_is_counted_anew() -> None:
    world = a_world()
    world.probe.values = {**IDLE, **SERVED}
    first = Traffic(read=world.clock.now(), requests=4000, prompt_tokens=4e4, generation_tokens=8e3)
    sweep = world.store.open_sweep(TWO, box_id=world.store.box_id(world.host.box()), file_text="")
    dead = world.store.claim(sweep, owner="dead:1:1:1", ttl=Seconds(60.0))
    world.store.open_intent(dead, world.host.foreign("prod"), restore_by=None, traffic=first)
    world.clock.advance(61.0)
    assert world.play(TWO).state == "done"
    found = served(world)
    assert found is not None
    assert (found.requests, found.read > first.read) == (40, True)


# --- kept down ---------------------------------------------------------------------------------------------------


def test_a_container_of_policy_always_that_docker_started_is_stopped_again_before_the_next_boot() -> None:
    world = a_world(restart_policy="always")
    in_first_window(world, lambda: change(world, running=True))
    assert world.play(TWO).state == "done"
    assert stops(world) == 2
    assert "restart policy always" in said(world, "production_came_up")
    assert world.host.foreigners["prod"].running


def test_production_that_somebody_started_is_left_alone_and_the_night_ends() -> None:
    world = a_world(restart_policy="unless-stopped")
    in_first_window(world, lambda: change(world, running=True))
    outcome = world.play(TWO)
    assert outcome.state == "partial"
    assert "somebody started prod" in outcome.note
    assert (stops(world), world.starts()) == (1, 1)
    (intent,) = world.store.intents.values()
    assert (intent.outcome, intent.checks["started"], intent.restore_started_at) == ("restored", False, None)


def test_memory_that_production_took_back_is_free_once_it_is_stopped_again() -> None:
    world = a_world(restart_policy="always")

    def wait_free(*, port: int, timeout: Seconds) -> None:
        if world.host.foreigners["prod"].running:
            raise GpuBusy(waited=300.0, holders="vllm (pid 7)")

    world.host.wait_free = wait_free  # type: ignore[method-assign]
    in_first_window(world, lambda: change(world, running=True))
    outcome = world.play(TWO)
    assert (outcome.state, outcome.windows_left) == ("done", 0)
    assert stops(world) == 2


def test_memory_that_somebody_else_holds_still_ends_the_sweep() -> None:
    world = a_world()
    world.host.gpu_holders = "somebody's training"
    with pytest.raises(GpuBusy):
        world.play(TWO)
    assert world.host.foreigners["prod"].running


# --- back --------------------------------------------------------------------------------------------------------


def test_it_comes_back_at_the_nights_end_and_after_a_cancel() -> None:
    late = a_world()
    in_first_window(late, lambda: late.clock.advance(9 * 3600.0))
    assert late.play(TWO, limits=Limits(until=late.clock.now() + timedelta(hours=8))).state == "partial"
    assert late.host.foreigners["prod"].running
    cancelled = a_world()
    in_first_window(cancelled, lambda: cancelled.store.wish_stop(1, wish="finish"))
    assert cancelled.play(TWO).state == "cancelled"
    assert cancelled.host.foreigners["prod"].running
    assert [intent.outcome for intent in cancelled.store.intents.values()] == ["restored"]


def test_a_container_removed_meanwhile_is_told_with_how_it_is_made_and_the_others_come_back() -> None:
    world = a_world()
    world.host.add_foreign("other", running=False)
    in_first_window(world, lambda: _leave_owed(world, "other"))
    with pytest.raises(
        ProductionNotRestored, match="its container was removed; make it again with `docker run -d --name prod"
    ):
        world.play(TWO)
    assert world.host.foreigners["other"].running
    assert {intent.production.name: intent.closed for intent in world.store.intents.values()} == {
        "prod": False,
        "other": True,
    }


@pytest.mark.parametrize(("wish", "state"), [("finish", "cancelled"), ("drop", "cancelled"), ("pause", "paused")])
def test_a_sweep_that_a_person_stopped_is_stopped_also_when_production_was_removed_meanwhile(
    wish: str, state: str
) -> None:
    world = a_world()

    def stop_and_remove() -> None:
        world.store.wish_stop(1, wish=wish)
        del world.host.foreigners["prod"]

    in_first_window(world, stop_and_remove)
    with pytest.raises(ProductionNotRestored):
        world.play(TWO)
    sweep = world.store.sweeps[1]
    assert sweep.state == state
    assert sweep.note is not None
    assert "; production container prod is NOT serving: its container was removed" in sweep.note


def test_how_a_removed_container_is_made_again_is_told_in_one_event_only() -> None:
    world = a_world()
    in_first_window(world, lambda: world.host.foreigners.clear())
    with pytest.raises(ProductionNotRestored, match="nightsweep restore --gone prod"):
        world.play(TWO)
    told = [event.kind for event in world.store.events if "docker run" in event.message]
    assert told == ["production_not_restored"]
    assert "docker run" not in str(world.store.sweeps[1].note)
    assert world.store.sweeps[1].state == "failed", "nobody stopped it"


def _leave_owed(world: World, name: str) -> None:
    """Remove production, and leave an intent of another container as a dead sweep would."""
    world.store.open_intent(a_lease(world), world.host.foreign(name), restore_by=None)
    del world.host.foreigners["prod"]


def a_lease(world: World) -> Lease:
    sweep = world.store.sweeps[1]
    return Lease(sweep_id=1, box_id=sweep.box_id, owner=str(sweep.owner), fence=sweep.fence)


def test_one_that_was_made_anew_meanwhile_is_started_and_loudly_told() -> None:
    world = a_world()
    in_first_window(world, lambda: change(world, id="new", image="vllm/vllm-openai:v0.29.0"))
    assert world.play(TWO).state == "done"
    assert "was vllm/vllm-openai:v0.28.0, is vllm/vllm-openai:v0.29.0" in said(world, "production_differs")
    (intent,) = world.store.intents.values()
    assert len(intent.checks["differences"]) == 2


@pytest.fixture
def handlers() -> Any:
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    raise_on_sigterm()
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("when", ["measuring", "restoring"])
def test_a_sigterm_starts_production_and_leaves_its_proof_to_who_comes_next(handlers: None, when: str) -> None:
    world, mirror = a_world(), Noted()
    loading = [True]
    world.probe.healthy_when = lambda: (
        bool(world.host.running) or (world.host.foreigners["prod"].running and not loading[0])
    )
    plan = replace(TWO, production=replace(PROD, idle_for=Seconds(0.0)))
    world.probe.values = {"running": 0.0}
    terminate = lambda: [os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)]  # noqa: E731
    if when == "measuring":
        in_first_window(world, terminate)
    else:
        real = world.host.start_foreign

        def start_foreign(name: str) -> None:
            real(name)
            terminate()

        world.host.start_foreign = start_foreign  # type: ignore[method-assign]
    begun = world.clock.monotonic()
    with pytest.raises(Terminated):
        with_mirror(world, plan, mirror)
    assert world.clock.monotonic() - begun < 80.0
    assert world.host.foreigners["prod"].running
    assert [intent.closed for intent in world.store.intents.values()] == [False]
    assert list(mirror.noted) == ["prod"]
    assert "production_coming" in kinds(world)
    assert "production_not_restored" not in kinds(world)
    loading[0] = False
    world.clock.advance(120.0)
    with_mirror(world, plan, mirror)
    assert mirror.noted == {}
    assert [intent.closed for intent in world.store.intents.values()] == [True]

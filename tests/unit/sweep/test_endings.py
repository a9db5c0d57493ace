"""How a boot, a sweep and production end when something fails on the way: nothing is left behind, nothing hides another."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from nightsweep.errors import (
    BoxBusy,
    DialectMismatch,
    DockerUnavailable,
    EngineNotGone,
    LeaseLost,
    ProductionNotRestored,
    StoreUnavailable,
)
from nightsweep.plan.model import Production, SecretRef, SweepPlan
from nightsweep.ports import INTERRUPTED, EngineHandle, EngineState
from nightsweep.sweep.breaking import how_it_broke_off
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.signals import Terminated
from nightsweep.sweep.tools import Limits, PlainSteps
from nightsweep.units import Seconds
from tests.fakes.host import FakeHost, Script
from tests.fakes.probe import a_raw_window
from tests.unit.sweep.builders import World, a_config, a_plan


class Noted:
    """A mirror in memory."""

    def __init__(self) -> None:
        self.noted: dict[str, Mapping[str, Any]] = {}

    def write(self, container: str, facts: Mapping[str, Any]) -> None:
        self.noted[container] = facts

    def clear(self, container: str) -> None:
        self.noted.pop(container, None)

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        return self.noted


def in_a_window(world: World, act: Callable[[], object]) -> None:
    """Have something happen in the first window, which then comes out clean if it can."""

    def script(target: object, request: Any) -> Any:
        act()
        return a_raw_window(concurrency=request.concurrency, seconds=4.0)

    world.probe.windows = [script]


def fail(error: BaseException) -> Callable[[], object]:
    def act() -> object:
        raise error

    return act


def states(world: World) -> list[str]:
    return [boot.state for boot in world.store.boots.values()]


# --- engines -----------------------------------------------------------------------------------------------------


def test_an_engine_whose_state_cannot_be_asked_is_stopped_all_the_same() -> None:
    world = World()
    in_a_window(world, lambda: setattr(world.host, "state", _away))
    with pytest.raises(DockerUnavailable):
        world.play(a_plan())
    del world.host.state
    assert world.host.running == ()
    assert ("stop", world.host.launches[0].boot_key) in world.host.calls


def _away(handle: EngineHandle) -> EngineState:
    raise DockerUnavailable(reason="restarting")


def test_an_engine_that_will_not_go_ends_the_sweep_and_outweighs_what_came_before() -> None:
    world = World(script=Script(immortal=True))
    in_a_window(world, fail(KeyboardInterrupt()))
    with pytest.raises(EngineNotGone) as raised:
        world.play(a_plan())
    assert isinstance(raised.value.__cause__, KeyboardInterrupt)
    assert states(world) == ["lost"], "a boot whose engine lives has not ended"
    assert world.store.sweeps[1].state == "failed"


def test_a_store_that_is_away_at_the_end_of_a_boot_does_not_hide_an_interrupt() -> None:
    world = World()

    def interrupted() -> None:
        world.store.end_boot = lambda *a, **k: fail(StoreUnavailable(reason="gone"))()  # type: ignore[method-assign]
        raise KeyboardInterrupt

    in_a_window(world, interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.play(a_plan())
    assert world.host.running == ()
    assert world.store.sweeps[1].state == "partial"


def test_a_store_that_is_away_at_the_end_of_a_good_boot_ends_the_sweep_with_the_engine_gone() -> None:
    world = World()
    world.store.end_boot = lambda *a, **k: fail(StoreUnavailable(reason="gone"))()  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        world.play(a_plan())
    assert world.host.running == ()


def test_a_host_that_cannot_start_an_engine_blames_no_config() -> None:
    world = World(script=Script(refused=DockerUnavailable(reason="down")))
    for _ in range(3):
        with pytest.raises(DockerUnavailable):
            world.play(a_plan())
    assert set(states(world)) == {"lost"}
    world.host.script = Script()
    assert world.play(a_plan()).windows_done == 4


def test_a_log_that_cannot_be_followed_ends_no_boot() -> None:
    world = World()

    def broken(handle: EngineHandle, *, stop: object) -> Any:
        raise DockerUnavailable(reason="no log")

    world.host.follow_log = broken  # type: ignore[method-assign]
    assert world.play(a_plan()).state == "done"


def test_an_engine_that_ends_at_once_is_told_with_its_last_words_though_its_log_comes_late() -> None:
    world = World(script=Script(lines=((0.0, "error: no such flag"),), exits_at=0.0, exit_code=2))
    plain = world.host.follow_log

    def late(handle: EngineHandle, *, stop: Any) -> Iterator[Any]:
        threading.Event().wait(0.2)
        yield from plain(handle, stop=stop)

    world.host.follow_log = late  # type: ignore[method-assign]
    world.probe.healthy_when = lambda: False
    outcome = world.play(a_plan())
    assert all("error: no such flag" in problem for problem in outcome.problems)
    assert outcome.problems


def test_a_secret_that_an_engine_or_a_server_repeats_is_kept_nowhere() -> None:
    secret = "hf_very_secret"
    world = World(environ={"HF_TOKEN": secret}, script=Script(lines=((0.0, f"INFO token={secret} loaded"),)))

    def leaking(target: object, request: Any) -> Any:
        raw = a_raw_window(concurrency=request.concurrency, seconds=4.0)
        failed = replace(raw.requests[0], error=f"HTTP 401: bad key {secret}")
        return replace(raw, requests=(failed,), ended_early="request_failed", detail=f"HTTP 401: {secret}")

    world.probe.windows = [leaking]
    world.play(a_plan(a_config(env={"HF_TOKEN": SecretRef("HF_TOKEN")})))
    kept = repr((world.store.boots, world.store.events, world.store.windows, world.store.logs, world.heard))
    assert "HTTP 401" in kept
    assert "token=***" in kept
    assert secret not in kept


# --- stopping ----------------------------------------------------------------------------------------------------


def test_a_wish_to_stop_is_heard_between_two_attempts_at_a_flagged_window() -> None:
    world = World()

    def flagged(target: object, request: Any) -> Any:
        world.store.wish_stop(1, wish="finish")
        raw = a_raw_window(concurrency=request.concurrency, seconds=4.0)
        return replace(raw, ended_early="request_failed", detail="500")

    world.probe.windows = [flagged]
    assert world.play(a_plan()).state == "cancelled"
    assert len(world.store.windows) == 1


def test_a_wish_to_stop_is_heard_in_a_boot_that_takes_long() -> None:
    world = World()
    world.probe.healthy_when = lambda: _cancelling(world)
    outcome = world.play(a_plan())
    assert outcome.state == "cancelled"
    assert states(world) == ["stopped"]
    assert world.clock.monotonic() < 1000.0 + 60.0, "not only at the boot's timeout"
    assert world.host.running == ()


def _cancelling(world: World) -> bool:
    if world.host.running:
        world.store.wish_stop(1, wish="finish")
    return False


# --- production --------------------------------------------------------------------------------------------------

PROD = Production(container="prod")


def with_mirror(world: World, plan: SweepPlan, mirror: Noted) -> Any:
    tools = replace(world.tools(), mirror=mirror)
    return run_sweep(plan, tools, file_text="", steps=PlainSteps(world.heard.append), limits=Limits())


def test_production_that_does_not_come_back_is_the_loudest_error_and_stays_noted() -> None:
    world, mirror = World(), Noted()
    world.host.add_foreign("prod")
    world.host.foreign_faults["prod"] = ProductionNotRestored(name="prod", reason="no such image")
    with pytest.raises(ProductionNotRestored, match="nightsweep restore"):
        with_mirror(world, a_plan(production=PROD), mirror)
    assert [intent.closed for intent in world.store.intents.values()] == [False]
    assert list(mirror.noted) == ["prod"]
    assert mirror.noted["prod"]["owner"] is None, "this sweep does no more for it"
    assert "production_not_restored" in [event.kind for event in world.store.events]
    assert world.store.sweeps[1].state == "failed"
    assert len(world.store.windows) == 4, "what was measured stays"


def test_an_interrupt_stays_one_when_production_does_not_come_back_after_it() -> None:
    lost = ProductionNotRestored(name="prod", reason="no such image")
    lost.__context__ = Terminated()
    state, note = how_it_broke_off(lost, ended=None)
    assert (state, note.startswith(INTERRUPTED)) == ("partial", True)
    assert note.endswith("SIGTERM; production container prod is NOT serving: no such image")


def test_production_that_runs_and_does_not_answer_is_not_back() -> None:
    world = World()
    world.host.add_foreign("prod")
    world.probe.healthy_when = lambda: bool(world.host.running)  # the engine answers, production never does
    production = replace(PROD, ready_timeout=Seconds(30.0))
    with pytest.raises(ProductionNotRestored, match="answers nothing, 30 s after its start"):
        world.play(a_plan(production=production))


def test_the_next_run_brings_back_what_a_killed_one_took_down_even_with_nothing_left_to_measure() -> None:
    world, mirror = World(), Noted()
    plan = a_plan(production=PROD)
    world.host.add_foreign("prod")
    world.play(plan)
    _taken_down_by_a_dead_one(world)
    outcome = with_mirror(world, plan, mirror)
    assert outcome.state == "done"
    assert world.host.foreigners["prod"].running
    assert all(intent.closed for intent in world.store.intents.values())


def test_a_plan_without_production_brings_back_what_another_plans_dead_run_took_down() -> None:
    world = World()
    world.host.add_foreign("prod")
    world.play(a_plan(production=PROD))
    _taken_down_by_a_dead_one(world)
    world.play(a_plan(a_config("another")))
    assert world.host.foreigners["prod"].running


def test_what_a_dead_run_took_down_under_another_name_of_the_machine_is_told_and_brought_back() -> None:
    world, mirror = World(), Noted()
    world.host.add_foreign("prod", running=False)
    mirror.write("prod", {"owner": "vm~dead:1:1:1", "box_id": 99})
    mirror.write("others", {"owner": "vm~living:2:2:2", "box_id": 98})
    world.living.add("vm~living:2:2:2")
    with_mirror(world, a_plan(), mirror)
    assert world.host.foreigners["prod"].running
    assert list(mirror.noted) == ["others"], "a sweep that lives brings its own back"
    assert "production_owed" in [event.kind for event in world.store.events]


def test_production_found_down_with_an_open_intent_is_brought_back_at_the_end() -> None:
    world = World()
    world.host.add_foreign("prod")
    world.play(a_plan(repeats=1, production=PROD))
    _taken_down_by_a_dead_one(world)
    world.play(a_plan(repeats=2, production=PROD))
    assert world.host.foreigners["prod"].running


def test_production_that_was_down_before_is_left_as_it_was() -> None:
    world = World()
    world.host.add_foreign("prod", running=False)
    world.play(a_plan(production=PROD))
    assert not world.host.foreigners["prod"].running
    assert world.store.intents == {}


def test_a_sweep_that_was_taken_over_leaves_production_to_who_took_it() -> None:
    world = World()
    world.host.add_foreign("prod")
    in_a_window(world, lambda: setattr(world.store.sweeps[1], "fence", 99))
    with pytest.raises(LeaseLost):
        world.play(a_plan(production=PROD))
    assert not world.host.foreigners["prod"].running
    assert [intent.closed for intent in world.store.intents.values()] == [False]
    assert world.host.running == ()


def _taken_down_by_a_dead_one(world: World) -> None:
    """Put the world where a sweep that was killed with production down leaves it."""
    host: FakeHost = world.host
    box_id = world.store.box_id(host.box())
    lease = world.store.claim(1, owner="dead:2:2:2", ttl=Seconds(60.0))
    world.store.open_intent(lease, host.foreign("prod"), restore_by=None)
    host.stop_foreign("prod", grace=Seconds(1.0))
    world.clock.advance(120.0)
    assert world.store.open_intents(box_id)


def test_a_real_engine_is_measured_only_while_no_other_home_measures_and_a_simulated_one_always() -> None:
    world = World()

    @contextlib.contextmanager
    def taken(box: str) -> Iterator[None]:
        raise BoxBusy(box=box, owner="another home")
        yield

    def play(plan: SweepPlan) -> Any:
        return run_sweep(plan, replace(world.tools(), alone=taken), file_text="", steps=PlainSteps(), limits=Limits())

    real = a_plan()
    config = a_config("simulated")
    simulated = a_plan(replace(config, engine=replace(config.engine, simulated=True)))
    with pytest.raises(BoxBusy, match="another home"):
        play(real)
    assert world.starts() == 0
    assert play(simulated).state == "done"


@pytest.mark.parametrize("dies", ["before it is asked who it is", "after it said so"])
def test_an_engine_that_dies_while_its_identity_is_proven_is_no_other_engine_and_is_booted_again(dies: str) -> None:
    """It was called another engine, which no boot mends: its config was given up for the whole sweep."""
    world = World()
    ask, killed = world.probe.ask, list[str]()

    def asked(*given: Any, **named: Any) -> Any:
        answers = {} if dies.startswith("before") and not killed else ask(*given, **named)
        if not killed:
            (handle,) = world.host.running
            killed.append(handle.id)
            world.host.kill(handle)
        return answers

    world.probe.ask = asked  # type: ignore[method-assign]
    outcome = world.play(a_plan(concurrency=(1,), repeats=1))
    kinds = [boot.outcome and boot.outcome.failure and boot.outcome.failure.kind for boot in world.store.boots.values()]
    assert (outcome.state, kinds, world.flags()) == ("done", ["killed", None], [()])


@pytest.mark.parametrize(("dies", "kinds"), [(True, ["killed", None]), (False, ["dialect_mismatch"])])
def test_counters_that_a_dying_engine_no_longer_exposes_are_missing_for_another_reason(
    dies: bool, kinds: list[str | None]
) -> None:
    world = World()
    window, raised = world.probe.window, list[str]()

    def measured(*given: Any, **named: Any) -> Any:
        if dies and raised:
            return window(*given, **named)
        (handle,) = world.host.running
        raised.append(handle.id)
        if dies:
            world.host.kill(handle)
        raise DialectMismatch(
            engine="vllm", version="0.32.0", counter="generation_tokens", reason="the page ends there"
        )

    world.probe.window = measured  # type: ignore[method-assign]
    world.play(a_plan(concurrency=(1,), repeats=1))
    ended = [boot.outcome and boot.outcome.failure and boot.outcome.failure.kind for boot in world.store.boots.values()]
    assert ended == kinds

"""Prefills of several lengths and under load, single-batch runs, keys, and compiled kernels: the loop's rules, on fakes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

import pytest

from nightsweep.errors import RequestFailed
from nightsweep.measurement.values import RawWindow
from nightsweep.plan.fingerprint import with_prompts_hash
from nightsweep.plan.model import PrefillSpec, SecretRef, SingleBatchSpec, SweepPlan
from nightsweep.ports import Secret, Target, WindowRequest
from nightsweep.units import Seconds, Tokens
from tests.fakes.host import Script
from tests.fakes.probe import a_prefill_result, a_raw_window, a_single_batch
from tests.unit.sweep.builders import World, a_config, a_plan

Measured = TypeVar("Measured")
JIT = (
    "(EngineCore pid=9) WARNING 11-29 12:00:00 [jit_monitor.py:103] Triton kernel JIT compilation during inference: k."
)


def planned(plan: SweepPlan, **probe: object) -> SweepPlan:
    return with_prompts_hash(replace(plan, probe=replace(plan.probe, **probe)), "a" * 64)  # type: ignore[arg-type]


def test_every_length_is_measured_idle_and_under_load_and_resuming_adds_nothing() -> None:
    world = World()
    spec = PrefillSpec(tokens=Tokens(2000), repeats=2, others=(Tokens(12000),), under_load=3)
    plan = planned(a_plan(), prefill=spec)
    assert world.play(plan).state == "done"
    keys = [row.key[1:] for row in world.store.prefills.values()]
    assert keys == [(tokens, load, index) for load in (0, 3) for tokens in (2000, 12000) for index in (0, 1)]
    loads = [facts["load"] for name, facts in world.probe.calls if name == "prefill"]
    assert [None if load is None else load.concurrency for load in loads] == [None] * 4 + [3] * 4
    assert {load.temperature for load in loads if load is not None} == {0.7}
    starts = world.starts()
    world.play(plan)
    assert (len(world.store.prefills), world.starts()) == (8, starts)


def test_no_two_prefills_have_the_same_prompt() -> None:
    world = World()
    flagged = a_prefill_result(flags=("cache_hit",))
    world.probe.prefills = [flagged]
    spec = PrefillSpec(tokens=Tokens(2000), repeats=2, others=(Tokens(12000),), under_load=3)
    world.play(planned(a_plan(), prefill=spec))
    salts = [facts["salt"] for name, facts in world.probe.calls if name == "prefill"]
    assert len(salts) == len(set(salts)) == 9


def test_a_prefill_that_cannot_be_measured_is_told_with_its_length_load_and_reason() -> None:
    world = World()
    world.probe.prefills = [RequestFailed(url="http://engine", reason="HTTP 400: longer than the model's 32768")] * 6
    spec = PrefillSpec(tokens=Tokens(40000), repeats=1, under_load=2)
    world.play(planned(a_plan(), prefill=spec))
    told = [event.message for event in world.store.events if event.kind == "prefill_flagged"]
    assert len(told) == 6
    assert "prefill of 40,000 tokens #1: request_failed: " in told[0]
    assert "prefill of 40,000 tokens under 2 streams #1: request_failed: " in told[-1]
    assert all("longer than the model's 32768" in message for message in told)


def test_single_batch_runs_are_cells_of_their_own_kind_and_count_as_no_window() -> None:
    world = World()
    plan = planned(a_plan(repeats=2), single_batch=SingleBatchSpec(runs=2))
    outcome = world.play(plan)
    assert (outcome.state, outcome.windows_done, outcome.windows_planned) == ("done", 4, 4)
    kinds = [row.kind for row in world.store.windows.values()]
    assert (kinds.count("decode"), kinds.count("single_batch")) == (4, 2)
    runs = [row for row in world.store.windows.values() if row.kind == "single_batch"]
    assert [row.key[1:] for row in runs] == [(1, "0.00", 0), (1, "0.00", 1)]
    assert all(row.result.clean for row in runs)
    starts = world.starts()
    world.play(plan)
    assert (len(world.store.windows), world.starts()) == (6, starts)


def test_a_single_batch_run_has_conditions_of_its_own() -> None:
    world = World()
    world.play(planned(a_plan(concurrency=(1,)), single_batch=SingleBatchSpec(), http2=True, through="https://g/v1"))
    runs = [row.conditions for row in world.store.windows.values() if row.kind == "single_batch"]
    windows = [row.conditions for row in world.store.windows.values() if row.kind == "decode"]
    assert (runs[0]["input_tokens"], runs[0]["output_tokens"], runs[0]["probe"]) == (1024, 256, "single_batch")
    assert not {"prompts", "window_seconds", "through_proxy", "http2"} & set(runs[0])
    assert runs[0]["sampling"]["ignore_eos"] is True
    assert (windows[0]["http2"], windows[0]["through_proxy"]) == (True, "https://g/v1")


def test_a_single_batch_run_from_the_cache_is_run_again_with_another_prompt() -> None:
    world = World()
    world.probe.single_batches = [a_single_batch(cached=16)]
    world.play(planned(a_plan(), single_batch=SingleBatchSpec(runs=1)))
    runs = [row for row in world.store.windows.values() if row.kind == "single_batch"]
    assert [(row.attempt, row.result.flags) for row in runs] == [(1, ("cache_hit",)), (2, ())]  # type: ignore[union-attr]
    salts = [facts["request"].salt for name, facts in world.probe.calls if name == "single_batch"]
    assert len(set(salts)) == 2


def test_warnings_name_what_progress_lines_name_and_each_flag_once() -> None:
    world = World()
    world.probe.single_batches = [a_single_batch(cached=16)]
    flagged = replace(a_prefill_result(flags=("cache_hit",)), detail="16 of the prompt's tokens came from the cache")
    world.probe.prefills = [flagged, replace(a_prefill_result(), detail="a miss to within 0.1%")]
    world.probe.windows = [replace(a_raw_window(), ended_early="underfilled", detail="too few")]
    spec = PrefillSpec(tokens=Tokens(2000), repeats=1, under_load=1)
    world.play(planned(a_plan(), single_batch=SingleBatchSpec(runs=1), prefill=spec))
    told = {event.kind: event.message for event in reversed(world.store.events)}
    assert told["prefill_flagged"].endswith("tokens #1: cache_hit: 16 of the prompt's tokens came from the cache")
    assert told["prefill_note"].endswith("prefill of 2,000 tokens #1: a miss to within 0.1%")
    [batch, window] = [event.message for event in world.store.events if event.kind == "window_flagged"]
    assert "single batch #1: cache_hit: 16" in batch
    assert "c=4 T=0.7 #1: underfilled: too few" in window


def dying(world: World, result: Measured) -> Callable[[], Measured]:
    """Return what gives the result of an engine that still lives when the request has failed, and ends a second later."""

    def measured() -> Measured:
        engine, ends, pause = world.host.running[0], world.clock.monotonic() + 1.0, world.clock.sleep

        def sleep(seconds: Seconds) -> None:
            pause(seconds)
            if engine in world.host.running and world.clock.monotonic() >= ends:
                world.host.kill(engine, exit_code=0)

        world.clock.sleep = sleep  # type: ignore[method-assign]
        return result

    return measured


def test_an_engine_that_fails_a_request_and_then_ends_costs_one_attempt_and_is_booted_again() -> None:
    world = World()
    failed = replace(a_prefill_result(flags=("request_failed",)), detail="the connection failed", rate=None)
    world.probe.prefills = [dying(world, failed)]
    outcome = world.play(planned(a_plan(), prefill=PrefillSpec(tokens=Tokens(2000), repeats=1)))
    rows = [(row.attempt, row.result.flags) for row in world.store.prefills.values()]
    assert rows == [(1, ("engine_exited",)), (2, ())]  # type: ignore[union-attr]
    assert (outcome.windows_done, world.starts()) == (4, 2)


def test_a_single_batch_run_of_an_engine_that_then_ends_is_measured_in_the_next_boot() -> None:
    world = World()
    raw = a_single_batch()
    cut = replace(raw, requests=(replace(raw.requests[0], error="the connection failed"),))
    world.probe.single_batches = [dying(world, cut)]
    world.play(planned(a_plan(), single_batch=SingleBatchSpec(runs=1)))
    runs = [row for row in world.store.windows.values() if row.kind == "single_batch"]
    assert [(row.attempt, row.result.flags) for row in runs] == [(1, ("engine_exited",)), (2, ())]  # type: ignore[union-attr]
    assert "the connection failed" in runs[0].result.flag_details["engine_exited"]
    assert world.starts() == 2


def test_runs_are_spread_over_boots() -> None:
    world = World()
    world.play(planned(a_plan(repeats=2, boots=2), single_batch=SingleBatchSpec(runs=2, temperature=Decimal("0.7"))))
    runs = [row for row in world.store.windows.values() if row.kind == "single_batch"]
    assert len({row.boot_id for row in runs}) == 2


@pytest.mark.parametrize("through", [None, "https://gateway.lan/v1"])
def test_an_engine_with_a_key_boots_proves_itself_and_is_measured(through: str | None) -> None:
    world = World(environ={"ENGINE": "engine-key", "GATEWAY": "gateway-key"})
    world.probe.wanted_key = Secret("engine-key")
    config = a_config(env={"VLLM_API_KEY": SecretRef("ENGINE")})
    key = None if through is None else SecretRef("GATEWAY")
    outcome = world.play(planned(a_plan(config, prefill=True), through=through, api_key=key))
    assert (outcome.state, outcome.windows_done) == ("done", 4)
    by_call: dict[str, set[object]] = {}
    for name, facts in world.probe.calls:
        if name in ("window", "prefill", "served_token"):
            by_call.setdefault(name, set()).add(facts["target"].api_key)
    assert by_call["served_token"] == by_call["prefill"] == {"engine-key"}
    assert by_call["window"] == {"engine-key" if through is None else "gateway-key"}
    asked = {facts["api_key"] for name, facts in world.probe.calls if name == "ask"}
    assert asked == {"engine-key"}
    assert "engine-key" not in repr(list(world.store.windows.values()))


def test_the_probes_key_opens_an_engine_that_has_none_of_its_own() -> None:
    world = World(environ={"KEY": "only-key"})
    world.probe.wanted_key = Secret("only-key")
    outcome = world.play(planned(a_plan(), api_key=SecretRef("KEY")))
    assert outcome.windows_done == 4


def when_the_log_is_kept(world: World, text: str) -> Callable[[Target, WindowRequest], RawWindow]:
    """Return a window in whose middle the engine says something; it goes on once that line has been read."""

    def window(target: Target, request: WindowRequest) -> RawWindow:
        opened, began = float(world.clock.monotonic()), world.clock.now()
        world.clock.sleep(type(request.window)(request.window / 2))
        engine = next(iter(world.host.running_engines()))
        engine.lines.append((0.0, text))
        for _ in range(400):
            if any(line.text == text for lines in world.store.logs.values() for line in lines):
                break
            threading.Event().wait(0.005)
        world.clock.sleep(type(request.window)(request.window / 2))
        return a_raw_window(
            concurrency=request.concurrency,
            seconds=float(request.window),
            opened=opened,
            started=began,
            positions=(0.5,) * 3,
        )

    return window


def test_a_kernel_compiled_inside_a_window_voids_it_and_it_is_measured_again() -> None:
    world = World(script=Script())
    world.probe.windows = [when_the_log_is_kept(world, JIT)]
    outcome = world.play(a_plan(concurrency=(1,), repeats=1))
    assert outcome.state == "done"
    assert world.flags() == [("jit_compilation",), ()]
    [first, _] = world.store.windows.values()
    assert "Triton kernel JIT compilation" in first.result.flag_details["jit_compilation"]  # type: ignore[union-attr]


def test_another_line_in_the_log_voids_nothing_and_a_compilation_in_the_boot_neither() -> None:
    world = World(script=Script(lines=((0.0, JIT),)))
    world.probe.windows = [when_the_log_is_kept(world, "INFO: a request came")]
    world.play(a_plan(concurrency=(1,), repeats=1))
    assert world.flags() == [()]


def test_a_baseline_that_still_speculates_is_not_the_config_and_gives_no_clean_window() -> None:
    world = World()
    world.probe.speculates = lambda: True
    world.play(a_plan(a_config("baseline", k=None), concurrency=(1,), repeats=1))
    assert set(world.flags()) == {("identity_lost",)}
    [first, *_] = world.store.windows.values()
    assert "asks for no speculation" in first.result.flag_details["identity_lost"]  # type: ignore[union-attr]


def test_a_schedule_of_draft_lengths_that_does_nothing_is_noted() -> None:
    world = World()
    config = a_config(k=7)
    schedule = {**(config.speculative or {}), "num_speculative_tokens_per_batch_size": [[1, 2, 7], [3, 64, 2]]}
    world.probe.truth = {"positions": (0.5,) * 7}
    world.play(a_plan(replace(config, speculative=schedule), repeats=1))
    notes = {row.key[1]: row.result.notes for row in world.store.windows.values()}  # type: ignore[union-attr]
    assert notes[1] == ()
    assert "had no effect that could be seen" in notes[4][0]

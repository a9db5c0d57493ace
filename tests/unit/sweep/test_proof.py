"""What a boot did not apply is kept with it and is a condition of its windows; a dead drafter is said on its windows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from nightsweep.engine.bootlog import read
from nightsweep.engine.registry import engine_for
from nightsweep.engine.values import BootFacts, ServedIdentity
from nightsweep.measurement.values import WindowResult
from nightsweep.plan.model import EngineConfig
from nightsweep.sweep.proof import LOG_LAG, prove_applied
from tests.fakes.host import Script
from tests.unit.sweep.builders import World, a_config, a_plan

HEAD = "(EngineCore pid=7) INFO 11-29 16:16:39"
V1 = (
    f"{HEAD} [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: speculative_config=SpeculativeConfig("
    "method='mtp', model='m', num_spec_tokens=3), max_seq_len=4096,",
    f"{HEAD} [gpu_model_runner.py:1] Model loading took 3.5 GiB memory and 1.5 seconds",
    f"{HEAD} [kv_cache_utils.py:1] GPU KV cache size: 74,880 tokens",
    "INFO:     Application startup complete.",
)
PAGE = b'vllm:cache_config_info{engine="0",kv_cache_size_tokens="74000",num_gpu_blocks="4680",block_size="16"} 1.0\n'


def a_block_config() -> EngineConfig:
    config = a_config()
    asked = {**(config.speculative or {}), "rejection_sample_method": "block", "draft_sample_method": "probabilistic"}
    return replace(config, speculative=asked)


def a_world() -> World:
    """A world whose engine answers once its log was read: a log is followed in a thread of its own."""
    world = World(script=Script(lines=tuple((0.0, line) for line in V1)))
    alive = world.probe.healthy_when

    def healthy() -> bool:
        wait_until(lambda: bool(world.store.logs) or not alive())
        return alive()

    world.probe.healthy_when = healthy
    return world


def wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(2000):
        if happened():
            return
        time.sleep(0.001)
    raise AssertionError("it did not happen within two seconds")


def said(world: World, kind: str) -> list[str]:
    return [event.message for event in world.store.events if event.kind == kind]


def test_block_on_the_v1_runner_is_kept_with_the_boot_told_and_a_condition_of_every_window() -> None:
    world = a_world()
    outcome = world.play(a_plan(a_block_config()))
    (boot,) = world.store.boots.values()
    assert outcome.state == "done"
    assert boot.ready is not None
    assert len(boot.ready.applied.not_applied) == 2
    assert "'block' is silently ignored" in boot.ready.applied.not_applied[0]
    assert len(said(world, "not_applied")) == 2
    assert world.flags() == [()] * 4  # a true measurement of something else: no flag
    for window in world.store.windows.values():
        assert window.conditions["not_applied"] == list(boot.ready.applied.not_applied)


def test_a_config_that_was_applied_says_nothing_and_has_an_empty_condition() -> None:
    world = a_world()
    world.play(a_plan())
    assert said(world, "not_applied") == []
    assert all(window.conditions["not_applied"] == [] for window in world.store.windows.values())


class LateLog:
    """A log that is behind: each look finds it one line further."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines, self.looks = lines, 0

    def facts(self) -> BootFacts:
        self.looks += 1
        return read(self.lines[: self.looks], kind="vllm")


def looked(lines: tuple[str, ...]) -> tuple[Any, LateLog]:
    world, log = World(), LateLog(lines)
    running = SimpleNamespace(
        config=a_block_config(),
        engine=engine_for("vllm"),
        identity=ServedIdentity(),
        log=log,
        target=SimpleNamespace(base_url=""),
        facts=BootFacts(),
    )
    world.probe.values = None  # no metrics page: no second source, and no error
    return prove_applied(world.tools(), running, {}), log  # type: ignore[arg-type]


def test_facts_are_read_up_to_the_line_that_says_ready_before_they_are_judged() -> None:
    applied, log = looked(V1)
    assert len(applied.not_applied) == 2
    assert log.looks == len(V1)


def test_a_log_that_never_says_ready_is_not_waited_for_longer_than_it_may_be_behind() -> None:
    applied, log = looked(V1[:-1])
    assert len(applied.not_applied) == 2
    assert log.looks <= LOG_LAG / 0.1 + 2


def test_a_second_source_that_disagrees_is_kept_beside_the_logs_figure_and_told() -> None:
    world = a_world()
    read = world.probe.read
    world.probe.read = lambda target: replace(read(target), raw=PAGE)  # type: ignore[method-assign]
    world.play(a_plan())
    (boot,) = world.store.boots.values()
    assert boot.ready is not None
    assert boot.ready.facts.kv_tokens == 74880
    assert [budget.tokens for budget in boot.ready.applied.kv_second] == [74000]
    assert "says 74,880 KV cache tokens, vllm:cache_config_info says 74,000" in said(world, "boot_note")[0]


def test_a_drafter_of_which_nothing_was_accepted_is_noted_on_its_windows_and_flags_none() -> None:
    world = a_world()
    world.probe.truth = {"positions": (0.0, 0.0, 0.0), "step_time": 0.05}
    world.play(a_plan())
    results = [row.result for row in world.store.windows.values()]
    for result in results:
        assert isinstance(result, WindowResult)
        assert result.clean
        assert result.notes[0].startswith("dead drafter")
    assert len(said(world, "window_note")) == len(results) == 4

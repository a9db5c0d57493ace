"""A changed file takes over what was measured under equal conditions, and measures what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nightsweep.plan.expand import with_prompts_hash
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.model import EngineConfig, SingleBatchSpec, SweepPlan
from nightsweep.ports import Launch
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps
from nightsweep.units import Seconds
from tests.fakes.host import Script
from tests.unit.sweep.builders import World, a_config, a_plan

A, B, C = a_config("a"), a_config("b", k=4), a_config("c", k=5)


def reusing(world: World, plan: SweepPlan, *, software: str = "test") -> Outcome:
    tools = replace(world.tools(), software=software)
    return run_sweep(plan, tools, file_text="", steps=PlainSteps(), limits=Limits(), reuse=True)


def in_docker(config: EngineConfig, image: str = "vllm/vllm-openai:v1") -> EngineConfig:
    engine = replace(config.engine, host="docker", image=image, command=())
    document = {**config.document, "image": image}
    return replace(config, engine=engine, document=document, fingerprint=fingerprint(document))


def windows_of(world: World, sweep_id: int) -> int:
    return sum(row.sweep_id == sweep_id for row in world.store.windows.values())


def told(world: World, kind: str) -> list[str]:
    return [event.message for event in world.store.events if event.kind == kind]


def test_only_what_is_missing_is_measured() -> None:
    world = World()
    first = world.play(a_plan(A, B))
    starts = world.starts()
    second = reusing(world, a_plan(A, B, C))
    assert second.sweep_id != first.sweep_id
    assert (second.state, second.windows_done, windows_of(world, second.sweep_id)) == ("done", 12, 4)
    assert world.starts() == starts + 1
    assert told(world, "reused") == ["8 windows of sweep 1 are reused: measured on this box under equal conditions"]


def test_a_config_that_was_mended_outside_of_the_file_is_booted_under_another_name_and_nothing_else_is_measured_again() -> (
    None
):
    world = World(script=_failing_b())
    plan = a_plan(A, B)
    first = world.play(plan)
    assert (first.failed, first.windows_done) == (("b",), 4)
    world.host.script, world.probe.healthy_when = Script(), lambda: bool(world.host.running)
    starts = world.starts()
    assert (world.play(plan).failed, world.starts()) == (("b",), starts), "the sweep itself gave it up"
    second = reusing(world, replace(plan, name="mended"))
    assert (second.failed, second.windows_done, windows_of(world, second.sweep_id)) == ((), 8, 4)
    assert world.starts() == starts + 1


def _failing_b() -> Callable[[Launch], Script]:
    """Return what fails config B, that of four draft tokens, for good."""
    lines = ((0.0, "vllm: error: unrecognized arguments: --no-such-flag"),)

    def script(launch: Launch) -> Script:
        fails = '"num_speculative_tokens":4' in " ".join(launch.command).replace(" ", "")
        return Script(lines=lines, exits_at=0.0, exit_code=2) if fails else Script()

    return script


def test_without_the_wish_a_changed_file_measures_all() -> None:
    world = World()
    world.play(a_plan(A))
    second = world.play(a_plan(A, B))
    assert windows_of(world, second.sweep_id) == 8


def test_what_was_taken_over_once_is_there_when_the_sweep_goes_on() -> None:
    world = World()
    world.play(a_plan(A))
    plan = a_plan(A, B)
    reusing(world, plan)
    starts = world.starts()
    assert world.play(plan).windows_done == 8
    assert reusing(world, plan).windows_done == 8
    assert world.starts() == starts


def test_more_repeats_than_were_measured_are_added() -> None:
    world = World()
    world.play(a_plan(A, repeats=2))
    second = reusing(world, a_plan(A, B, repeats=3))
    assert windows_of(world, second.sweep_id) == 2 + 6


def test_prefills_and_single_batches_are_taken_over_too() -> None:
    world = World()

    def full(*configs: EngineConfig) -> SweepPlan:
        plan = a_plan(*configs, prefill=True)
        return with_prompts_hash(replace(plan, probe=replace(plan.probe, single_batch=SingleBatchSpec())), "a" * 64)

    world.play(full(A))
    prefills, starts = len(world.store.prefills), world.starts()
    assert reusing(world, full(A, B)).state == "done"
    assert world.starts() == starts + 1
    assert len(world.store.prefills) == 2 * prefills
    assert told(world, "reused") == [
        "6 windows and 1 prefills of sweep 1 are reused: measured on this box under equal conditions"
    ]


def test_another_version_of_nightsweep_another_window_or_other_prompts_take_nothing_over() -> None:
    for change in ("software", "window", "prompts"):
        world = World()
        world.play(a_plan(A))
        plan = a_plan(A, B)
        if change == "window":
            plan = with_prompts_hash(replace(plan, probe=replace(plan.probe, window=Seconds(5.0))), "a" * 64)
        if change == "prompts":
            plan = with_prompts_hash(plan, "b" * 64)
        second = reusing(world, plan, software="next" if change == "software" else "test")
        assert windows_of(world, second.sweep_id) == 8, change


def test_another_boxs_measurements_are_not_this_ones() -> None:
    world = World()
    world.play(a_plan(A))
    world.host.facts = replace(world.host.facts, fingerprint="e" * 64)
    second = reusing(world, a_plan(A, B))
    assert windows_of(world, second.sweep_id) == 8


def test_an_image_is_known_by_the_digest_of_what_is_on_the_box_now() -> None:
    world = World()
    one, other = in_docker(A), in_docker(B)
    world.play(a_plan(one))
    second = reusing(world, a_plan(one, other))
    assert windows_of(world, second.sweep_id) == 4
    world.host.images["vllm/vllm-openai:v1"] = "sha256:" + "7" * 64  # the tag was pulled again
    third = reusing(world, a_plan(one, in_docker(C)))
    assert windows_of(world, third.sweep_id) == 8


def test_an_image_that_is_not_here_takes_nothing_over() -> None:
    world = World()
    one = in_docker(A)
    world.play(a_plan(one))
    del world.host.images["vllm/vllm-openai:v1"]
    second = reusing(world, a_plan(one, in_docker(B)))
    assert windows_of(world, second.sweep_id) == 8


def test_a_process_whose_engine_was_upgraded_gives_back_what_was_taken_over() -> None:
    world = World()
    world.play(a_plan(A, repeats=1))
    world.probe.answers["version"] = {"version": "0.33.0"}
    second = reusing(world, a_plan(A, B, repeats=2))  # its own boot of A tells the new version
    assert windows_of(world, second.sweep_id) == 8
    assert second.windows_done == 8
    assert told(world, "reuse_withdrawn") == [
        "a: 2 reused measurements are made again: engine_version 0.32.0 then, 0.33.0 now"
    ]
    conditions = {row.conditions["engine_version"] for row in world.store.windows.values() if row.sweep_id == 2}
    assert conditions == {"0.33.0"}

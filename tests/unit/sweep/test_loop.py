"""The loop's rules, on fakes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from nightsweep.cli.running import exit_code
from nightsweep.errors import BoxBusy, LaunchRefused, LeaseLost, RequestFailed, SecretMissing
from nightsweep.plan.model import Production, SecretRef
from nightsweep.ports import Launch, Lease
from nightsweep.sweep.tools import Limits
from tests.fakes.host import Script
from tests.fakes.probe import a_raw_window
from tests.unit.sweep.builders import World, a_config, a_plan


def test_a_sweep_measures_every_repeat_once_and_stops_its_engines() -> None:
    world = World()
    outcome = world.play(a_plan(a_config("a"), a_config("b", k=None), prefill=True))
    assert (outcome.state, outcome.windows_done, outcome.windows_left) == ("done", 8, 0)
    assert len(world.store.windows) == 8
    assert len(world.store.prefills) == 2
    assert world.host.running == ()
    assert [boot.state for boot in world.store.boots.values()] == ["stopped", "stopped"]


def test_resuming_is_the_same_call_and_measures_only_what_is_left() -> None:
    world = World()
    plan = a_plan(a_config("a"), a_config("b", k=None))
    world.play(plan, limits=Limits(until=world.clock.now() + timedelta(seconds=75)))
    first = len(world.store.windows)
    assert 0 < first < 8
    outcome = world.play(plan)
    assert outcome.state == "done"
    keys = [row.key for row in world.store.windows.values()]
    assert len(keys) == len(set(keys)) == 8


def test_a_finished_sweep_boots_nothing_when_called_again() -> None:
    world = World()
    plan = a_plan()
    world.play(plan)
    starts = world.starts()
    outcome = world.play(plan)
    assert (outcome.state, world.starts()) == ("done", starts)


def test_raised_repeats_extend_the_same_sweep() -> None:
    world = World()
    first = world.play(a_plan(repeats=1))
    second = world.play(a_plan(repeats=2))
    assert first.sweep_id == second.sweep_id
    assert len(world.store.windows) == 4


def test_lowered_repeats_count_what_is_planned_now() -> None:
    world = World()
    assert world.play(a_plan(repeats=3)).windows_done == 6
    outcome = world.play(a_plan(repeats=1))
    assert (outcome.windows_done, outcome.windows_planned, outcome.windows_left) == (2, 2, 0)
    assert len(world.store.windows) == 6, "nothing is lost"


def test_a_config_that_will_not_boot_is_a_result_and_the_next_one_is_measured() -> None:
    bad = a_config("bad", k=9)

    def script(launch: object) -> Script:
        wrong = '"num_speculative_tokens":9' in " ".join(launch.command).replace(" ", "")  # type: ignore[attr-defined]
        lines = ((0.0, "vllm: error: unrecognized arguments: --no-such-flag"),)
        return Script(lines=lines, exits_at=0.5, exit_code=2) if wrong else Script()

    world = World(script=script)
    world.probe.healthy_when = lambda: any("9" not in world.host.launches[-1].command[-1] for _ in world.host.running)
    outcome = world.play(a_plan(bad, a_config("good", k=None)))
    failed = [boot for boot in world.store.boots.values() if boot.state == "failed"]
    assert outcome.state == "done"
    assert outcome.windows_done == 4
    assert [boot.outcome.failure.kind for boot in failed if boot.outcome and boot.outcome.failure] == ["bad_flag"]
    assert failed[0].outcome is not None
    assert failed[0].outcome.exit_code == 2
    assert any("bad" in problem for problem in outcome.problems)


def _refusing(text: str) -> World:
    """Return a world in which engines that draft 9 tokens end by themselves, with such a last line."""

    def script(launch: Launch) -> Script:
        wrong = '"num_speculative_tokens":9' in " ".join(launch.command).replace(" ", "")
        return Script(lines=((0.0, text),), exits_at=0.5, exit_code=2) if wrong else Script()

    world = World(script=script)
    world.probe.healthy_when = lambda: any("9" not in world.host.launches[-1].command[-1] for _ in world.host.running)
    return world


def test_what_an_engine_refuses_for_good_is_not_booted_again_in_the_same_night() -> None:
    world = _refusing("vllm: error: unrecognized arguments: --no-such-flag")
    outcome = world.play(a_plan(a_config("bad", k=9), a_config("good", k=None), repeats=3, boots=3))
    assert world.starts() == 1 + 3, "one boot shows it; those of the other config are made"
    assert [event.kind for event in world.store.events].count("config_given_up") == 1
    assert (outcome.state, outcome.windows_done, outcome.windows_left) == ("done", 6, 0)


def test_what_another_boot_may_mend_is_tried_twice_in_each_round() -> None:
    world = _refusing("something that no rule knows")
    world.play(a_plan(a_config("bad", k=9), a_config("good", k=None), repeats=3, boots=3))
    assert world.starts() == 2 * 3 + 3


def test_a_sweep_is_done_with_a_config_that_failed_and_says_which_and_ends_with_another_exit_code() -> None:
    world = _refusing("vllm: error: unrecognized arguments: --no-such-flag")
    outcome = world.play(a_plan(a_config("bad", k=9), a_config("good", k=None)))
    assert outcome.failed == ("bad",)
    assert outcome.note.endswith("; 1 of 2 configs FAILED (1 failed boot, see `nightsweep boots`): bad")
    assert world.store.sweeps[1].note == outcome.note
    assert (outcome.state, exit_code(outcome)) == ("done", 1)
    again = world.play(a_plan(a_config("bad", k=9), a_config("good", k=None)))
    assert (again.failed, exit_code(again)) == (("bad",), 1), "going on with it changes nothing"


def test_a_config_with_flagged_windows_only_is_named_and_ends_with_another_exit_code() -> None:
    world = World()
    plain, flagged = world.probe.window, set[bool]()

    def window(target: Any, request: Any, *, alive: Any) -> Any:
        raw = plain(target, request, alive=alive)
        bad = "9" in world.host.launches[-1].command[-1]
        flagged.add(bad)
        return replace(raw, ended_early="underfilled", detail="4 of 8 ran") if bad else raw

    world.probe.window = window  # type: ignore[method-assign]
    outcome = world.play(a_plan(a_config("bad", k=9), a_config("good", k=None)))
    assert flagged == {True, False}
    assert (outcome.state, outcome.failed, outcome.unmeasured) == ("done", (), ("bad",))
    assert outcome.note.endswith("; 1 of 2 configs WITHOUT A CLEAN WINDOW (see `nightsweep cells --flagged`): bad")
    assert exit_code(outcome) == 1


def test_an_engine_that_dies_and_is_measured_in_another_boot_is_no_failed_config() -> None:
    world = World()

    def killed(target: object, request: object) -> object:
        world.host.kill(world.host.running[0], exit_code=137)
        return replace(a_raw_window(concurrency=1), before=None, after=None, ended_early="engine_exited", detail="gone")

    world.probe.windows = [killed]  # type: ignore[list-item]
    outcome = world.play(a_plan())
    assert (outcome.failed, exit_code(outcome)) == ((), 0)


def test_an_engine_that_serves_no_token_is_not_said_to_have_exited() -> None:
    world = World()
    world.probe.refusal = "HTTP 500: no kernel image"
    (problem,) = world.play(a_plan()).problems
    assert "mtp: the engine runs and serves no token (at its first request): HTTP 500: no kernel image" in problem
    assert "exit" not in problem


def test_a_launch_that_is_refused_is_a_result_too() -> None:
    world = World(script=Script(refused=LaunchRefused(reason="no such file")))
    outcome = world.play(a_plan())
    assert outcome.windows_done == 0
    assert {boot.state for boot in world.store.boots.values()} == {"failed"}


def test_an_engine_that_never_gets_ready_is_stopped_at_its_timeout() -> None:
    world = World()
    world.probe.healthy_when = lambda: False
    outcome = world.play(a_plan())
    assert outcome.note == (
        "nothing could be measured; 1 of 1 config FAILED (2 failed boots, see `nightsweep boots`): mtp"
    )
    (problem,) = outcome.problems
    assert problem.endswith("(2 times)"), "both boots failed alike"
    boots = list(world.store.boots.values())
    assert {boot.state for boot in boots} == {"failed"}
    assert 1 <= len(boots) <= 2
    assert world.host.running == ()


def test_an_engine_that_is_killed_in_a_window_leaves_a_flagged_window_and_is_booted_again() -> None:
    world = World()

    def killed(target: object, request: object) -> object:
        world.host.kill(world.host.running[0], exit_code=137)
        return replace(a_raw_window(concurrency=1), before=None, after=None, ended_early="engine_exited", detail="gone")

    world.probe.windows = [killed]  # type: ignore[list-item]
    outcome = world.play(a_plan())
    assert outcome.state == "done"
    assert outcome.windows_done == 4
    assert world.flags().count(("engine_exited",)) == 1
    assert [boot.state for boot in world.store.boots.values()] == ["failed", "stopped"]


def test_an_engine_that_another_hand_stops_twice_is_booted_again_and_its_config_has_not_failed() -> None:
    world = World()

    def taken(target: object, request: object) -> object:
        world.host.kill(world.host.running[0], taken_away=True)
        return replace(a_raw_window(concurrency=1), before=None, after=None, ended_early="engine_exited", detail="gone")

    world.probe.windows = [taken, taken]  # type: ignore[list-item]
    outcome = world.play(a_plan(concurrency=(1,), repeats=1))
    assert (outcome.state, outcome.windows_done, outcome.failed) == ("done", 1, ())
    advice = [
        boot.outcome and boot.outcome.failure and boot.outcome.failure.retry for boot in world.store.boots.values()
    ]
    assert advice == ["outside", "outside", None]


def test_a_flagged_window_is_measured_again_at_most_twice() -> None:
    world = World()
    failing = RequestFailed(url="u", reason="500")
    world.probe.windows = [failing] * 3
    outcome = world.play(a_plan(concurrency=(1,), repeats=1))
    assert [row.attempt for row in world.store.windows.values()] == [1, 2, 3]
    assert outcome.state == "done"
    assert outcome.windows_done == 0


def test_another_sweep_on_the_box_is_refused_by_name() -> None:
    world = World()
    plan = a_plan()
    box_id = world.store.box_id(world.host.box())
    other = world.store.open_sweep(replace(plan, name="other"), box_id=box_id, file_text="")
    world.store.claim(other, owner="somebody:2:2:2", ttl=60.0)  # type: ignore[arg-type]
    told = rf"process 2 on somebody runs sweep {other} \(other\).*`nightsweep cancel {other}` ends it"
    with pytest.raises(BoxBusy, match=told):
        world.play(plan)
    assert world.starts() == 0


def test_a_cancelled_sweep_stops_after_its_window_and_says_so() -> None:
    world = World()
    plan = a_plan()

    def cancelled(target: object, request: object) -> object:
        world.store.wish_stop(1, wish="finish")
        return a_raw_window(concurrency=request.concurrency, seconds=4.0)  # type: ignore[attr-defined]

    world.probe.windows = [cancelled]  # type: ignore[list-item]
    outcome = world.play(plan)
    assert outcome.state == "cancelled"
    assert len(world.store.windows) == 1
    assert world.host.running == ()


def test_a_lost_lease_ends_the_sweep_and_its_engine() -> None:
    world = World()

    def dispossessed(target: object, request: object) -> object:
        world.store.sweeps[1].fence += 1
        return a_raw_window(concurrency=request.concurrency, seconds=4.0)  # type: ignore[attr-defined]

    world.probe.windows = [dispossessed]  # type: ignore[list-item]
    with pytest.raises(LeaseLost):
        world.play(a_plan())
    assert world.store.windows == {}
    assert world.host.running == ()


def test_production_is_stopped_with_its_intent_written_and_serves_again_afterwards() -> None:
    world = World()
    world.host.add_foreign("prod", ports={8000: 8000})
    outcome = world.play(a_plan(production=Production(container="prod")))
    assert outcome.state == "done"
    assert world.host.foreigners["prod"].running
    intents = list(world.store.intents.values())
    assert [(intent.outcome, intent.closed) for intent in intents] == [("restored", True)]
    assert ("stop_foreign", "prod") in world.host.calls


def test_production_comes_back_when_the_sweep_breaks() -> None:
    world = World()
    world.host.add_foreign("prod", ports={8000: 8000})

    def broken(target: object, request: object) -> object:
        raise KeyboardInterrupt

    world.probe.windows = [broken]  # type: ignore[list-item]
    with pytest.raises(KeyboardInterrupt):
        world.play(a_plan(production=Production(container="prod")))
    assert world.host.foreigners["prod"].running
    assert world.store.sweeps[1].state == "partial"
    assert [handle for handle in world.host.running if handle.boot_key.startswith("nightsweep")] == []


def test_a_secret_reaches_the_engine_and_nothing_else() -> None:
    world = World(environ={"HF_TOKEN": "hf_very_secret"})
    world.play(a_plan(a_config(env={"HF_TOKEN": SecretRef("HF_TOKEN")})))
    assert world.host.launches[0].env["HF_TOKEN"] == "hf_very_secret"
    kept = repr((world.store.boots, world.store.events, world.store.windows, world.store.sweeps, world.host.launches))
    assert "hf_very_secret" not in kept


def test_a_secret_that_is_not_there_is_said_before_anything_is_touched() -> None:
    world = World()
    world.host.add_foreign("prod")
    plan = a_plan(a_config(env={"HF_TOKEN": SecretRef("HF_TOKEN")}), production=Production(container="prod"))
    with pytest.raises(SecretMissing, match="HF_TOKEN"):
        world.play(plan)
    assert ("stop_foreign", "prod") not in world.host.calls


def test_progress_counts_clean_windows_only() -> None:
    world = World()
    world.probe.windows = [RequestFailed(url="u", reason="500")]
    world.play(a_plan(concurrency=(1,), repeats=2))
    assert [heard.windows_done for heard in world.heard if heard.phase == "window"] == [1, 2]
    assert isinstance(Lease, type)


def an_engine_of(world: World, holder: str) -> None:
    labels = {"nightsweep.holder": holder}
    world.host.start(Launch(boot_key="theirs", command=("vllm",), env={}, port=9, container_port=9, labels=labels))


def test_an_engine_whose_holder_lives_is_left_alone_and_the_box_is_busy() -> None:
    world = World(living={"them:2:2:2"})
    world.host.add_foreign("prod")
    an_engine_of(world, "them:2:2:2")
    with pytest.raises(BoxBusy, match="process 2 on them runs a sweep of another home"):
        world.play(a_plan(production=Production(container="prod")))
    assert [handle.boot_key for handle in world.host.running] == ["theirs"]
    assert world.host.foreigners["prod"].running


def test_an_engine_whose_holder_is_dead_is_stopped_before_the_sweep() -> None:
    world = World()
    an_engine_of(world, "them:2:2:2")
    assert world.play(a_plan()).state == "done"
    assert world.host.running == ()

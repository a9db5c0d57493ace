"""A control is booted again through the night; it is named in the file, and its extra windows are counted apart."""

from __future__ import annotations

import pytest

from nightsweep.errors import InvalidPlan
from nightsweep.plan.model import CONTROL_ROUND, SweepPlan
from nightsweep.plan.order import boot_tasks, control_boots, slots
from nightsweep.plan.remaining import remaining, window_key
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_night


def a_controlled(control: str, **night: int) -> SweepPlan:
    return load(a_night(**night) + f"\ncontrol: {control}\n")


def test_a_control_is_booted_after_every_third_boot_and_at_the_end() -> None:
    plan = a_controlled("c1", configs=4, boots=2)
    order = [("control" if task.boot_round >= CONTROL_ROUND else "", task.config.name) for task in boot_tasks(plan)]
    own = [("", "c0"), ("", "c1"), ("", "c2"), ("", "c3"), ("", "c0"), ("", "c1"), ("", "c2"), ("", "c3")]
    extra = [("control", "c1")]
    assert order == own[:3] + extra + own[3:6] + extra + own[6:] + extra
    assert control_boots(plan) == 3


def test_how_often_is_said_in_the_long_form() -> None:
    plan = a_controlled("{config: c0, every: 2}", configs=2, boots=1)
    assert plan.control is not None
    assert (plan.control.config, plan.control.every) == (plan.configs[0].fingerprint, 2)
    assert [task.config.name for task in boot_tasks(plan)] == ["c0", "c1", "c0"]


def test_an_extra_boot_measures_every_cell_once_in_an_order_of_its_own() -> None:
    plan = a_controlled("c0", configs=1, boots=1, concurrency=4, temperatures=3, repeats=2)
    own, extra = boot_tasks(plan)
    assert {repeat.cell for repeat in extra.repeats} == {repeat.cell for repeat in own.repeats}
    assert len(extra.repeats) == 12
    assert [repeat.cell for repeat in extra.repeats] != [repeat.cell for repeat in own.repeats[:12]]
    assert all(repeat.control and repeat.index >= CONTROL_ROUND for repeat in extra.repeats)
    assert not any(repeat.control for repeat in own.repeats)
    assert (extra.prefills, extra.single_batches) == ((), ())


def test_extra_windows_are_planned_and_left_like_any_other() -> None:
    plan = load(a_night(configs=2).rpartition("  prefill")[0] + "control: c0\n")
    tasks = boot_tasks(plan)
    assert slots(plan) == sum(len(task.repeats) for task in tasks)
    done = {window_key(repeat): (True, 1) for task in tasks[:-1] for repeat in task.repeats}
    left = remaining(plan, windows=done, prefills={}, failed_boots={})
    assert left == tasks[-1:]


def test_a_control_makes_no_other_sweep() -> None:
    assert a_controlled("c0", configs=2).fingerprint == load(a_night(configs=2)).fingerprint


def test_without_a_control_nothing_is_added() -> None:
    plan = load(a_night(configs=2))
    assert (plan.control, control_boots(plan)) == (None, 0)


@pytest.mark.parametrize(
    ("control", "words"),
    [
        ("c9", "control: found 'c9'; allowed: the name of a config: c0, c1"),
        ("{config: c9}", "control.config: found 'c9'"),
        ("{config: c0, every: 0}", "control.every"),
        ("{every: 3}", "control.config"),
        ("{config: c0, often: 3}", "an unknown key"),
        ("[c0]", "control: found"),
    ],
)
def test_what_is_wrong_with_a_control_is_told(control: str, words: str) -> None:
    with pytest.raises(InvalidPlan) as raised:
        a_controlled(control, configs=2)
    assert words in str(raised.value).replace('"', "'")


def test_the_page_cache_is_freed_only_where_the_file_says_so_and_that_is_no_other_config() -> None:
    plain = load(a_night(configs=1))
    text = a_night(configs=1).replace("org/target}", "org/target, drop_page_cache: true}", 1)
    freed = load(text)
    assert not plain.configs[0].engine.drop_page_cache
    assert freed.configs[0].engine.drop_page_cache
    assert freed.configs[0].fingerprint == plain.configs[0].fingerprint

"""The plan minus what is stored is what is left; starting and resuming are the same call."""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.plan.model import CONTROL_ROUND, BootTask, PrefillRepeat, Repeat, SweepPlan
from nightsweep.plan.order import boot_tasks
from nightsweep.plan.remaining import (
    MAX_FAILED_BOOTS,
    MAX_STOPPED_BOOTS,
    failed_configs,
    prefill_key,
    remaining,
    slots,
    temperature_key,
    window_key,
)
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_night

Windows = dict[tuple[str, int, str, int], tuple[bool, int]]
Prefills = dict[tuple[str, int, int, int], tuple[bool, int]]

PLANS = st.builds(
    lambda configs, concurrency, temperatures, boots, extra: load(
        a_night(configs=configs, concurrency=concurrency, temperatures=temperatures, boots=boots, repeats=boots + extra)
    ),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 3),
)


def work_of(tasks: tuple[BootTask, ...]) -> list[Repeat | PrefillRepeat]:
    return [one for task in tasks for one in (*task.prefills, *task.repeats)]


def stored(work: list[Repeat | PrefillRepeat], *, clean: bool = True, attempts: int = 1) -> tuple[Windows, Prefills]:
    windows: Windows = {}
    prefills: Prefills = {}
    for one in work:
        if isinstance(one, Repeat):
            cell = one.cell
            windows[cell.config, cell.concurrency, temperature_key(cell.temperature), one.index] = (clean, attempts)
        else:
            prefills[prefill_key(one)] = (clean, attempts)
    return windows, prefills


def left(plan: SweepPlan, work: list[Repeat | PrefillRepeat]) -> tuple[BootTask, ...]:
    windows, prefills = stored(work)
    return remaining(plan, windows=windows, prefills=prefills, failed_boots={})


@given(PLANS)
@settings(max_examples=40, deadline=None)
def test_with_nothing_stored_all_is_left(plan: SweepPlan) -> None:
    assert remaining(plan, windows={}, prefills={}, failed_boots={}) == boot_tasks(plan)


@given(PLANS)
@settings(max_examples=40, deadline=None)
def test_with_all_stored_nothing_is_left(plan: SweepPlan) -> None:
    assert left(plan, work_of(boot_tasks(plan))) == ()


@given(PLANS, st.data())
@settings(max_examples=60, deadline=None)
def test_with_any_beginning_stored_exactly_the_rest_is_left_in_the_same_order(
    plan: SweepPlan, data: st.DataObject
) -> None:
    work = work_of(boot_tasks(plan))
    done = data.draw(st.integers(0, len(work)))

    rest = left(plan, work[:done])

    assert work_of(rest) == work[done:]
    assert all(task.repeats or task.prefills for task in rest), "no boot is made for nothing"


@given(PLANS, st.data())
@settings(max_examples=60, deadline=None)
def test_with_any_part_stored_exactly_the_other_part_is_left(plan: SweepPlan, data: st.DataObject) -> None:
    work = work_of(boot_tasks(plan))
    done = data.draw(st.sets(st.integers(0, len(work) - 1)))

    rest = left(plan, [one for index, one in enumerate(work) if index in done])

    assert work_of(rest) == [one for index, one in enumerate(work) if index not in done]


@given(PLANS, st.data())
@settings(max_examples=40, deadline=None)
def test_a_sweep_over_many_nights_measures_everything_once(plan: SweepPlan, data: st.DataObject) -> None:
    done: list[Repeat | PrefillRepeat] = []
    while rest := left(plan, done):
        night = work_of(rest)
        done += night[: data.draw(st.integers(1, len(night)))]

    assert Counter(done) == Counter(work_of(boot_tasks(plan)))
    assert max(Counter(done).values()) == 1


@given(PLANS)
@settings(max_examples=40, deadline=None)
def test_the_slots_are_the_repeats_of_all_boots(plan: SweepPlan) -> None:
    assert slots(plan) == sum(len(task.repeats) for task in boot_tasks(plan))


def test_a_flagged_repeat_is_measured_again_until_its_attempts_are_used_up() -> None:
    plan = load(a_night())
    work = work_of(boot_tasks(plan))
    for attempts in range(1, plan.probe.max_attempts + 1):
        windows, prefills = stored(work, clean=False, attempts=attempts)

        rest = remaining(plan, windows=windows, prefills=prefills, failed_boots={})

        assert work_of(rest) == (work if attempts < plan.probe.max_attempts else [])


def test_a_clean_repeat_is_done_however_many_attempts_it_took() -> None:
    plan = load(a_night())
    windows, prefills = stored(work_of(boot_tasks(plan)), clean=True, attempts=99)

    assert remaining(plan, windows=windows, prefills=prefills, failed_boots={}) == ()


def test_a_config_that_can_never_boot_is_not_booted_again_in_any_round() -> None:
    plan = load(a_night(boots=2))
    hopeless = plan.configs[0].fingerprint

    rest = remaining(plan, windows={}, prefills={}, failed_boots={(hopeless, 0): ("never",)})

    assert [(task.config.name, task.boot_round) for task in rest] == [("c1", 0), ("c1", 1)]


@pytest.mark.parametrize("advice", ["same", "after_memory"])
def test_a_boot_that_may_succeed_is_tried_again_and_then_given_up_for_its_round(advice: str) -> None:
    plan = load(a_night(configs=1, boots=2))
    config = plan.configs[0].fingerprint
    rounds = []
    for failures in range(MAX_FAILED_BOOTS + 1):
        rest = remaining(plan, windows={}, prefills={}, failed_boots={(config, 0): (advice,) * failures})
        rounds.append([task.boot_round for task in rest])

    assert rounds == [[0, 1], [0, 1], [1]]


def test_raised_repeats_leave_only_the_new_ones() -> None:
    before, after = load(a_night(repeats=2)), load(a_night(repeats=4))

    rest = left(after, work_of(boot_tasks(before)))

    assert after.fingerprint == before.fingerprint
    assert {one.index for task in rest for one in task.repeats} == {2, 3}
    assert sum(len(task.repeats) for task in rest) == slots(after) - slots(before)


def test_a_temperature_has_one_spelling_with_two_decimals() -> None:
    spellings = [temperature_key(Decimal(text)) for text in ("0.7", "0.70", "1", "1.0", "0", "2.00", "0.05")]

    assert spellings == ["0.70", "0.70", "1.00", "1.00", "0.00", "2.00", "0.05"]


EXTRA = "  prefill: {tokens: [1000, 4000], repeats: 2, under_load: 3}\n  single_batch: {runs: 3}\n"


def with_extras(*, boots: int = 1) -> SweepPlan:
    return load(a_night(configs=1, boots=boots, repeats=3).replace("  prefill: {tokens: 1000, repeats: 2}\n", EXTRA))


def test_lengths_loads_and_single_batch_runs_are_left_each_by_itself() -> None:
    plan = with_extras()
    [task] = boot_tasks(plan)
    done = {prefill_key(one): (True, 1) for one in task.prefills if one.under_load == 0}
    runs = {window_key(task.single_batches[0]): (True, 1), window_key(task.single_batches[1]): (False, 3)}
    [left] = remaining(plan, windows={}, prefills=done, failed_boots={}, single_batches=runs)
    assert [(one.tokens, one.under_load) for one in left.prefills] == [(1000, 3), (1000, 3), (4000, 3), (4000, 3)]
    assert left.single_batches == task.single_batches[2:]
    assert left.repeats == task.repeats


def test_a_boot_is_made_for_a_single_batch_run_alone() -> None:
    plan = with_extras()
    [task] = boot_tasks(plan)
    windows = {window_key(one): (True, 1) for one in task.repeats}
    prefills = {prefill_key(one): (True, 1) for one in task.prefills}
    [left] = remaining(plan, windows=windows, prefills=prefills, failed_boots={}, single_batches={})
    assert (left.repeats, left.prefills, len(left.single_batches)) == ((), (), 3)


def test_a_decode_window_of_the_same_cell_is_no_single_batch_run() -> None:
    plan = with_extras()
    [task] = boot_tasks(plan)
    same = {(*window_key(one)[:1], 1, "0.00", one.index): (True, 1) for one in task.single_batches}
    [left] = remaining(plan, windows=same, prefills={}, failed_boots={})
    assert left.single_batches == task.single_batches


def test_single_batch_runs_are_dealt_out_over_the_boots() -> None:
    tasks = boot_tasks(with_extras(boots=2))
    assert [[one.index for one in task.single_batches] for task in tasks] == [[0, 2], [1]]


@given(PLANS, st.data())
@settings(max_examples=30)
def test_what_is_stored_of_no_place_of_the_plan_hides_nothing(plan: SweepPlan, data: st.DataObject) -> None:
    work = work_of(boot_tasks(plan))
    part = data.draw(st.lists(st.sampled_from(work), unique=True, max_size=len(work)))
    windows, prefills = stored(part)
    config, probe = plan.configs[0].fingerprint, plan.probe
    for index in range(40):  # other streams, another temperature, repeats that were lowered, lengths of another plan
        windows[(config, 99, "0.70", index)] = (True, 1)
        windows[(config, probe.concurrency[0], "1.99", index)] = (True, 1)
        windows[(config, probe.concurrency[0], temperature_key(probe.temperature[0]), probe.repeats + index)] = (
            True,
            1,
        )
        prefills[(config, 77, 0, index)] = (True, 1)
    found = work_of(remaining(plan, windows=windows, prefills=prefills, failed_boots={}))
    assert Counter(found) == Counter(one for one in work if one not in part)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_boots_may_be_raised_and_what_is_done_stays_done(repeats: int) -> None:
    one, three = (load(a_night(configs=2, repeats=repeats, boots=boots)) for boots in (1, min(3, repeats)))
    assert one.fingerprint == three.fingerprint
    windows, prefills = stored(work_of(boot_tasks(one)))
    left_over = work_of(remaining(three, windows=windows, prefills=prefills, failed_boots={}))
    assert all(isinstance(each, PrefillRepeat) for each in left_over)


def test_a_controls_extra_boots_are_left_until_they_are_measured_and_not_after() -> None:
    plan = load(a_night(configs=3).replace("probe:", "control: c0\nprobe:", 1))
    assert plan.control is not None
    windows, prefills = stored(work_of(boot_tasks(plan)))
    assert remaining(plan, windows=windows, prefills=prefills, failed_boots={}) == ()
    control = [key for key in windows if key[3] >= CONTROL_ROUND]
    del windows[control[0]]
    assert work_of(remaining(plan, windows=windows, prefills=prefills, failed_boots={}))[0].index == control[0][3]


class _Walked(dict[tuple[str, int], tuple[str, ...]]):
    """Failed boots that count how often they are gone through."""

    walks = 0

    def items(self) -> ItemsView[tuple[str, int], tuple[str, ...]]:
        self.walks += 1
        return super().items()


def test_what_failed_is_gone_through_as_often_for_a_hundred_failed_configs_as_for_one() -> None:
    def walks(count: int) -> int:
        plan = load(a_night(configs=count))
        failed = _Walked({(one.fingerprint, 0): ("never",) for one in plan.configs})
        named = failed_configs(plan, windows={}, prefills={}, failed_boots=failed, single_batches={})
        assert named == tuple(one.name for one in plan.configs)
        return failed.walks

    assert walks(100) == walks(1)


def test_boots_that_another_hand_stopped_are_not_counted_as_failed_and_not_made_for_ever() -> None:
    plan = load(a_night(configs=1, boots=1))
    config = plan.configs[0].fingerprint

    def booted(*advice: str) -> bool:
        return bool(remaining(plan, windows={}, prefills={}, failed_boots={(config, 0): advice}))

    stopped = ("outside",) * MAX_STOPPED_BOOTS
    assert booted(*stopped)
    assert booted(*stopped, "same")
    assert not booted("outside", "same", "same")
    assert not booted(*stopped, "outside", "outside")
    given_up = failed_configs(plan, windows={}, prefills={}, failed_boots={(config, 0): stopped}, single_batches={})
    assert given_up == ()

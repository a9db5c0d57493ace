"""Rounds are interleaved over configs; inside a boot the order is shuffled, and always the same."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.plan.order import boot_tasks
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_night


def test_every_config_has_its_first_boot_before_any_has_its_second() -> None:
    tasks = boot_tasks(load(a_night(configs=3, boots=2)))

    assert [(task.boot_round, task.config.name) for task in tasks] == [
        (0, "c0"),
        (0, "c1"),
        (0, "c2"),
        (1, "c0"),
        (1, "c1"),
        (1, "c2"),
    ]


@given(st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_repeats_are_spread_evenly_over_boots_and_none_is_lost(boots: int, extra: int) -> None:
    plan = load(a_night(boots=boots, repeats=boots + extra))
    tasks = boot_tasks(plan)

    seen = Counter((repeat.cell, repeat.index) for task in tasks for repeat in task.repeats)
    per_boot = [len({repeat.index for repeat in task.repeats}) for task in tasks]
    assert set(seen.values()) == {1}
    assert len(seen) == 2 * 4 * (boots + extra)
    assert max(per_boot) - min(per_boot) <= 1
    assert all(repeat.boot_round == task.boot_round for task in tasks for repeat in task.repeats)
    assert all(repeat.index % boots == task.boot_round for task in tasks for repeat in task.repeats)


def test_a_boot_measures_every_cell_once_before_any_a_second_time() -> None:
    (task, *_) = boot_tasks(load(a_night(concurrency=3, temperatures=3, repeats=3)))

    passes = [task.repeats[start : start + 9] for start in (0, 9, 18)]
    assert [{repeat.index for repeat in one} for one in passes] == [{0}, {1}, {2}]
    assert all(len({repeat.cell for repeat in one}) == 9 for one in passes)


def test_cells_are_shuffled_and_each_pass_and_boot_has_its_own_order() -> None:
    tasks = boot_tasks(load(a_night(configs=2, concurrency=4, temperatures=4, repeats=2)))

    orders = [
        tuple((repeat.cell.concurrency, repeat.cell.temperature) for repeat in task.repeats[start : start + 16])
        for task in tasks
        for start in (0, 16)
    ]
    assert len(set(orders)) == 4
    assert tuple(sorted(orders[0])) not in orders


def test_the_order_is_the_same_on_every_machine_and_in_every_process() -> None:
    (task, *_) = boot_tasks(load(a_night()))

    assert [(r.cell.concurrency, str(r.cell.temperature), r.index) for r in task.repeats[:4]] == EXPECTED


def test_prefills_are_numbered_through_all_boots_of_a_config() -> None:
    tasks = boot_tasks(load(a_night(configs=1, boots=3)))

    assert [[one.index for one in task.prefills] for task in tasks] == [[0, 1], [2, 3], [4, 5]]


EXPECTED = [(2, "0.10", 0), (1, "0.00", 0), (2, "0.00", 0), (1, "0.10", 0)]

"""`repeats: {mode: decide}`: read with every mistake told, and planned as an opening that the data go on from."""

from __future__ import annotations

from decimal import Decimal

import pytest

from nightsweep.plan.model import SINGLE_BATCH, SweepPlan
from nightsweep.plan.order import boot_tasks, cells_of, decision_task, slots
from nightsweep.plan.remaining import remaining, window_key
from nightsweep.plan.reuse import open_slots
from tests.unit.plan.builders import a_file, a_plan, problems_of


def a_decision(repeats: str, *more: tuple[str, str]) -> SweepPlan:
    return a_plan(("repeats: 3", f"repeats: {repeats}"), *more)


def the_problems(repeats: str, *more: tuple[str, str]) -> str:
    return "\n".join(problems_of(a_file(("repeats: 3", f"repeats: {repeats}"), *more)))


def test_without_more_all_configs_contend_with_equal_weights_and_twelve_windows_at_most() -> None:
    plan = a_decision("{mode: decide}")
    assert plan.decide is not None
    assert plan.decide.between == tuple(config.fingerprint for config in plan.configs)
    assert {weight for _, _, weight in plan.decide.weights} == {1.0}
    assert len(plan.decide.weights) == 4
    assert (plan.decide.most, plan.decide.incumbent, plan.decide.pooled) == (12, None, True)
    assert (plan.probe.repeats, plan.probe.boots, plan.probe.draws_by_repeat) == (1, 1, True)


def test_contenders_are_named_or_matched_and_kept_in_the_plans_order() -> None:
    plan = a_decision("{mode: decide, between: ['k=*', plain], max: 8, incumbent: k=4}")
    assert plan.decide is not None
    assert [plan.config(one).name for one in plan.decide.between] == ["plain", "k=4", "k=5"]
    assert plan.decide.incumbent == plan.configs[1].fingerprint
    two = a_decision("{mode: decide, between: 'k=*'}").decide
    assert two is not None
    assert len(two.between) == 2


def test_weights_multiply_and_what_is_not_named_weighs_nothing_and_is_not_measured() -> None:
    plan = a_decision("{mode: decide, objective: {concurrency: {1: 2, 4: 1}, temperature: {0.7: 3}}}")
    assert plan.decide is not None
    assert plan.decide.weights == ((1, Decimal("0.70"), 6.0), (4, Decimal("0.70"), 3.0))
    assert {cell.temperature for cell in cells_of(plan, "")} == {Decimal("0.70")}


def test_the_opening_has_every_temperature_at_the_most_streams_and_one_elsewhere() -> None:
    plan = a_decision("{mode: decide}")
    places = [(cell.concurrency, str(cell.temperature)) for cell in cells_of(plan, "")]
    assert places == [(4, "0.70"), (4, "1.00"), (1, "0.70")]
    assert [len(task.repeats) for task in boot_tasks(plan)] == [3, 3, 3]
    assert slots(plan) == 9
    assert {repeat.index for task in boot_tasks(plan) for repeat in task.repeats} == {0}


def test_draft_lengths_by_batch_size_are_not_pooled_over_concurrencies() -> None:
    scheduled = (
        "{method: dflash, model: org/draft}",
        '{method: dflash, model: org/draft, num_speculative_tokens_per_batch_size: "[[1, 4, 7]]"}',
    )
    plan = a_decision("{mode: decide}", scheduled)
    assert plan.decide is not None
    assert not plan.decide.pooled
    assert len(cells_of(plan, "")) == 4
    asked = a_decision("{mode: decide, pooled: true}", scheduled).decide
    assert asked is not None
    assert asked.pooled
    assert len(cells_of(a_decision("{mode: decide, pooled: false}"), "")) == 4


def test_what_is_asked_makes_no_other_sweep_but_what_is_drawn_does() -> None:
    one = a_decision("{mode: decide}")
    other = a_decision("{mode: decide, max: 20, incumbent: plain, objective: {concurrency: {1: 1}}}")
    assert one.fingerprint == other.fingerprint
    assert a_plan().fingerprint != one.fingerprint
    assert a_plan().probe.draws_by_repeat is False


def test_what_is_left_of_the_opening_is_found_as_of_any_plan() -> None:
    plan = a_decision("{mode: decide}", ("repeats: ", "single_batch: {runs: 1}\n  repeats: "))
    tasks = boot_tasks(plan)
    done = {window_key(repeat): (True, 1) for task in tasks for repeat in task.repeats[1:]}
    beyond = {(tasks[0].config.fingerprint, 4, "0.70", 7): (True, 1)}
    left = remaining(plan, windows={**done, **beyond}, prefills={}, failed_boots={})
    assert [task.repeats for task in left] == [task.repeats[:1] for task in tasks]
    assert all(task.single_batches for task in left)


def test_a_later_boot_measures_each_cells_first_draw_before_any_second() -> None:
    plan = a_decision("{mode: decide}")
    config = plan.configs[0]
    first, second, _ = cells_of(plan, config.fingerprint)
    task = decision_task(plan, config, 2, [(first, 3), (second, 3), (first, 4), (second, 4)])
    assert [repeat.index for repeat in task.repeats] == [3, 3, 4, 4]
    assert {repeat.boot_round for repeat in task.repeats} == {2}
    assert task == decision_task(plan, config, 2, [(first, 3), (second, 3), (first, 4), (second, 4)])


def test_contenders_take_over_no_windows_that_drew_other_prompts() -> None:
    plan = a_decision("{mode: decide, between: 'k=*'}", ("repeats: ", "single_batch: {runs: 1}\n  repeats: "))
    found = open_slots(plan, windows={}, prefills={}, single_batches={})
    decode = {place[0] for kind, place in found if kind != SINGLE_BATCH}
    assert decode == {plan.configs[0].fingerprint}
    assert {place[0] for kind, place in found if kind == SINGLE_BATCH} == {c.fingerprint for c in plan.configs}


@pytest.mark.parametrize(
    ("repeats", "words"),
    [
        ("often", 'probe.repeats: found "often"; allowed: whole numbers > 0, or {mode: decide, ...}'),
        ("{mode: decid}", 'probe.repeats.mode: found "decid"; allowed: decide. Did you mean `decide`?'),
        ("{}", "probe.repeats.mode: found nothing; allowed: a value; the key is required. Add `mode: decide`."),
        ("{mode: decide, betwen: plain}", "probe.repeats.betwen: found an unknown key"),
        ("{mode: decide, max: 1}", "probe.repeats.max: found 1; allowed: whole numbers >= 2"),
        ("{mode: decide, max: 1000}", "probe.repeats.max: found 1000; allowed: at most 100"),
        ("{mode: decide, between: [plane, 'k=*']}", 'between[0]: found "plane"'),
        ("{mode: decide, between: [plane, 'k=*']}", "Did you mean `plain`?"),
        ("{mode: decide, between: plain}", 'between: found one config ("plain"); allowed: two configs or more'),
        ("{mode: decide, between: []}", "between: found an empty list"),
        ("{mode: decide, incumbent: k=6}", 'incumbent: found "k=6"; allowed: the name of a config: plain, k=4, k=5'),
        ("{mode: decide, between: 'k=*', incumbent: plain}", "which is no contender; allowed: one of `between`"),
        ("{mode: decide, objective: {concurrency: {2: 1}}}", "a concurrency that is measured: 1, 4"),
        ("{mode: decide, objective: {concurrency: {1: -1}}}", "concurrency.1: found -1; allowed: numbers from 0"),
        ("{mode: decide, objective: {concurrency: {1: 0}}}", "found weights that are all 0; allowed: one above 0"),
        ("{mode: decide, objective: {temperature: 0.7}}", "weights such as {1: 2, 16: 1}"),
        ("{mode: decide, objective: equal}", "a mapping with the keys concurrency, temperature"),
        ("{mode: decide}\n  boots: 3", "probe.boots: found 3; allowed: 1 beside `mode: decide`"),
    ],
)
def test_what_is_wrong_with_a_decision_is_told(repeats: str, words: str) -> None:
    assert words in the_problems(repeats)


def test_every_mistake_of_a_decision_is_told_at_once() -> None:
    told = the_problems("{mode: decide, between: [plane, 'k=*'], max: 1, objective: {concurrency: {2: 1}}}")
    assert told.count("\n") == 2
    for words in ("repeats.max: found 1", 'between[0]: found "plane"', "objective.concurrency.2"):
        assert words in told


def test_what_nobody_could_measure_is_refused_by_the_most_that_may_be_asked_for() -> None:
    many = ("[4, 5]", str(list(range(1, 700))))
    told = the_problems("{mode: decide, max: 100}", many)
    assert "at most 200,000 in one sweep" in told
    assert a_decision("{mode: decide}", many).decide is not None

"""What a sweep file expects, and the box's memory bandwidth."""

from __future__ import annotations

from decimal import Decimal

import pytest

from nightsweep.plan.expect import FROM_FILE, predictions_of
from nightsweep.plan.model import Expectation
from tests.unit.plan.builders import a_file, a_plan, problems_of

TOP = "name: depth\n"


def with_expect(entry: str) -> tuple[str, str]:
    return (TOP, f"{TOP}expect: [{{{entry}}}]\n")


def test_an_expectation_is_read_with_its_range_and_its_cell() -> None:
    plan = a_plan(with_expect("config: k=5, concurrency: 4, temperature: 0.7, decode_rate: [90, 110]"))
    wanted = Expectation("k=5", "decode_rate", 90.0, 110.0, concurrency=4, temperature=Decimal("0.7"))
    assert plan.expect == (wanted,)


def test_one_entry_may_expect_several_things_and_a_null_is_no_limit() -> None:
    plan = a_plan(
        with_expect("config: plain, step_time: [500ms, null], acceptance_length: 1, ratio: 0.5, against: k=4")
    )
    assert [(one.quantity, one.low, one.high, one.against) for one in plan.expect] == [
        ("acceptance_length", 1.0, 1.0, None),
        ("step_time", 0.5, None, None),
        ("ratio", 0.5, 0.5, "k=4"),
    ]


def test_a_pattern_expects_the_same_of_every_cell_of_every_config_it_matches() -> None:
    plan = a_plan(with_expect("config: 'k=*', acceptance_length: [2.5, 4]"))
    found = predictions_of(plan.expect, plan.configs, plan.probe)
    assert len(found) == len({one.content_key for one in found}) == 2 * 2 * 2
    assert {plan.config(one.config).name for one in found} == {"k=4", "k=5"}
    assert {one.source for one in found} == {FROM_FILE}


def test_what_is_expected_makes_no_other_sweep() -> None:
    assert a_plan(with_expect("config: plain, decode_rate: 8")).fingerprint == a_plan().fingerprint


def test_the_box_may_tell_its_memory_bandwidth_beside_its_name() -> None:
    plan = a_plan((TOP, f"{TOP}box: {{name: spark-1, memory_bandwidth: 273 GB/s}}\n"))
    assert (plan.box, plan.memory_bandwidth) == ("spark-1", 273e9)
    assert a_plan((TOP, f"{TOP}box: spark-1\n")).memory_bandwidth is None


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("config: k=6, decode_rate: 30", ("expect[0].config", "Did you mean")),
        ("config: k=5, concurrency: 2, decode_rate: 30", ("expect[0].concurrency", "one that is measured: 1, 4")),
        ("config: k=5", ("nothing that is expected", "decode_rate")),
        ("config: k=5, ratio: 1.2", ("expect[0].against", "`ratio` and `against` together")),
        ("config: k=5, decode_rate: [40, 30]", ("low <= high", "Exchange")),
        ("config: k=5, ratio: 1.2, against: mtp", ("expect[0].against", "the name of a config")),
        ("config: k=5, decode_rat: 30", ("an unknown key", "decode_rate")),
    ],
)
def test_what_the_sweep_does_not_have_cannot_be_expected(entry: str, says: tuple[str, ...]) -> None:
    problems = problems_of(a_file(with_expect(entry)))
    assert len(problems) == 1, problems
    assert all(word in problems[0] for word in says), problems


def test_a_bandwidth_without_its_unit_is_refused() -> None:
    (problem,) = problems_of(a_file((TOP, f"{TOP}box: {{memory_bandwidth: 273}}\n")))
    assert "273 GB/s" in problem

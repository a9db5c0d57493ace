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


def test_what_can_be_is_taken() -> None:
    plan = a_plan(
        with_expect("config: 'k=*', acceptance_length: [2.5, 6], step_time: [0.09, 9.9]"),
        ("expect: [", "expect: [{config: k=5, step_time: [11s, null]}, {config: '*', acceptance_length: [null, 4]}, "),
    )
    assert [one.low for one in plan.expect] == [11.0, None, 2.5, 0.09]


@pytest.mark.parametrize(
    "settings",
    ["num_steps: 9", "num_speculative_tokens: 2, num_speculative_tokens_per_batch_size: [[1, 4, 7]]"],
)
def test_settings_that_do_not_tell_how_much_is_drafted_limit_nothing(settings: str) -> None:
    drafting = ("name: plain", f"name: plain\n    speculative: {{method: mtp, {settings}}}")
    (found,) = a_plan(drafting, with_expect("config: plain, acceptance_length: 8")).expect
    assert found.low == 8.0


def test_sglang_counts_the_bonus_token_among_what_is_verified() -> None:
    changes = (
        ("kind: vllm", "kind: sglang"),
        ("num_speculative_tokens}", "num_draft_tokens}"),
        ("num_speculative_tokens: [4, 5]", "num_draft_tokens: [4, 5]"),
        ("{method: dflash,", "{algorithm: DFLASH,"),
    )
    assert a_plan(*changes, with_expect("config: k=5, acceptance_length: 5")).expect
    (problem,) = problems_of(a_file(*changes, with_expect("config: k=5, acceptance_length: 5.1")))
    assert "up to 5 for k=5 (4 draft tokens and the bonus token)" in problem


def test_a_pattern_that_fits_what_it_is_held_against_expects_no_ratio_of_that() -> None:
    plan = a_plan(with_expect("config: '*', ratio: [1.2, 2], against: plain"))
    found = predictions_of(plan.expect, plan.configs, plan.probe)
    assert {plan.config(one.config).name for one in found} == {"k=4", "k=5"}


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
        ("config: k=5, decode_rate: 0", ("expect[0].decode_rate", "found 0; allowed: numbers above 0.")),
        ("config: k=5, decode_rate: [38, x]", ("expect[0].decode_rate[1]", 'found "x"; allowed: numbers above 0.')),
        ("config: k=5, step_time: 118", ("sweep.yaml:2: expect[0].step_time: found 118", "such as 118ms", "118ms?")),
        ("config: k=5, step_time: ['118', null]", ("expect[0].step_time[0]", "Did you mean 118ms?", "118s, if")),
        ("config: k=5, step_time: 10.0", ("a number of seconds below 10", "Did you mean 10.0ms?")),
        ("config: k=5, step_time: fast", ("expect[0].step_time", "such as 118ms")),
        (
            "config: k=5, acceptance_length: 6.5",
            ("expect[0].acceptance_length: found 6.5; allowed: up to 6 for k=5 (5 draft tokens and the bonus token).",),
        ),
        ("config: k=5, acceptance_length: [3.2, 39]", ("found 39; allowed: up to 6 for k=5",)),
        ("config: k=5, acceptance_length: 0.8", ("found 0.8; allowed: numbers from 1 on.",)),
        (
            "config: plain, acceptance_length: [1, 1.2]",
            ("found 1.2; allowed: up to 1 for plain (it does not speculate). Leave it out",),
        ),
        ("config: 'k=*', acceptance_length: [5.5, 6]", ("up to 5 for k=4", "Name the configs that it holds for")),
        (
            "config: k=5, ratio: 1.2, against: k=5",
            ('found "k=5", the config itself; allowed: another config.', "or leave"),
        ),
    ],
)
def test_what_the_sweep_does_not_have_cannot_be_expected(entry: str, says: tuple[str, ...]) -> None:
    problems = problems_of(a_file(with_expect(entry)))
    assert len(problems) == 1, problems
    assert all(word in problems[0] for word in says), problems


def test_a_bandwidth_without_its_unit_is_refused() -> None:
    (problem,) = problems_of(a_file((TOP, f"{TOP}box: {{memory_bandwidth: 273}}\n")))
    assert "273 GB/s" in problem

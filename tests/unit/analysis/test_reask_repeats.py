"""What a sweep that decides by itself asks again: between which configs, weighed as it was decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal

import pytest

from nightsweep.analysis.decision_said import objective_said, ruling
from nightsweep.analysis.premises import CellEvidence, Change, Evidence, Now
from nightsweep.analysis.racing import Standing
from nightsweep.analysis.reask import reask
from nightsweep.analysis.reask_repeats import weights_said
from nightsweep.analysis.rounds import DECIDED
from nightsweep.analysis.rounds import Decision as Ruled
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.sweepfile import load
from tests.unit.analysis.test_premises import a_decision

RULE = Change("config.speculative.draft_sample_method", None, "probabilistic", "a newer sweep")
DRIVER = Change("box.driver", "580", "590", "box")
NEW = " (draft_sample_method=probabilistic)"
AGAIN = [f"d k=4{NEW}", f"d k=5{NEW}"]


def a_sweep(repeats: str = "", *, cells: str = "concurrency: [1, 4]", more: str = "") -> str:
    """Return a sweep that decides by itself."""
    return f"""\
name: depth
engine: {{kind: vllm, host: process, model: org/target}}
configs:
  - name: plain
  - {{name: mtp k=3, speculative: {{method: mtp, num_speculative_tokens: 3}}}}
  - name: d k={{num_speculative_tokens}}
    speculative: {{method: dflash, model: org/draft}}
    grid: {{num_speculative_tokens: [4, 5]}}
probe:
  {cells}
  temperature: [0.7, 1.0]
  repeats: {{mode: decide{repeats}}}
{more}"""


def asked_again(
    file: str,
    *found: Change,
    at: Sequence[tuple[int, str]] = ((1, "0.7"), (1, "1.0"), (4, "0.7"), (4, "1.0")),
    fallback: str = "mtp k=3",
    among: Sequence[str] = ("d k=4", "d k=5"),
    by_now: str | None = None,
    ruled: bool = True,
    words_only: bool = False,
) -> tuple[str, SweepPlan]:
    """Return the file that asks again for `d k=5`, and its plan.

    Args:
        at: The cells that it was decided at.
        by_now: The sweep's file by now, where it was changed.
        ruled: Whether the sweep's own rule was kept with the decision.
        words_only: Whether it was kept before weights were.
    """
    plan = load(file)
    named = {config.name: config.fingerprint for config in plan.configs}
    assert plan.decide is not None
    standings = [
        Standing(plan.config(one).name, 0.01 * place, 0.01, 3.0, 0.01, False, 5, 2)
        for place, one in enumerate(plan.decide.between)
    ]
    rule = ruling(Ruled(DECIDED, 3, "", (), tuple(standings)), plan)
    if words_only:
        del rule["weights"]
    decision = a_decision(
        chosen=named["d k=5"],
        chosen_name="d k=5",
        fallback=named[fallback],
        fallback_name=fallback,
        evidence=Evidence(
            tuple(
                CellEvidence(named["d k=5"], "d k=5", streams, Decimal(degrees), (1,), 1, 28.0, 27.0, 29.0)
                for streams, degrees in at
            ),
            {named[name]: name for name in among},
            rule=json.loads(json.dumps(rule)) if ruled else None,
        ),
    )
    text = reask(decision, found, Now(), plan=load(by_now or file), file_text=by_now or file)
    return text, load(text)


def contenders(plan: SweepPlan) -> list[str]:
    assert plan.decide is not None
    return [plan.config(one).name for one in plan.decide.between]


def weights(plan: SweepPlan) -> dict[tuple[int, float], float]:
    """Return the share of each place of what is decided by."""
    assert plan.decide is not None
    total = sum(weight for _, _, weight in plan.decide.weights)
    return {(streams, float(degree)): weight / total for streams, degree, weight in plan.decide.weights}


@pytest.mark.parametrize(
    "between",
    [
        "",
        ', between: ["mtp k=3", "d k=[45]"]',
        ', between: ["mtp k=3", "d k=4", "d k=5"]',
        ', between: ["*"]',
    ],
)
def test_depth_times_the_new_rule_is_decided_however_the_contenders_were_named(between: str) -> None:
    text, plan = asked_again(a_sweep(between), RULE)
    assert contenders(plan) == [*AGAIN, "d k=5", "mtp k=3"] == [config.name for config in plan.configs]
    assert "between" not in text
    same = asked_again(a_sweep(between), DRIVER)[1]
    assert contenders(same) == ["d k=4", "d k=5", "mtp k=3"]


def test_a_config_that_did_not_contend_does_not_contend_again() -> None:
    file = a_sweep(', between: ["mtp k=3", "d k=5"]')
    text, plan = asked_again(file, RULE)
    assert contenders(plan) == [f"d k=5{NEW}", "d k=5", "mtp k=3"]
    assert f"d k=4{NEW}" in {config.name for config in plan.configs}
    plain = asked_again(a_sweep(', between: ["mtp k=3", "d k=[45]"]'), RULE, fallback="plain")[1]
    assert contenders(plain) == [*AGAIN, "d k=5"]
    assert "plain" in {config.name for config in plain.configs}
    assert "# Chosen: d k=5; fallback: mtp k=3" in text


def test_a_choice_that_did_not_contend_does_now_and_one_alone_is_held_against_all() -> None:
    file = a_sweep(', between: ["plain", "mtp k=3"]')
    assert contenders(asked_again(file, RULE)[1]) == [f"d k=5{NEW}", "d k=5", "mtp k=3"]
    alone = asked_again(a_sweep(', between: ["mtp k=3", "d k=5"]'), DRIVER, fallback="plain", among=["d k=5"])[1]
    assert contenders(alone) == ["d k=5", "plain"]


def test_a_name_that_reads_like_a_pattern_is_one_config() -> None:
    file = a_sweep(', between: ["mtp k=3", "d k={*} 5"]')
    file = file.replace("name: d k={num_speculative_tokens}", 'name: "d k={{*}} {num_speculative_tokens}"')
    plan = load(file)
    named = {config.name: config.fingerprint for config in plan.configs}
    assert "d k={*} 5" in named
    evidence = Evidence(
        (CellEvidence(named["d k={*} 5"], "d k={*} 5", 1, Decimal("0.7"), (1,), 1, 28.0, 27.0, 29.0),),
        {named[f"d k={{*}} {k}"]: f"d k={{*}} {k}" for k in (4, 5)},
    )
    decision = a_decision(chosen=named["d k={*} 5"], fallback=named["mtp k=3"], evidence=evidence)
    again = load(reask(decision, (RULE,), Now(), plan=plan, file_text=file))
    assert contenders(again) == [f"d k={{*}} 5{NEW}", "d k={*} 5", "mtp k=3"]


@pytest.mark.parametrize(
    ("incumbent", "found", "fallback", "among", "serves"),
    [
        ("mtp k=3", RULE, "mtp k=3", ("d k=4", "d k=5"), "mtp k=3"),
        ("d k=5", RULE, "mtp k=3", ("d k=4", "d k=5"), "d k=5"),  # as it was: that is what serves
        ("d k=4", RULE, "mtp k=3", ("d k=4", "d k=5"), f"d k=4{NEW}"),
        ("d k=4", DRIVER, "mtp k=3", ("d k=4", "d k=5"), "d k=4"),
        ("plain", RULE, "mtp k=3", ("d k=4", "d k=5"), None),
    ],
)
def test_the_incumbent_goes_by_its_name_in_the_new_file(
    incumbent: str, found: Change, fallback: str, among: Sequence[str], serves: str | None
) -> None:
    file = a_sweep(f", incumbent: {incumbent}, max: 7, pooled: false")
    text, plan = asked_again(file, found, fallback=fallback, among=among)
    assert plan.decide is not None
    assert (plan.decide.incumbent and plan.config(plan.decide.incumbent).name) == serves
    assert (plan.decide.most, plan.decide.pooled) == (7, False)
    assert ("# Left out: the incumbent plain, which does not contend here." in text) == (serves is None)


def test_an_incumbent_that_contends_no_more_is_left_out() -> None:
    decided = a_sweep(', between: ["mtp k=3", "d k=[45]"]')
    by_now = a_sweep(", incumbent: plain")
    _, plan = asked_again(decided, RULE, fallback="plain", by_now=by_now)
    assert plan.decide is not None
    assert plan.decide.incumbent is None
    assert contenders(plan) == [*AGAIN, "d k=5"]


COLD_AT_FOUR = ((4, "0.7"),)


@pytest.mark.parametrize(
    ("objective", "at", "shares"),
    [
        ("{concurrency: {1: 3, 4: 1}}", None, {(1, 0.7): 3 / 8, (1, 1.0): 3 / 8, (4, 0.7): 1 / 8, (4, 1.0): 1 / 8}),
        ("{concurrency: {1: 3, 4: 1}}", COLD_AT_FOUR, {(4, 0.7): 1.0}),
        ("{concurrency: {1: 3}}", COLD_AT_FOUR, {(4, 0.7): 1.0}),  # none of it is left: all alike
        ("{concurrency: {4: 2}}", None, {(4, 0.7): 0.5, (4, 1.0): 0.5}),
        ("{temperature: {1.0: 1}}", COLD_AT_FOUR, {(4, 0.7): 1.0}),
        ("{temperature: {0.7: 2, 1.0: 1}}", ((1, "0.7"), (1, "1.0")), {(1, 0.7): 2 / 3, (1, 1.0): 1 / 3}),
        (
            "{concurrency: {1: 1, 4: 2}, temperature: {0.7: 0.3, 1.0: 0.1}}",
            None,
            {(1, 0.7): 3 / 12, (1, 1.0): 1 / 12, (4, 0.7): 6 / 12, (4, 1.0): 2 / 12},
        ),
        (
            "{concurrency: {1: 1000000, 4: 0.001}}",
            None,
            {(1, 0.7): 0.5, (1, 1.0): 0.5, (4, 0.7): 5e-10, (4, 1.0): 5e-10},
        ),
    ],
)
def test_the_cells_that_are_asked_weigh_what_they_weighed(
    objective: str, at: Sequence[tuple[int, str]] | None, shares: dict[tuple[int, float], float]
) -> None:
    file = a_sweep(f", objective: {objective}")
    text, plan = asked_again(file, RULE, **({} if at is None else {"at": at}))
    assert weights(plan) == pytest.approx(shares)
    if at is not None:
        assert set(plan.probe.concurrency) == {streams for streams, _ in at}, "the fewest cells"
    assert "weighs otherwise by now" not in text


def test_numbers_of_an_objective_are_written_as_people_write_them() -> None:
    text, _ = asked_again(a_sweep(", objective: {concurrency: {1: 3, 4: 2}, temperature: {0.7: 2, 1.0: 1}}"), RULE)
    assert "      concurrency:\n        1: 3\n        4: 2\n" in text
    assert "      temperature:\n        0.7: 2\n        1.0: 1\n" in text
    assert "objective" not in asked_again(a_sweep(), RULE)[0]


@pytest.mark.parametrize(
    ("decided", "by_now", "shares"),
    [
        ("{1: 3, 4: 1}", "{4: 1}", {1: 0.75, 4: 0.25}),
        ("{4: 1}", "{1: 3, 4: 1}", {4: 1.0}),
        ("{1: 2, 4: 1}", "{1: 1}", {1: 2 / 3, 4: 1 / 3}),
        ("{1: 1, 4: 1}", "{1: 1}", {1: 0.5, 4: 0.5}),
    ],
)
def test_a_file_that_weighs_otherwise_by_now_is_asked_as_it_was_decided(
    decided: str, by_now: str, shares: dict[int, float]
) -> None:
    decided, changed = (a_sweep(f", objective: {{concurrency: {one}}}") for one in (decided, by_now))
    text, plan = asked_again(decided, RULE, by_now=changed)
    found: dict[int, float] = {}
    for (streams, _), share in weights(plan).items():
        found[streams] = found.get(streams, 0.0) + share
    assert found == pytest.approx(shares)
    assert "its sweep's file weighs otherwise by now" in text
    unruled = asked_again(decided, RULE, by_now=changed, ruled=False)[1]
    assert weights(unruled) == pytest.approx(weights(load(changed))), "a decision without a rule goes by the file"


EXACT = [
    ("{1: 0.123456789, 4: 0.987654321}", {1: 0.123456789, 4: 0.987654321}),  # 1 to 8, but for their last digits
    ("{1: 0.3333333333, 4: 0.6666666667}", {1: 0.3333333333, 4: 0.6666666667}),
    ("{1: 4567, 4: 5433}", {1: 4567, 4: 5433}),  # told as 22.8% and 27.2% at each temperature, as of 21 and 25
    ("{1: 1, 4: 9999}", {1: 1, 4: 9999}),  # told as 0.0% and 50.0%
]


@pytest.mark.parametrize(("weighed", "exactly"), EXACT)
def test_weights_that_words_have_to_a_tenth_of_a_percent_are_asked_exactly(
    weighed: str, exactly: dict[int, float]
) -> None:
    file = a_sweep(f", objective: {{concurrency: {weighed}}}", cells="concurrency: [1, 4, 8]")
    changed = a_sweep(", objective: {concurrency: {8: 1}}", cells="concurrency: [1, 4, 8]")
    for by_now in (changed, None):
        text, plan = asked_again(file, RULE, by_now=by_now)
        assert plan.decide is not None
        assert {(c, float(t)): w for c, t, w in plan.decide.weights} == {
            (c, t): w for c, w in exactly.items() for t in (0.7, 1.0)
        }
        assert ("its sweep's file weighs otherwise by now" in text) == (by_now is not None)


def test_weights_whose_products_are_more_than_a_file_may_have_are_asked_in_their_ratios() -> None:
    both = "{concurrency: {1: 999999.7, 4: 123456.7}, temperature: {0.7: 1000000, 1.0: 0.7}}"
    by_now = a_sweep(", objective: {concurrency: {4: 1}}")
    plan = asked_again(a_sweep(f", objective: {both}"), RULE, by_now=by_now)[1]
    assert weights(plan) == pytest.approx(weights(load(a_sweep(f", objective: {both}"))), rel=1e-12)


def test_a_file_whose_words_are_the_same_but_not_its_weights_weighs_otherwise() -> None:
    decided, by_now = (
        a_sweep(f", objective: {{concurrency: {one}}}") for one in ("{1: 4567, 4: 5433}", "{1: 21, 4: 25}")
    )
    assert objective_said(load(decided)) == objective_said(load(by_now))
    text, plan = asked_again(decided, RULE, by_now=by_now)
    assert weights(plan) == weights(load(decided))
    assert "its sweep's file weighs otherwise by now" in text


@pytest.mark.parametrize("by_now", ["{1: 6, 4: 2}", "{1: 0.3, 4: 0.1}", "{1: 0.75, 4: 0.25}"])
def test_a_file_with_other_numbers_in_the_same_ratios_weighs_as_it_did(by_now: str) -> None:
    decided, changed = (a_sweep(f", objective: {{concurrency: {one}}}") for one in ("{1: 3, 4: 1}", by_now))
    text, plan = asked_again(decided, RULE, by_now=changed)
    assert weights(plan) == weights(load(decided))
    assert "weighs otherwise by now" not in text


def test_a_decision_of_which_only_words_are_kept_is_asked_again_by_them() -> None:
    decided = a_sweep(", objective: {concurrency: {1: 4567, 4: 5433}}")
    text, plan = asked_again(decided, RULE, by_now=a_sweep(", objective: {concurrency: {4: 1}}"), words_only=True)
    assert weights(plan) == pytest.approx(weights(load(decided)), abs=1e-3)
    assert weights(plan)[1, 0.7] == pytest.approx(21 / 92)
    assert "its sweep's file weighs otherwise by now" in text
    text, plan = asked_again(decided, RULE, words_only=True)
    assert weights(plan) == weights(load(decided))
    assert "weighs otherwise by now" not in text


def test_a_file_that_names_other_contenders_by_now_is_asked_between_those_of_the_decision() -> None:
    decided, by_now = a_sweep(', between: ["mtp k=3", "d k=[45]"]'), a_sweep(', between: [plain, "mtp k=3"]')
    assert contenders(asked_again(decided, RULE, by_now=by_now)[1]) == [*AGAIN, "d k=5", "mtp k=3"]


@pytest.mark.parametrize(
    "objective",
    ["", ", objective: {concurrency: {1: 3, 4: 1}}", ", objective: {temperature: {1.0: 1}, concurrency: {4: 1}}"],
)
def test_an_objective_is_read_again_from_the_words_that_are_kept_of_it(objective: str) -> None:
    plan = load(a_sweep(objective))
    assert plan.decide is not None
    total = sum(weight for _, _, weight in plan.decide.weights)
    read = weights_said(objective_said(plan))
    assert read is not None
    said = sum(weight for _, _, weight in read)
    assert [(c, t, pytest.approx(w / said, abs=1e-3)) for c, t, w in read] == [
        (c, t, w / total) for c, t, w in plan.decide.weights
    ]
    assert weights_said("the best of all") is None


def test_what_the_sweep_had_besides_is_said_to_be_left_out() -> None:
    more = 'control: mtp k=3\nexpect:\n  - {config: "d k=4", decode_rate: [38, 46]}\n'
    text, plan = asked_again(a_sweep(more=more), RULE)
    assert (plan.control, plan.expect) == (None, ())
    assert "# Left out, as no part of the question: control, expect." in text
    assert contenders(plan) == [*AGAIN, "d k=5", "mtp k=3"]
    assert "no part of the question" not in asked_again(a_sweep(), RULE)[0]


def test_weights_that_no_small_numbers_have_are_their_shares() -> None:
    words = "weighted geometric mean of decode rates: c=1 T=0.7 33.4%, c=2 T=0.7 33.4%, c=4 T=0.7 33.4%"
    assert weights_said(words) == tuple((streams, Decimal("0.7"), 33.4) for streams in (1, 2, 4))

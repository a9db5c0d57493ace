"""Lines that people quoted in public, with what they state worked out by hand: nothing wrong, nothing missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.dialects import select
from nightsweep.engine.failures import classify, verdict
from nightsweep.engine.lines import lines_of
from nightsweep.engine.registry import engine_for
from nightsweep.engine.second_source import from_metrics
from nightsweep.engine.traffic import speculation_line
from nightsweep.engine.values import BootFacts
from tests.unit.engine.data import cases, evidence, samples

LOGS = cases("logs")


def value_of(facts: BootFacts, name: str) -> Any:
    if hasattr(facts, name):
        return getattr(facts, name)
    return next((fact.value for fact in facts.facts if fact.name == name), None)


@pytest.mark.parametrize("case", LOGS, ids=lambda case: case["id"])
def test_every_fact_of_a_public_log_is_found_and_none_is_invented(case: dict[str, Any]) -> None:
    facts = read(case["lines"].split("\n"), kind=case["engine"])
    assert {name: value_of(facts, name) for name in case["facts"]} == case["facts"]
    for name, values in case.get("also", {}).items():
        assert [fact.value for fact in facts.facts if fact.name == name] == values


@pytest.mark.parametrize("case", LOGS, ids=lambda case: case["id"])
def test_every_fact_stands_with_the_line_that_states_it(case: dict[str, Any]) -> None:
    for fact in read(case["lines"].split("\n"), kind=case["engine"]).facts:
        assert fact.line
        assert fact.line.split("...")[0][:60].strip() in case["lines"]


@pytest.mark.parametrize(
    "case", [case for case in LOGS if case.get("failure", "none") != "none"], ids=lambda case: case["id"]
)
def test_a_public_failure_gets_its_class_with_stage_numbers_and_advice(case: dict[str, Any]) -> None:
    failure = classify(evidence(case["lines"].split("\n"), exit_code=1))
    assert failure.kind == case["failure"]
    assert failure.lines
    assert not re.search(r"\{\w+\}", failure.remedy)
    for name in ("stage", "retry"):
        assert case.get(name, getattr(failure, name)) == getattr(failure, name)
    assert case.get("numbers", {}).items() <= failure.numbers.items()


@pytest.mark.parametrize(
    "case", [case for case in LOGS if case.get("failure", "none") == "none"], ids=lambda case: case["id"]
)
def test_a_healthy_log_with_alarming_lines_is_never_called_a_failure(case: dict[str, Any]) -> None:
    assert verdict(case["lines"].split("\n")).state != "failed"


@pytest.mark.parametrize("case", LOGS, ids=lambda case: case["id"])
@pytest.mark.parametrize(
    "prefix",
    [
        "vllm-1  | ",
        "Nov 29 15:46:02 spark vllm[123]: ",
        "2026-11-29T16:15:34.306389859Z stdout F ",
        "(ServeReplica:app:llm pid=99, ip=10.0.0.2) ",
        "> ",
        "\x1b[1;36m(x pid=7)\x1b[0;0m ",
        "    [o] ",
    ],
    ids=["compose", "journald", "cri", "ray", "quoted", "coloured", "tagged"],
)
def test_stacked_prefixes_change_no_fact(case: dict[str, Any], prefix: str) -> None:
    lines = [line for line in case["lines"].split("\n") if line]
    plain, stacked = (read(texts, kind=case["engine"]) for texts in (lines, [prefix + line for line in lines]))
    assert {name: value_of(stacked, name) for name in case["facts"]} == {
        name: value_of(plain, name) for name in case["facts"]
    }


@pytest.mark.parametrize("case", cases("metrics"), ids=lambda case: case["id"])
def test_a_public_metrics_page_gives_what_was_worked_out_by_hand(case: dict[str, Any]) -> None:
    found = samples(case["page"])
    values = select(found, engine_for(case["engine"]).dialect(case["version"]))
    assert {name: values.get(name) for name in case["values"]} == case["values"]
    budget = from_metrics(found)
    for name, value in case.get("budget", {}).items():
        assert getattr(budget, name) == value


@pytest.mark.parametrize("case", cases("speculation"), ids=lambda case: case["id"])
def test_logged_speculation_intervals_are_read_with_their_counts(case: dict[str, Any]) -> None:
    found = [interval for line in lines_of(case["lines"]) if (interval := speculation_line(line.message))]
    assert [interval.drafts for interval in found] == case["drafts"]
    assert sum(interval.accepted_tokens or 0 for interval in found) == case["accepted"]
    assert sum(interval.draft_tokens or 0 for interval in found) == case["drafted"]


def test_another_engine_is_unknown_and_nothing_is_read_from_its_lines() -> None:
    line = "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated)"
    facts = read([line])
    assert facts.engine is None
    assert facts.facts == ()


def test_of_all_open_cases_at_least_98_percent_is_found_and_nothing_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The measure of the readers over all public cases, as a table."""
    expected = found = 0
    wrong: list[str] = []
    for name, values, truth in _all_values():
        for key, value in truth.items():
            got = values.get(key)
            expected += value is not None
            found += value is not None and got == value
            wrong += [f"{name} {key}: {got!r}, not {value!r}"] if got is not None and got != value else []
    failures = [case for case in LOGS if case.get("failure", "none") not in ("none", None)]
    classes = [classify(evidence(case["lines"].split("\n"), exit_code=1)).kind for case in failures]
    unknown = sum(kind == "unknown" for kind in classes)
    misnamed = [
        f"{case['id']}: {kind}, not {case['failure']}"
        for case, kind in zip(failures, classes, strict=True)
        if kind not in (case["failure"], "unknown")
    ]
    healthy = [case for case in LOGS if case.get("failure", "none") in ("none", None)]
    accused = [case["id"] for case in healthy if verdict(case["lines"].split("\n")).state == "failed"]
    with capsys.disabled():
        print(
            f"\npublic cases: {len(LOGS)} logs, {len(cases('metrics'))} pages, {len(cases('speculation'))} speculation logs"
            f"\n  facts     {found} of {expected} found ({found / expected:.1%}), {len(wrong)} wrong"
            f"\n  failures  {len(failures)}: {len(misnamed)} misnamed, {unknown} unknown"
            f"\n  healthy   {len(healthy)}: {len(accused)} called a failure"
        )
    assert wrong == misnamed == accused == []
    assert found >= 0.98 * expected
    assert unknown <= 0.05 * len(failures)


def _all_values() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (case, what was read, what is true) of every case."""
    for case in LOGS:
        facts = read(case["lines"].split("\n"), kind=case["engine"])
        yield case["id"], {name: value_of(facts, name) for name in case["facts"]}, case["facts"]
    for case in cases("metrics"):
        found = samples(case["page"])
        budget = from_metrics(found)
        values = dict(select(found, engine_for(case["engine"]).dialect(case["version"])))
        yield case["id"], values, case["values"]
        truth = case.get("budget", {})
        yield case["id"], {name: getattr(budget, name, None) for name in truth}, truth
    for case in cases("speculation"):
        intervals = [i for line in lines_of(case["lines"]) if (i := speculation_line(line.message))]
        accepted = sum(i.accepted_tokens or 0 for i in intervals)
        drafted = sum(i.draft_tokens or 0 for i in intervals)
        truth = {name: case[name] for name in ("drafts", "accepted", "drafted")}
        yield case["id"], {"drafts": [i.drafts for i in intervals], "accepted": accepted, "drafted": drafted}, truth

"""What people see of a decision: in `plan` before it, in `status` while it goes, and in the night's summary."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from nightsweep.analysis import markdown
from nightsweep.analysis.decision_read import decision_in
from nightsweep.analysis.decision_said import decision_said, ruling
from nightsweep.analysis.evidence import Choice, Material, decide
from nightsweep.analysis.morning import Night, night_of, summary_blocks
from nightsweep.analysis.premises import Decision
from nightsweep.analysis.progress import progress_of
from nightsweep.analysis.report import report_markdown
from nightsweep.analysis.shipping import Shipped, exported
from nightsweep.analysis.sides import Documents
from nightsweep.analysis.values import BootRow, WindowRow
from nightsweep.cli.decided import decision_lines
from nightsweep.cli.status import command as status
from tests.fakes.queries import FakeQueries
from tests.unit.analysis import test_rounds
from tests.unit.analysis.builders import EVENING, a_boot, a_failed_boot, a_sweep, a_window, an_event
from tests.unit.analysis.test_rounds import CLEAR, CLOSE
from tests.unit.cli.calling import call
from tests.unit.cli.test_plan import json_of, lines_of

OBJECTIVE = "geometric mean of decode rates at 1, 4, 16 streams and T=0.7, 1.0, all alike"
NOT_MEASURED = "not measured, told by pooled acceptance: c=1 T=0.7; c=4 T=1.0"
NAMES = {config.fingerprint: config.name for config in test_rounds.a_plan().configs}


def rows_of(night: test_rounds.Night) -> tuple[list[WindowRow], list[BootRow]]:
    """Return what a database would hold of these measurements."""
    windows = [
        a_window(
            window_id=number,
            config=NAMES[one.place[0]],
            config_fingerprint=one.place[0],
            concurrency=one.place[1],
            temperature=next(c for c in (t for _, t, _ in night.plan.decide.weights) if f"{c:.2f}" == one.place[2]),  # type: ignore[union-attr]
            repeat=one.place[3],
            boot_id=one.boot_id,
            decode_rate=one.decode_rate,
            acceptance_length=one.acceptance_length,
        )
        for number, one in enumerate(night.drawn, start=1)
    ]
    seen = {one.boot_id: one.place[0] for one in night.drawn}
    boots = [a_boot(boot_id=boot, config=NAMES[of], config_fingerprint=of) for boot, of in seen.items()]
    return windows, boots


def opened(truth: dict[str, float]) -> test_rounds.Night:
    night = test_rounds.Night(test_rounds.a_plan(), truth, noise=0.2)
    for task in night.decision().left:
        night.measure(task)
    return night


def queries_of(night: test_rounds.Night, *, failed: str | None = None) -> FakeQueries:
    windows, boots = rows_of(night)
    if failed is not None:
        windows = [row for row in windows if row.config != failed]
        fingerprint = next(one for one, name in NAMES.items() if name == failed)
        boots += [a_failed_boot(boot_id=99, config=failed, config_fingerprint=fingerprint)]
    return FakeQueries(
        window_rows=windows,
        boot_rows=boots,
        sweep_rows=[a_sweep(name="which", state="running", ended=None, repeats_clean=16, repeats_planned=16)],
        plans={1: night.plan},
    )


def test_rows_give_the_decision_that_the_loop_found() -> None:
    night = opened(CLOSE)
    windows, boots = rows_of(night)
    assert decision_in(night.plan, windows=windows, boots=boots) == replace(night.decision(), begun=False)
    assert decision_in(replace(night.plan, decide=None), windows=windows, boots=boots) is None


def test_status_says_what_is_open_who_leads_and_why_the_next_windows_are_next() -> None:
    lines = call(status, "which", queries=queries_of(opened(CLOSE))).output.splitlines()
    (decision,) = [line for line in lines if line.startswith("  decision")]
    assert "undecided in round 2: 2 of 3 may still be the best" in decision
    assert "leads" in decision
    (ranked,) = [line for line in lines if line.startswith("  ranks by")]
    assert ranked == f"  ranks by {OBJECTIVE}; {NOT_MEASURED}"
    (then,) = [line for line in lines if line.startswith("  next")]
    assert "round 2: 2 of 3 configs may still be the best" in then
    assert any(line.split()[0] == "k=4" and line.endswith("behind") for line in lines if line.strip())
    left = next(line for line in lines if line.startswith("  left"))
    assert "in 2 boots" in left


def test_status_tells_programs_as_much() -> None:
    document = json.loads(call(status, "which", "--json", queries=queries_of(opened(CLOSE))).output)
    assert document["decision"]["state"] == "open"
    assert document["decision"]["objective"] == OBJECTIVE
    assert document["decision"]["weights"][0] == [1, 0.7, 1.0]
    assert document["decision"]["not_measured"] == [[1, 0.7], [4, 1.0]]
    assert set(document["decision"]["left"]) == {"k=2", "k=3"}
    assert [one["open"] for one in document["decision"]["standings"]] == [True, True, False]


def test_status_names_a_contender_that_is_out() -> None:
    output = call(status, "which", queries=queries_of(opened(CLEAR), failed="k=4")).output
    assert "k=4 is out: its engine does not come up" in output


def test_what_is_left_of_a_decision_is_its_round() -> None:
    night = opened(CLOSE)
    windows, boots = rows_of(night)
    found = {one.config: one for one in progress_of(night.plan, windows=windows, prefills=(), boots=boots)}
    assert (found["plain"].planned, found["plain"].left) == (4, 0)
    assert found["k=3"].left == sum(len(t.repeats) for t in night.decision().left if t.config.name == "k=3") > 0
    assert found["k=3"].planned == 4 + found["k=3"].left
    fresh = progress_of(night.plan, windows=(), prefills=(), boots=())
    assert [one.left for one in fresh] == [4, 4, 4, 4]


def test_the_nights_summary_has_the_decision_and_each_round_with_why() -> None:
    night = opened(CLEAR)
    night.spend()
    windows, boots = rows_of(night)
    told = an_event(at=EVENING, kind="decision_round", message="round 2 begins: k=3 and k=2 confirmed by a fresh boot")
    summary = Night(
        sweep=a_sweep(name="which"),
        span=night_of(EVENING, zone="UTC"),
        zone="UTC",
        boots=boots,
        windows=windows,
        prefills=(),
        single_batches=(),
        events=(told, told._replace(at=EVENING + timedelta(hours=1))),
        production=(),
        plan=night.plan,
        left=0,
        goes_on="",
    )
    text = markdown.document(summary_blocks(summary))
    assert "## Decision" in text
    assert decision_said(night.decision()) in text
    assert f"Ranked by: {OBJECTIVE}; {NOT_MEASURED}" in text
    assert text.count("round 2 begins: k=3 and k=2 confirmed by a fresh boot") == 1, "a later start said it again"


def test_the_report_has_the_decision_and_no_repeats_that_nobody_asked_for() -> None:
    night = opened(CLOSE)
    windows, boots = rows_of(night)
    sweep = a_sweep(name="which")
    text = report_markdown(sweep, boots=boots, windows=windows, prefills=(), plan=night.plan, software_version="1")
    assert "## Decision" in text
    assert decision_said(night.decision()) in text
    assert f"Ranked by: {OBJECTIVE}; {NOT_MEASURED}" in text
    assert "repeats where the decision between 3 configs is open" in text


def test_the_report_of_a_decided_sweep_does_not_contradict_its_decision() -> None:
    night = opened(CLEAR)
    night.spend()
    windows, boots = rows_of(night)
    text = report_markdown(
        a_sweep(name="which"), boots=boots, windows=windows, prefills=(), plan=night.plan, software_version="1"
    )
    assert "the best" in text
    assert "lone run is ahead" not in text.lower()
    caveats = text.split("## Caveats")[1]
    assert "Which config is ahead is open" not in caveats
    assert "windows went where the decision was open. It ranks configs over all its places together" in caveats


def chosen(night: test_rounds.Night, name: str, fallback: str) -> Decision:
    """Return a person's decision on a night."""
    windows, boots = rows_of(night)
    found = decision_in(night.plan, windows=windows, boots=boots)
    assert found is not None
    by_name = {config.name: config for config in night.plan.configs}
    configs = {config.fingerprint: config.document for config in night.plan.configs}
    material = Material(
        sweep=a_sweep(name="which"),
        windows=windows,
        boots=boots,
        documents=Documents({}, configs, {}),
        production={},
        container=None,
        rule=ruling(found, night.plan),
    )
    choice = Choice(by_name[name].fingerprint, by_name[fallback].fingerprint, None)
    return decide(choice, material, at=EVENING)


def test_a_persons_decision_keeps_the_rules_own_end_and_does_not_warn_of_what_the_rule_put_out() -> None:
    night = opened(CLEAR)
    night.spend()
    decision = chosen(night, "k=3", "k=2")
    rule = decision.evidence.rule
    assert rule is not None
    assert (rule["state"], rule["said"]) == ("decided", decision_said(night.decision()))
    assert [one["config"] for one in rule["standings"]] == ["k=3", "k=4", "k=2"]
    assert rule["objective"] == OBJECTIVE
    assert rule["weights"] == [[streams, degree, 1.0] for streams in (1, 4, 16) for degree in (0.7, 1.0)]
    assert decision.evidence.runner_up == next(c.fingerprint for c in night.plan.configs if c.name == "k=4")
    assert not any("not shown to be better" in one for one in decision.evidence.warnings)
    lone = [one for one in (*decision.evidence.warnings, *decision.evidence.of_runner_up) if "one run" in one]
    assert [one.split(" rest on")[0][11:] for one in lone] == [
        "the choice k=3",
        "the fallback k=2",
        "the runner-up k=4",
    ]
    assert all("the rule ranks over all its places together" in one for one in lone)
    text = exported(
        decision,
        *(Shipped(name, None, (name,), {}, {"name": name}) for name in ("k=3", "k=2")),
        form="args",
        state="standing",
    )
    assert "cells of the choice k=3 rest on" in text
    assert "k=4" not in text, "the runner-up is not shipped"
    assert not any("plain" in one for one in decision.evidence.warnings)
    lines = [line.text for line in decision_lines(decision, state="standing", changes=(), skipped=())]
    assert f"  {rule['said']}" in lines
    assert lines[lines.index(f"  objective: {OBJECTIVE}") + 1] == f"  {NOT_MEASURED}"
    by_itself = next(at for at, line in enumerate(lines) if line.startswith("  each cell by itself, which the rule"))
    assert lines[by_itself + 1].startswith("  against k=4 at ")
    assert not any(line.startswith("  against ") for line in lines[:by_itself])
    assert any(line.startswith("  k=4: the leader is ahead by ") and "(95%: " in line for line in lines)


def test_a_decision_of_before_its_places_were_kept_is_shown_as_it_is() -> None:
    night = opened(CLEAR)
    decision = chosen(night, "k=3", "k=2")
    rule = {key: value for key, value in (decision.evidence.rule or {}).items() if key != "not_measured"}
    old = replace(decision, evidence=replace(decision.evidence, rule=rule))
    lines = [line.text for line in decision_lines(old, state="standing", changes=(), skipped=())]
    assert f"  objective: {OBJECTIVE}" in lines
    assert not any("not measured" in line for line in lines)


def test_a_choice_that_the_rule_did_not_make_or_has_not_made_yet_is_warned_of_first() -> None:
    night = opened(CLEAR)
    night.spend()
    other = chosen(night, "k=4", "k=2").evidence
    assert any(
        one.startswith("the sweep's own rule did not choose it: decided after 3 rounds") for one in other.warnings
    )
    assert other.runner_up == next(c.fingerprint for c in night.plan.configs if c.name == "k=3")
    early = chosen(opened(CLOSE), "k=3", "k=2").evidence.warnings
    assert any(one.startswith("the sweep's own rule has not decided: undecided in round 2") for one in early)


def test_plan_shows_the_opening_the_most_and_the_night_as_a_range() -> None:
    lines = lines_of(test_rounds.FILE)
    (decision,) = [line for line in lines if "decision between 3 configs; k=2 serves now:" in line]
    assert " to " in decision
    assert any("the opening (16 windows) tells the winner" in line and "6 boots, 20 windows" in line for line in lines)
    (most,) = [line for line in lines if "- most: no contender falls behind before `max` (12)" in line]
    assert "37 boots, 82 windows; 220 windows if every concurrency" in most
    assert any("repeats as the decision needs" in line for line in lines)
    document = json_of(test_rounds.FILE, history={})["decision"]
    assert (document["opening_windows"], document["most_windows"], document["max"]) == (16, 220, 12)
    assert document["least"]["seconds"] < document["most"]["seconds"]


def test_plan_shows_weights_where_they_are_not_equal() -> None:
    text = test_rounds.FILE.replace(
        "max: 12", "max: 12, objective: {concurrency: {1: 3, 16: 1}, temperature: {0.7: 1}}"
    )
    assert any("- objective: c=1 T=0.70 75%, c=16 T=0.70 25%" in line for line in lines_of(text))

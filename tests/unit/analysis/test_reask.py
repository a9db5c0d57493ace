"""The sweep file that asks again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.analysis.premises import Change, Decision, Evidence, Now
from nightsweep.analysis.reask import reask
from nightsweep.errors import CannotAskAgain
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.sweepfile import load
from tests.unit.analysis.test_premises import a_decision
from tests.unit.plan.builders import a_file

FILE = a_file(
    ('"k={num_speculative_tokens}"', '"k={num_speculative_tokens}"\n    args: {max-num-seqs: 8}\n    env: {A: b}'),
    ("  repeats: 3", "  repeats: 3\n  prefill: {tokens: 2000}"),
)
AS_IT_WAS = Now()


def asked_again(
    *found: Change, now: Now = AS_IT_WAS, file: str = FILE, kind: str = "decode", **facts: Any
) -> tuple[str, SweepPlan]:
    plan = load(file)
    plain, four, five = plan.configs
    decision: Decision = a_decision(
        chosen=five.fingerprint,
        fallback=plain.fingerprint,
        evidence=Evidence(
            tuple(replace(cell, config=five.fingerprint) for cell in a_decision().evidence.cells),
            {four.fingerprint: four.name, five.fingerprint: five.name},
            kind=kind,
        ),
        **facts,
    )
    text = reask(decision, found, now, plan=plan, file_text=file)
    return text, load(text)


def test_every_value_is_asked_under_the_new_rule_and_the_choice_and_fallback_as_they_were() -> None:
    rule = Change("config.speculative.draft_sample_method", None, "probabilistic", "a newer sweep")
    text, plan = asked_again(rule)
    assert [config.name for config in plan.configs] == [
        "k=4 (draft_sample_method=probabilistic)",
        "k=5 (draft_sample_method=probabilistic)",
        "k=5",
        "plain",
    ]
    assert "# Changed: config.speculative.draft_sample_method: was absent, is probabilistic" in text
    before = load(FILE)
    assert {plan.configs[2].fingerprint, plan.configs[3].fingerprint} <= {one.fingerprint for one in before.configs}
    assert plan.configs[0].engine.env == before.configs[1].engine.env


def test_only_the_cells_that_counted_are_measured_with_the_same_probe() -> None:
    _, plan = asked_again()
    assert (plan.probe.concurrency, len(plan.probe.temperature), plan.probe.repeats) == ((1,), 1, 3)
    assert plan.probe.prefill is None
    assert plan.schedule is None


def test_single_batch_runs_are_asked_again_where_it_was_decided_on_them() -> None:
    file = FILE.replace("  prefill: {tokens: 2000}", "  prefill: {tokens: 2000}\n  single_batch: {output: 512}")
    for text, output in ((file, 512), (FILE, 256)):
        _, plan = asked_again(file=text, kind="single_batch")
        assert plan.probe.single_batch is not None
        assert plan.probe.single_batch.output == output
    assert asked_again(file=file)[1].probe.single_batch is None


def test_a_decision_on_whole_runs_is_asked_by_decode_windows_and_the_file_says_so() -> None:
    text, plan = asked_again(kind="whole_run")
    assert plan.probe.repeats == 3
    assert "# It was decided on rates over whole runs of another client; this measures decode windows" in text
    assert "whole runs" not in asked_again()[0]


def test_other_traffic_is_asked_with_the_same_configs_and_the_file_says_what_to_do_about_its_prompts() -> None:
    longer = Change("traffic.prompt_tokens", 1200.0, 2410.0, "a night")
    text, plan = asked_again(longer)
    assert [config.name for config in plan.configs] == ["k=4", "k=5", "plain"]
    assert plan.probe.prompts == load(FILE).probe.prompts
    assert "# Changed: traffic.prompt_tokens: was 1200.0, is 2410.0 (a night)" in text
    assert "put a JSONL file of prompts of about 2,410 tokens at `prompts`," in text
    assert "sampling.max_tokens" not in text
    assert "NOT ASKED HERE" not in text
    text, _ = asked_again(longer, Change("traffic.generation_tokens", 300.0, 900.0, "a night"))
    assert "that give answers of about 900 tokens" in text
    assert "stands for production's traffic" not in asked_again(Change("box.driver", "580", "590", "box"))[0]


def test_without_anything_to_set_the_same_configs_are_asked_once() -> None:
    _, plan = asked_again(Change("box.driver", "580", "590", "box"))
    assert [config.name for config in plan.configs] == ["k=4", "k=5", "plain"]


def test_what_was_accepted_is_said_and_not_asked() -> None:
    rule = Change("config.speculative.draft_sample_method", None, "probabilistic", "a newer sweep", "depth is the same")
    driver = Change("box.driver", "580", "590", "box")
    text, plan = asked_again(rule)
    assert [config.name for config in plan.configs] == ["k=4", "k=5", "plain"]
    assert "# Nothing has changed that was not accepted: this repeats the evidence." in text
    assert f"# Accepted, so not asked here: {rule.words}: depth is the same" in text
    text, _ = asked_again(rule, driver)
    assert "Nothing has changed" not in text
    assert f"# Changed: {driver.words}" in text
    assert "# Accepted, so not asked here: config.speculative.draft_sample_method" in text
    assert "# Nothing has changed: this repeats the evidence." in asked_again()[0]


def test_a_new_engine_version_is_asked_with_the_newest_boots_image() -> None:
    version = Change("engine_version", "0.28.0", "0.29.0", "boot 9")
    text, plan = asked_again(version, now=Now(image="vllm/vllm-openai:v0.29.0"))
    assert {config.engine.image for config in plan.configs} == {"vllm/vllm-openai:v0.29.0"}
    assert "# As it was but for the image, which is vllm/vllm-openai:v0.29.0 now: plain." in text


def test_a_new_image_is_asked_also_of_configs_that_had_one_of_their_own() -> None:
    own = '    args: {max-num-seqs: 8}\n    image: "vllm/vllm-openai:v0.27.1"'
    image = Change("config.image", "vllm/vllm-openai:v0.27.1", "vllm/vllm-openai:v0.29.0", "boot 9")
    file = FILE.replace("    args: {max-num-seqs: 8}", own)
    text, plan = asked_again(image, now=Now(image="vllm/vllm-openai:v0.29.0"), file=file)
    assert "# As it was but for the image, which is vllm/vllm-openai:v0.29.0 now: plain." in text  # "k=5" keeps its own
    assert [(config.name, config.engine.image) for config in plan.configs] == [
        ("k=4 (image=vllm/vllm-openai:v0.29.0)", "vllm/vllm-openai:v0.29.0"),
        ("k=5 (image=vllm/vllm-openai:v0.29.0)", "vllm/vllm-openai:v0.29.0"),
        ("k=5", "vllm/vllm-openai:v0.27.1"),
        ("plain", "vllm/vllm-openai:v0.29.0"),
    ]


PROCESS = a_file(("  host: docker\n  image: vllm/vllm-openai:v0.28.0\n", "  host: process\n"))
SHIPPED = Change("production.image", "vllm/vllm-openai:v0.28.0", "vllm/vllm-openai:v0.29.0", "container vllm-qwen")


def test_an_image_is_no_setting_of_a_process_and_is_said_not_to_be_asked() -> None:
    rule = Change("config.speculative.draft_sample_method", None, "probabilistic", "a newer sweep")
    version = Change("engine_version", "0.28.0", "0.29.0", "boot 9")
    now = Now(image="vllm/vllm-openai:v0.29.0")
    for found in ((rule, SHIPPED), (rule, version)):
        text, plan = asked_again(*found, now=now, file=PROCESS)
        assert {(config.engine.host, config.engine.image) for config in plan.configs} == {("process", None)}
        assert f"# NOT ASKED HERE: {found[1].words}, and its sweep starts a process" in text
        assert [config.name for config in plan.configs][-2:] == ["k=5", "plain"]


def test_where_nothing_that_changed_can_be_asked_no_file_is_written() -> None:
    for file, change in (
        (PROCESS, SHIPPED),
        (FILE, Change("production.model", "org/target", "org/other", "container vllm-qwen")),
        (FILE, Change("production.args.port", None, 8001, "container vllm-qwen")),
    ):
        with pytest.raises(CannotAskAgain, match="by hand") as raised:
            asked_again(change, file=file)
        assert ".yaml" not in str(raised.value)


DEPTH_OF_PRODUCTION = Change("production.speculative.num_speculative_tokens", 3, 4, "container vllm-qwen")
ITS_DRAFTER = Change("production.speculative.method", "mtp", "eagle3", "container vllm-qwen")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (DEPTH_OF_PRODUCTION, "which the question itself is among"),
        (ITS_DRAFTER, "and production drafts otherwise than what was chosen"),
        (replace(ITS_DRAFTER, new=None), "and production drafts otherwise than what was chosen"),
    ],
)
def test_a_setting_of_productions_drafter_does_not_level_what_the_question_is_among(change: Change, why: str) -> None:
    rule = Change("config.speculative.draft_sample_method", None, "probabilistic", "a newer sweep")
    drafter = {} if change.new is None else {"speculative.method": str(change.new)}
    now = Now(production=drafter if change is not DEPTH_OF_PRODUCTION else {"speculative.method": "dflash"})
    text, plan = asked_again(rule, change, now=now)
    assert [config.speculative and config.speculative["num_speculative_tokens"] for config in plan.configs] == [
        *(4, 5),
        *(5, None),
    ]
    assert {config.speculative["method"] for config in plan.configs if config.speculative} == {"dflash"}
    assert f"# NOT ASKED HERE: {change.words}, {why}." in text
    with pytest.raises(CannotAskAgain, match=why):
        asked_again(change, now=now)


def test_a_setting_of_production_that_drafts_as_what_was_chosen_is_taken_over() -> None:
    block = Change("production.speculative.rejection_sample_method", None, "block", "container vllm-qwen")
    _, plan = asked_again(block, now=Now(production={"speculative.method": "dflash"}))
    assert [config.name for config in plan.configs][:2] == [
        "k=4 (rejection_sample_method=block)",
        "k=5 (rejection_sample_method=block)",
    ]


def test_an_image_that_production_ships_is_asked_in_containers() -> None:
    text, plan = asked_again(SHIPPED)
    assert {config.engine.image for config in plan.configs} == {"vllm/vllm-openai:v0.29.0"}
    assert "NOT ASKED" not in text


def test_a_setting_that_is_gone_by_now_is_taken_out() -> None:
    _, plan = asked_again(Change("production.args.max-num-seqs", 8, None, "container"))
    assert "max-num-seqs" not in plan.configs[0].engine.args


def test_a_config_that_its_file_has_no_more_is_told() -> None:
    with pytest.raises(CannotAskAgain, match="any more"):
        reask(a_decision(), (), Now(), plan=load(FILE), file_text=FILE)


def test_a_text_that_looks_like_a_number_stays_one() -> None:
    text = a_file(("args: {max-model-len: 8192}", "args: {max-model-len: 8192, rope: '1e3'}"))
    plan = load(text)
    plain, four, five = plan.configs
    cells = tuple(replace(cell, config=five.fingerprint) for cell in a_decision().evidence.cells)
    evidence = Evidence(cells, {four.fingerprint: four.name, five.fingerprint: five.name})
    decision = a_decision(chosen=five.fingerprint, fallback=plain.fingerprint, evidence=evidence)
    again = load(reask(decision, (), Now(), plan=plan, file_text=text))
    assert five.fingerprint in {config.fingerprint for config in again.configs}

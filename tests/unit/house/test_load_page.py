"""What the page on the load shows is what the product does: each of its samples goes through the product's own code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.errors import InvalidPlan
from nightsweep.measurement.requests import LEAST_DIFFERENCE, SIGMAS, positions_of
from nightsweep.plan import yamltree
from nightsweep.plan.model import ProbeSpec, SamplingSpec, SweepPlan
from nightsweep.plan.sweepfile import load
from nightsweep.ports import Target
from nightsweep.probe.acceptance import acceptance_of
from nightsweep.probe.bodies import sampling_of, streaming_body
from nightsweep.probe.prompts import (
    BUNDLED,
    RANDOM_HIGHEST,
    RANDOM_LENGTH,
    RANDOM_LOWEST,
    load_prompts,
    parse_prompts,
    too_few,
)
from nightsweep.probe.window import Patience
from nightsweep.sweep.coming_up import SAID_EVERY

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "load.md").read_text(encoding="utf-8")
RECORDED = ROOT / "tests" / "data" / "sse" / "vllm-0.32.0-per-request-acceptance.txt"
WRONG = '{"promt": "x"}\n{"messages": []}\nhello\n{"prompt": " "}\n'


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table whose head begins so."""
    table = PAGE.split(f"| {head} |", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip().strip("`") for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


def plan_with(text: str) -> SweepPlan:
    """Return the plan of a file that has the page's sections, and the least of the others."""
    value = yamltree.read(text).value
    engine = {"kind": "vllm", "host": "process", "model": "m", **value.pop("engine", {})}
    rest = {"name": "page", "engine": engine, "configs": [{"name": "a"}]}
    return load(yamltree.write({"probe": {"concurrency": [1], "temperature": [0.7]}, **rest, **value}))


def test_every_sample_is_looked_at() -> None:
    found = {language: len(blocks(language)) for language in ("yaml", "jsonl", "text", "json")}
    assert found == {"yaml": 3, "jsonl": 1, "text": 2, "json": 2}
    assert PAGE.count("```") == 2 * sum(found.values())


@pytest.mark.parametrize("text", blocks("yaml"))
def test_a_section_of_a_sweep_file_is_taken_without_a_word(text: str) -> None:
    assert plan_with(text).warnings == ()


def test_the_first_sample_shows_the_defaults() -> None:
    probe = plan_with(blocks("yaml")[0]).probe
    plain = ProbeSpec(concurrency=(1,), temperature=())
    assert (probe.prompts, probe.prompt_seed, probe.api) == (plain.prompts, plain.prompt_seed, plain.api)


def test_the_bundled_sets_are_as_the_table_has_them() -> None:
    table = rows("set")
    assert [row[0] for row in table] == list(BUNDLED)
    assert [int(row[1]) for row in table] == [len(load_prompts(name).prompts) for name in BUNDLED]
    assert table[3][2].startswith(
        f"{RANDOM_LENGTH} random token ids each, drawn from {RANDOM_LOWEST} to {RANDOM_HIGHEST - 1}"
    )


def test_the_file_of_prompts_is_read_and_a_wrong_one_is_told_as_shown() -> None:
    text, messages = parse_prompts(blocks("jsonl")[0], source="mine.jsonl")
    assert isinstance(text, str)
    assert [message["role"] for message in messages] == ["system", "user"]
    with pytest.raises(InvalidPlan) as raised:
        parse_prompts(WRONG, source="mine.jsonl")
    assert list(raised.value.facts["problems"]) == blocks("text")[0].splitlines()


def test_one_prompt_for_many_streams_is_warned_of_as_shown() -> None:
    assert blocks("text")[1].strip() == too_few(["the only one"], streams=16)


def test_the_table_of_sampling_is_what_is_sent() -> None:
    sent = sampling_of(SamplingSpec(), temperature=0.7)
    table = {key: default for key, default, _ in rows("key")}
    assert {key: json.loads(value) for key, value in table.items() if value != "not sent"} == {
        key: value for key, value in sent.items() if key != "temperature"
    }
    asked = sampling_of(SamplingSpec(ignore_eos=True, min_tokens=1, seed=7), temperature=0.7)
    assert {key for key, value in table.items() if value == "not sent"} == set(asked) - set(sent)


def test_the_request_is_the_one_that_is_sent() -> None:
    target = Target("http://e", "http://e", "qwen3.8-27b", vllm_dialect("0.32.0"))
    prompt = parse_prompts(blocks("jsonl")[0], source="mine.jsonl")[0]
    body = streaming_body(target, prompt, sampling=sampling_of(SamplingSpec(), temperature=0.7), continuous=True)
    assert json.loads(blocks("json")[0]) == json.loads(body)


def test_the_acceptance_of_a_request_is_the_recorded_one_and_is_read() -> None:
    shown = json.loads(blocks("json")[1])
    last = RECORDED.read_text(encoding="utf-8").split("data: ")[-2]
    assert json.loads(last)["metrics"] == shown["metrics"]
    told = acceptance_of(shown)
    assert told is not None
    assert (told.length, told.drafts, told.accepted_tokens, told.draft_tokens) == (2.875, 8, 15, 24)
    assert positions_of(told) == pytest.approx((0.75, 0.75, 0.375))


def test_the_limits_that_are_named_are_those_of_the_code() -> None:
    assert "more than four standard errors" in PAGE
    assert SIGMAS == 4.0
    assert f"by more than {LEAST_DIFFERENCE:.0%}" in PAGE
    assert f"say every {SAID_EVERY:g} s how many have" in PAGE
    assert f"is not idle {Patience().idle:g} s later" in PAGE

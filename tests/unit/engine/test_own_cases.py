"""Logs written by hand in the wordings of releases and carriers: every fact found, every failure told with its advice."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.failures import classify, verdict
from nightsweep.engine.redact import HIDDEN
from nightsweep.engine.second_source import budgets
from tests.unit.engine.data import cases, evidence
from tests.unit.engine.test_public_cases import value_of

CASES = cases("own/wordings")
FAILED = {case["id"]: case for case in CASES if "failure" in case}
KV = "Available KV cache memory: 5.98 GiB"

CUT_HEADERS = [
    "[gpu_worker.py:508] ",
    "gpu_worker.py:508] ",
    "INFO: ",
    "INFO ",
    "[INFO] ",
    "- ",
    "* ",
    "10:02:01 ",
    "INFO 13:12:11 [gpu_worker.py:508] ",
    "INFO 02-17 13:12:11 gpu_worker.py:508 ",
    "13:12:11 INFO ",
    "2026-02-17 13:12:11 ",
    "2026/02/17 13:12:11 ",
    "INFO 02-17 13:12:11 ",
    "(EngineCore_DP0 pid=12) INFO ",
    "(EngineCore_DP0) ",
    "pid=107) ",
    "EngineCore: ",
    "| ",
    "│ ",
    "» ",
    "0: ",
    "12:",
    "node01: ",
    "[1,0]<stdout>: ",
    "vllm-1  | INFO ",
    "2026-02-17T13:12:11 ",
    "2026-02-17T13:12:11.123456 ",
    "Feb 17 13:12:11 host vllm[1]: INFO 02-17 13:12:11 ",
    "2026-02-17 13:12:11,123 INFO [gpu_worker.py:508] ",
    "2026-02-17 13:12:11 INFO gpu_worker.py:508: ",
    "[2026-02-17 13:12:11,123][INFO] ",
    "I0217 13:12:11.1 ",
    "`",
    "```",
    "**",
    "1. ",
    "\ufeff",
    "\u200b",
]

SAID_BY_PEOPLE = [
    f"I think that {KV} is too little",
    f"before the change it said {KV}",
    f"Result: {KV}?",
    f"we saw - {KV}",
    f'print("{KV}")',
    f"see gpu_worker.py:508 where it logs {KV}",
    f"at 10:02:01 it told me {KV}",
    f"INFO for everybody: {KV}",
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
@pytest.mark.parametrize("known", [True, False], ids=["engine known", "engine unknown"])
def test_every_fact_of_an_own_log_is_found(case: dict[str, Any], known: bool) -> None:
    wanted = case.get("facts", {})
    facts = read(case["lines"].split("\n"), kind=case["engine"] if known else None)
    assert {name: value_of(facts, name) for name in wanted} == wanted


@pytest.mark.parametrize("case", FAILED.values(), ids=lambda case: case["id"])
@pytest.mark.parametrize("exit_code", [0, 1])
def test_every_failure_of_an_own_log_is_told(case: dict[str, Any], exit_code: int) -> None:
    failure = classify(evidence(case["lines"].split("\n"), exit_code=exit_code))
    assert failure.kind == case["failure"]
    assert case.get("stage", failure.stage) == failure.stage
    assert HIDDEN not in failure.remedy


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_verdict_on_an_own_log_is_right(case: dict[str, Any]) -> None:
    state = verdict(case["lines"].split("\n")).state
    assert state == case.get("verdict", state)
    assert (state == "failed") == ("failure" in case)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "kv-too-small-wrapped",
            "needs 16.0 GiB of KV cache for 131,072 tokens, has 9.31: lower max-model-len to 76,256",
        ),
        ("oom-sampler", "lower max-num-seqs"),
        ("nvidia-cli", "a driver for CUDA 13.0 or newer"),
        ("gated", "(engine.env: HF_TOKEN: {from_env: HF_TOKEN})"),
        ("sglang-graph-oom", "lower --mem-fraction-static"),
        ("dmesg-oom", "the kernel's OOM killer ended it (VLLM::Worker)"),
        ("tied-heads", "divisible by tensor parallel size (3): choose another"),
        ("keyerror-mtp", "(KeyError: 'model.layers.0.mlp.experts.w13_weight_scale')"),
        ("trust-remote", "trust-remote-code"),
        ("sigsegv", "segmentation fault"),
    ],
)
def test_a_remedy_names_what_to_change(name: str, words: str) -> None:
    failure = classify(evidence(FAILED[name]["lines"].split("\n"), exit_code=1))
    assert words in failure.remedy


def test_a_driver_that_the_host_found_too_old_is_told_from_the_hosts_words() -> None:
    failure = classify(evidence(launch_error=FAILED["nvidia-cli"]["lines"]))
    assert (failure.kind, failure.stage) == ("cuda_init_failed", "launch")
    assert "driver for CUDA 13.0" in failure.remedy


def test_a_secret_in_a_remedy_is_hidden_and_our_own_words_stay() -> None:
    said = "vllm serve: error: argument --x: invalid value, api_key=sk-123 was given"
    failure = classify(evidence([said], exit_code=2))
    assert "sk-123" not in failure.remedy
    assert "mend args" in failure.remedy


@pytest.mark.parametrize("header", CUT_HEADERS, ids=repr)
def test_a_cut_header_hides_no_fact(header: str) -> None:
    assert read([header + KV], kind="vllm").kv_cache == 5.98


@pytest.mark.parametrize("text", SAID_BY_PEOPLE, ids=str)
def test_what_a_person_says_about_a_fact_is_none(text: str) -> None:
    assert read([text], kind="vllm").facts == ()


def test_of_several_engines_the_first_by_number_tells_the_kv_budget() -> None:
    page = "".join(
        f'vllm:cache_config_info{{block_size="16",engine="{engine}",kv_cache_size_tokens="{tokens}"}} 1.0\n'
        for engine, tokens in ((10, 11), (2, 813427))
    )
    assert [budget.tokens for budget in budgets(page, {})] == [813427]


def test_an_alarm_of_a_library_that_only_tried_is_taken_back_when_the_boot_goes_on() -> None:
    tried = "E0711 08:02:40.123 runtime.cc:1] cudaErrorMemoryAllocation while it was tried"
    went_on = "(EngineCore pid=55) INFO 07-11 08:02:44 [x.py:1] Graph capturing finished in 2 secs, took 0.10 GiB"
    assert verdict([tried]).state == "failed"
    assert verdict([tried, went_on]).state == "unknown"
    raised = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    assert verdict([raised, went_on]).state == "failed"

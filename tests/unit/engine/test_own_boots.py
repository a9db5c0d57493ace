"""Several boots in one log, drafts that are none, and ends that no known cause tells."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.failures import classify, verdict
from tests.unit.engine.data import cases, evidence
from tests.unit.engine.test_public_cases import value_of

LOGS = cases("own/boots")
FAILED = [case for case in LOGS if "failure" in case]

CORE = "(EngineCore pid=34) "
STALL = "No available shared memory broadcast block found in 60 seconds."
READY = "(APIServer pid=1) INFO:     Application startup complete."
BANNER = "(APIServer pid=1) INFO 08-01 10:00:01 [api_utils.py:300]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.27.1"
SMALL = (
    "(EngineCore pid=91) ERROR 08-01 11:03:32 [core.py:1100] ValueError: To serve at least one request with the model's max seq "
    "len (262144), (4.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.1 GiB)."
)


def stall(minute: int, *, writer: str = CORE) -> str:
    return f"{writer}INFO 08-21 10:{minute:02d}:30 [shm_broadcast.py:500] {STALL}"


@pytest.mark.parametrize("kind", ["its own", None], ids=["told", "found"])
@pytest.mark.parametrize("case", LOGS, ids=lambda case: case["id"])
def test_facts_are_of_the_last_boot_and_no_draft_is_invented(case: dict[str, Any], kind: str | None) -> None:
    facts = read(case["lines"].split("\n"), kind=case["engine"] if kind else None)
    wanted = case.get("facts", {})
    assert {name: value_of(facts, name) for name in wanted} == wanted
    for name, values in case.get("also", {}).items():
        assert [fact.value for fact in facts.facts if fact.name == name] == values


@pytest.mark.parametrize("case", FAILED, ids=lambda case: case["id"])
def test_class_and_stage_are_of_the_last_boot_whatever_the_exit_code(case: dict[str, Any]) -> None:
    right = case["failure"] if isinstance(case["failure"], list) else [case["failure"]]
    for code in case.get("exit_codes", [1, 0]):
        failure = classify(evidence(case["lines"].split("\n"), exit_code=code))
        assert failure.kind in right, code
        assert failure.stage == case.get("stage", failure.stage)
        assert failure.retry == case.get("retry", failure.retry)


@pytest.mark.parametrize("case", [case for case in LOGS if "verdict" in case], ids=lambda case: case["id"])
def test_the_verdict_is_on_the_last_boot(case: dict[str, Any]) -> None:
    told = verdict(case["lines"].split("\n"))
    assert told.state == case["verdict"]
    if told.failure is not None:
        right = case["failure"] if isinstance(case["failure"], list) else [case["failure"]]
        assert told.failure.kind in right


def test_an_unknown_exception_leads_the_evidence_and_the_remedy_does_not_deny_it() -> None:
    case = next(case for case in LOGS if case["id"] == "unknown-after-failed-to-start")
    failure = classify(evidence(case["lines"].split("\n"), exit_code=1))
    assert "IndexError: list index out of range" in failure.lines[0]
    assert "no line tells why" not in failure.remedy


# --- stalls -------------------------------------------------------------------------------------------------------


def test_one_wait_that_every_rank_tells_is_one_wait() -> None:
    waits = [stall(1, writer=f"(Worker_TP{rank} pid={90 + rank}) ") for rank in range(8)]
    assert verdict([READY, *waits]).state == "healthy"


def test_waits_far_apart_are_no_stall() -> None:
    assert verdict([READY, *(stall(minute) for minute in (1, 11, 21, 31, 41))]).state == "healthy"


def test_a_stall_that_passed_is_no_failure() -> None:
    report = (
        "(APIServer pid=1) INFO 08-21 10:09:30 [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
    )
    waits = [stall(minute) for minute in range(1, 6)]
    assert verdict([READY, *waits, report + "generation throughput: 41.2 tokens/s, Running: 1 reqs"]).state == "healthy"
    assert verdict([READY, *waits, report + "generation throughput: 0.0 tokens/s, Running: 1 reqs"]).state == "failed"


def test_a_long_compilation_that_makes_processes_wait_is_progress_once_it_is_over() -> None:
    done = CORE + "INFO 08-21 10:09:30 [kv_cache_utils.py:2033] Available KV cache memory: 5.98 GiB"
    assert verdict([*(stall(minute) for minute in range(1, 9)), done]).state == "unknown"


# --- boots --------------------------------------------------------------------------------------------------------


def test_another_containers_restart_is_no_boot_of_the_engine() -> None:
    log = ["vllm-1  | " + READY, "otel-1  | up", "otel-1 exited with code 1", "otel-1  | up again"]
    assert verdict(log).state == "healthy"
    assert verdict([*log, "vllm-1 exited with code 0", "vllm-1  | starting"]).state == "unknown"


def test_a_crash_loop_that_ends_early_in_the_next_boot_has_the_cause_of_the_one_before() -> None:
    log = [BANNER, SMALL, BANNER]
    assert verdict(log).state == "unknown"
    assert classify(evidence(log, exit_code=1)).kind == "kv_too_small"


def test_a_boot_that_failed_leaves_no_arguments_to_the_next() -> None:
    line = "(APIServer pid=1) INFO 08-01 10:00:02 [api_utils.py:273] non-default args: {'max_model_len': %d}"
    facts = read([BANNER, line % 1, BANNER, line % 2], kind="vllm")
    assert facts.non_default_args == {"max_model_len": 2}


def test_the_stages_of_a_second_boot_do_not_hold_the_time_of_the_first() -> None:
    load = "(EngineCore pid=90) INFO 08-01 10:01:30 [gpu_model_runner.py:5100] Model loading took 18.4 GiB memory and 9.1 seconds"
    start = "(EngineCore pid=90) INFO 08-01 10:00:30 [core.py:114] Initializing a V1 LLM engine (v0.27.1) with config: model='m'"
    boot = [(0.0, BANNER), (5.0, start), (50.0, load)]
    log = [f"{at + begin:8.3f} {line}" for begin in (100.0, 900.0) for at, line in boot]
    assert read(log, kind="vllm").stages == {"load": 45.0}


# --- exceptions ---------------------------------------------------------------------------------------------------


def test_an_exception_that_the_engine_lived_on_after_is_no_end() -> None:
    caught = CORE + "ERROR 05-20 10:00:02 [core.py:1001] ZeroDivisionError: division by zero"
    after = [CORE + f"INFO 05-20 10:00:{at:02d} [core.py:1] still here" for at in range(3, 33)]
    assert verdict([caught, *after]).state == "unknown"


def test_an_exception_before_the_next_stage_neither_ends_the_boot_nor_explains_its_kill() -> None:
    log = [
        "ZeroDivisionError: division by zero",
        CORE + "INFO 05-20 10:00:09 [default_loader.py:489] Loading weights took 1.0 seconds",
    ]
    assert verdict(log).state == "unknown"
    assert classify(evidence(log, exit_code=137)).kind == "killed"


def test_the_last_of_very_many_exceptions_still_ends_the_boot() -> None:
    line = CORE + "ERROR 05-20 10:00:02 [core.py:1001] ZeroDivisionError: division by zero"
    assert verdict([line] * 300).state == "failed"


def test_a_killed_engine_whose_request_had_failed_long_before_was_killed() -> None:
    request = "(APIServer pid=1) ERROR 05-20 10:00:02 [serving.py:1001] ValueError: logprobs must be positive"
    assert classify(evidence([READY, request], exit_code=137, ready=True)).kind == "killed"


# --- drafts -------------------------------------------------------------------------------------------------------


def test_a_draft_of_the_targets_own_type_is_known_by_the_arguments() -> None:
    log = [
        "[2026-05-20 10:00:00] server_args=ServerArgs(model_path='/m', tp_size=1, speculative_algorithm='STANDALONE')",
        "[2026-05-20 10:00:20] Load weight end. elapsed=19.20 s, type=Qwen3ForCausalLM, avail mem=15.10 GB, mem usage=15.33 GB.",
        "[2026-05-20 10:00:21] KV Cache is allocated. #tokens: 55285, K size: 3.80 GB, V size: 3.80 GB",
        "[2026-05-20 10:00:25] Load weight end. elapsed=1.20 s, type=Qwen3ForCausalLM, avail mem=7.10 GB, mem usage=1.20 GB.",
        "[2026-05-20 10:00:26] KV Cache is allocated. #tokens: 55285, K size: 1.80 GB, V size: 1.80 GB",
    ]
    facts = read(log, kind="sglang")
    assert (facts.weights, facts.draft_weights, facts.kv_cache) == (15.33, 1.2, 7.6)
    assert value_of(facts, "draft_kv_cache") == 3.6


def test_v0_reads_its_draft_in_the_same_process_under_another_name() -> None:
    head = "INFO 04-12 08:20:40 [model_runner.py:1110] "
    log = [
        "INFO 04-12 08:20:30 [llm_engine.py:240] Initializing a V0 LLM engine (v0.8.4) with config: model='/m', "
        "speculative_config=SpeculativeConfig(method='draft_model', model='/d', num_spec_tokens=5)",
        head + "Starting to load model /m...",
        "INFO 04-12 08:21:01 [loader.py:447] Loading weights took 19.44 seconds",
        head + "Starting to load model /d...",
        "INFO 04-12 08:21:09 [loader.py:447] Loading weights took 1.44 seconds",
    ]
    facts = read(log, kind="vllm")
    assert value_of(facts, "weights_read_seconds") == 19.44
    assert value_of(facts, "draft_weights_read_seconds") == 1.44

"""Recorded boots and failures of both engines, by release: every fact that the release states."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.failures import classify, verdict
from tests.unit.engine.data import evidence, lines_of_file, names

MTP = {
    "weights_seconds": 30.511223,
    "kv_cache": 36.0,
    "kv_tokens": 1014892,
    "max_concurrency": 3.87,
    "max_concurrency_tokens": 262144,
    "compile_seconds": 22.1,
    "graph_capture_seconds": 25.0,
    "init_seconds": 57.0,
}

BOOTS: dict[str, dict[str, Any]] = {
    "vllm-0.6.6.post1-v0.log": {
        "engine_version": "0.6.6.post1",
        "weights": 14.9889,
        "kv_cache": 54.95,
        "kv_tokens": None,  # V0 states blocks
        "max_concurrency": 54.95,
        "max_concurrency_tokens": 8192,
        "graph_capture_seconds": 15.0,
        "init_seconds": 19.4,
        "attention_backend": "Flash Attention",
        "model_runner": None,
    },
    "vllm-0.8.5.post1-v1-tp2-eagle.log": {
        "engine_version": "0.8.5.post1",
        "weights": 8.1234,
        "weights_seconds": 21.123456,
        "kv_tokens": 838848,
        "max_concurrency": 25.6,
        "compile_seconds": 31.2,
        "graph_capture_seconds": 26.0,
        "init_seconds": 67.0,
        "model_runner": "V1",
    },
    "vllm-0.11.0-v1-ansi.log": {**MTP, "weights": 21.9705, "attention_backend": "Flash Attention"},
    "vllm-0.13.0-v1.log": {**MTP, "weights": 21.9705, "attention_backend": "FLASH_ATTN"},
    "vllm-0.14.1-v1.log": {**MTP, "weights": 21.97},
    "vllm-0.17.1-v1-notty.log": {**MTP, "weights": 21.97},
    "vllm-0.20.2-v1-notty.log": {**MTP, "quantization_kernel": "CutlassNvFp4LinearKernel"},
    "vllm-0.24.0-v1-notty.log": {**MTP, "engine_version": "0.24.0"},
    "vllm-0.28.0-v1-mtp-block-ignored.log": {"model_runner": "V1", "weights": 21.97, "kv_tokens": 1014892},
    "vllm-0.28.0-v2-dflash2-kvbytes.log": {
        "engine_version": "0.28.0",
        "weights": 24.92,
        "draft_weights": None,
        "kv_cache": 36.0,
        "kv_tokens": 813427,
        "max_concurrency": 3.1,
        "block_size": 1056,
        "compile_seconds": 48.31,
        "graph_capture_seconds": 31.0,
        "init_seconds": 131.77,
        "model_runner": "V2",
        "attention_backend": "FLASHINFER",
        "quantization_kernel": "FlashInferCutlassNvFp4LinearKernel",
    },
    "vllm-0.30.0-v2-tp2.log": {
        "weights": 11.02,
        "weights_seconds": 30.511223,
        "model_runner": "V2",
        "kv_tokens": 2014892,
    },
    "vllm-0.33.0-v2-tp2.log": {
        "weights": 11.02,
        "compile_seconds": 22.1,
        "model_runner": "V2",
        "max_concurrency": 7.69,
    },
    "vllm-0.26.0-cuda-none_cold.log": {
        "engine_version": "0.26.0",
        "weights": 13.45,
        "kv_cache": 111.3,
        "kv_tokens": 810464,
        "max_concurrency": 24.73,
        "compile_seconds": 37.11,
        "init_seconds": 159.14,
        "model_runner": "V2",
        "attention_backend": "FLASH_ATTN",
    },
    "vllm-0.26.0-cuda-eagle5pb.log": {
        "weights": 13.88,
        "kv_tokens": 785552,
        "max_concurrency": 23.97,
        "model_runner": "V2",
    },
    "vllm-0.26.0-cuda-eagle5.log": {
        "weights": 13.88,
        "kv_tokens": 785552,
        "max_concurrency": 23.97,
        "model_runner": "V2",
    },
    "vllm-0.26.0-cuda-eagle5p.log": {
        "weights": 13.88,
        "kv_tokens": 785552,
        "max_concurrency": 23.97,
        "model_runner": "V2",
    },
    "vllm-0.26.0-cuda-none_warm.log": {
        "weights": 13.45,
        "kv_tokens": 810896,
        "max_concurrency": 24.75,
        "model_runner": "V2",
    },
    "vllm-0.26.0-cuda-dflash7_first.log": {"weights": 15.49, "kv_tokens": 697024, "max_concurrency": 21.27},
    "vllm-0.26.0-cuda-draft5.log": {"weights": 15.39, "kv_tokens": 714928, "model_runner": "V1"},
    "vllm-0.26.0-cuda-dflash7.log": {"weights": 15.49, "kv_tokens": 697024, "model_runner": "V2"},
    "vllm-0.26.0-cuda-ngram5.log": {"weights": 13.45, "kv_tokens": 808960, "model_runner": "V1"},
    "vllm-0.32.0-cpu-P-draft-t1-block.log": {
        "engine_version": "0.32.0",
        "weights": None,  # the CPU build states none
        "kv_cache": 1.0,
        "kv_tokens": 465920,
        "max_concurrency": 56.88,
        "max_concurrency_tokens": 8192,
        "init_seconds": 0.8,
        "model_runner": "V1",
    },
    "sglang-0.4.3.post4.log": {
        "weights": 16.78,
        "draft_weights": 2.71,
        "kv_tokens": 34377,
        "graph_capture_seconds": 12.31,
    },
    "sglang-0.5.6.log": {"weights": 16.78, "draft_weights": None, "kv_cache": 4.2, "attention_backend": "flashinfer"},
    "sglang-0.5.9.log": {"weights": 16.78, "weights_seconds": 11.2, "kv_tokens": 34377},
    "sglang-0.5.9-tp2-rank1.log": {"weights": 16.0, "weights_seconds": 21.2},
    "sglang-0.5.16.log": {"weights": 18.78, "draft_weights": 2.71, "kv_tokens": 34377, "graph_capture_seconds": 14.31},
    "sglang-0.5.23.log": {"weights": 18.78, "draft_weights": 1.45, "kv_tokens": 55285, "max_concurrency": None},
}

FAILURES = {
    "sglang-0.5.2-fail-not-enough-memory.log": ("kv_too_small", "kv_cache", "never"),
    "sglang-0.5.23-fail-no-kv.log": ("no_kv_memory", "kv_cache", "never"),
    "sglang-fail-draft-quant.log": ("draft_quant_mismatch", "load", "never"),
    "vllm-0.26.0-cuda-badspec.log": ("bad_flag", "config", "never"),
    "vllm-0.26.0-cuda-busy.log": ("gpu_memory_busy", "load", "after_memory"),
    "vllm-0.26.0-cuda-kvsmall.log": ("kv_too_small", "kv_cache", "never"),
    "vllm-0.26.0-cuda-nokv.log": ("no_kv_memory", "kv_cache", "never"),
    "vllm-0.32.0-cpu-badflag.log": ("bad_flag", "arguments", "never"),
    "vllm-0.32.0-cpu-kv-too-small.log": ("kv_too_small", "kv_cache", "never"),
    "vllm-0.32.0-cpu-kvspace-toolarge.log": ("kv_pool_too_large", "kv_cache", "never"),
    "vllm-0.32.0-cpu-mtp-on-plain.log": ("unsupported_combination", "config", "never"),
    "vllm-0.32.0-cpu-sigint-17s.log": ("killed", "load", "same"),
    "vllm-0.32.0-cpu-spec-badjson.log": ("bad_flag", "arguments", "never"),
    "vllm-0.32.0-cpu-spec-nodraft.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-spec-synth-badlen.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-spec-synth-norates.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-spec-unknown-key.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-spec-unknown-method.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-spec-vocab.log": ("draft_config_error", "config", "never"),
    "vllm-0.32.0-cpu-tiny-badenum.log": ("bad_flag", "arguments", "never"),
    "vllm-0.32.0-cpu-tiny-badflag.log": ("bad_flag", "arguments", "never"),
    "vllm-0.32.0-cpu-tiny-badspecjson.log": ("bad_flag", "arguments", "never"),
    "vllm-0.32.0-cpu-tiny-badspeckey.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-tiny-badspecmethod.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-tiny-dflashmissing.log": ("draft_arch_unsupported", "config", "never"),
    "vllm-0.32.0-cpu-tiny-hf404.log": ("model_missing", "config", "never"),
    "vllm-0.32.0-cpu-tiny-kvsmall.log": ("kv_too_small", "kv_cache", "never"),
    "vllm-0.32.0-cpu-tiny-missingpath.log": ("model_missing", "config", "never"),
    "vllm-0.32.0-cpu-tiny-override.log": ("no_kv_memory", "kv_cache", "never"),
    "vllm-0.32.0-cpu-tiny-toolong.log": ("bad_flag", "config", "never"),
    "vllm-0.32.0-cpu-unknown-path.log": ("model_missing", "config", "never"),
    "vllm-fail-bad-flag.log": ("bad_flag", "arguments", "never"),
    "vllm-fail-bad-spec-key.log": ("bad_flag", "config", "never"),
    "vllm-fail-draft-quant.log": ("draft_quant_mismatch", "load", "never"),
    "vllm-fail-free-memory.log": ("gpu_memory_busy", "load", "after_memory"),
    "vllm-fail-kv-too-small-0.8.5.log": ("kv_too_small", "kv_cache", "never"),
    "vllm-fail-kv-too-small.log": ("kv_too_small", "kv_cache", "never"),
    "vllm-fail-no-kv.log": ("no_kv_memory", "kv_cache", "never"),
    "vllm-fail-oom-load.log": ("gpu_oom", "load", "never"),
    "vllm-fail-oomkiller.log": ("killed", "arguments", "after_memory"),
    "vllm-fail-port.log": ("port_in_use", "arguments", "same"),
}

NOT_FAILED_BY_TEXT = {  # the text shows no failure: exit code, flag or clock decide
    "vllm-0.32.0-cpu-docker-mem700m.log",
    "vllm-0.32.0-cpu-docker-stop-15s.log",
    "vllm-0.32.0-cpu-sigint-mid.log",
    "vllm-0.32.0-cpu-sigterm-17s.log",
}
DIED_WHILE_SERVING = {"vllm-0.26.0-cuda-none_kill.log", "vllm-0.32.0-cpu-sigterm-mid.log"}


@pytest.mark.parametrize("name", BOOTS)
def test_a_recorded_boot_states_these_facts(name: str) -> None:
    facts = read(lines_of_file("bootlogs", name))
    assert facts.engine == name.split("-")[0]
    assert {field: getattr(facts, field) for field in BOOTS[name]} == BOOTS[name]


@pytest.mark.parametrize("name", [*names("bootlogs", suffix=".log"), *names("failures", suffix=".log")])
def test_a_fact_is_always_stated_by_its_own_line(name: str) -> None:
    kind = "bootlogs" if name in names("bootlogs", suffix=".log") else "failures"
    whole = "\n".join(lines_of_file(kind, name))
    for fact in read(lines_of_file(kind, name)).facts:
        if isinstance(fact.value, int) and not isinstance(fact.value, bool):
            assert str(fact.value) in fact.line.replace(",", "")
        if fact.name == "engine_version":
            assert f"{fact.value}" in whole


@pytest.mark.parametrize("name", names("bootlogs", suffix=".log"))
def test_no_recorded_boot_is_called_a_failure_unless_the_engine_died_serving(name: str) -> None:
    found = verdict(lines_of_file("bootlogs", name))
    assert (found.state == "failed") == (name in DIED_WHILE_SERVING)
    if found.failure is not None:
        assert (found.failure.kind, found.failure.stage) == ("engine_died", "serving")


def test_every_recorded_failure_is_expected_here() -> None:
    assert set(names("failures", suffix=".log")) == {*FAILURES, *NOT_FAILED_BY_TEXT, *DIED_WHILE_SERVING} - {
        "vllm-0.26.0-cuda-none_kill.log"
    }


@pytest.mark.parametrize("name", FAILURES)
def test_a_recorded_failure_gets_its_class_stage_and_advice(name: str) -> None:
    failure = classify(evidence(lines_of_file("failures", name), exit_code=1))
    assert (failure.kind, failure.stage, failure.retry) == FAILURES[name]
    assert verdict(lines_of_file("failures", name)).state == "failed"


@pytest.mark.parametrize("name", sorted(NOT_FAILED_BY_TEXT))
def test_a_log_without_a_reason_shows_no_failure(name: str) -> None:
    assert verdict(lines_of_file("failures", name)).state != "failed"


def test_the_stages_of_a_cold_start_add_up_to_the_ready_line() -> None:
    facts = read(lines_of_file("bootlogs", "vllm-0.26.0-cuda-none_cold.log"))
    assert list(facts.stages) == ["imports", "config", "load", "compile", "kv_cache", "graphs", "warmup", "ready"]
    assert sum(facts.stages.values()) == pytest.approx(252.768, abs=0.1)
    assert facts.stages["warmup"] > 100  # silent for two minutes, and healthy


def test_what_a_cache_did_and_what_was_downgraded_is_told() -> None:
    cold = read(lines_of_file("bootlogs", "vllm-0.26.0-cuda-none_cold.log"))
    warm = read(lines_of_file("bootlogs", "vllm-0.26.0-cuda-eagle5pb.log"))
    downgraded = read(lines_of_file("bootlogs", "vllm-0.26.0-cuda-draft5.log"))
    states = [next(fact.value for fact in facts.facts if fact.name == "compile_cache") for facts in (cold, warm)]
    assert states == ["miss", "hit"]
    assert any("using the V1 model runner instead" in warning for warning in downgraded.warnings)
    assert any("JIT compilation during inference" in warning for warning in downgraded.warnings)


def test_the_arguments_that_the_engine_echoes_are_kept_as_values() -> None:
    facts = read(lines_of_file("bootlogs", "vllm-0.26.0-cuda-eagle5pb.log"))
    assert facts.non_default_args is not None
    assert facts.non_default_args["speculative_config"]["rejection_sample_method"] == "block"

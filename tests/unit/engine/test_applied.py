"""A config that was not applied as asked is found by what the boot itself says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.engine.applied import dead_drafter, not_applied, proof
from nightsweep.engine.bootlog import read
from nightsweep.engine.registry import engine_for
from nightsweep.engine.values import BootFacts, ServedIdentity
from nightsweep.plan.model import EngineConfig, EngineSpec
from nightsweep.units import Tokens
from tests.unit.engine.data import lines_of_file


def a_config(
    speculative: dict[str, Any] | None, *, kind: str = "vllm", args: dict[str, Any] | None = None
) -> EngineConfig:
    spec = EngineSpec(kind=kind, host="docker", model="m", served_name="m", args=args or {})
    return EngineConfig(name="c", engine=spec, speculative=speculative, document={}, fingerprint="f" * 64)


def boot(name: str) -> BootFacts:
    return read(lines_of_file("bootlogs", name))


BLOCK = {"draft_sample_method": "probabilistic", "rejection_sample_method": "block"}


def test_block_on_the_v1_runner_of_a_real_boot_is_not_applied_and_takes_probabilistic_with_it() -> None:
    asked = {"method": "draft_model", "model": "/srv/models/tiny-draft", "num_speculative_tokens": 4, **BLOCK}
    found = not_applied(a_config(asked), boot("vllm-0.32.0-cpu-P-draft-t1-block.log"))
    assert len(found) == 2
    assert "'block' is silently ignored" in found[0]
    assert "'probabilistic' is switched off" in found[1]


def test_the_same_keys_on_the_v2_runner_are_applied() -> None:
    asked = {"method": "eagle", "model": "/models/eagle", "num_speculative_tokens": 5, **BLOCK}
    assert not_applied(a_config(asked, args={"max-model-len": 32768}), boot("vllm-0.26.0-cuda-eagle5pb.log")) == ()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"method": "eagle", "model": "/models/eagle", "num_speculative_tokens": 7, **BLOCK}, "runs 5"),
        ({"method": "dflash", "model": "/models/eagle", "num_speculative_tokens": 5, **BLOCK}, "runs 'eagle'"),
        ({"method": "eagle", "num_speculative_tokens": 5, "kv_cache_dtype": "fp8"}, "kv_cache_dtype was asked for"),
        (None, "no speculation was asked for"),
    ],
)
def test_what_the_engine_runs_instead_is_told(asked: dict[str, Any] | None, told: str) -> None:
    assert any(told in line for line in not_applied(a_config(asked), boot("vllm-0.26.0-cuda-eagle5pb.log")))


def test_speculation_that_the_engine_does_not_name_is_not_applied() -> None:
    asked = {"method": "mtp", "num_speculative_tokens": 3}
    assert "names none" in not_applied(a_config(asked), boot("vllm-0.26.0-cuda-none_cold.log"))[0]
    assert not_applied(a_config(asked), BootFacts()) == ()  # nothing told, nothing found


def test_a_context_that_was_reduced_is_told() -> None:
    found = not_applied(a_config(None, args={"max-model-len": "64K"}), boot("vllm-0.26.0-cuda-none_cold.log"))
    assert found == ("max-model-len 65,536 was asked for, and the engine uses 32,768",)


def test_a_kv_cache_of_another_size_than_asked_is_told() -> None:
    facts = boot("vllm-0.32.0-cpu-none-t0.log")  # the environment gave it 1 GiB
    (found,) = not_applied(a_config(None, args={"kv-cache-memory-bytes": 200_000}), facts)
    assert "200,000 (0.00 GiB) was asked for, and the engine took 1 GiB" in found
    assert not_applied(a_config(None, args={"kv-cache-memory-bytes": "1G"}), facts) == ()
    reserved = boot("vllm-0.28.0-v2-dflash2-kvbytes.log")
    asked = {"kv-cache-memory-bytes": "36G"}
    assert not any("kv-cache-memory" in line for line in not_applied(a_config(None, args=asked), reserved))


@pytest.mark.parametrize(
    ("asked", "told", "same"),
    [
        ("FLASH_ATTN", "FLASH_ATTN", True),
        ("FLASH_ATTN_VLLM_V1", "Flash Attention", True),
        ("FLASHINFER", "FlashInfer", True),
        ("TRITON_ATTN", "Triton", True),
        ("CUTLASS_MLA", "Cutlass MLA", True),
        ("FLASHINFER", "FLASH_ATTN", False),
        ("auto", "FLASH_ATTN", True),
    ],
)
def test_an_attention_backend_other_than_asked_is_told(asked: str, told: str, same: bool) -> None:
    line = f"(EngineCore pid=1) INFO 11-29 16:16:39 [cuda.py:1] Using {told} backend."
    found = not_applied(a_config(None, args={"attention-backend": asked}), read([line], kind="vllm"))
    assert (found == ()) == same


def test_a_kernel_that_fell_back_is_a_note_and_no_setting_that_was_ignored() -> None:
    line = (
        "(EngineCore pid=1) WARNING 11-29 16:16:39 [marlin.py:1] Your GPU does not have native support for FP4 computation but "
        "FP4 quantization is being used. Weight-only FP4 compression will be used leveraging the Marlin kernel."
    )
    found = proof(a_config(None), read([line], kind="vllm"), ServedIdentity())
    assert found.not_applied == ()
    assert "does not have native support for FP4" in found.notes[0]


def test_a_context_that_the_engine_reduced_and_said_so_is_not_applied_and_no_other_engine() -> None:
    line = (
        "(APIServer pid=1) WARNING 11-29 16:16:39 [vllm.py:1] The draft model's max_model_len (4096) is smaller than the target "
        "model's (32768) and the V2 model runner can't skip speculation for longer sequences; reducing max_model_len to 4096."
    )
    config = a_config(None, args={"max-model-len": 32768})
    served, facts = ServedIdentity(served_names=("m",), max_model_len=4096), read([line], kind="vllm")
    assert engine_for("vllm").identity_problem(config, served, facts) is None
    assert proof(config, facts, served).not_applied == (
        "max-model-len 32,768 was asked for, and the engine uses 4,096",
    )
    assert "only 4,096" in (engine_for("vllm").identity_problem(config, served, BootFacts()) or "")


def test_both_second_sources_are_kept_and_each_disagreement_is_a_note() -> None:
    page = 'sglang:max_total_num_tokens{engine_type="unified",tp_rank="0"} 55000\n'
    answers = {"server_info": {"internal_states": [{"memory_usage": {"token_capacity": 55285}}]}}
    found = proof(
        a_config(None, kind="sglang"), BootFacts(kv_tokens=Tokens(55285)), ServedIdentity(), page=page, answers=answers
    )
    assert [(budget.source, budget.tokens) for budget in found.kv_second] == [
        ("sglang:max_total_num_tokens", 55000),
        ("/server_info", 55285),
    ]
    assert found.notes == ("the boot log says 55,285 KV cache tokens, sglang:max_total_num_tokens says 55,000",)


def test_a_draft_length_that_sglang_resolved_otherwise_is_told() -> None:
    facts = boot("sglang-0.5.23.log")
    asked = {"algorithm": "dspark", "dspark_block_size": 7}
    assert not_applied(a_config(asked, kind="sglang"), facts) == ()
    assert "resolved it to 8" in not_applied(a_config({**asked, "num_draft_tokens": 7}, kind="sglang"), facts)[0]
    assert "no speculation was asked for" in not_applied(a_config(None, kind="sglang"), facts)[0]


def test_a_drafter_of_which_nothing_is_accepted_is_dead() -> None:
    assert "does not fit" in (dead_drafter(drafts=80_000, accepted_tokens=0) or "")
    assert dead_drafter(drafts=80_000, accepted_tokens=1) is None
    assert dead_drafter(drafts=3, accepted_tokens=0) is None
    assert dead_drafter(drafts=None, accepted_tokens=None) is None


def test_a_variable_that_the_engine_does_not_know_is_not_applied_and_others_variables_are_no_concern() -> None:
    lines = [
        "(APIServer pid=1) INFO 09-23 06:12:05 [utils.py:100] vLLM API server version 0.30.0",
        "(APIServer pid=1) WARNING 09-23 06:12:06 [envs.py:2248] Unknown vLLM environment variable detected: VLLM_ATTENTON",
        "(APIServer pid=1) WARNING 09-23 06:12:06 [envs.py:2248] Unknown vLLM environment variable detected: VLLM_CPU_PORT",
    ]
    config = a_config(None)
    config = replace(config, engine=replace(config.engine, env={"VLLM_ATTENTON": "FLASHINFER"}))
    found = not_applied(config, read(lines, kind="vllm"))
    assert found == ("environment variable VLLM_ATTENTON was set, and the engine knows none of that name",)

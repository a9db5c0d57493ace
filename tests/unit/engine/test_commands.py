"""Command lines and what is told before a config is tried."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from nightsweep.engine.registry import engine_for
from nightsweep.engine.speculative import proposed_drafts
from nightsweep.engine.speculative_vllm import expected_runner
from nightsweep.errors import UnknownEngine
from nightsweep.plan.model import EngineConfig, EngineSpec, SecretRef


def a_config(speculative: dict[str, Any] | None = None, **spec: Any) -> EngineConfig:
    """A config whose test is about what it names."""
    told: dict[str, Any] = {"kind": "vllm", "host": "docker", "model": "org/m", "served_name": "m", **spec}
    return EngineConfig(name="c", engine=EngineSpec(**told), speculative=speculative, document={}, fingerprint="f" * 64)


def command(config: EngineConfig) -> tuple[str, ...]:
    return engine_for(config.engine.kind).command(config, listen_host="0.0.0.0", port=8000)


def warnings(config: EngineConfig) -> str:
    return "\n".join(engine_for(config.engine.kind).warnings(config))


def test_a_vllm_command_has_model_name_address_arguments_in_order_and_speculation_last() -> None:
    args = {
        "max-model-len": 262144,
        "kv-cache-memory-bytes": "36G",
        "enforce-eager": True,
        "enable-prefix-caching": False,
        "seed": None,
        "gpu-memory-utilization": 0.9,
        "allowed-origins": ["a", "b"],
        "hf-overrides": {"rope": {"factor": Decimal("2")}},
    }
    speculative = {
        "method": "dflash",
        "model": "org/d",
        "num_speculative_tokens": 7,
        "draft_sample_method": "probabilistic",
    }
    assert command(a_config(speculative, args=args, host="process", command=("vllm", "serve"))) == (
        *("vllm", "serve", "org/m", "--served-model-name", "m", "--host", "0.0.0.0", "--port", "8000"),
        *(
            "--max-model-len",
            "262144",
            "--kv-cache-memory-bytes",
            "36G",
            "--enforce-eager",
            "--no-enable-prefix-caching",
        ),
        *("--gpu-memory-utilization", "0.9", "--allowed-origins", "a", "b", "--hf-overrides", '{"rope":{"factor":2}}'),
        "--speculative-config",
        '{"method":"dflash","model":"org/d","num_speculative_tokens":7,"draft_sample_method":"probabilistic"}',
    )


def test_speculative_json_keeps_the_order_of_the_file() -> None:
    schedule = {"num_speculative_tokens_per_batch_size": [[1, 4, 7], [5, 16, 3]], "method": "mtp"}
    words = command(a_config(schedule))
    assert list(json.loads(words[-1])) == list(schedule)
    assert " " not in words[-1]


def test_what_the_sweep_sets_comes_once() -> None:
    args = {"host": "1.2.3.4", "port": 1, "served-model-name": "x", "served_model_name": "y", "model": "z"}
    words = command(a_config(args=args))
    assert words.count("--port") == words.count("--host") == words.count("--served-model-name") == 1
    assert "left out" in warnings(a_config(args=args))


def test_an_old_image_whose_entry_point_is_the_module_gets_its_model_by_flag() -> None:
    assert command(a_config(image="vllm/vllm-openai:v0.8.5"))[:2] == ("--model", "org/m")
    assert command(a_config(image="vllm/vllm-openai:v0.28.0"))[0] == "org/m"
    module = ("python3", "-m", "vllm.entrypoints.openai.api_server")
    assert command(a_config(host="process", command=module))[3:5] == ("--model", "org/m")


def test_a_revision_is_passed_and_a_secret_never_is() -> None:
    words = command(a_config(model_revision="abc", args={"api-key": SecretRef("KEY")}))
    assert words[words.index("--revision") + 1] == "abc"
    assert "--api-key" not in words


def test_a_sglang_command_starts_its_server_and_turns_metrics_on() -> None:
    speculative = {
        "algorithm": "DSPARK",
        "draft_model_path": "org/d",
        "dspark_block_size": 7,
        "adaptive": True,
        "token_map": None,
    }
    config = a_config(speculative, kind="sglang", args={"mem-fraction-static": 0.9, "disable-radix-cache": False})
    assert command(config) == (
        *("python3", "-m", "sglang.launch_server", "--model-path", "org/m", "--served-model-name", "m"),
        *("--host", "0.0.0.0", "--port", "8000", "--enable-metrics", "--mem-fraction-static", "0.9"),
        *("--speculative-algorithm", "DSPARK", "--speculative-draft-model-path", "org/d"),
        *("--speculative-dspark-block-size", "7", "--speculative-adaptive"),
    )


def test_an_unknown_engine_names_the_known_ones() -> None:
    with pytest.raises(UnknownEngine, match="vllm, sglang"):
        engine_for("tgi")


@pytest.mark.parametrize(
    ("speculative", "image", "told"),
    [
        ({"method": "mtp", "num_speculative_token": 3}, None, "'num_speculative_tokens'"),
        ({"method": "dflsh", "model": "d"}, None, "nearest known one is 'dflash'"),
        ({"method": "dflash", "model": "d"}, "v0.19.1", "needs vLLM 0.20.0 or newer"),
        ({"method": "mtp", "rejection_sample_method": "block"}, "v0.24.0", "needs vLLM 0.25.1 or newer"),
        ({"method": "mtp", "draft_sample_method": "probabilistic"}, "v0.21.0", "needs vLLM 0.22.0 or newer"),
        ({"method": "mtp", "draft_sample_method": "gumbel"}, "v0.28.0", "is gone since vLLM 0.22.0"),
        ({"method": "ngram", "disable_by_batch_size": 8}, "v0.28.0", "is gone since vLLM 0.17.0"),
        ({"method": "medusa", "model": "d"}, "v0.33.0", "is gone since vLLM 0.33.0"),
        ({"method": "eagle3"}, None, "needs a draft"),
        ({"method": "mtp", "rejection_sample_method": "synthetic"}, "v0.28.0", "by dice"),
        ({"method": "mtp", "tensor_parallel_size": 2}, None, "draft_tensor_parallel_size"),
        (
            {
                "method": "draft_model",
                "model": "d",
                "rejection_sample_method": "block",
                "draft_sample_method": "probabilistic",
            },
            "v0.28.0",
            "silently ignored, and draft_sample_method 'probabilistic' is switched off",
        ),
        ({"method": "mtp", "rejection_sample_method": "block"}, "v0.28.0", "on V1 for hybrid models"),
    ],
)
def test_a_vllm_setting_that_will_not_do_what_it_says_is_told_before(
    speculative: dict[str, Any], image: str | None, told: str
) -> None:
    config = a_config(speculative, image=None if image is None else f"vllm/vllm-openai:{image}")
    assert told in warnings(config)


def test_a_sound_config_has_no_warnings() -> None:
    speculative = {
        "method": "dflash",
        "model": "d",
        "num_speculative_tokens": 7,
        "draft_sample_method": "probabilistic",
        "rejection_sample_method": "block",
    }
    assert warnings(a_config(speculative, image="vllm/vllm-openai:v0.28.0")) == ""
    assert warnings(a_config(image="repo.lan:5000/vllm@sha256:" + "0" * 64)) == ""


def test_a_schedule_under_data_parallelism_falls_back_and_is_told() -> None:
    speculative = {"method": "mtp", "num_speculative_tokens_per_batch_size": [[1, 8, 3]]}
    assert "data parallelism" in warnings(a_config(speculative, args={"data-parallel-size": 2}))


@pytest.mark.parametrize(
    ("version", "method", "env", "runner"),
    [
        ((0, 21, 0), "mtp", {}, "V1"),
        ((0, 26, 0), "ngram", {}, "V1"),
        ((0, 26, 0), "draft_model", {}, "V1"),
        ((0, 28, 0), "mtp", {}, None),
        ((0, 28, 0), "dspark", {}, "V2"),
        ((0, 29, 0), "mtp", {}, "V2"),
        ((0, 31, 0), "draft_model", {}, "V2"),
        ((0, 33, 0), "suffix", {}, "V1"),
        ((0, 28, 0), "mtp", {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "V2"),
        (None, "mtp", {}, None),
    ],
)
def test_the_model_runner_is_foreseen_where_the_release_decides_it(
    version: tuple[int, int, int] | None, method: str, env: dict[str, str], runner: str | None
) -> None:
    assert expected_runner(method, version=version, env=env) == runner


@pytest.mark.parametrize(
    ("speculative", "told"),
    [
        ({"method": "DSPARK"}, "SGLang's is 'algorithm'"),
        ({"algorithm": "EAGLE", "num_speculative_tokens": 7}, "7 there is num_draft_tokens 8 here"),
        ({"algorithm": "EAGLE", "num_steps": 3, "num_draft_tokens": 8}, "num_steps + 1 = 4"),
        ({"algorithm": "DSPRK"}, "'DSPARK'"),
        ({}, "SGLang does not speculate without one"),
        ({"algorithm": "DFLASH", "draft_model_path": "d"}, "needs SGLang 0.5.11 or newer"),
        ({"algorithm": "EAGLE", "accept_threshold_single": 0.9}, "lossy"),
    ],
)
def test_a_sglang_setting_that_will_not_do_what_it_says_is_told_before(speculative: dict[str, Any], told: str) -> None:
    settings = speculative or {"num_steps": 1}
    assert told in warnings(a_config(settings, kind="sglang", image="lmsysorg/sglang:v0.5.9"))


def test_a_draft_that_would_inherit_the_targets_quantisation_is_told() -> None:
    speculative = {"algorithm": "DSPARK", "draft_model_path": "d"}
    config = a_config(speculative, kind="sglang", args={"quantization": "modelopt_fp4"})
    assert "inherits the target's quantization" in warnings(config)


@pytest.mark.parametrize(
    ("kind", "settings", "drafts"),
    [
        ("vllm", {"num_speculative_tokens": 7}, 7),
        ("sglang", {"algorithm": "EAGLE", "num_draft_tokens": 8}, 7),
        ("sglang", {"speculative_algorithm": "DSPARK", "speculative_dspark_block_size": 7}, 7),
        ("sglang", {"algorithm": "DFLASH", "dflash_block_size": 8}, 7),
        ("sglang", {"algorithm": "EAGLE", "num_steps": 3}, 3),
        ("sglang", {"algorithm": "EAGLE", "num_steps": 3, "eagle_topk": 4}, None),
        ("vllm", None, None),
    ],
)
def test_draft_lengths_are_one_unit_for_both_engines(
    kind: str, settings: dict[str, Any] | None, drafts: int | None
) -> None:
    assert proposed_drafts(kind, settings) == drafts

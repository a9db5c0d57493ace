"""Which keys of a result of `vllm bench` are what: written by the client, an option of the client, or set on the server.

Source:
    vllm/benchmarks/serve.py `benchmark`, `main_async`, `add_cli_args`; sweep/serve.py `_update_run_data` (0.32.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]

PER_REQUEST = frozenset(
    [
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "queue_times",
        "generated_texts",
        "errors",
    ]
)
"""One value for each request: left out, the texts among them."""
OF_THE_LOAD = ("backend", "num_prompts", "request_rate", "burstiness")
"""Keys of the client's own traffic: conditions."""
TOLD = frozenset(
    (
        *[
            "date",
            "endpoint_type",
            "label",
            "model_id",
            "tokenizer_id",
            "best_of",
            "use_beam_search",
            "duration",
            "completed",
            "failed",
        ],
        *["total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput", "request_goodput:"],
        *["output_throughput", "total_token_throughput", "max_concurrency", "rtfx", "run_number", "_benchmark_name"],
        *[
            "max_output_tokens_per_s",
            "max_concurrent_requests",
            "ramp_up_strategy",
            "ramp_up_start_rps",
            "ramp_up_end_rps",
        ],
        *["rps_change_events", "temperature", "user_centric_rate"],
        *OF_THE_LOAD,
        *PER_REQUEST,
    )
)
"""Keys that the client writes, or that are read by name here; `mean_..._ms` and `spec_decode_...` are told by their form."""
CLIENT_OPTIONS = (
    *[
        "dataset",
        "random",
        "custom",
        "sharegpt",
        "hf",
        "sonnet",
        "prefix_repetition",
        "spec_bench",
        "speed_bench",
        "blazedit",
        "bfcl",
        "asr",
        "timed_trace",
    ],
    *[
        "seed",
        "input_len",
        "output_len",
        "ignore_eos",
        "num_warmups",
        "logprobs",
        "use_beam_search",
        "top_p",
        "top_k",
        "min_p",
        "endpoint",
    ],
    *[
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "skip_chat_template",
        "disable_shuffle",
        "range_ratio",
    ],
    *[
        "goodput",
        "percentile_metrics",
        "metric_percentiles",
        "extra_body",
        "chat_template_kwargs",
        "lora",
        "no_oversample",
    ],
    *["ready_check_timeout_sec", "host", "port", "base_url", "tokenizer", "header", "request_id_prefix", "self_timed"],
)
"""What options of the client begin with; an override of a sweep that is none of them is the server's."""
NOT_KEPT = ("header", "base_url", "host", "port")
"""Options that name somebody's machine or key."""


def overrides(one: Record) -> dict[str, Any]:
    """Return what a sweep set on the server of a result: what neither the client writes nor one of its options is called."""
    return {key: value for key, value in one.items() if key and not of_the_client(key) and not _is_number(key)}


def of_the_client(key: str) -> bool:
    """Return whether the client writes this key, or has an option of this name."""
    plain = key.replace("-", "_").split(".")[0]
    return plain in TOLD or key in TOLD or any(plain == name or plain.startswith(f"{name}_") for name in CLIENT_OPTIONS)


def _is_number(key: str) -> bool:
    return key.startswith(("spec_decode_", "diffusion_", "probe_")) or (key.endswith("_ms") and "_" in key)

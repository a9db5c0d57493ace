"""vLLM's speculative settings: keys, methods and values by release, and which of them are silently dead.

Source:
    vLLM config/speculative.py, config/vllm.py, v1/sample/rejection_sampler.py, v1/worker/gpu/spec_decode, 0.8.5 to 0.33.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nightsweep.engine.flags import argument
from nightsweep.engine.speculative import Span, unknown
from nightsweep.engine.versions import Version, image_version, release
from nightsweep.plan.model import EngineConfig

KEYS: dict[str, Span] = {
    "method": Span(),
    "model": Span(),
    "num_speculative_tokens": Span(),
    "draft_tensor_parallel_size": Span(),
    "quantization": Span(),
    "max_model_len": Span(),
    "revision": Span(),
    "code_revision": Span(),
    "enforce_eager": Span(),
    "prompt_lookup_max": Span(),
    "prompt_lookup_min": Span(),
    "disable_by_batch_size": Span(gone=(0, 17, 0)),
    "speculative_token_tree": Span(gone=(0, 21, 0)),
    "acceptance_method": Span(gone=(0, 10, 0)),
    "posterior_threshold": Span(gone=(0, 10, 0)),
    "posterior_alpha": Span(gone=(0, 10, 0)),
    "disable_mqa_scorer": Span(gone=(0, 10, 0)),
    "disable_logprobs": Span(gone=(0, 11, 2)),
    "disable_padded_drafter_batch": Span(since=(0, 11, 0)),
    "suffix_decoding_max_tree_depth": Span(since=(0, 11, 2)),
    "suffix_decoding_max_cached_requests": Span(since=(0, 11, 2)),
    "suffix_decoding_max_spec_factor": Span(since=(0, 11, 2)),
    "suffix_decoding_min_token_prob": Span(since=(0, 11, 2)),
    "parallel_drafting": Span(since=(0, 16, 0)),
    "draft_load_config": Span(since=(0, 17, 0)),
    "use_local_argmax_reduction": Span(since=(0, 17, 0)),
    "rejection_sample_method": Span(since=(0, 18, 0)),
    "moe_backend": Span(since=(0, 19, 0)),
    "synthetic_acceptance_rate": Span(since=(0, 19, 0), gone=(0, 20, 0)),
    "synthetic_acceptance_rates": Span(since=(0, 20, 0)),
    "synthetic_acceptance_length": Span(since=(0, 20, 0)),
    "draft_sample_method": Span(since=(0, 21, 0)),
    "attention_backend": Span(since=(0, 21, 0)),
    "num_speculative_tokens_per_batch_size": Span(since=(0, 24, 0)),
    "use_heterogeneous_vocab": Span(since=(0, 25, 0)),
    "kv_cache_dtype": Span(since=(0, 26, 0)),
    "enable_adaptive_verification": Span(since=(0, 28, 0)),
    "dspark_draft_topk": Span(since=(0, 28, 0)),
    "index_share_for_mtp_iteration": Span(since=(0, 29, 0)),
    "disable_eagle_block_drop": Span(since=(0, 30, 0)),
    "disable_lookahead_block_hashes": Span(since=(0, 33, 0)),
    "draft_lm_head_quantization": Span(since=(0, 33, 0)),
    "xpress_topc": Span(since=(0, 33, 0)),
    "fly_window_size": Span(since=(0, 33, 0)),
    "fly_entropy_threshold": Span(since=(0, 33, 0)),
    "fly_entropy_top_k": Span(since=(0, 33, 0)),
}

METHODS: dict[str, Span] = {
    "ngram": Span(),
    "eagle": Span(),
    "eagle3": Span(),
    "medusa": Span(gone=(0, 33, 0)),
    "mlp_speculator": Span(gone=(0, 33, 0)),
    "draft_model": Span(),
    "mtp": Span(),
    "suffix": Span(since=(0, 11, 2)),
    "extract_hidden_states": Span(since=(0, 17, 0)),
    "ngram_gpu": Span(since=(0, 18, 0)),
    "dflash": Span(since=(0, 20, 0)),
    "custom_class": Span(since=(0, 22, 0)),
    "dspark": Span(since=(0, 25, 0)),
}

REJECTION: dict[str, Span] = {
    "strict": Span(since=(0, 18, 0), gone=(0, 21, 0)),
    "probabilistic": Span(since=(0, 18, 0), gone=(0, 21, 0)),
    "synthetic": Span(since=(0, 19, 1)),
    "standard": Span(since=(0, 21, 0)),
    "block": Span(since=(0, 25, 1)),
    "fly": Span(since=(0, 33, 0)),
}

DRAFT_SAMPLING: dict[str, Span] = {
    "greedy": Span(since=(0, 21, 0)),
    "gumbel": Span(since=(0, 21, 0), gone=(0, 22, 0)),
    "probabilistic": Span(since=(0, 22, 0)),
}

_VALUES = (("rejection_sample_method", REJECTION), ("draft_sample_method", DRAFT_SAMPLING))
_NEEDS_MODEL = ("eagle", "eagle3", "draft_model", "dflash")
_V2_METHODS = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
_NOT_ON_V2 = {
    (0, 30, 0): frozenset({"ngram", "ngram_gpu", "draft_model", "suffix", "medusa", "mlp_speculator", "custom_class"}),
    (0, 31, 0): frozenset({"ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class"}),
    (0, 32, 0): frozenset({"suffix", "medusa", "mlp_speculator", "custom_class"}),
    (0, 33, 0): frozenset({"suffix", "custom_class"}),
}


def warnings(config: EngineConfig) -> tuple[str, ...]:
    """Return what a user should know before trying this config: one line each, with the fact behind it."""
    version = image_version(config.engine.image)
    found = list(_arguments(config))
    if config.speculative is not None:
        found += _keys(config.speculative, version)
        found += _method(config.speculative, version)
        found += _values(config.speculative, version)
        found += _dead(config, version)
    return tuple(found)


def expected_runner(method: str | None, *, version: Version | None, env: Mapping[str, Any]) -> str | None:
    """Return the model runner ("V1" or "V2") that a method will run on; None when the release or the model decides.

    Source:
        vLLM config/vllm.py: V1 up to 0.21; from 0.25 V2 for dense models that are no hybrids; from 0.29 V2 by default.
    """
    forced = env.get("VLLM_USE_V2_MODEL_RUNNER")
    if forced in ("0", "1"):
        return "V2" if forced == "1" else "V1"
    if version is None or method is None:
        return None
    if version < (0, 22, 0):
        return "V1"
    if method == "dspark":
        return "V2"
    if version < (0, 30, 0):
        if method not in _V2_METHODS:
            return "V1"
        return "V2" if version >= (0, 29, 0) else None
    excluded = next(names for since, names in sorted(_NOT_ON_V2.items(), reverse=True) if version >= since)
    return "V1" if method in excluded else "V2"


def canonical_method(method: Any) -> str | None:
    """Return a method by its own name: a model's own "..._mtp" is an alias of "mtp"."""
    if not isinstance(method, str):
        return None
    return "mtp" if method.endswith("_mtp") else method


def _keys(settings: Mapping[str, Any], version: Version | None) -> Iterator[str]:
    for name in settings:
        if name == "tensor_parallel_size":
            yield "vLLM refuses the speculative key 'tensor_parallel_size': it is 'draft_tensor_parallel_size'"
            continue
        span = KEYS.get(name)
        if span is None:
            yield unknown("vLLM", "speculative key", name, KEYS) + ", and vLLM refuses to start on an unknown key"
            continue
        problem = span.problem("vLLM", f"speculative key {name!r}", version)
        if problem:
            yield f"{problem}: it will refuse to start"


def _method(settings: Mapping[str, Any], version: Version | None) -> Iterator[str]:
    method = settings.get("method")
    if method is None:
        return
    name = canonical_method(method)
    if name is None or name not in METHODS:
        yield unknown("vLLM", "speculative method", str(method), METHODS)
        return
    if name != method and version is not None and version >= (0, 12, 0):
        yield f"speculative method {method!r} is an old name for 'mtp'"
    problem = METHODS[name].problem("vLLM", f"speculative method {name!r}", version)
    if problem:
        yield f"{problem}: it will refuse to start"
    if name in _NEEDS_MODEL and not settings.get("model"):
        yield f"speculative method {name!r} needs a draft: set 'model'"


def _values(settings: Mapping[str, Any], version: Version | None) -> Iterator[str]:
    for key, known in _VALUES:
        value = settings.get(key)
        if value is None:
            continue
        span = known.get(str(value))
        if span is None:
            yield unknown("vLLM", f"{key} value", str(value), known)
            continue
        problem = span.problem("vLLM", f"{key} {value!r}", version)
        if problem:
            yield f"{problem}: it will refuse to start"
    if settings.get("rejection_sample_method") == "synthetic":
        yield "rejection_sample_method 'synthetic' accepts drafts by dice: rates are of a benchmark mode, not of the model"
    if settings.get("rejection_sample_method") == "fly":
        yield "rejection_sample_method 'fly' is lossy: the output is no longer the target model's"


def _dead(config: EngineConfig, version: Version | None) -> Iterator[str]:
    """Yield settings that are accepted and do nothing."""
    settings = config.speculative or {}
    runner = expected_runner(canonical_method(settings.get("method")), version=version, env=config.engine.env)
    if settings.get("rejection_sample_method") == "block":
        yield from _block(settings, runner, version)
    if settings.get("num_speculative_tokens_per_batch_size") is not None:
        parallel = argument(config.engine.args, "data-parallel-size", "dp")
        if isinstance(parallel, int) and parallel > 1:
            yield (
                "num_speculative_tokens_per_batch_size is not supported with data parallelism: "
                "vLLM falls back to the fixed draft length"
            )
        elif runner == "V1":
            yield "num_speculative_tokens_per_batch_size on the V1 model runner lowers CUDA graphs to PIECEWISE"
    if settings.get("parallel_drafting") and settings.get("method") not in ("dflash", "dspark"):
        yield "parallel_drafting makes vLLM use the V1 model runner"


def _block(settings: Mapping[str, Any], runner: str | None, version: Version | None) -> Iterator[str]:
    also = ""
    if settings.get("draft_sample_method") == "probabilistic":
        also = ", and draft_sample_method 'probabilistic' is switched off with it"
    method = settings.get("method")
    if runner == "V1":
        yield (
            f"rejection_sample_method 'block' is implemented in the V2 model runner only; {method!r} runs on V1 here, "
            f"where it is silently ignored{also}"
        )
    elif runner is None and version is not None and version >= (0, 25, 1) and method != "dflash":
        yield (
            f"rejection_sample_method 'block' works on the V2 model runner only: on vLLM {release(version)} {method!r} runs "
            f"on V1 for hybrid models (such as Qwen3.8), where it is silently ignored{also}"
        )


def _arguments(config: EngineConfig) -> Iterator[str]:
    if argument(config.engine.args, "disable-log-stats") is True:
        yield "--disable-log-stats takes all of vLLM's counters away: no window can be measured"
    if config.speculative is not None and argument(config.engine.args, "speculative-config", "sc") is not None:
        yield "both `speculative` and args.speculative-config are set: `speculative` is used"
    if argument(config.engine.args, "model", "host", "port", "served-model-name") is not None:
        yield "model, served name, host and port are set by the sweep: the same among args is left out"

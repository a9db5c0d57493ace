"""SGLang's speculative settings: flags, algorithms by release, and its own unit of draft length.

Source:
    SGLang arg_groups/fields/spec.py (0.5.23), server_args.py (0.4.0 to 0.5.19).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nightsweep.engine.flags import argument, tokens
from nightsweep.engine.speculative import Span, unknown, whole
from nightsweep.engine.versions import Version, image_version
from nightsweep.plan.model import EngineConfig

KEYS: dict[str, Span] = {
    "algorithm": Span(),
    "draft_model_path": Span(),
    "draft_model": Span(),
    "draft_model_revision": Span(since=(0, 5, 2)),
    "draft_load_format": Span(since=(0, 5, 4)),
    "draft_model_quantization": Span(since=(0, 5, 7)),
    "draft_kv_cache_dtype": Span(since=(0, 5, 7)),
    "draft_attention_backend": Span(since=(0, 5, 7)),
    "attention_mode": Span(since=(0, 5, 2)),
    "num_steps": Span(),
    "eagle_topk": Span(),
    "num_draft_tokens": Span(),
    "dflash_block_size": Span(since=(0, 5, 11)),
    "dspark_block_size": Span(since=(0, 5, 15)),
    "accept_threshold_single": Span(),
    "accept_threshold_acc": Span(),
    "use_rejection_sampling": Span(since=(0, 5, 16)),
    "use_block_verification": Span(since=(0, 5, 20)),
    "token_map": Span(),
    "draft_window_size": Span(since=(0, 5, 12)),
    "dflash_draft_window_size": Span(since=(0, 5, 12)),
    "draft_sink_size": Span(since=(0, 5, 12)),
    "moe_runner_backend": Span(),
    "moe_a2a_backend": Span(),
    "adaptive": Span(since=(0, 5, 11)),
    "adaptive_config": Span(since=(0, 5, 11)),
    "domino_candidate_pool_size": Span(),
    "dspark_sps_table_path": Span(since=(0, 5, 15)),
    "dspark_confidence_sts_path": Span(since=(0, 5, 15)),
    "dspark_align_verify_tokens_to_graph_tier": Span(since=(0, 5, 15)),
    "ngram_min_bfs_breadth": Span(since=(0, 5, 3)),
    "ngram_max_bfs_breadth": Span(since=(0, 5, 3)),
    "ngram_match_type": Span(since=(0, 5, 3)),
    "ngram_max_trie_depth": Span(since=(0, 5, 10)),
    "ngram_capacity": Span(since=(0, 5, 3)),
    "ngram_min_match_window_size": Span(since=(0, 5, 3), gone=(0, 5, 10)),
    "ngram_max_match_window_size": Span(since=(0, 5, 3), gone=(0, 5, 10)),
    "ngram_branch_length": Span(since=(0, 5, 3), gone=(0, 5, 10)),
}

UNPREFIXED = {"enable_multi_layer_eagle": Span(), "uno_lora_path": Span(since=(0, 5, 20))}
"""Speculative flags that do not begin with `--speculative-`."""

ALGORITHMS: dict[str, Span] = {
    "EAGLE": Span(),
    "EAGLE3": Span(),
    "NEXTN": Span(),
    "STANDALONE": Span(since=(0, 5, 2)),
    "NGRAM": Span(since=(0, 5, 3)),
    "DFLASH": Span(since=(0, 5, 11)),
    "DSPARK": Span(since=(0, 5, 15)),
    "UNO": Span(since=(0, 5, 20)),
}

_VLLM_WORDS = {"method": "algorithm", "model": "draft_model_path", "quantization": "draft_model_quantization"}


def flags(settings: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the settings as `--speculative-*` flags, in the order given."""
    named: dict[str, Any] = {}
    for name, value in (settings or {}).items():
        bare = bare_key(name)
        flag = bare if bare in UNPREFIXED else f"speculative_{bare}"
        named[flag.replace("_", "-")] = value
    return tokens(named, negate=False)


def bare_key(name: str) -> str:
    """Return a key as this module's table has it: underscores, without `speculative_`."""
    return name.lstrip("-").replace("-", "_").removeprefix("speculative_")


def warnings(config: EngineConfig) -> tuple[str, ...]:
    """Return what a user should know before trying this config: one line each, with the fact behind it."""
    version = image_version(config.engine.image)
    found: list[str] = []
    if argument(config.engine.args, "enable-metrics") is False:
        found.append("without --enable-metrics SGLang has no counters: no window can be measured")
    if config.speculative:
        settings = {bare_key(name): value for name, value in config.speculative.items()}
        found += _keys(settings, version)
        found += _algorithm(settings, version)
        found += _length(settings)
        found += _quantization(config, settings)
    return tuple(found)


def _keys(settings: Mapping[str, Any], version: Version | None) -> Iterator[str]:
    known = {**KEYS, **UNPREFIXED}
    for name in settings:
        if name == "num_speculative_tokens":
            k = whole(settings[name])
            window = f" ({k} there is num_draft_tokens {k + 1} here)" if k is not None else ""
            yield (
                "'num_speculative_tokens' is vLLM's key: SGLang's num_draft_tokens counts one token more, the verified "
                f"window{window}. It is passed on as it is"
            )
            continue
        if name in _VLLM_WORDS and name not in known:
            yield f"{name!r} is vLLM's key: SGLang's is {_VLLM_WORDS[name]!r}. It is passed on as it is"
            continue
        span = known.get(name)
        if span is None:
            yield unknown("SGLang", "speculative key", name, known)
            continue
        problem = span.problem("SGLang", f"speculative key {name!r}", version)
        if problem:
            yield f"{problem}: it will refuse to start"


def _algorithm(settings: Mapping[str, Any], version: Version | None) -> Iterator[str]:
    algorithm = settings.get("algorithm")
    if algorithm is None:
        yield "no speculative 'algorithm' is set: SGLang does not speculate without one"
        return
    span = ALGORITHMS.get(str(algorithm).upper())
    if span is None:
        yield unknown("SGLang", "speculative algorithm", str(algorithm), ALGORITHMS)
        return
    problem = span.problem("SGLang", f"speculative algorithm {algorithm!r}", version)
    if problem:
        yield f"{problem}: it will refuse to start"


def _length(settings: Mapping[str, Any]) -> Iterator[str]:
    window = whole(settings.get("num_draft_tokens"))
    steps = whole(settings.get("num_steps"))
    if window is not None and steps is not None and settings.get("eagle_topk", 1) == 1 and window != steps + 1:
        yield f"with eagle_topk 1 SGLang sets num_draft_tokens to num_steps + 1 = {steps + 1}; {window} will not be applied"
    if settings.get("adaptive"):
        yield "adaptive speculation changes the draft length at run time: positions are not comparable"
    for name in ("accept_threshold_single", "accept_threshold_acc"):
        value = settings.get(name)
        if isinstance(value, int | float) and value < 1:
            yield f"{name} below 1 is lossy: the output is no longer the target model's"


def _quantization(config: EngineConfig, settings: Mapping[str, Any]) -> Iterator[str]:
    target = argument(config.engine.args, "quantization")
    draft = settings.get("draft_model_path") or settings.get("draft_model")
    if target and draft and not settings.get("draft_model_quantization"):
        yield (
            f"the draft inherits the target's quantization ({target}) unless draft_model_quantization is set "
            "('unquant' for a BF16 draft): a mismatch fails to load, or drafts are rejected in silence"
        )

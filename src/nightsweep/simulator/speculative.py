"""`--speculative-config` as vLLM 0.28 checks it: an unknown key or a wrong value ends the boot with pydantic's text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

METHODS = (
    "ngram", "medusa", "mlp_speculator", "draft_model", "suffix", "eagle", "eagle3", "mtp", "dflash", "dspark",
    "ngram_gpu", "custom_class", "extract_hidden_states",
)  # fmt: skip
KEYS = frozenset({
    "method", "model", "num_speculative_tokens", "draft_tensor_parallel_size", "quantization", "max_model_len",
    "revision", "code_revision", "enforce_eager", "moe_backend", "attention_backend", "kv_cache_dtype",
    "draft_load_config", "draft_sample_method", "rejection_sample_method", "synthetic_acceptance_rates",
    "synthetic_acceptance_length", "num_speculative_tokens_per_batch_size", "parallel_drafting",
    "use_local_argmax_reduction", "use_heterogeneous_vocab", "disable_padded_drafter_batch", "prompt_lookup_max",
    "prompt_lookup_min", "suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests",
    "suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob", "enable_adaptive_verification",
    "dspark_draft_topk",
})  # fmt: skip
_CHOICES = {
    "draft_sample_method": ("greedy", "probabilistic"),
    "rejection_sample_method": ("standard", "synthetic", "block"),
}
_HEADER = "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig"
_MORE = "    For further information visit https://errors.pydantic.dev/2.13/v/"


def problem(speculative: Mapping[str, Any] | None) -> str | None:
    """Return the text (several lines) with which vLLM refuses these settings, None when it takes them."""
    if speculative is None:
        return None
    for key, value in speculative.items():
        if key not in KEYS:
            return unexpected(key, value)
    method = speculative.get("method")
    if method not in METHODS:
        return _choice("method", METHODS, method)
    for key, choices in _CHOICES.items():
        if key in speculative and speculative[key] not in choices:
            return _choice(key, choices, speculative[key])
    return _depth_problem(speculative) or _synthetic_problem(speculative)


def unexpected(key: str, value: Any) -> str:
    """Return the text for a key that the version does not know."""
    found = f"[type=unexpected_keyword_argument, input_value={value!r}, input_type={type(value).__name__}]"
    return f"{_HEADER}\n{key}\n  Unexpected keyword argument {found}\n{_MORE}unexpected_keyword_argument"


def _choice(key: str, choices: tuple[str, ...], value: Any) -> str:
    listed = ", ".join(repr(choice) for choice in choices[:-1]) + f" or {choices[-1]!r}"
    found = f"[type=literal_error, input_value={value!r}, input_type={type(value).__name__}]"
    return f"{_HEADER}\n{key}\n  Input should be {listed} {found}\n{_MORE}literal_error"


def _value_error(text: str) -> str:
    found = "[type=value_error, input_value=ArgsKwargs(...), input_type=ArgsKwargs]"
    return f"{_HEADER}\n  Value error, {text} {found}\n{_MORE}value_error"


def _depth_problem(speculative: Mapping[str, Any]) -> str | None:
    depth = speculative.get("num_speculative_tokens")
    if depth is None:
        return _value_error(
            "num_speculative_tokens must be provided with speculative model unless the draft model config contains an "
            "n_predict parameter."
        )
    if type(depth) is not int or depth <= 0:
        found = f"[type=greater_than, input_value={depth!r}, input_type={type(depth).__name__}]"
        return f"{_HEADER}\nnum_speculative_tokens\n  Input should be greater than 0 {found}\n{_MORE}greater_than"
    return None


def _synthetic_problem(speculative: Mapping[str, Any]) -> str | None:
    if speculative.get("rejection_sample_method") != "synthetic":
        return None
    rates = speculative.get("synthetic_acceptance_rates")
    length = speculative.get("synthetic_acceptance_length")
    depth = int(speculative["num_speculative_tokens"])
    if (rates is None) == (length is None):
        return _value_error(
            "exactly one of synthetic_acceptance_rates and synthetic_acceptance_length must be set when "
            "rejection_sample_method is 'synthetic'."
        )
    if length is not None:
        if 1 <= float(length) <= depth + 1:
            return None
        return _value_error(f"synthetic_acceptance_length must be in [1, {depth + 1}], got {length}.")
    rates = list(rates or ())
    if len(rates) != depth:
        return _value_error(f"synthetic_acceptance_rates must have length {depth}, got {rates}.")
    falling = all(a >= b for a, b in pairwise(rates))
    if not falling or not all(0 <= rate <= 1 for rate in rates):
        return _value_error(f"synthetic_acceptance_rates must be non-increasing and within [0, 1], got {rates}.")
    return None

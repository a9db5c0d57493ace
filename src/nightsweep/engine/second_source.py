"""The KV budget from a second source: metrics of vLLM 0.24 and newer, gauges and `/server_info` of SGLang.

Both sources are kept, and a disagreement is said: neither is corrected by the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nightsweep.engine.dialects import Sample
from nightsweep.engine.exposition import samples_of
from nightsweep.engine.values import BootFacts
from nightsweep.engine.values import KvBudget as KvBudget

CACHE_INFO = "vllm:cache_config_info"
SGLANG_TOKENS = "sglang:max_total_num_tokens"
NAMES = frozenset({CACHE_INFO, SGLANG_TOKENS})
TOLERANCE = 0.005
"""Relative difference of max concurrency that rounding to two digits explains at 1.00x."""


def budgets(page: str, answers: Mapping[str, Any]) -> tuple[KvBudget, ...]:
    """Return every KV budget that a metrics page and an engine's JSON answers tell; both are kept where both are there."""
    info = next((answers[key] for key in ("server_info", "get_server_info") if answers.get(key) is not None), None)
    found = (from_metrics(samples_of(page, names=NAMES)), from_server_info(info))
    return tuple(budget for budget in found if budget is not None)


def from_metrics(samples: Iterable[Sample]) -> KvBudget | None:
    """Return the KV budget that a metrics page tells, or None.

    Source:
        vLLM `vllm:cache_config_info` labels `kv_cache_size_tokens`, `kv_cache_max_concurrency` (0.24+), `num_gpu_blocks`,
        `block_size`; SGLang `sglang:max_total_num_tokens` (0.5.6+).
    """
    best: tuple[int, KvBudget] | None = None
    for name, labels, value in samples:
        found: KvBudget | None = None
        if name == CACHE_INFO:
            found = _from_labels(labels)
        elif name == SGLANG_TOKENS and labels.get("engine_type") != "draft" and value > 0:
            found = KvBudget(int(value), None, None, None, SGLANG_TOKENS)
        index = _index(labels.get("engine") or labels.get("dp_rank"))
        if found is not None and (best is None or index < best[0]):
            best = (index, found)
    return best[1] if best else None


def from_server_info(answer: Any) -> KvBudget | None:
    """Return the KV budget that SGLang's `/server_info` (or `/get_server_info`) tells, or None.

    Source:
        `internal_states[].memory_usage.token_capacity` (0.4.10+); `max_total_num_tokens` of older answers.
    """
    if not isinstance(answer, Mapping):
        return None
    states = answer.get("internal_states")
    first = states[0] if isinstance(states, list) and states and isinstance(states[0], Mapping) else {}
    usage = first.get("memory_usage")
    capacity = usage.get("token_capacity") if isinstance(usage, Mapping) else None
    tokens = capacity if capacity is not None else answer.get("max_total_num_tokens")
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        return None
    return KvBudget(tokens, None, None, None, "/server_info")


def disagreement(facts: BootFacts, budget: KvBudget | None) -> str | None:
    """Return how the boot log and the second source differ about the KV cache, or None."""
    if budget is None:
        return None
    if facts.kv_tokens is not None and budget.tokens is not None and facts.kv_tokens != budget.tokens:
        return f"the boot log says {facts.kv_tokens:,} KV cache tokens, {budget.source} says {budget.tokens:,}"
    logged, told = facts.max_concurrency, budget.max_concurrency
    if logged is not None and told is not None and abs(logged - told) > max(0.005001, TOLERANCE * told):
        return f"the boot log says {logged}x max concurrency, {budget.source} says {told:.2f}x"
    return None


def _from_labels(labels: Mapping[str, str]) -> KvBudget | None:
    tokens = _number(labels.get("kv_cache_size_tokens"))
    blocks = _number(labels.get("num_gpu_blocks"))
    if tokens is None and blocks is None:
        return None
    block_size = _number(labels.get("block_size"))
    return KvBudget(
        tokens=None if tokens is None else int(tokens),
        max_concurrency=_number(labels.get("kv_cache_max_concurrency")),
        blocks=None if blocks is None else int(blocks),
        block_size=None if block_size is None else int(block_size),
        source=CACHE_INFO,
    )


def _index(text: str | None) -> int:
    """Return the number of an engine; one without a number comes first."""
    return int(text) if text is not None and text.isdecimal() else -1


def _number(text: str | None) -> float | None:
    """Return a label's number; "None" and nonsense are None."""
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and value == value and abs(value) != float("inf") else None

"""Metric dialects: which series of which engine version hold which canonical value, and how a page is read by them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nightsweep.engine.values import Dialect, Series, Unavailable
from nightsweep.engine.versions import Version, parse_version

Sample = tuple[str, Mapping[str, str], float]
Entry = tuple[Series, ...] | Unavailable

RANK_LABELS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "ep_rank", "attn_tp_rank", "attn_cp_rank", "moe_dp_rank"})
"""Labels whose members report the same thing once more: never summed over. `dp_rank` and `engine` are summed over."""

NEWEST: Version = (9999, 0, 0)


def select(samples: Iterable[Sample], dialect: Dialect) -> dict[str, float]:
    """Return canonical values of one metrics page; a canonical name that the page does not hold is absent, never 0.

    Of alternatives, the first that the page holds is taken. Engines (data parallel) and models (adapters) are combined
    as the series says; ranks that report the same value once more count once, with the largest value, because a rank
    that does not report stays at zero. A draft worker's own series (SGLang `engine_type="draft"`) and values that are
    not finite are left out. Names match exactly, so `_created` companions and histograms that look like counters are
    not taken for them.

    Args:
        samples: (series name as scraped, labels, value).
        dialect: Where this engine version keeps its counters.
    """
    wanted = {
        series.name for entry in dialect.series.values() if not isinstance(entry, Unavailable) for series in entry
    }
    pages: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for name, labels, value in samples:
        if name in wanted and math.isfinite(value) and labels.get("engine_type") != "draft":
            pages.setdefault(name, {})[tuple(sorted(labels.items()))] = value
    values: dict[str, float] = {}
    for canonical, entry in dialect.series.items():
        if isinstance(entry, Unavailable):
            continue
        for series in entry:
            found = _combined(canonical, series, pages.get(series.name, {}))
            if found:
                values.update(found)
                break
    return values


def _combined(canonical: str, series: Series, members: Mapping[tuple[tuple[str, str], ...], float]) -> dict[str, float]:
    by_rank: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for labels, value in members.items():
        told = dict(labels)
        if any(told.get(label) != wanted for label, wanted in series.labels.items()):
            continue
        name = canonical
        if series.by is not None:
            if series.by not in told:
                continue
            name = f"{canonical}[{told[series.by]}]"
        without_ranks = tuple(item for item in labels if item[0] not in RANK_LABELS)
        group = by_rank.setdefault(name, {})
        group[without_ranks] = max(value, group.get(without_ranks, value))
    return {name: _fold(series.combine, list(group.values())) for name, group in by_rank.items()}


def _fold(how: str, values: list[float]) -> float:
    if how == "max":
        return max(values)
    if how == "mean":
        return math.fsum(values) / len(values)
    return math.fsum(values)


def _one(name: str, *, by: str | None = None, combine: str = "sum", **labels: str) -> tuple[Series, ...]:
    return (Series(name=name, labels=labels, by=by, combine=combine),)


# --- vLLM --------------------------------------------------------------------------------------------------------

VLLM_STEPS = (
    "one count per engine step with output; with data parallelism each engine counts its own steps, and they are summed"
)


def vllm_dialect(version: str | None) -> Dialect:
    """Return where vLLM of this version keeps its counters; an unknown version is read with every name there ever was.

    Source:
        vLLM `v1/metrics/loggers.py` and `engine/metrics.py`, 0.6.0 to 0.33.0. Counters advance at every engine step.
    """
    known = parse_version(version)
    series: dict[str, Entry] = {
        "generation_tokens": _one("vllm:generation_tokens_total"),
        "prompt_tokens": _one("vllm:prompt_tokens_total"),
        "running": _one("vllm:num_requests_running"),
        "waiting": _one("vllm:num_requests_waiting"),
        "preemptions": _one("vllm:num_preemptions_total"),
        "requests_finished": _one("vllm:request_success_total"),
        "steps": _since(known, (0, 6, 6), _one("vllm:iteration_tokens_total_count"), "step histogram"),
        "process_start": (
            *_one("process_start_time_seconds", combine="max"),
            *_one("vllm:generation_tokens_created", combine="max"),
        ),
        **_vllm_cache(known),
        **_vllm_drafts(known),
        **_vllm_times(known),
    }
    return Dialect(engine="vllm", version=version or "unknown", series=series, step_semantics=VLLM_STEPS)


def _since(known: Version | None, since: Version, entry: Entry, what: str) -> Entry:
    if known is not None and known < since:
        return Unavailable(f"vLLM exposes the {what} since {'.'.join(map(str, since))}")
    return entry


def _vllm_cache(known: Version | None) -> dict[str, Entry]:
    entries: dict[str, Entry] = {
        "prompt_tokens_computed": _since(
            known,
            (0, 16, 0),
            _one("vllm:prompt_tokens_by_source_total", source="local_compute"),
            "prompt tokens by source",
        ),
        "prompt_tokens_cached": _since(
            known, (0, 16, 0), _one("vllm:prompt_tokens_cached_total"), "cached prompt tokens"
        ),
        "kv_cache_usage": (
            *_one("vllm:kv_cache_usage_perc", combine="max"),
            *_one("vllm:gpu_cache_usage_perc", combine="max"),
        ),
    }
    for kind in ("hits", "queries"):
        older = _one(f"vllm:gpu_prefix_cache_{kind}_total")
        entry: Entry = (*_one(f"vllm:prefix_cache_{kind}_total"), *older)
        if known is not None and known < (0, 7, 3):
            entry = Unavailable(f"vLLM counts prefix-cache {kind} since 0.7.3; before it has only a hit-rate gauge")
        elif known is not None and known < (0, 9, 0):
            entry = Unavailable(f"vLLM before 0.9.0 counts prefix-cache {kind} in blocks, not in tokens")
        entries[f"prefix_cache_{kind}"] = entry
    return entries


def _vllm_drafts(known: Version | None) -> dict[str, Entry]:
    drafts, positions = "vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    return {
        "drafts": _since(known, (0, 8, 5), _one(drafts), "count of drafts"),
        "draft_tokens": _one("vllm:spec_decode_num_draft_tokens_total"),
        "accepted_tokens": _one("vllm:spec_decode_num_accepted_tokens_total"),
        "accepted_per_position": _since(known, (0, 8, 5), _one(positions, by="position"), "acceptance by position"),
    }


def _vllm_times(known: Version | None) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for part in ("count", "sum"):
        entries[f"itl_{part}"] = (
            *_one(f"vllm:inter_token_latency_seconds_{part}"),
            *_one(f"vllm:time_per_output_token_seconds_{part}"),
        )
        entries[f"prefill_seconds_{part}"] = _since(
            known, (0, 6, 6), _one(f"vllm:request_prefill_time_seconds_{part}"), "prefill time of a request"
        )
    return entries


# --- SGLang ------------------------------------------------------------------------------------------------------

SGLANG_STEPS = "SGLang exposes no counter of engine steps; its inter-token histogram counts tokens, not steps"
_NO_DRAFTS = (
    "SGLang has no counters of drafts, draft tokens or accepted tokens in any version; it has gauges of the last "
    "interval and per-request numbers"
)


def sglang_dialect(version: str | None) -> Dialect:
    """Return where SGLang of this version keeps its counters (they need `--enable-metrics`).

    `sglang:generation_tokens_total` moves only when a request ends, so it cannot bound a window; `realtime_tokens_total`
    moves with every forward pass, accepted draft tokens included.

    Source:
        SGLang `srt/metrics/collector.py` and `srt/observability`, 0.4.0 to 0.5.23.
    """
    known = parse_version(version)
    realtime = "sglang:realtime_tokens_total"
    series: dict[str, Entry] = {
        "generation_tokens": _one(realtime, mode="decode"),
        "generation_tokens_finished": _one("sglang:generation_tokens_total"),
        "prompt_tokens": _one("sglang:prompt_tokens_total"),
        "prompt_tokens_computed": _one(realtime, mode="prefill_compute"),
        "prefix_cache_hits": (*_one(realtime, mode="prefill_cache"), *_one("sglang:cached_tokens_total")),
        "running": _one("sglang:num_running_reqs"),
        "waiting": _one("sglang:num_queue_reqs"),
        "preemptions": _one("sglang:num_retracted_requests_total"),
        "requests_finished": _one("sglang:num_requests_total"),
        "spec_verify_calls_finished": _one("sglang:spec_verify_calls_total"),
        "acceptance_length_gauge": _one("sglang:spec_accept_length", combine="mean"),
        "acceptance_rate_gauge": _one("sglang:spec_accept_rate", combine="mean"),
        "kv_cache_usage": _one("sglang:token_usage", combine="max"),
        "process_start": _one("process_start_time_seconds", combine="max"),
    }
    if known is not None and known < (0, 5, 7):
        series |= _sglang_before_realtime()
    for name in ("drafts", "draft_tokens", "accepted_tokens", "accepted_per_position"):
        series[name] = Unavailable(_NO_DRAFTS)
    for name in ("steps", "itl_count", "itl_sum"):
        series[name] = Unavailable(SGLANG_STEPS)
    for name in ("prefill_seconds_sum", "prefill_seconds_count"):
        series[name] = Unavailable("SGLang exposes no prefill time of a request")
    return Dialect(
        engine="sglang",
        version=version or "unknown",
        series=series,
        step_semantics=SGLANG_STEPS,
        state_paths=("/server_info", "/get_server_info"),
    )


def state_values(answer: Any) -> dict[str, float]:
    """Return by canonical name what SGLang's state tells; absent is absent.

    Source:
        SGLang `/server_info` (0.5.6+; `/get_server_info` before): `internal_states[].avg_spec_accept_length`, one per engine
        of data parallelism, cumulative since the boot or the last flush of the cache.
    """
    states = answer.get("internal_states") if isinstance(answer, dict) else None
    told = [state.get("avg_spec_accept_length") for state in states or () if isinstance(state, dict)]
    lengths = [float(value) for value in told if isinstance(value, int | float) and value >= 1.0]
    return {"acceptance_length_state_gauge": math.fsum(lengths) / len(lengths)} if lengths else {}


def _sglang_before_realtime() -> dict[str, Entry]:
    because = "SGLang counts tokens while they come only since 0.5.7; before, its counters move when a request ends"
    return {
        "generation_tokens": Unavailable(because),
        "prompt_tokens_computed": Unavailable(because),
        "prefix_cache_hits": _one("sglang:cached_tokens_total"),
        "preemptions": Unavailable("SGLang counts retracted requests since 0.5.7"),
    }


# --- all that an engine has served -------------------------------------------------------------------------------

_SERVED: Mapping[str, Mapping[str, Entry]] = {
    "vllm": {
        "served_requests": _one("vllm:request_prompt_tokens_count"),
        "served_prompt_tokens": _one("vllm:request_prompt_tokens_sum"),
        "served_generation_tokens": _one("vllm:request_generation_tokens_sum"),
        "served_seconds": _one("vllm:e2e_request_latency_seconds_sum"),
    },
    "sglang": {
        "served_requests": _one("sglang:num_requests_total"),
        "served_prompt_tokens": _one("sglang:prompt_tokens_total"),
        "served_generation_tokens": _one("sglang:generation_tokens_total"),
        "served_seconds": _one("sglang:e2e_request_latency_seconds_sum"),
    },
}


def with_served(dialect: Dialect) -> Dialect:
    """Return the dialect with what tells of the requests that an engine has served; no window needs it.

    A request is in them when it has ended, with its whole length; one that its client gave up is in none of vLLM's. Prompt
    tokens are of whole prompts, also where a cache had them.

    Source:
        vLLM `v1/metrics/loggers.py`, histograms of finished requests. SGLang `srt/metrics/collector.py`, whose counters of
        requests and tokens move when a request ends.
    """
    return replace(dialect, series={**dialect.series, **_SERVED.get(dialect.engine, {})})

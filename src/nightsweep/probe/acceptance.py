"""Per-request acceptance out of the last event of a stream, in the words of both engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightsweep.measurement.values import RequestAcceptance
from nightsweep.units import Tokens

_NATIVE = {
    "drafts": ("spec_verify_ct",),
    "accepted_tokens": ("spec_num_correct_drafts", "spec_accept_token_num"),
    "draft_tokens": ("spec_num_proposed_drafts", "spec_draft_token_num"),
}
_NATIVE_HISTOGRAMS = ("spec_correct_drafts_histogram", "spec_accept_histogram")


def acceptance_of(event: Mapping[str, Any]) -> RequestAcceptance | None:
    """Return what the event says of its request's drafts; None when it says nothing.

    Source:
        vLLM 0.29+ with `--per-request-spec-decode-metrics summary`: `metrics.speculative_decoding`. SGLang's native
        `/generate`: `meta_info.spec_*` (0.4.6+ `spec_verify_ct`, the rest since 0.5.9, renamed in 0.5.23).
    """
    metrics, native = event.get("metrics"), event.get("meta_info")
    if isinstance(metrics, Mapping) and isinstance(metrics.get("speculative_decoding"), Mapping):
        return _vllm(metrics["speculative_decoding"])
    if isinstance(native, Mapping) and _whole(native.get("spec_verify_ct")):
        return _sglang(native)
    return None


def _vllm(told: Mapping[str, Any]) -> RequestAcceptance:
    return RequestAcceptance(
        source="metrics.speculative_decoding",
        drafts=_whole(told.get("num_spec_steps")),
        draft_tokens=_whole(told.get("num_draft_tokens")),
        accepted_tokens=_whole(told.get("num_accepted_draft_tokens")),
        histogram=_histogram(told.get("acceptance_histogram")),
        length=_number(told.get("mean_acceptance_length")),
    )


def _sglang(told: Mapping[str, Any]) -> RequestAcceptance:
    found = {
        name: next((n for key in keys if (n := _whole(told.get(key))) is not None), None)
        for name, keys in _NATIVE.items()
    }
    drafts, made = found["drafts"], _whole(told.get("completion_tokens"))
    if found["accepted_tokens"] is None and drafts and made:
        # Older versions count only the steps: each yields its bonus token, and the first token is the prefill's.
        found["accepted_tokens"] = Tokens(max(made - 1 - drafts, 0))
    return RequestAcceptance(
        source="meta_info.spec_verify_ct and its companions",
        drafts=drafts,
        draft_tokens=found["draft_tokens"],
        accepted_tokens=found["accepted_tokens"],
        histogram=next((h for key in _NATIVE_HISTOGRAMS if (h := _histogram(told.get(key))) is not None), None),
        length=_number(told.get("spec_accept_length")),
    )


def _whole(value: Any) -> Tokens | None:
    return Tokens(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _histogram(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, Mapping):
        keyed = {int(key): count for key, count in value.items() if str(key).isdigit()}
        value = [keyed.get(i, 0) for i in range(max(keyed, default=-1) + 1)]
    if not isinstance(value, list) or not value or not all(isinstance(count, int) for count in value):
        return None
    return tuple(value)

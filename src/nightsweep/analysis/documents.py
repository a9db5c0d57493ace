"""Rows and summaries as plain documents for programs: snake_case keys, units in the names, absent is null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightsweep.analysis.values import (
    BootRow,
    Event,
    PrefillRow,
    PrefillSummary,
    Spread,
    SweepRow,
    WindowRow,
)
from nightsweep.plan.words import MEASURED, WHOLE_RUN

if TYPE_CHECKING:
    from nightsweep.analysis.progress import ConfigProgress
from nightsweep.analysis.text import temperature_or_none

Document = dict[str, Any]

SPREAD_PARTS = ("mean", "n", "boots", "min", "max", "sd", "cv")
"""What is told of a number: keys of `spread_document`."""

BOOT_FIELDS: tuple[str, ...] = (
    "boot_id",
    "sweep_id",
    "sweep",
    "config",
    "config_fingerprint",
    "boot_round",
    "attempt",
    "state",
    "started",
    "ended",
    "cold_start_seconds",
    "weights_gib",
    "draft_weights_gib",
    "kv_cache_gib",
    "kv_cache_tokens",
    "max_concurrency",
    "max_concurrency_at_tokens",
    "engine",
    "engine_version",
    "image",
    "image_digest",
    "exit_code",
    "oom_killed",
    "failure.kind",
    "failure.stage",
    "failure.lines",
    "failure.remedy",
    "failure.retry",
    "not_applied",
    "notes",
    "kv_second",
    "windows",
    "box",
    "simulated",
    "source",
)
"""Columns of the CSV of boots: dotted paths into `boot_document`."""

SWEEP_FIELDS: tuple[str, ...] = (
    "sweep_id",
    "name",
    "state",
    "box",
    "simulated",
    "created",
    "started",
    "ended",
    "owner",
    "note",
    "phase",
    "configs",
    "repeats_planned",
    "repeats_clean",
    "windows_flagged",
    "boots_failed",
    "prefect_run",
    "reused",
    "stop_wish",
    "source",
)
"""Columns of the CSV of sweeps: keys of `sweep_document`."""


def source_of(source: str | None) -> str:
    """Return where a row is from: `imported:TOOL`, or `measured` for all that has no such condition."""
    return source or MEASURED


def prefill_document(prefill: PrefillSummary) -> Document:
    """Return a prefill summary."""
    return {
        "config": prefill.config,
        "config_fingerprint": prefill.config_fingerprint,
        "prompt_tokens": prefill.prompt_tokens,
        "streams_beside": prefill.under_load,
        "decode_slowdown": spread_document(prefill.slowdown),
        "prefill_rate_tokens_per_second": spread_document(prefill.rate),
        "ttft_seconds": spread_document(prefill.ttft),
        "flagged": prefill.flagged,
        "flags": list(prefill.flags),
        "conditions": prefill.conditions,
        "box": prefill.box,
        "simulated": prefill.simulated,
    }


def prefill_row_document(prefill: PrefillRow) -> Document:
    """Return one prefill measurement, as stored; times in seconds."""
    return {
        "prefill_id": prefill.prefill_id,
        "sweep_id": prefill.sweep_id,
        "boot_id": prefill.boot_id,
        "config": prefill.config,
        "config_fingerprint": prefill.config_fingerprint,
        "tokens": prefill.tokens,
        "streams_beside": prefill.under_load,
        "repeat": prefill.repeat,
        "attempt": prefill.attempt,
        "started": _iso(prefill.started),
        "flags": list(prefill.flags),
        "detail": prefill.detail,
        "prompt_tokens": prefill.prompt_tokens,
        "cached_tokens": prefill.cached_tokens,
        "prefill_rate_tokens_per_second": prefill.rate,
        "ttft_seconds": prefill.ttft,
        "conditions": prefill.conditions,
        "box": prefill.box,
        "simulated": prefill.simulated,
    }


def window_document(window: WindowRow) -> Document:
    """Return one window, as stored."""
    return {
        "window_id": window.window_id,
        "sweep_id": window.sweep_id,
        "boot_id": window.boot_id,
        "config": window.config,
        "config_fingerprint": window.config_fingerprint,
        "kind": window.kind,
        "concurrency": window.concurrency,
        "temperature": temperature_or_none(window.temperature),
        "repeat": window.repeat,
        "attempt": window.attempt,
        "started": _iso(window.started),
        "flags": list(window.flags),
        "flag_details": dict(window.flag_details),
        "not_applied": list(window.not_applied),
        "notes": list(window.notes),
        "decode_rate_tokens_per_second": None if window.kind == WHOLE_RUN else window.decode_rate,
        "whole_run_rate_tokens_per_second": window.decode_rate if window.kind == WHOLE_RUN else None,
        "acceptance_length": window.acceptance_length,
        "step_time_seconds": window.step_time,
        "window_seconds": window.seconds,
        "conditions": window.conditions,
        "box": window.box,
        "simulated": window.simulated,
        "source": source_of(window.source),
    }


def boot_document(boot: BootRow) -> Document:
    """Return a boot with its facts; `failure` is null for one that did not fail."""
    failure = None
    if boot.failure_kind is not None:
        failure = {
            "kind": boot.failure_kind,
            "stage": boot.failure_stage,
            "lines": list(boot.failure_lines),
            "remedy": boot.failure_remedy,
            "retry": boot.retry,
        }
    return {
        "boot_id": boot.boot_id,
        "sweep_id": boot.sweep_id,
        "sweep": boot.sweep_name,
        "config": boot.config,
        "config_fingerprint": boot.config_fingerprint,
        "boot_round": boot.boot_round,
        "attempt": boot.attempt,
        "state": boot.state,
        "started": _iso(boot.started),
        "ended": _iso(boot.ended),
        "cold_start_seconds": boot.cold_start,
        "weights_gib": boot.weights,
        "draft_weights_gib": boot.draft_weights,
        "kv_cache_gib": boot.kv_cache,
        "kv_cache_tokens": boot.kv_tokens,
        "max_concurrency": boot.max_concurrency,
        "max_concurrency_at_tokens": boot.max_concurrency_tokens,
        "engine": boot.engine,
        "engine_version": boot.engine_version,
        "image": boot.image,
        "image_digest": boot.image_digest,
        "exit_code": boot.exit_code,
        "oom_killed": boot.oom_killed,
        "failure": failure,
        "not_applied": list(boot.not_applied),
        "notes": list(boot.notes),
        "kv_second": dict(boot.kv_second),
        "windows": boot.windows,
        "box": boot.box,
        "simulated": boot.simulated,
        "source": source_of(boot.source),
        "command": list(boot.command),
        "facts": dict(boot.facts),
    }


def sweep_document(sweep: SweepRow) -> Document:
    """Return a sweep and how far it is."""
    document = sweep._asdict()
    document.update(created=_iso(sweep.created), started=_iso(sweep.started), ended=_iso(sweep.ended))
    return document


def progress_document(progress: ConfigProgress) -> Document:
    """Return how far one config of a sweep is."""
    return asdict(progress)


def event_document(event: Event) -> Document:
    """Return an event."""
    return {**event._asdict(), "at": _iso(event.at)}


def spread_document(spread: Spread | None) -> Document | None:
    """Return a mean with its run count and range; null when nothing was measured."""
    if spread is None:
        return None
    return dict(zip(SPREAD_PARTS, spread_parts(spread), strict=True))


def spread_parts(spread: Spread) -> tuple[float | None, ...]:
    """Return what is told of a number, in the order of `SPREAD_PARTS`."""
    return (spread.mean, spread.n, spread.boots, spread.minimum, spread.maximum, spread.sd, spread.cv)


def flat_rows(documents: Iterable[Document], *, fields: Sequence[str]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return header and rows for `csv.writer`: dotted paths become names with an underscore, absent is an empty field.

    Lists are joined by "; ", mappings become "key=value; ...".
    """
    return header_of(fields), [[flat(at_path(document, path)) for path in fields] for document in documents]


def header_of(fields: Iterable[str]) -> tuple[str, ...]:
    """Return the columns' names of dotted paths."""
    return tuple(path.replace(".", "_") for path in fields)


def at_path(document: Mapping[str, Any], path: str) -> Any:
    """Return what stands at a dotted path; None where something on the way is absent. A key may hold dots itself."""
    if path in document:
        return document[path]
    found: Any = document
    for key in path.split("."):
        if found is None:
            return None
        found = found[key]
    return found


def flat(value: Any) -> str | int | float:
    """Return what stands in a field of a row for `csv.writer`."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={_item(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_item(item) for item in value)
    return value if isinstance(value, int | float) else str(value)


def _item(value: Any) -> str:
    """Return a member of a list or a mapping: as it is, or as JSON where it holds more."""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(finite(value), default=plain_json)
    return str(value)


def finite(value: Any) -> Any:
    """Return the document with null where a float is not finite: JSON has no word for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def plain_json(value: Any) -> Any:
    """Return what JSON has no word for as what it has: decimals as numbers, moments in ISO 8601, the rest as text."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return _iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()

"""Rows and summaries as plain documents for programs: snake_case keys, units in the names, absent is null."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any

from nightsweep.analysis.values import (
    BootRow,
    CellSummary,
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

_SPREAD = ("mean", "n", "boots", "min", "max", "sd", "cv")

CELL_FIELDS: tuple[str, ...] = (
    "config",
    "config_fingerprint",
    "concurrency",
    "temperature",
    *(f"decode_rate_tokens_per_second.{part}" for part in _SPREAD),
    *(f"decode_rate_per_stream_tokens_per_second.{part}" for part in _SPREAD),
    *(f"acceptance_length.{part}" for part in _SPREAD),
    *(f"acceptance_rate.{part}" for part in _SPREAD),
    *(f"step_time_seconds.{part}" for part in _SPREAD),
    *(f"tokens_per_step_and_stream.{part}" for part in _SPREAD),
    *(f"occupancy.{part}" for part in _SPREAD),
    *(f"streams_per_step.{part}" for part in _SPREAD),
    *(f"ttft_p50_seconds.{part}" for part in _SPREAD),
    *(f"tpot_p50_seconds.{part}" for part in _SPREAD),
    "windows_flagged",
    "flags",
    "engine_versions",
    "not_applied",
    "notes",
    "conditions",
    "box",
    "simulated",
    "source",
    "runs",
)
"""Columns of the CSV of cells: dotted paths into `cell_document`."""

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


def cell_document(cell: CellSummary) -> Document:
    """Return a cell; every number with mean, n, boots, min, max, sd and CV (a ratio).

    `n` counts stored rows, `runs` the runs that stand behind the rate: more where an imported row is a mean of several, null
    where its file does not say how many.
    """
    return {
        "config": cell.config,
        "config_fingerprint": cell.config_fingerprint,
        "concurrency": cell.concurrency,
        "temperature": temperature_or_none(cell.temperature),
        "decode_rate_tokens_per_second": spread_document(cell.decode_rate),
        "decode_rate_per_stream_tokens_per_second": spread_document(cell.per_stream),
        "acceptance_length": spread_document(cell.acceptance_length),
        "acceptance_rate": spread_document(cell.acceptance_rate),
        "step_time_seconds": spread_document(cell.step_time),
        "tokens_per_step_and_stream": spread_document(cell.tokens_per_step_and_stream),
        "occupancy": spread_document(cell.occupancy),
        "streams_per_step": spread_document(cell.streams_per_step),
        "ttft_p50_seconds": spread_document(cell.ttft_p50),
        "tpot_p50_seconds": spread_document(cell.tpot_p50),
        "windows_flagged": cell.flagged,
        "flags": dict(cell.flag_counts),
        "engine_versions": list(cell.engine_versions),
        "not_applied": list(cell.not_applied),
        "notes": list(cell.notes),
        "conditions": cell.conditions,
        "box": cell.box,
        "simulated": cell.simulated,
        "source": source_of(cell.source),
        "runs": 0 if cell.decode_rate is None else cell.decode_rate.runs,
    }


def single_batch_document(cell: CellSummary) -> Document:
    """Return a single-batch cell: as a cell, with the rate as SGLang's report states it."""
    return {
        **cell_document(cell),
        "kind": "single_batch",
        "report_rate_tokens_per_second": spread_document(cell.report_rate),
    }


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
    document = asdict(sweep)
    document.update(created=_iso(sweep.created), started=_iso(sweep.started), ended=_iso(sweep.ended))
    return document


def progress_document(progress: ConfigProgress) -> Document:
    """Return how far one config of a sweep is."""
    return asdict(progress)


def event_document(event: Event) -> Document:
    """Return an event."""
    return {**asdict(event), "at": _iso(event.at)}


def spread_document(spread: Spread | None) -> Document | None:
    """Return a mean with its run count and range; null when nothing was measured."""
    if spread is None:
        return None
    return {
        "mean": spread.mean,
        "n": spread.n,
        "boots": spread.boots,
        "min": spread.minimum,
        "max": spread.maximum,
        "sd": spread.sd,
        "cv": spread.cv,
    }


_PLAIN = frozenset((float, int, str, type(None)))
"""Types of nearly all fields of a long list, which CSV's writer takes as they are: they are spared a call."""


def flat_rows(documents: Iterable[Document], *, fields: Sequence[str]) -> tuple[tuple[str, ...], list[list[Any]]]:
    """Return header and rows for `csv.writer`: dotted paths become names with an underscore, absent is None (an empty field).

    Lists are joined by "; ", mappings become "key=value; ...".
    """
    header = tuple(path.replace(".", "_") for path in fields)
    runs = _runs(fields)
    rows = []
    for document in documents:
        row: list[Any] = []
        for head, inner, paths in runs:
            whole = document.get(head) if inner else None
            if type(whole) is dict and document.keys().isdisjoint(paths):
                row += map(whole.__getitem__, inner)
            else:
                row += [at_path(document, path) for path in paths]
        rows.append([value if type(value) in _PLAIN else _flat(value) for value in row])
    return header, rows


def _runs(fields: Sequence[str]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return (head, keys below it, whole paths) of neighbours below one head, which are looked up at once.

    What is below none has no keys.
    """
    found = []
    for head, group in groupby(fields, key=lambda path: path.partition(".")[0]):
        paths = tuple(group)
        inner = tuple(path.partition(".")[2] for path in paths)
        found.append((head, inner if all(inner) and not any("." in key for key in inner) else (), paths))
    return found


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


def _flat(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={_item(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_item(item) for item in value)
    return str(value)


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

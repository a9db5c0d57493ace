"""Rows of the database as frozen values."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from nightsweep.analysis.values import BootRow, Event, PrefillRow, ProductionRow, SweepRow, WindowRow
from nightsweep.measurement.traffic import from_document
from nightsweep.store.handed import taken_over

_AS_READ = {"started": "started_at", "step_time": "step_time_s", "not_applied": "applied"}
_FLAGS, _POSITIONS, _NOT_APPLIED, _NOTES, _REUSED = map(
    WindowRow._fields.index, ("flags", "positions", "not_applied", "notes", "reused_from")
)


def windows_in(answer: sa.Result[Any]) -> list[WindowRow]:
    """Return windows. All values of one are taken at once, by their places: a long list is read in a fifth of the time."""
    at = {name: place for place, name in enumerate(answer.keys())}
    values_in = itemgetter(*(at[_AS_READ.get(name, name)] for name in WindowRow._fields))
    return [_window(list(values_in(row))) for row in answer.all()]


def _window(values: list[Any]) -> WindowRow:
    applied, positions = values[_NOT_APPLIED], values[_POSITIONS]
    values[_FLAGS] = tuple(values[_FLAGS])
    values[_POSITIONS] = None if positions is None else tuple(positions)
    values[_NOT_APPLIED] = tuple(applied.get("not_applied", ()))
    values[_NOTES] = (*applied.get("notes", ()), *values[_NOTES], *reused_note(values[_REUSED]))
    return WindowRow._make(values)


def prefill_row(row: Any) -> PrefillRow:
    """Return a prefill."""
    return PrefillRow(
        prefill_id=row.prefill_id,
        sweep_id=row.sweep_id,
        boot_id=row.boot_id,
        config=row.config,
        config_fingerprint=row.config_fingerprint,
        repeat=row.repeat,
        attempt=row.attempt,
        started=row.started_at,
        flags=tuple(row.flags),
        prompt_tokens=row.prompt_tokens,
        ttft=row.ttft_s,
        rate=row.rate,
        cached_tokens=row.cached_tokens,
        box=row.box,
        simulated=row.simulated,
        conditions=row.conditions,
        tokens=row.tokens,
        under_load=row.under_load,
        reused_from=row.reused_from,
        slowdown=_number(row.facts.get("decode_slowdown")),
        detail=row.detail,
    )


def reused_note(sweep: int | None) -> tuple[str, ...]:
    """Return the note of a measurement that another sweep made."""
    return () if sweep is None else (f"reused from sweep {sweep}",)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def boot_row(row: Any) -> BootRow:
    """Return a boot."""
    return BootRow(
        boot_id=row.boot_id,
        sweep_id=row.sweep_id,
        sweep_name=row.sweep_name,
        config=row.config,
        config_fingerprint=row.config_fingerprint,
        boot_round=row.boot_round,
        attempt=row.attempt,
        state=row.state,
        started=row.started_at,
        ended=row.ended_at,
        cold_start=row.cold_start_s,
        weights=row.weights_gib,
        draft_weights=row.draft_weights_gib,
        kv_cache=row.kv_cache_gib,
        kv_tokens=row.kv_tokens,
        max_concurrency=row.max_concurrency,
        max_concurrency_tokens=row.max_concurrency_tokens,
        engine=row.engine,
        engine_version=row.engine_version,
        image=row.image,
        image_digest=row.image_digest,
        exit_code=row.exit_code,
        oom_killed=row.oom_killed,
        failure_kind=row.failure_kind,
        failure_stage=row.failure_stage,
        failure_lines=tuple(row.failure_lines),
        failure_remedy=row.failure_remedy,
        retry=row.failure_retry,
        box=row.box,
        simulated=row.is_simulated,
        windows=row.windows,
        facts=row.facts,
        command=tuple(row.command),
        not_applied=tuple(row.applied.get("not_applied", ())),
        notes=tuple(row.applied.get("notes", ())),
        kv_second={budget["source"]: budget for budget in row.applied.get("kv_second", ())},
        source=row.source,
    )


def sweep_row(row: Any) -> SweepRow:
    """Return a sweep."""
    return SweepRow(
        sweep_id=row.id,
        name=row.name,
        state=row.state_now,
        box=row.box,
        simulated=row.simulated,
        created=row.created_at,
        started=row.started_at,
        ended=row.ended_at,
        owner=row.lease_owner,
        note=row.note,
        repeats_planned=max(row.repeats_planned, row.repeats_clean),  # a decision asks for more than its opening
        repeats_clean=row.repeats_clean,
        windows_flagged=row.windows_flagged,
        boots_failed=row.boots_failed,
        configs=row.configs,
        prefect_run=row.prefect_run,
        phase=row.phase,
        stop_wish=row.stop_wish,
        reused=dict(Counter(row.reused or ())),
        source=row.source,
    )


def event(row: Any) -> Event:
    """Return an event."""
    return Event(
        at=row.at, level=row.level, kind=row.kind, message=row.message, sweep_id=row.sweep_id, boot_id=row.boot_id
    )


def production_row(row: Any, *, sweep_id: int) -> ProductionRow:
    """Return what was taken down for a sweep."""
    taken = taken_over(row, sweep_id=sweep_id)
    return ProductionRow(
        container=row.container_name,
        opened=row.opened_at,
        stopped=row.stopped_at,
        restore_by=row.restore_by,
        restore_started=row.restore_started_at,
        closed=row.closed_at,
        outcome=row.outcome,
        checks=row.checks,
        traffic=None if row.traffic is None else from_document(row.traffic),
        taken_over_by=None if taken is None else row.sweep_id,
        taken_over=taken,
    )

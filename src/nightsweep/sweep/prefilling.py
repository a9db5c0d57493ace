"""Prefills in a boot that is up: on an idle engine, and while streams decode."""

from __future__ import annotations

from dataclasses import replace

from nightsweep.analysis.text import plural
from nightsweep.errors import ProbeError
from nightsweep.measurement.values import PrefillResult
from nightsweep.plan.model import PrefillRepeat
from nightsweep.ports import WindowRequest
from nightsweep.sweep.boot import ENDED, Running, died_of, lives_on
from nightsweep.sweep.conditions import conditions_of
from nightsweep.sweep.measure import Measuring, Told, coming_up, first_cell, request_of, until_clean
from nightsweep.units import Seconds

LOADED_WINDOW = Seconds(4.0)
"""Seconds that the streams decode by themselves before the prompt is sent, at most: what the slowdown is held against."""


def measure_prefill(work: Measuring, running: Running, repeat: PrefillRepeat, *, attempts: int) -> PrefillResult:
    """Measure one prefill and keep it; again while it is flagged.

    Raises:
        EngineExited: The engine died; the prefill is kept with its flag.
    """
    tools = work.tools

    def once(attempt: int) -> PrefillResult:
        result = _prefill(work, running, repeat, salt=_salt(work, running, repeat, attempt=attempt))
        if result.detail:
            result = replace(result, detail=running.hide(result.detail))
        tools.store.add_prefill(
            work.lease,
            running.boot_id,
            repeat,
            result,
            attempt=attempt,
            conditions=conditions_of(work.plan, running, box_fingerprint=work.box_fingerprint, software=tools.software),
            at=tools.clock.now(),
        )
        told = Told(work, running, f"{running.config.name} {prefill_name(repeat)}")
        if result.flags:
            told.keep("prefill_flagged", _why(result))
        elif result.detail:
            told.keep("prefill_note", result.detail)
        return result

    return until_clean(work, running, attempts=attempts, once=once)


def prefill_name(repeat: PrefillRepeat) -> str:
    """Return what is measured, for people."""
    load = f" under {plural(repeat.under_load, 'stream')}" if repeat.under_load else ""
    return f"prefill of {repeat.tokens:,} tokens{load} #{repeat.index + 1}"


def prefill_outcome(result: PrefillResult) -> str:
    """Return what came of it, for people."""
    rate = "no number" if result.rate is None else f"{result.rate:,.0f} prompt tokens/s"
    said = _why(result) if result.flags else result.detail
    return f"{rate} [{said}]" if said else rate


def _why(result: PrefillResult) -> str:
    """Return every flag with its reason; the detail of several flags names them itself."""
    return result.detail or "" if len(result.flags) > 1 else f"{result.flags[0]}: {result.detail or ''}"


def _salt(work: Measuring, running: Running, repeat: PrefillRepeat, *, attempt: int) -> str:
    """Return another salt for every prefill there ever was: a prompt that was sent once may be in a cache, in part or whole."""
    place = f"{repeat.tokens}-{repeat.under_load}-{repeat.index}"
    return f"{work.lease.sweep_id}-{running.boot_id}-{place}-{attempt}"


def _prefill(work: Measuring, running: Running, repeat: PrefillRepeat, *, salt: str) -> PrefillResult:
    started = work.tools.clock.now()
    target = replace(running.target, request_timeout=work.probe.request_timeout)
    streams = coming_up(work, f"{running.config.name} {prefill_name(repeat)}", repeat.under_load)
    load = streams.noted_in(_load(work, repeat)) if repeat.under_load else None
    try:
        result = work.tools.probe.prefill(
            target,
            tokens=repeat.tokens,
            salt=salt,
            sampling=work.probe.sampling,
            alive=streams.beside(work.alive(running)),
            load=load,
            waiting=streams.note_waiting,
        )
        if "request_failed" not in result.flags or not died_of(work.tools, running, result.detail):
            return result
        return replace(result, flags=("engine_exited",), detail=f"{ENDED}; {result.detail}")
    except ProbeError as error:
        exited = not lives_on(work.tools, running)
        return PrefillResult(
            started=started,
            prompt_tokens=None,
            ttft=None,
            rate=None,
            cached_tokens=None,
            engine_seconds=None,
            flags=("engine_exited" if exited else "request_failed",),
            source="",
            detail=str(error),
        )


def _load(work: Measuring, repeat: PrefillRepeat) -> WindowRequest:
    """Return the streams that decode meanwhile: at the temperature of the plan's first cell."""
    cell = replace(first_cell(work.probe, repeat.config), concurrency=repeat.under_load)
    return replace(request_of(work, cell, first_prompt=0), window=Seconds(min(LOADED_WINDOW, work.probe.window)))

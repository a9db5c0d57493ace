"""Single-batch runs in a boot that is up: one request alone, kept as a window of a cell of its own kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from nightsweep.engine.speculative import proposed_drafts
from nightsweep.errors import ProbeError, RequestFailed
from nightsweep.measurement.single_batch import derive_single_batch
from nightsweep.measurement.values import RawWindow, WindowResult
from nightsweep.plan.model import Repeat, SingleBatchSpec
from nightsweep.ports import SingleBatchRequest
from nightsweep.sweep.boot import ENDED, Running, died_of, lives_on
from nightsweep.sweep.conditions import single_batch_conditions
from nightsweep.sweep.measure import Measuring, coming_up, kept, noted, until_clean, with_identity
from nightsweep.sweep.surroundings import watched, with_box
from nightsweep.units import Seconds

WATCHED = Seconds(4.0)
"""About how long a run takes, for how often the box is looked at."""


def measure_single_batch(
    work: Measuring, running: Running, repeat: Repeat, spec: SingleBatchSpec, *, attempts: int
) -> WindowResult:
    """Measure one single-batch run and keep it; again, with another prompt, while it is flagged.

    Raises:
        EngineExited: The engine died; the run is kept with its flag.
    """

    def once(attempt: int) -> WindowResult:
        salt = f"single-{work.lease.sweep_id}-{running.boot_id}-{repeat.index}-{attempt}"
        result = running.hide.window(_measured(work, running, spec, what=single_batch_name(repeat), salt=salt))
        conditions = single_batch_conditions(
            work.plan, running, spec, box_fingerprint=work.box_fingerprint, software=work.tools.software
        )
        kept(work, running, repeat, result, what=single_batch_name(repeat), attempt=attempt, conditions=conditions)
        return result

    return until_clean(work, running, attempts=attempts, once=once)


def single_batch_name(repeat: Repeat) -> str:
    """Return which run of a config it is, for people: counted from 1."""
    return f"single batch #{repeat.index + 1}"


def _measured(work: Measuring, running: Running, spec: SingleBatchSpec, *, what: str, salt: str) -> WindowResult:
    said = coming_up(work, f"{running.config.name} {what}", 0)
    request = SingleBatchRequest(
        input=spec.input,
        output=spec.output,
        temperature=float(spec.temperature),
        salt=salt,
        sampling=work.probe.sampling,
        waiting=said.note_waiting,
    )
    started = work.tools.clock.now()
    target = replace(running.target, request_timeout=work.probe.request_timeout)
    with watched(work.tools, running.handle, window=WATCHED) as watch:
        try:
            raw = work.tools.probe.single_batch(target, request, alive=said.beside(work.alive(running)))
            failure = next((one.error for one in raw.requests if one.error is not None), None)
            if raw.ended_early is None and died_of(work.tools, running, failure):
                raw = replace(raw, ended_early="engine_exited", detail=f"{ENDED}; {failure}")
        except ProbeError as error:
            exited = not lives_on(work.tools, running)
            raw = _failed(error, started=started, exited=exited)
    result = derive_single_batch(
        raw,
        dialect=running.target.dialect,
        input_tokens=spec.input,
        output_tokens=spec.output,
        num_speculative_tokens=proposed_drafts(running.config.engine.kind, running.config.speculative),
    )
    simulated = running.config.engine.simulated or running.identity.simulated
    return noted(with_box(work.tools, with_identity(running, result), watch, simulated=simulated))


def _failed(error: ProbeError, *, started: datetime, exited: bool) -> RawWindow:
    flag = "request_failed" if isinstance(error, RequestFailed) else "underfilled"
    return RawWindow(
        concurrency=1,
        seconds_asked=None,
        started=started,
        before=None,
        after=None,
        samples=(),
        requests=(),
        ramp=None,
        ended_early="engine_exited" if exited else flag,
        detail=str(error),
    )

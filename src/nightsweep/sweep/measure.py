"""Measuring in a boot that is up: warm-up, windows, and measuring again what is flagged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from nightsweep.analysis.text import plural
from nightsweep.engine.applied import dead_drafter
from nightsweep.engine.observed import drafts_unasked, length_unseen
from nightsweep.engine.speculative import proposed_drafts
from nightsweep.errors import EngineExited, HostError, ProbeError, RequestFailed
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import PrefillResult, RawWindow, WindowResult
from nightsweep.plan.model import CONTROL_ROUND, Cell, ProbeSpec, Repeat, SweepPlan
from nightsweep.ports import Lease, Secret, Target, WindowRequest
from nightsweep.sweep.boot import Running, lives_on
from nightsweep.sweep.coming_up import ComingUp
from nightsweep.sweep.conditions import conditions_of
from nightsweep.sweep.surroundings import watched, with_box
from nightsweep.sweep.tools import Tools

Measured = TypeVar("Measured", WindowResult, PrefillResult)

PROMPT_STRIDE = 37
COMPILATION_LAG = 0.5
"""Seconds by which a followed log may be behind: a line that came so long after a window may be of it."""
SHOWN_LINE = 300


@dataclass(frozen=True)
class Measuring:
    """What measuring needs besides the engine: all of it the same for the whole sweep."""

    tools: Tools
    lease: Lease
    plan: SweepPlan
    box_fingerprint: str
    check: Callable[[], None]  # raises when the sweep shall not go on
    say: Callable[[str, str], None] = lambda phase, message: None  # tells listeners what goes on
    glance: Callable[[], None] = lambda: None  # as `check`, for places that are passed several times a second
    glance_for_drop: Callable[[], None] = lambda: None  # raises when what is measured shall be dropped at once

    def alive(self, running: Running) -> Callable[[], bool]:
        """Return what a measurement asks several times a second: whether the engine lives, and whether to drop it all."""

        def ask() -> bool:
            self.glance_for_drop()
            return running.alive()

        return ask

    @property
    def probe(self) -> ProbeSpec:
        """The plan's probe."""
        return self.plan.probe


def warm_up(work: Measuring, running: Running) -> None:
    """Run uncounted loads at the highest concurrency, so that lazy compilation and autotuning are over.

    Greedy decoding (temperature 0) and sampling are other kernels in the sampler and in the verification of drafts: a plan that
    has both gets a load of each.

    Raises:
        EngineExited: The engine died of it: the boot has failed.
    """
    spec = work.probe
    if spec.warmup <= 0:
        return

    def alive() -> bool:
        work.glance()  # nothing is counted: any wish to stop ends it
        return running.alive()

    try:
        for temperature in warmed_temperatures(spec.temperature):
            cell = Cell(config=running.config.fingerprint, concurrency=max(spec.concurrency), temperature=temperature)
            request = replace(request_of(work, cell, first_prompt=0), window=spec.warmup)
            what = f"{running.config.name} warm-up, T={temperature}"
            work.say("warmup", f"{what}: {plural(cell.concurrency, 'stream')}, up to {spec.warmup:g} s")
            streams = coming_up(work, what, cell.concurrency)
            work.tools.probe.warm_up(_through(work, running), streams.noted_in(request), alive=streams.beside(alive))
    except ProbeError as error:
        if lives_on(work.tools, running):
            why = running.hide(str(error))
            work.say("warmup", f"{running.config.name} is not warmed up: {why}")
            work.tools.store.event(
                "warmup_failed",
                f"{running.config.name} is not warmed up: {why}",
                level="warning",
                sweep_id=work.lease.sweep_id,
                boot_id=running.boot_id,
            )
            return
        raise died(running, stage="warmup", reason=running.hide(str(error))) from error
    if not running.alive():
        raise died(running, stage="warmup", reason=running.log.last_words())


def coming_up(work: Measuring, what: str, streams: int) -> ComingUp:
    """Return what says, of so many streams, how many are up."""
    return ComingUp(what, streams, say=work.say, clock=work.tools.clock)


def warmed_temperatures(temperatures: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """Return one temperature of each way to decode that a plan has: the highest one sampled, and greedy."""
    sampled = max(temperatures)
    return (sampled, *(each for each in (min(temperatures),) if each == 0 and sampled > 0))


def died(running: Running, *, stage: str, reason: str) -> EngineExited:
    """Return the error of an engine that ended under us, and remember it for the boot's record."""
    state = running.host.state(running.handle)
    error = EngineExited(exit_code=state.exit_code, stage=stage, reason=reason)
    running.died = error
    return error


def until_clean(work: Measuring, running: Running, *, attempts: int, once: Callable[[int], Measured]) -> Measured:
    """Measure until a result is clean, up to the plan's attempts; return the last one.

    Args:
        attempts: How many there were before.
        once: Measures and keeps; takes the attempt's number, from 1.

    Raises:
        EngineExited: The engine died; what was measured is kept with its flag.
    """
    attempt = attempts
    while True:
        attempt += 1
        result = once(attempt)
        if "engine_exited" in result.flags or not running.alive():
            raise died(running, stage="serving", reason=running.log.last_words())
        if result.clean or attempt >= work.probe.max_attempts:
            return result
        work.check()


def measure_repeat(work: Measuring, running: Running, repeat: Repeat, *, attempts: int) -> WindowResult:
    """Measure one repeat and keep it; measure again while it is flagged, up to the plan's attempts.

    Raises:
        EngineExited: The engine died; its window is kept with its flag.
    """

    def once(attempt: int) -> WindowResult:
        result = running.hide.window(_measured(work, running, repeat))
        conditions = conditions_of(
            work.plan, running, box_fingerprint=work.box_fingerprint, software=work.tools.software
        )
        kept(work, running, repeat, result, what=window_name(repeat), attempt=attempt, conditions=conditions)
        return result

    return until_clean(work, running, attempts=attempts, once=once)


def window_name(repeat: Repeat) -> str:
    """Return which window of a config it is, for people: counted from 1."""
    number = f"control #{repeat.index - CONTROL_ROUND + 1}" if repeat.control else f"#{repeat.index + 1}"
    return f"c={repeat.cell.concurrency} T={repeat.cell.temperature} {number}"


def _measured(work: Measuring, running: Running, repeat: Repeat) -> WindowResult:
    request = request_of(work, repeat.cell, first_prompt=_first_prompt(work.probe, repeat))
    cell = repeat.cell
    streams = coming_up(work, f"{running.config.name} c={cell.concurrency} T={cell.temperature}", cell.concurrency)
    started = work.tools.clock.now()
    with watched(work.tools, running.handle, window=request.window) as watch:
        try:
            alive = streams.beside(work.alive(running))
            raw = work.tools.probe.window(_through(work, running), streams.noted_in(request), alive=alive)
        except ProbeError as error:
            raw = _failed_window(request, error, started=started)
            if not lives_on(work.tools, running):
                raw = replace(raw, ended_early="engine_exited")
    result = derive(raw, dialect=running.target.dialect, num_speculative_tokens=_draft_length(running))
    result = with_identity(running, with_compilation(running, result))
    simulated = running.config.engine.simulated or running.identity.simulated
    return noted(with_schedule(running, with_box(work.tools, result, watch, simulated=simulated)))


def with_identity(running: Running, result: WindowResult) -> WindowResult:
    """Return the window, flagged when the engine behind the URL is no longer the one that this boot started.

    Nor is it the config's engine when it drafts and the config asks for no speculation.
    """
    drafts = None if result.numbers is None else result.numbers.drafts
    problem = _unproven(running) or drafts_unasked(running.config.speculative, drafts=drafts)
    if problem is None or "engine_exited" in result.flags:
        return result
    return _flagged(result, "identity_lost", problem)


def _unproven(running: Running) -> str | None:
    try:
        return running.identity_problem()
    except HostError as error:  # the window is kept, and measured again
        return f"it cannot be proven: {error}"


def with_compilation(running: Running, result: WindowResult) -> WindowResult:
    """Return the window, flagged when the engine's log says that it compiled a kernel for a request inside of it.

    Nothing else explains such a window better, so that it is flagged beside its other flags.
    """
    before, after = result.raw.before, result.raw.after
    if before is None or after is None or "engine_exited" in result.flags:
        return result
    lines = running.log.compilations(opened=before.at, closed=after.at + COMPILATION_LAG)
    if not lines:
        return result
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return _flagged(result, "jit_compilation", f"{lines[0][:SHOWN_LINE]}{more}")


def _flagged(result: WindowResult, flag: str, detail: str) -> WindowResult:
    return replace(result, flags=(*result.flags, flag), flag_details={**result.flag_details, flag: detail})


def with_schedule(running: Running, result: WindowResult) -> WindowResult:
    """Return the window, with a note when the draft lengths that were asked for are not those that were proposed."""
    if result.numbers is None:
        return result
    config = running.config
    unseen = length_unseen(
        config.engine.kind,
        config.speculative,
        streams=result.raw.concurrency,
        mean_length=result.numbers.facts.get("mean_draft_length"),
    )
    return result if unseen is None else replace(result, notes=(*result.notes, unseen))


def noted(result: WindowResult) -> WindowResult:
    """Return the window with what a reader must know of it: numbers of a dead drafter are true, and marked."""
    numbers = result.numbers
    if numbers is None:
        return result
    dead = dead_drafter(drafts=numbers.drafts, accepted_tokens=numbers.accepted_tokens)
    return result if dead is None else replace(result, notes=(*result.notes, dead))


def _failed_window(request: WindowRequest, error: ProbeError, *, started: datetime) -> RawWindow:
    flag = "request_failed" if isinstance(error, RequestFailed) else "underfilled"
    return RawWindow(
        concurrency=request.concurrency,
        seconds_asked=request.window,
        started=started,
        before=None,
        after=None,
        samples=(),
        requests=(),
        ramp=None,
        ended_early=flag,
        detail=str(error),
    )


def kept(
    work: Measuring,
    running: Running,
    repeat: Repeat,
    result: WindowResult,
    *,
    what: str,
    attempt: int,
    conditions: Mapping[str, Any],
) -> None:
    """Keep a window, and say what is to be said of it by the name `what`, which progress lines give it, too."""
    tools = work.tools
    tools.store.add_window(
        work.lease,
        running.boot_id,
        repeat,
        result,
        attempt=attempt,
        conditions=conditions,
        at=tools.clock.now(),
    )
    told = Told(work, running, f"{running.config.name} {what}")
    for note in result.notes:
        told.keep("window_note", note)
    if result.flags:
        told.keep("window_flagged", why_flagged(result.flags, result.flag_details))


@dataclass(frozen=True)
class Told:
    """Keeps what is to be said of one measurement, named by `what`."""

    work: Measuring
    running: Running
    what: str

    def keep(self, kind: str, message: str) -> None:
        """Keep it as a warning."""
        self.work.tools.store.event(
            kind,
            f"{self.what}: {message}",
            level="warning",
            sweep_id=self.work.lease.sweep_id,
            boot_id=self.running.boot_id,
        )


def why_flagged(flags: Sequence[str], details: Mapping[str, str]) -> str:
    """Return every flag with its reason."""
    return "; ".join(f"{flag}: {details.get(flag, '')}" for flag in flags)


def _through(work: Measuring, running: Running) -> Target:
    """Return the target with the load going where the plan says: through the production proxy, or straight."""
    target, spec = running.target, work.probe
    if spec.through:
        base = spec.through.rstrip("/")
        target = replace(target, load_url=base.removesuffix("/v1"), api_key=api_key(work), ca=spec.ca, http2=spec.http2)
    return replace(target, api=spec.api, request_timeout=spec.request_timeout)


def api_key(work: Measuring) -> Secret | None:
    """Return the probe's API key from the environment, or None."""
    spec = work.probe.api_key
    return None if spec is None else Secret(work.tools.environ.get(spec.from_env, ""))


def first_cell(spec: ProbeSpec, config: str) -> Cell:
    """Return the first cell of a config as the sweep file lists them."""
    return Cell(config=config, concurrency=spec.concurrency[0], temperature=spec.temperature[0])


def request_of(work: Measuring, cell: Cell, *, first_prompt: int) -> WindowRequest:
    """Return the load of a cell, by the plan's own settings."""
    spec = work.probe
    return WindowRequest(
        concurrency=cell.concurrency,
        temperature=float(cell.temperature),
        window=spec.window,
        sampling=spec.sampling,
        prompts=work.tools.prompts,
        first_prompt=first_prompt,
        order_seed=spec.prompt_seed,
    )


def _first_prompt(spec: ProbeSpec, repeat: Repeat) -> int:
    """Return where in the seeded prompt order a window starts: the same for every config, another for every window.

    A control's extra windows start where its first one does: between them only the box shall have moved.
    """
    cell = repeat.cell
    place = spec.concurrency.index(cell.concurrency) * len(spec.temperature) + spec.temperature.index(cell.temperature)
    index = 0 if repeat.control else repeat.index
    if spec.draws_by_repeat:
        return (index * len(spec.concurrency) * len(spec.temperature) + place) * PROMPT_STRIDE
    return (place * max(spec.repeats, 1) + index) * PROMPT_STRIDE


def _draft_length(running: Running) -> int | None:
    return proposed_drafts(running.config.engine.kind, running.config.speculative)

"""The loop: what the plan still lacks is booted, measured and kept, until nothing is left or somebody says stop.

Starting and resuming are the same call: what is left is the plan minus what the store holds.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from nightsweep.errors import (
    BootError,
    GpuBusy,
    ImageNotInTime,
    LeaseLost,
    PortBusy,
    StoreUnavailable,
    SweepError,
    SweepPaused,
)
from nightsweep.measurement.values import WindowResult
from nightsweep.plan.estimate import prefill_seconds, single_batch_seconds, window_seconds
from nightsweep.plan.model import BootTask, Repeat, SweepPlan
from nightsweep.plan.remaining import prefill_key, window_key
from nightsweep.ports import BoxFacts, Progress, Stored
from nightsweep.sweep.boot import Running, boot_name, booted
from nightsweep.sweep.breaking import how_it_broke_off
from nightsweep.sweep.deciding import Deciding, clean_count
from nightsweep.sweep.expecting import write_estimates, write_expected
from nightsweep.sweep.guard import Guard
from nightsweep.sweep.launch import check_secrets
from nightsweep.sweep.lease import Held, held
from nightsweep.sweep.left import configs_failed, configs_unmeasured, left_now, missing_said, worth_booting
from nightsweep.sweep.leftovers import stop_leftovers
from nightsweep.sweep.measure import Measuring, api_key, measure_repeat, warm_up, window_name
from nightsweep.sweep.night import Night
from nightsweep.sweep.patience import database_waited_for
from nightsweep.sweep.prefilling import measure_prefill, prefill_name, prefill_outcome
from nightsweep.sweep.pulling import have_images, pull_check, tell_given_up
from nightsweep.sweep.reuse import take_over, withdraw_other
from nightsweep.sweep.signals import one_interrupt, signals_deferred
from nightsweep.sweep.single import measure_single_batch, single_batch_name
from nightsweep.sweep.steady import tell_steps
from nightsweep.sweep.tools import DropWanted, Limits, Outcome, Steps, StopWanted, Tools

GLANCE = 1.0
"""Seconds between two looks for a wish to stop while a boot is waited for, or something is measured."""


@dataclass
class _Run:
    """One run of a sweep, while it goes."""

    tools: Tools
    plan: SweepPlan
    steps: Steps
    night: Night
    keeper: Held
    box: BoxFacts
    guard: Guard
    deciding: Deciding
    problems: list[str] = field(default_factory=list)
    done: int = 0
    glanced: float = 0.0
    disturbed: bool = False
    ended: tuple[str, str] | None = None  # state and note, once it came to its own end

    @property
    def sweep_id(self) -> int:
        return self.keeper.lease.sweep_id

    def measuring(self) -> Measuring:
        return Measuring(
            tools=self.tools,
            lease=self.keeper.lease,
            plan=self.plan,
            box_fingerprint=self.box.fingerprint,
            check=self.check,
            say=self.say,
            glance=self.glance,
            glance_for_drop=self.glance_for_drop,
        )

    def check(self, needs: float = 0.0, *, what: str = "") -> None:
        """Raise StopWanted or LeaseLost when the sweep shall not go on.

        Args:
            needs: Seconds that what comes next takes; the sweep stops when so many are not left.
        """
        self.keeper.check()
        tell_steps(self.tools, sweep_id=self.sweep_id)
        wish = self._wish()
        if wish == "pause":
            raise StopWanted("paused", f"paused as asked: `nightsweep resume {self.sweep_id}` goes on with it")
        if wish is not None:
            raise StopWanted("cancelled", "stopped as asked")
        self.night.check()
        self.night.check_for(needs, what)

    def check_begin(self, tasks: tuple[BootTask, ...]) -> None:
        """As `check`, while production is waited for: raises StopWanted, too, once none of the boots fits any more."""
        self.check()
        try:
            self.night.still_fits(tasks)
        except StopWanted as stop:
            note = f"skipped: production was not idle in time, and nothing was touched: {stop.note}"
            raise StopWanted(stop.state, note) from stop

    def glance(self) -> None:
        """As `check`, for places that are passed several times a second: the store is asked once in a while only."""
        if self._time_to_glance():
            self.check()

    def glance_for_drop(self) -> None:
        """As `glance`, while something is measured: a wish to drop it at once, the night's end or a lost lease ends that."""
        if self._time_to_glance():
            self.keeper.check()
            if self._wish() == "drop":
                raise DropWanted
            self.night.drop_check()

    def _time_to_glance(self) -> bool:
        now = self.tools.clock.monotonic()
        due = now - self.glanced >= GLANCE
        self.glanced = now if due else self.glanced
        return due

    def _wish(self) -> str | None:
        """Return how somebody wants the sweep to stop; a store that is away is no wish, and must hold nothing up."""
        with contextlib.suppress(StoreUnavailable):
            return self.tools.store.stop_wish(self.sweep_id)
        return None

    def say(self, phase: str, message: str, **facts: object) -> None:
        """Tell listeners where the sweep is, with what is done so far."""
        self.steps.progress(
            Progress(
                sweep_id=self.sweep_id,
                phase=phase,
                message=message,
                windows_done=self.done,
                windows_planned=self.deciding.planned,
                facts=facts,
            )
        )


def run_sweep(
    plan: SweepPlan, tools: Tools, *, file_text: str, steps: Steps, limits: Limits, reuse: bool = False
) -> Outcome:
    """Run a sweep, or go on with it, and return how it ended.

    Args:
        reuse: Take over what earlier sweeps on this box measured under equal conditions.

    Raises:
        SecretMissing: A variable that a secret is taken from is not set; nothing was touched.
        BoxBusy: Another sweep runs on this box.
        SweepPaused: It is paused, and this start does not lift that.
        HostError: The machine is at fault; what was measured is kept, and the sweep is recorded as failed.
        StoreError: The database is at fault.
    """
    check_secrets(plan, environ=tools.environ)
    box = box_of(plan, tools)
    box_id = tools.store.box_id(box)
    sweep_id = tools.store.open_sweep(plan, box_id=box_id, file_text=file_text)
    if not limits.lifts_pause and tools.store.is_paused(sweep_id):
        raise SweepPaused(sweep=sweep_id, name=plan.name)
    with contextlib.ExitStack() as over, one_interrupt() as interrupts:
        if not plan.simulated:  # what a simulator measures is disturbed by nobody's accelerator
            over.enter_context(tools.alone(box.name))
        lease = tools.store.claim(sweep_id, owner=tools.owner, ttl=tools.lease_ttl)
        with held(tools.store, lease, ttl=tools.lease_ttl, also=interrupts.again) as keeper:
            night = Night(tools=tools, plan=plan, box_id=box_id, limits=limits)
            guard, deciding = Guard(tools, lease), Deciding(tools.store, plan, sweep_id)
            run = _Run(tools, plan, steps, night=night, keeper=keeper, box=box, guard=guard, deciding=deciding)
            try:
                if reuse:
                    take_over(tools, lease, plan, box_fingerprint=box.fingerprint)
                write_expected(tools, lease, plan, box=box)
                state, note = _night(run)
            except BaseException as error:
                _release_after(run, error)
                raise
            tools.store.release(lease, state=state, note=note)
        return _outcome(run, state, note)


def box_of(plan: SweepPlan, tools: Tools) -> BoxFacts:
    """Return the box as it is recorded."""
    found = tools.host(plan.configs[0].engine.host).box()
    return BoxFacts(
        name=plan.box_name(found.name), fingerprint=found.fingerprint, facts=found.facts, simulated=plan.simulated
    )


def _night(run: _Run) -> tuple[str, str]:
    """Take production down, sweep, bring it back; return the sweep's state and a note."""
    stored, left = left_now(run.tools.store, run.plan, run.sweep_id)
    run.done = clean_count(run.plan, stored)
    run.deciding.look(run.say)
    run.say("start", f"sweep {run.sweep_id}: {run.done} of {run.deciding.planned} windows are stored")
    stop_leftovers(run.tools, run.plan, box=run.box.name, sweep_id=run.sweep_id)
    ending = ("done", "everything that could be measured is measured" if left else "nothing was left to measure")
    with run.guard.nothing_forgotten():
        try:
            if left:
                run.check()
                run.night.begin(left, sweep_id=run.sweep_id)  # nothing fits: then production is not taken down
                late = have_images(run.night, left, check=run.glance, say=run.say, sweep_id=run.sweep_id)
                run.problems += map(str, late)
                run.night.still_fits(left)
                may_begin = functools.partial(run.check_begin, left)
                down = run.guard.down(run.plan.production, restore_by=run.night.limits.until, check=may_begin)
                with down, _noted(run), run.night.measured_in(), database_waited_for(run.tools, left=run.night.left()):
                    _until_nothing_is_left(run, left)
                    ending = ending if run.done else ("done", "nothing could be measured")
                    run.ended = ending  # production, which comes back now, may fail to
            run.ended = ending
        except StopWanted as stop:
            run.ended = ending = (stop.state, stop.note)
            run.tools.store.event("sweep_stopping", stop.note, sweep_id=run.sweep_id)
    run.deciding.close(run.say)
    run.say("stop", f"{ending[0]}: no engine runs any more")
    missing = missing_said(run.tools.store, run.plan, run.sweep_id, done=ending[0] == "done")
    said = (run.deciding.said, ending[1], *missing, _told_if_late(run))
    return ending[0], "; ".join(filter(None, said))


@contextlib.contextmanager
def _noted(run: _Run) -> Iterator[None]:
    """Note at what wish the block stopped, before production comes back."""
    try:
        yield
    except StopWanted as stop:
        run.ended = (stop.state, stop.note)
        raise


def _told_if_late(run: _Run) -> str | None:
    """Return why production was not ready by `until`, after telling people loudly; None when it was."""
    late = run.night.late()
    if late is not None:
        run.problems.append(late)
        run.tools.store.event("production_late", late, level="error", sweep_id=run.sweep_id)
    return late


def _until_nothing_is_left(run: _Run, left: tuple[BootTask, ...]) -> None:
    """Boot after boot. What is flagged or was cut short by a death comes again in the next pass, as often as it may."""
    while left:
        before = run.tools.store.stored(run.sweep_id)
        waiting, run.disturbed = list(left), False
        while waiting:
            run.check()
            if not _one_boot(run, waiting.pop(run.night.next_boot(waiting))):
                waiting = worth_booting(run.tools.store, run.sweep_id, waiting, say=run.say)
        after, left = left_now(run.tools.store, run.plan, run.sweep_id)
        run.deciding.look(run.say)
        if after == before and not run.disturbed:  # a pass that stored nothing would go on for ever
            run.problems.append("a whole pass over what is left stored nothing: giving up on it")
            return


def _one_boot(run: _Run, task: BootTask) -> bool:
    """Carry out one boot; return whether nothing of it failed."""
    name = boot_name(task, of=run.plan.probe.boots)
    run.guard.keep_down()
    try:
        with contextlib.ExitStack() as stack:
            run.say("boot", f"booting {name}")
            with run.night.booting(task):
                running = run.steps.boot(task, lambda: _up(run, task, stack))
            run.say("ready", f"{name} is ready", cold_start=run.tools.clock.monotonic() - running.started)
            _measure_all(run, running, task)
            run.say("stopping", f"stopping {name}")
        return True
    except ImageNotInTime as error:
        run.disturbed = True  # its configs come again: when they do not fit any more, that is what ends the night
        run.problems.append(f"{name}: {error}")
        tell_given_up(run.tools, error, sweep_id=run.sweep_id)
    except BootError as error:
        run.problems.append(f"{name}: {error}")
        run.say("failed", f"{name} failed: {error}")
        run.tools.store.event("boot_failed", f"{name}: {error}", level="warning", sweep_id=run.sweep_id)
    except (GpuBusy, PortBusy) as error:
        if not run.guard.keep_down():
            raise
        run.disturbed = True  # production was in the way, and is no more: what is left of this boot comes again
        run.problems.append(f"{name}: {error}")
    return False


def _up(run: _Run, task: BootTask, stack: contextlib.ExitStack) -> Running:
    work = run.measuring()
    key = api_key(work)
    secrets = () if key is None else (key,)
    pulling = pull_check(run.night, task, check=run.glance, say=run.say)
    boot = booted(run.tools, run.keeper.lease, task, check=run.glance, pulling=pulling, secrets=secrets, api_key=key)
    running = stack.enter_context(boot)
    run.tools.store.event("boot_ready", f"{task.config.name} is ready", sweep_id=run.sweep_id, boot_id=running.boot_id)
    withdraw_other(run.tools, run.keeper.lease, running)
    write_estimates(run.tools, run.keeper.lease, run.plan, running, box=run.box)
    warm_up(work, running)
    return running


def _measure_all(run: _Run, running: Running, task: BootTask) -> None:
    stored = run.tools.store.stored(run.sweep_id)
    work = run.measuring()
    for prefill in task.prefills:
        run.check(prefill_seconds(prefill), what="prefill")
        _, attempts = stored.prefills.get(prefill_key(prefill), (False, 0))
        with _drops_told(run, running, prefill_name(prefill)):
            result = measure_prefill(work, running, prefill, attempts=attempts)
        run.say("prefill", f"{running.config.name} {prefill_name(prefill)}: {prefill_outcome(result)}")
    if task.single_batches:
        first = task.single_batches[0]
        measure_alone = functools.partial(_single_batches, run, running, task.single_batches, stored)
        run.steps.cell(task.config, first.cell, repeat=first.index, do=measure_alone)
    for cell, repeats in groupby(task.repeats, key=lambda repeat: repeat.cell):
        todo = tuple(repeats)
        run.check(window_seconds(run.plan.probe), what="window")
        measure = functools.partial(_cell, run, running, todo, stored)
        run.steps.cell(task.config, cell, repeat=todo[0].index, do=measure)


def _cell(run: _Run, running: Running, repeats: Iterable[Repeat], stored: Stored) -> None:
    work = run.measuring()
    for repeat in repeats:
        run.check(window_seconds(run.plan.probe), what="window")
        _, attempts = stored.windows.get(window_key(repeat), (False, 0))
        what = window_name(repeat)
        with _drops_told(run, running, what):
            result = measure_repeat(work, running, repeat, attempts=attempts)
        run.done += result.clean
        run.say("window", f"{running.config.name} {what}: {_outcome_of(result)}")


def _single_batches(run: _Run, running: Running, repeats: Iterable[Repeat], stored: Stored) -> None:
    work, spec = run.measuring(), run.plan.probe.single_batch
    assert spec is not None
    for repeat in repeats:
        run.check(single_batch_seconds(spec), what="single-batch run")
        _, attempts = stored.single_batches.get(window_key(repeat), (False, 0))
        with _drops_told(run, running, single_batch_name(repeat)):
            result = measure_single_batch(work, running, repeat, spec, attempts=attempts)
        run.say("single_batch", f"{running.config.name} {single_batch_name(repeat)}: {_outcome_of(result)}")


@contextlib.contextmanager
def _drops_told(run: _Run, running: Running, what: str) -> Iterator[None]:
    """Say which measurement was dropped: it is not stored, takes up no attempt, and is made when the sweep goes on."""
    try:
        yield
    except DropWanted as drop:
        why = "as asked" if drop.state == "cancelled" else "at the night's end"
        told = f"{running.config.name} {what} was dropped {why}"
        run.tools.store.event("measurement_dropped", told, sweep_id=run.sweep_id, boot_id=running.boot_id)
        raise


def _outcome_of(result: WindowResult) -> str:
    numbers = result.numbers
    rate = "no number" if numbers is None else f"{numbers.decode_rate:.1f} tokens/s"
    return f"{rate} [{', '.join(result.flags)}]" if result.flags else rate


def _release_after(run: _Run, error: BaseException) -> None:
    """Record why the run broke off. The first error counts: failing to record it must not hide it."""
    if isinstance(error, LeaseLost):
        return
    state, note = how_it_broke_off(error, ended=run.ended)
    with contextlib.suppress(SweepError), signals_deferred():
        run.tools.store.event("sweep_broken_off", note, level="error", sweep_id=run.sweep_id)
        run.tools.store.release(run.keeper.lease, state=state, note=note)


def _outcome(run: _Run, state: str, note: str) -> Outcome:
    stored, left = left_now(run.tools.store, run.plan, run.sweep_id)
    done, failed = clean_count(run.plan, stored), configs_failed(run.plan, stored)
    return Outcome(
        sweep_id=run.sweep_id,
        state=state,
        note=note,
        windows_done=done,
        windows_planned=run.deciding.planned,
        windows_left=sum(len(task.repeats) for task in left),
        problems=tuple(f"{said} ({n} times)" if n > 1 else said for said, n in Counter(run.problems).items()),
        failed=failed,
        unmeasured=configs_unmeasured(run.plan, stored, failed=failed),
    )

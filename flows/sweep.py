"""The sweep as a Prefect flow: one task per boot and one per cell, named and with progress, thin over `run_sweep`.

Served by a Runner (`python -m flows.sweep`), never by a process worker: on SIGTERM that one kills flows without cleanup.
Synchronous, tasks called directly in the main thread: only there do signals and cancellation interrupt a blocked call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import deployment as this_deployment
from prefect.runtime import flow_run as this_run
from prefect.states import Cancelled, Completed, Failed

from nightsweep import wiring
from nightsweep.errors import BoxBusy, SweepError, SweepPaused
from nightsweep.plan.model import BootTask, Cell, EngineConfig, Schedule
from nightsweep.plan.nights import night_end
from nightsweep.ports import Progress
from nightsweep.service.dispatch import RUNNER_ENDS
from nightsweep.service.prefect_api import PrefectApi
from nightsweep.service.prefect_server import PrefectUnavailable
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.tools import Limits, Outcome, StopWanted
from nightsweep.tell import teller
from nightsweep.units import Seconds

T = TypeVar("T")
Call = Callable[[], None]

RUNNER_POLL = 0.5
SERVER_AWAY = 60.0
"""Seconds without a progress bar after the server was found away."""
REPORTS_WITHIN = Seconds(10.0)
"""For which a flow that was told to end may go on, once its own work is over, to report that to Prefect. Prefect's own client
tries for a minute, and the server may have been told to end at the same moment."""
SERVER_PATIENCE = Seconds(1.0)
"""For which a bar is tried. Prefect's own client tries for a minute, also when its server ends in the middle of a call."""


@task(name="boot", task_run_name="boot {config} #{number}", cache_policy=NO_CACHE, persist_result=False, retries=0)
def boot_task(config: str, number: int, call: Call) -> None:
    """Carry out one boot."""
    call()


@task(
    name="cell",
    task_run_name="{config} c={concurrency} T={temperature} #{number}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=0,
)
def cell_task(config: str, concurrency: int, temperature: str, number: int, call: Call) -> None:
    """Carry out the measuring of one cell."""
    call()


class PrefectSteps:
    """Carries the loop's steps out as Prefect tasks and shows progress; nothing is decided from what Prefect answers.

    Args:
        note_run: Told the sweep's id once, as soon as it is known.
        run_id: Of the run in whose page progress is shown; None shows it in the log alone.
    """

    def __init__(self, logger: Any, *, note_run: Callable[[int], None], run_id: str | None) -> None:
        self._logger, self._run_id = logger, run_id
        self._note_run: Callable[[int], None] | None = note_run
        self._bar: str | None = None
        self._silent_until = 0.0

    def boot(self, task: BootTask, do: Callable[[], T]) -> T:
        """Carry out one boot as a task."""
        return _through(do, lambda call: boot_task(task.config.name, task.boot_round + 1, call))

    def cell(self, config: EngineConfig, cell: Cell, *, repeat: int, do: Callable[[], T]) -> T:
        """Carry out one cell as a task."""
        facts = (config.name, cell.concurrency, str(cell.temperature), repeat + 1)
        return _through(do, lambda call: cell_task(*facts, call))

    def progress(self, progress: Progress) -> None:
        """Show progress as a log line and a bar; a server that is away must not stop a sweep, nor hold it up each time."""
        if self._note_run is not None:
            self._note_run(progress.sweep_id)
            self._note_run = None
        self._logger.info("[%d/%d] %s", progress.windows_done, progress.windows_planned, progress.message)
        if self._run_id is None or time.monotonic() < self._silent_until:
            return
        share = 100.0 * progress.windows_done / max(progress.windows_planned, 1)
        said = f"sweep {progress.sweep_id}: {progress.windows_planned} windows planned"
        try:
            self._bar = _prefect().show_progress(
                self._run_id, share=share, description=said, bar=self._bar, timeout=SERVER_PATIENCE
            )
        except PrefectUnavailable as error:
            self._silent_until = time.monotonic() + SERVER_AWAY
            self._logger.warning("no progress bar for %.0f s: %s", SERVER_AWAY, error)


def _through(do: Callable[[], T], carry: Callable[[Call], None]) -> T:
    """Carry `do` out inside a task. Its result stays here: nothing of ours is handed to Prefect for keeping.

    A wish to stop is no failure of the task that noticed it.
    """
    result: list[T] = []
    stop: list[StopWanted] = []

    def call() -> None:
        try:
            result.append(do())
        except StopWanted as wish:
            stop.append(wish)

    carry(call)
    if stop:
        raise stop[0]
    return result[0]


def bring_production_back(flow: Any, flow_run: Any, state: Any) -> None:
    """Restore production after a run that was cancelled, failed or killed, once what it left running is stopped.

    Called by the Runner with these very names, after the run's process has ended.
    """
    from nightsweep.rescue import restore_production

    say = logging.getLogger("nightsweep").warning
    restore_production(wiring.settings_for_rescue(say), say=say)


def note_cancelled(flow: Any, flow_run: Any, state: Any) -> None:
    """Have the sweep say that a person cancelled it. A runner that is told to end cancels its runs, too: no person wished that.

    Called as `bring_production_back` is, and after it: production comes first.
    """
    if state.message == RUNNER_ENDS:
        return
    from nightsweep import rescue_database

    say = logging.getLogger("nightsweep").warning
    rescue_database.note_cancelled(wiring.settings_for_rescue(say), str(flow_run.id), say=say)


def reconcile() -> threading.Thread:
    """Bring back what a dead sweep took down, in a thread: production may take minutes, and the flow is served meanwhile.

    A sweep that begins meanwhile takes over: it finds the intent open.
    """
    thread = threading.Thread(target=_bring_all_back, name="brings-production-back", daemon=True)
    thread.start()
    return thread


def _bring_all_back() -> None:
    from nightsweep.rescue import restore_production

    say = logging.getLogger("nightsweep").warning
    try:
        for result in restore_production(wiring.settings_for_rescue(say), say=say):
            say("%s %s: %s", result.container, "serves" if result.serving else "DOES NOT SERVE", result.detail)
    except SweepError as error:
        say("what is owed could not be looked at: %s", error)


@flow(
    name="sweep",
    flow_run_name="{name}",
    log_prints=False,
    retries=0,
    persist_result=False,
    on_cancellation=[bring_production_back, note_cancelled],
    on_crashed=[bring_production_back],
    on_failure=[bring_production_back],
)
def sweep(
    file_text: str,
    name: str = "sweep",
    base: str | None = None,
    until: str | None = None,
    begin_by: str | None = None,
    reuse: bool = False,
) -> State[Any]:
    """Run a sweep file, or go on with it.

    Args:
        file_text: The sweep file itself; it holds no secret, only the names of variables that do.
        name: What the run is called in Prefect.
        base: Directory that a relative path of a prompt file is taken from.
        until: The moment by which production must serve again, or "never"; None takes the file's own `schedule.until`.
        reuse: Take over what earlier sweeps on this box measured under equal conditions.
        begin_by: A run that comes to its turn later than this moment is skipped.
    """
    logger = get_run_logger()
    _quiet_libraries()
    if this_deployment.id is not None:
        _end_with_runner()
    plan, prompts = wiring.load_plan(file_text, source=name, base=Path(base) if base else None)
    chosen = wiring.settings()
    limits = Limits(until=_end_of(until, plan.schedule), lifts_pause=False)
    if begin_by is not None and datetime.now(UTC) >= datetime.fromisoformat(begin_by):
        return Cancelled(name="Skipped", message=f"it was to begin by {begin_by}, and its turn came later")
    if this_deployment.id is not None and _deployment_is_paused(chosen.box):
        return Cancelled(name="Skipped", message="the deployment is paused in Prefect: resume it there, and run again")
    with (
        _ends_soon_when_interrupted(),
        wiring.open_store(chosen) as store,
        wiring.open_tools(chosen, store, prompts) as tools,
    ):

        def note_run(sweep_id: int) -> None:
            if this_run.id is not None:
                store.note_prefect_run(sweep_id, str(this_run.id))

        try:
            steps = PrefectSteps(logger, note_run=note_run, run_id=None if this_run.id is None else str(this_run.id))
            with teller(chosen).night(plan.name, by_hand=False) as ended:
                outcome = run_sweep(plan, tools, file_text=file_text, steps=steps, limits=limits, reuse=reuse)
                ended.append(outcome)
        except BoxBusy as taken:
            return Cancelled(name="Busy", message=str(taken))
        except SweepPaused as paused:
            return Cancelled(name="Skipped", message=str(paused))
    return _state_of(outcome)


def _end_of(until: str | None, schedule: Schedule | None) -> datetime | None:
    if until is None:
        return night_end(schedule, start=this_run.scheduled_start_time or datetime.now(UTC))
    return None if until == "never" else datetime.fromisoformat(until)


def _state_of(outcome: Outcome) -> State[Any]:
    message = f"{outcome.windows_done}/{outcome.windows_planned} windows; {outcome.note}"
    if outcome.state == "cancelled":
        return Cancelled(message=message)
    if outcome.state == "paused":
        return Completed(name="Paused", message=message)
    if outcome.windows_done == 0:
        return Failed(message=f"nothing was measured; {outcome.note}")
    return Completed(name="Done" if outcome.state == "done" else "Partial", message=message)


def _deployment_is_paused(box: str) -> bool:
    """Whether somebody paused our deployment. Prefect itself starts no run by schedule then, but every one that is asked for.

    A server that is away decides nothing.
    """
    with contextlib.suppress(PrefectUnavailable):
        return _prefect().paused(box)
    return False


def _prefect() -> PrefectApi:
    return PrefectApi(os.environ.get("PREFECT_API_URL", ""))


def _end_with_runner() -> None:
    """Have this process ended in order once the runner that started it is dead: nobody could cancel it any more.

    A thread watches: the kernel's own signal of a parent's death comes already when the thread that forked ends.
    """
    runner = os.getppid()

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(RUNNER_POLL)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="watches-runner", daemon=True).start()


@contextlib.contextmanager
def _ends_soon_when_interrupted() -> Iterator[None]:
    """Bound what comes after a block that was told to end: our database knows all of it, and Prefect may be told nothing.

    Only a process of the runner's is ended so, which is there for this run alone. The runner, the service's next start and the
    watchdog look for production as after every end of a run.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException:
        if this_deployment.id is not None:
            timer = threading.Timer(REPORTS_WITHIN, os._exit, (128 + signal.SIGTERM,))
            timer.daemon = True
            timer.start()
        raise


def _quiet_libraries() -> None:
    for noisy in ("httpx", "httpcore", "docker", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def main() -> None:
    """Serve the flow on this box until told to stop."""
    from prefect.types.entrypoint import EntrypointType

    from flows import sweep as module

    chosen = wiring.settings()
    reconcile()
    module.sweep.serve(
        name=chosen.box,
        limit=1,
        pause_on_shutdown=False,
        paused=_deployment_is_paused(chosen.box),  # serving again would lift a pause
        print_starting_message=False,
        entrypoint_type=EntrypointType.MODULE_PATH,
        tags=["nightsweep", f"box:{chosen.box}"],
    )


if __name__ == "__main__":
    main()

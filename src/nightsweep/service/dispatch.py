"""What runs in a night is decided here, one look at a time: our database says what is due, Prefect carries it out.

`tick` may be cut short anywhere, by a kill too: a night is put on record before Prefect is asked for a run of it, under a key
by which Prefect makes it once, and the next look goes on from the record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from nightsweep.analysis.schedules import local
from nightsweep.plan import queue
from nightsweep.plan.nights import night_of
from nightsweep.plan.queue import Carried, Ending, Night, NightEvent, Scheduled
from nightsweep.ports import INTERRUPTED
from nightsweep.service.prefect_api import FlowRun, PrefectApi
from nightsweep.service.prefect_server import PrefectUnavailable

PATIENCE = timedelta(minutes=10)
"""How long a run of Prefect that a runner has taken may go without claiming its sweep, before it is held for lost."""

NOT_YET = ("SCHEDULED", "PAUSED")
"""States of a run of Prefect that no runner has taken: whichever runner is free next takes it. One whose last flow died is not
free until production is back."""

RUNNER_ENDS = "Runner is shutting down."
"""What Prefect's runner says of the runs that it cancels when it is told to end: no person wished it."""


class Records(Protocol):
    """Schedules and nights in our database."""

    def all(self, box: str) -> tuple[Scheduled, ...]:
        """Return the schedules of a box."""

    def move(self, row: Scheduled, night: Night, *, told: NightEvent | None = None, at: datetime) -> bool:
        """Put a night on record in place of the row's; False when the record is another one by now."""

    def carried_by(self, prefect_run: str) -> Carried | None:
        """Return the sweep that a run carries out."""

    def sweep_state(self, sweep_id: int) -> str | None:
        """Return a sweep's state."""

    def taken_by(self, box: str) -> str | None:
        """Return who runs a sweep on this box now."""


class Runs(Protocol):
    """Runs of our served flow. Each call may raise PrefectUnavailable."""

    def paused(self) -> bool:
        """Return whether somebody paused the deployment in Prefect."""

    def ask(self, parameters: Mapping[str, Any], *, key: str) -> FlowRun:
        """Ask for a run; under the same key it is made once."""

    def find(self, run_id: str) -> FlowRun | None:
        """Return a run; None when Prefect knows of none."""

    def of_key(self, key: str) -> FlowRun | None:
        """Return the run that was asked for under a key."""

    def lay(self, run_id: str, *, message: str) -> None:
        """Say of a run whose process is gone that it crashed."""


class PrefectRuns:
    """Runs of the deployment that serves this box."""

    def __init__(self, api: PrefectApi, *, box: str) -> None:
        self._api, self._box = api, box

    def paused(self) -> bool:
        """See `Runs`."""
        return self._api.paused(self._box)

    def ask(self, parameters: Mapping[str, Any], *, key: str) -> FlowRun:
        """See `Runs`. The deployment is looked up each time: a Prefect that lost its records has another one, or none."""
        deployment = self._api.deployment_id(self._box)
        if deployment is None:
            raise PrefectUnavailable(url=self._api.api_url, reason=f"it does not know the flow of box {self._box}")
        return self._api.start(deployment, parameters, key=key, tags=("schedule",))

    def find(self, run_id: str) -> FlowRun | None:
        """See `Runs`."""
        return self._api.find_run(run_id)

    def of_key(self, key: str) -> FlowRun | None:
        """See `Runs`."""
        return self._api.run_of_key(key)

    def lay(self, run_id: str, *, message: str) -> None:
        """See `Runs`."""
        self._api.lay(run_id, message=message)


class Dispatcher:
    """Starts what is due on a box, one sweep at a time, and keeps the record of each night.

    Args:
        started: When this service came up: a run that was under way before has no process any more.
        say: Told each change of a night, in a line.
    """

    def __init__(
        self, *, box: str, records: Records, runs: Runs, started: datetime, say: Callable[[str], None]
    ) -> None:
        self._box, self._records, self._runs = box, records, runs
        self._started, self._say = started, say
        self._waits: dict[int, str] = {}

    def tick(self, now: datetime) -> None:
        """Look once, and do what is next.

        Raises:
            StoreUnavailable: Our database is away. Nothing is lost: the next look does the same.
            PrefectUnavailable: So is Prefect's server.
        """
        for row in self._records.all(self._box):
            self._keep_up(row, now)
        rows = self._records.all(self._box)
        under_way = [row for row in rows if row.under_way]
        for row in under_way:
            self._follow(row, now)
        if not under_way:
            self._begin_next(queue.waiting(rows), now)

    # --- nights that come and go

    def _keep_up(self, row: Scheduled, now: datetime) -> None:
        for change in (queue.lapsed, queue.opened, queue.joined):
            night = change(row, now=now)
            if night is not None:
                self._move(row, night, now, told=_told_of_start(row, night))
                return  # what else there is to say of it the next look says

    # --- the next one

    def _begin_next(self, waiting: tuple[Scheduled, ...], now: datetime) -> None:
        if not waiting:
            return
        head = waiting[0]
        night = head.night
        if night is None or not queue.is_due(night, now=now):
            return
        if self._ended_by_somebody(head, night, now):
            return
        waits = self._why_wait(head, night)
        if waits is not None:
            self._wait(head, night, waits, now)
            return
        self._waits.pop(head.id, None)
        if night.prefect_run is not None:
            self._lay(head, night, night.prefect_run, now)
        begun = queue.asked(night)
        if self._move(head, begun, now):
            self._ask(replace(head, night=begun), begun, now)

    def _ended_by_somebody(self, row: Scheduled, night: Night, now: datetime) -> bool:
        """Whether what ended the night's last run was a person: then it is not made again.

        Prefect says `Crashed` when a flow's process ends, and `Cancelled` only after its runner has seen that.
        """
        if night.sweep_id is not None and self._records.sweep_state(night.sweep_id) == "paused":
            note = f"sweep {night.sweep_id} is paused: `nightsweep resume {night.sweep_id}` goes on with it"
            self._end(row, night, Ending(queue.SKIPPED, note, sweep_id=night.sweep_id), now)
            return True
        run = None if night.prefect_run is None else self._runs.find(night.prefect_run)
        if run is None or not self._cancelled(run):
            return False
        self._end(row, night, Ending(queue.CANCELLED, "cancelled in Prefect", sweep_id=night.sweep_id), now)
        return True

    def _cancelled(self, run: FlowRun) -> bool:
        """Whether somebody cancelled a run while this service was up; one that goes down cancels what it runs."""
        by_itself = run.state_name in ("Busy", "Skipped") or run.message == RUNNER_ENDS
        if run.state_type not in ("CANCELLED", "CANCELLING") or by_itself:
            return False
        return run.since is not None and run.since >= self._started

    def _why_wait(self, row: Scheduled, night: Night) -> str | None:
        taken = self._records.taken_by(self._box)
        if taken is not None:
            return f"waits for the box: {taken} runs on it"
        if self._runs.paused():
            return "waits: the deployment is paused in Prefect"
        return None

    def _wait(self, row: Scheduled, night: Night, why: str, now: datetime) -> None:
        if self._waits.get(row.id) != why:
            self._waits[row.id] = why
            self._say(f"schedule {row.name}: {why}")
        if night.note != why:
            self._move(row, replace(night, note=why), now)

    def _ask(self, row: Scheduled, night: Night, now: datetime) -> None:
        end = night_of(row.when, start=night.start)
        parameters = {
            "file_text": row.file_text,
            "name": row.name,
            "base": row.base,
            "until": "never" if end is None else end.isoformat(),
            "begin_by": (now + queue.LATEST if end is None else end).isoformat(),
        }
        run = self._runs.ask(parameters, key=queue.key_of(row))
        # as handed over: the schedule's own may be changed while the night runs
        note = "without an end" if end is None else f"until {local(end, zone=row.when.timezone)}"
        self._move(row, replace(night, prefect_run=run.id, note=note), now)

    # --- what is under way

    def _follow(self, row: Scheduled, now: datetime) -> None:
        night = row.night
        assert night is not None
        if night.prefect_run is None:
            self._ask_again(row, night, now)
            return
        carried = self._records.carried_by(night.prefect_run)
        if carried is None:
            self._follow_run(row, night, night.prefect_run, now)
        elif carried.live:
            self._note_running(row, night, carried, now)
        else:
            self._end(row, night, self._ending_of(carried, night.prefect_run), now)

    def _ask_again(self, row: Scheduled, night: Night, now: datetime) -> None:
        """Go on where asking was cut short: whether Prefect heard is not known, and under the same key it does not matter."""
        if not queue.is_over(row, start=night.start, now=now, begun=True):
            self._ask(row, night, now)
            return
        run = self._runs.of_key(queue.key_of(row))
        if run is not None:
            self._move(row, replace(night, prefect_run=run.id), now)
        else:
            kind = queue.MISSED if night.sweep_id is None else queue.PARTIAL
            self._end(row, night, Ending(kind, "Prefect's server did not answer until the night was over"), now)

    def _note_running(self, row: Scheduled, night: Night, carried: Carried, now: datetime) -> None:
        if (night.state, night.sweep_id) == (queue.RUNNING, carried.sweep_id):
            return
        running = replace(night, state=queue.RUNNING, sweep_id=carried.sweep_id)
        told = NightEvent("night_started", f"schedule {row.name}: sweep {carried.sweep_id} runs")
        self._move(row, running, now, told=told)

    def _ending_of(self, carried: Carried, run_id: str) -> Ending:
        """Return how a run ended, by what our database holds of its sweep."""
        note = carried.note or ("its process is gone" if carried.state == "running" else carried.state)
        ending = Ending(queue.BROKEN, note, sweep_id=carried.sweep_id, fruitful=carried.fruitful)
        if carried.state in ("done", "cancelled"):
            return replace(ending, kind=carried.state)
        if carried.state == "paused":
            return replace(ending, kind=queue.PARTIAL if carried.fruitful else queue.SKIPPED, kept_off=True)
        if carried.state == "partial" and not note.startswith(INTERRUPTED):
            return replace(ending, kind=queue.PARTIAL)
        run = self._runs.find(run_id)
        if run is not None and self._cancelled(run):
            return replace(ending, kind=queue.CANCELLED, note="cancelled in Prefect")
        return ending

    def _follow_run(self, row: Scheduled, night: Night, run_id: str, now: datetime) -> None:
        """Decide by Prefect's word what becomes of a run that has claimed no sweep, or none yet."""
        run = self._runs.find(run_id)
        if run is None:
            self._end(row, night, Ending(queue.BROKEN, "Prefect does not know the run any more"), now)
        elif run.ended:
            self._end(row, night, self._ending_of_run(row, night, run, now), now)
        elif self._is_lost(row, night, run, now) and self._records.taken_by(self._box) is None:
            self._end(row, night, Ending(queue.BROKEN, f"Prefect left the run {run.state_name}"), now)

    def _ending_of_run(self, row: Scheduled, night: Night, run: FlowRun, now: datetime) -> Ending:
        note = run.message or run.state_name or "it ended without a word"
        if run.state_name == "Busy":
            return Ending(queue.BUSY, note)
        if run.state_name == "Skipped":
            over = queue.is_over(row, start=night.start, now=now, begun=True)
            late = queue.PARTIAL if night.sweep_id is not None else queue.MISSED
            return Ending(late if over else queue.SKIPPED, note)
        if self._cancelled(run):
            return Ending(queue.CANCELLED, "cancelled in Prefect")
        return Ending(queue.BROKEN, note)

    def _is_lost(self, row: Scheduled, night: Night, run: FlowRun, now: datetime) -> bool:
        if run.since is None:
            return False
        if run.state_type in NOT_YET:
            end = night_of(row.when, start=night.start)
            return now >= (run.since + queue.LATEST if end is None else end)
        return run.since < self._started or now - run.since >= PATIENCE

    # --- the record

    def _end(self, row: Scheduled, night: Night, ending: Ending, now: datetime) -> None:
        if ending.kind in (queue.BROKEN, queue.CANCELLED) and night.prefect_run is not None:
            self._lay(row, night, night.prefect_run, now)
        ended = queue.after(night, ending, now=now)
        self._move(row, ended, now, told=_told_of_end(row, ended, ending))

    def _lay(self, row: Scheduled, night: Night, run_id: str, now: datetime) -> None:
        """Have a run that is lost not be `Running` for ever, nor begin later. It is a matter of what people see: no more."""
        with contextlib.suppress(PrefectUnavailable):
            run = self._runs.find(run_id)
            if run is not None and not run.ended and self._is_lost(row, night, run, now):
                self._runs.lay(run_id, message="its process is gone; nightsweep goes on in another run")

    def _move(self, row: Scheduled, night: Night, now: datetime, *, told: NightEvent | None = None) -> bool:
        moved = self._records.move(row, night, told=told, at=now)
        if moved and told is not None:
            self._say(told.message)
        return moved


def _told_of_start(row: Scheduled, night: Night) -> NightEvent | None:
    if night.state == queue.QUEUED:
        return NightEvent("night_due", f"schedule {row.name}: the night of {night.start:%Y-%m-%d %H:%M} UTC is due")
    if night.state == queue.RUNNING:
        return None
    level = "warning" if night.state == queue.MISSED else "info"
    return NightEvent(f"night_{night.state}", f"schedule {row.name}: {night.state}: {night.note}", level)


def _told_of_end(row: Scheduled, night: Night, ending: Ending) -> NightEvent:
    head = f"schedule {row.name}"
    if night.state == queue.QUEUED:
        again = f"it is tried again after {night.retry_at:%H:%M:%S} UTC"
        return NightEvent("night_broken_off", f"{head}: {ending.note}; {again}", "warning")
    rest = "no schedule goes on with the rest before that" if ending.kept_off else "the rest is left for the next night"
    left = {queue.DONE: "nothing is left", queue.PARTIAL: rest}.get(night.state)
    said = "; ".join(filter(None, (ending.note, left)))
    level = {queue.FAILED: "error", queue.MISSED: "warning"}.get(night.state, "info")
    return NightEvent(f"night_{night.state}", f"{head}: {night.state}: {said}", level)

"""Telling people how a night ended: its summary is written, and a message sent. Never disturbs a sweep, and raises nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from nightsweep.analysis import markdown
from nightsweep.analysis.expected import Expected
from nightsweep.analysis.morning import Night, night_named, night_of, summary_blocks, title_of
from nightsweep.analysis.notices import LEVELS, Notice
from nightsweep.analysis.page import page
from nightsweep.analysis.premises import Questioned
from nightsweep.analysis.progress import progress_of
from nightsweep.analysis.telling import not_restored, notice_of, restored_after_all
from nightsweep.analysis.values import (
    BootRow,
    Event,
    Filters,
    PrefillRow,
    ProductionRow,
    SweepRow,
    WindowRow,
    down_of,
)
from nightsweep.errors import BoxBusy, PlanError, StoreError, SweepError, SweepPaused
from nightsweep.plan.model import DECODE, SINGLE_BATCH, Schedule, SweepPlan
from nightsweep.plan.nights import next_start
from nightsweep.plan.queue import Scheduled
from nightsweep.service.documents import Expands, documents_of
from nightsweep.service.files import replace_file
from nightsweep.service.notify import Notifier
from nightsweep.units import Seconds

EVENTS_READ = 2000
"""Newest events of a sweep that are looked through for those of a night."""

HURRIED = Seconds(5.0)
"""Seconds for messages when the process was told to end: whoever told it does not wait long."""

AGAIN_AFTER = timedelta(minutes=15)
"""So long nobody is told once more that the same production does not serve: a watchdog tries every few minutes."""


class Reads(Expands, Protocol):
    """What is read of a sweep."""

    def boots(self, filters: Filters) -> Sequence[BootRow]:
        """Return boots."""

    def windows(self, filters: Filters) -> Sequence[WindowRow]:
        """Return windows."""

    def prefills(self, filters: Filters) -> Sequence[PrefillRow]:
        """Return prefills."""

    def events(self, sweep_id: int, *, limit: int) -> Sequence[Event]:
        """Return the newest events."""

    def productions(self, sweep_id: int) -> Sequence[ProductionRow]:
        """Return what was taken down."""

    def sweep_plan(self, sweep_id: int) -> SweepPlan | None:
        """Return the plan."""

    def expectations(self, sweep_id: int) -> Sequence[Expected]:
        """Return what was expected."""

    def questioned(self, box: str, *, simulated: bool) -> Sequence[Questioned]:
        """Return the decisions of a box whose premises changed."""


class Finds(Reads, Protocol):
    """As `Reads`, and the sweep itself."""

    def sweep_of(self, name_or_id: str) -> SweepRow:
        """Return a sweep by id or name."""


def night_in(
    queries: Reads,
    sweep: SweepRow,
    *,
    now: datetime,
    day: date | None = None,
    scheduled: Sequence[Scheduled] = (),
) -> Night:
    """Return what is stored of a sweep and of one of its nights: that of a day, else the last in which it did anything.

    Args:
        scheduled: What the service starts on this box by itself; a sweep that is not among it goes on by hand alone, whatever
            its file says.
    """
    plan = queries.sweep_plan(sweep.sweep_id)
    on_record = _schedule_of(sweep, scheduled)
    schedule = on_record or (None if plan is None else plan.schedule)
    zone = "UTC" if schedule is None else schedule.timezone
    filters = Filters(sweep=sweep.sweep_id, with_flagged="yes")
    boots = queries.boots(filters)
    windows = queries.windows(Filters(sweep=sweep.sweep_id, with_flagged="yes", kind=DECODE))
    prefills = queries.prefills(filters)
    events = queries.events(sweep.sweep_id, limit=EVENTS_READ)
    moments = [boot.started for boot in boots] + [event.at for event in events]
    newest = max(moments, default=sweep.started or now)
    span = night_of(newest, zone=zone) if day is None else night_named(day, zone=zone)
    left = None
    if plan is not None:
        left = sum(one.left for one in progress_of(plan, windows=windows, prefills=prefills, boots=boots))
    return Night(
        sweep=sweep,
        span=span,
        zone=zone,
        boots=boots,
        windows=windows,
        prefills=prefills,
        single_batches=queries.windows(Filters(sweep=sweep.sweep_id, with_flagged="yes", kind=SINGLE_BATCH)),
        events=events,
        production=[row for row in queries.productions(sweep.sweep_id) if _of_night(row, span)],
        plan=plan,
        left=left,
        goes_on=goes_on(sweep, on_record, left=left, now=now),
        expected=queries.expectations(sweep.sweep_id),
        questioned=queries.questioned(sweep.box, simulated=sweep.simulated),
        documents=documents_of(queries, windows),
    )


def _schedule_of(sweep: SweepRow, scheduled: Sequence[Scheduled]) -> Schedule | None:
    """Return the schedule on record that starts a sweep; None when none does, or it is paused."""
    by_id = [one for one in scheduled if one.night is not None and one.night.sweep_id == sweep.sweep_id]
    by_name = [one for one in scheduled if one.name == sweep.name]
    return next((one.when for one in (*by_id, *by_name) if not one.paused), None)


def _of_night(row: ProductionRow, span: Any) -> bool:
    return span.holds(row.opened) or row.closed is None or span.holds(row.closed)


def goes_on(sweep: SweepRow, schedule: Schedule | None, *, left: int | None, now: datetime) -> str:
    """Return when and how a sweep goes on, as a sentence without an end."""
    by_hand = f"`nightsweep resume {sweep.sweep_id}`"
    if sweep.state == "paused":
        return f"it is paused until {by_hand}"
    if sweep.state == "running":
        return "it runs now"
    if sweep.state == "done" or left == 0:
        return f"nothing is left; `nightsweep report {sweep.sweep_id}` writes the whole report"
    start = None if schedule is None or schedule.cron is None else next_start(schedule, after=now)
    if start is None or schedule is None:
        return f"by {by_hand}"
    at = f"{start.astimezone(ZoneInfo(schedule.timezone)):%a %d %B, %H:%M} ({schedule.timezone})"
    return f"{at}, as its schedule says while `nightsweep serve` runs; or by {by_hand}"


@dataclass(frozen=True)
class Teller:
    """Writes summaries and sends messages.

    Attributes:
        queries: Opens the reading side of the store.
        event: Keeps an event (kind, message, level, sweep id); may raise StoreError.
        summaries: Folder of the summaries.
        told: File that remembers which production people were told does not serve.
        scheduled: What the service starts on this box by itself.
    """

    notifier: Notifier
    queries: Callable[[], AbstractContextManager[Finds]]
    event: Callable[[str, str, str, int | None], None]
    summaries: Path
    told: Path
    box: str
    now: Callable[[], datetime]
    scheduled: Callable[[], Sequence[Scheduled]] = tuple

    @contextlib.contextmanager
    def night(self, name: str, *, by_hand: bool) -> Iterator[list[Any]]:
        """Tell how the block's run of a sweep ended, after the block: production was seen to by then.

        The block puts its `Outcome` into the list. A sweep that was not begun because the box is taken or it is paused is
        nothing to tell; with `by_hand` neither is a mistake in the plan, nor Ctrl-C: whoever made it sits there.
        """
        outcomes: list[Any] = []
        try:
            yield outcomes
        except BaseException as error:
            silent = (BoxBusy, SweepPaused, *((PlanError, KeyboardInterrupt) if by_hand else ()))
            if not isinstance(error, silent):
                hurried = None if isinstance(error, Exception) else HURRIED
                self._tell(name, outcome=None, error=error, at_most=hurried)
            raise
        if outcomes:
            self._tell(str(outcomes[0].sweep_id), outcome=outcomes[0], error=None, at_most=None)

    def _tell(self, sweep: str, *, outcome: Any, error: BaseException | None, at_most: Seconds | None) -> None:
        sweep_id, down = None, list[str]()
        try:
            with self.queries() as queries:
                found = queries.sweep_of(sweep)
                sweep_id = found.sweep_id
                night = night_in(queries, found, now=self.now(), scheduled=self.scheduled())
            down = [row.container for row in down_of(night.production)]
            told = _problems(() if outcome is None else outcome.problems, error)
            notice = notice_of(
                night,
                problems=told,
                summary=self.write(night),
                broke_off=isinstance(error, Exception),
                failed=() if outcome is None else outcome.failed,
            )
        except Exception as unread:  # noqa: BLE001  a summary that cannot be made must hide no failure, and make none
            notice = _bare(sweep, error or unread, box=self.box)
        self.send(notice, sweep_id=sweep_id, at_most=at_most)
        if down:
            self._remember({**self._told(), **{container: self.now().isoformat() for container in down}})

    def write(self, night: Night) -> str | None:
        """Write a night's summary as Markdown and HTML; return the path of the HTML, None when it could not be written."""
        name = f"{night.span.name:%Y-%m-%d}-{_file_name(night.sweep.name)}-{night.sweep.sweep_id}"
        blocks = summary_blocks(night)
        try:
            self.summaries.mkdir(parents=True, exist_ok=True)
            replace_file(self.summaries / f"{name}.md", markdown.document(blocks))
            replace_file(self.summaries / f"{name}.html", page(blocks, title=title_of(night)))
        except OSError as error:
            self._note("summary_not_written", f"{self.summaries}: {error.strerror or error}", night.sweep.sweep_id)
            return None
        return str(self.summaries / f"{name}.html")

    def send(self, notice: Notice, *, sweep_id: int | None = None, at_most: Seconds | None = None) -> tuple[str, ...]:
        """Send a notice; what goes wrong is an event, and returned."""
        failures = self.notifier.tell(notice, at_most=at_most)
        for failure in failures:
            self._note("notification_failed", failure, sweep_id)
        return failures

    def production(self, container: str, *, serving: bool, detail: str) -> None:
        """Tell that production does not serve, loudly but not every minute; and once that it does again after that."""
        known = self._told()
        last = known.get(container)
        if serving:
            if last is None:
                return
            known.pop(container)
            self.send(restored_after_all(container, box=self.box, detail=detail))
        else:
            if last is not None and self.now() - datetime.fromisoformat(last) < AGAIN_AFTER:
                return
            known[container] = self.now().isoformat()
            self.send(not_restored(container, box=self.box, reason=detail))
        self._remember(known)

    def forget(self, container: str) -> None:
        """Forget that people were told of a container: it is given up, and nothing more is told of it."""
        known = self._told()
        if known.pop(container, None) is not None:
            self._remember(known)

    def _remember(self, known: Mapping[str, str]) -> None:
        with contextlib.suppress(OSError):
            self.told.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.told, json.dumps(known))

    def _told(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.told.read_text(encoding="utf-8"))
            return dict(found) if isinstance(found, dict) else {}
        return {}

    def _note(self, kind: str, message: str, sweep_id: int | None) -> None:
        with contextlib.suppress(StoreError):
            self.event(kind, message, "warning", sweep_id)


def _problems(problems: Sequence[str], error: BaseException | None) -> tuple[str, ...]:
    if error is None:
        return tuple(problems)
    said = str(error) if isinstance(error, SweepError) else f"{type(error).__name__}: {error}".rstrip(": ")
    return (*problems, said)


def _bare(sweep: str, error: BaseException, *, box: str) -> Notice:
    """Return the message of a sweep of which nothing can be read: the database is away, or it never came to one."""
    said = str(error) or type(error).__name__
    body = f"{said}\nNext: `nightsweep doctor` on {box} says what is wrong; production: `nightsweep restore`."
    return Notice("failed", LEVELS["failed"], f"sweep {sweep} on {box}: failed", body)


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)[:60]

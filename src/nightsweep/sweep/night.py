"""The end of the night: what may still be begun, and when everything is dropped so that production serves by `until`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from nightsweep.plan.fit import PastStarts, Reserve, engine_start, first_that_fits, production_start, reserve, why_not
from nightsweep.plan.model import BootTask, SweepPlan
from nightsweep.plan.nights import long_night
from nightsweep.sweep.tools import DropWanted, Limits, StopWanted, Tools
from nightsweep.units import Seconds


@dataclass
class Night:
    """A run's time limit; without an `until` nothing of it ever stops anything.

    Attributes:
        fresh: Whether nothing was booted in this run yet.
        ended: When the last engine was gone and production's turn began; None before.
        past: The box's past starts as they were when the newest boot was chosen.
    """

    tools: Tools
    plan: SweepPlan
    box_id: int
    limits: Limits
    fresh: bool = True
    ended: datetime | None = None
    past: PastStarts = field(default_factory=PastStarts)

    @cached_property
    def reserve(self) -> Reserve:
        """What is kept free at the end, by what this box has shown until the run's begin (raises ContainerMissing)."""
        if self.limits.reserve is not None:
            return Reserve(self.limits.reserve, f"{self.limits.reserve:.0f} s, as given")
        production = self.plan.production
        if production is None:
            return reserve(self.plan, None)
        image = self.tools.host("docker").foreign(production.container).image
        past = self.tools.store.past_starts(self.box_id)
        return reserve(self.plan, production_start(production, past, image=image))

    @cached_property
    def drop_at(self) -> datetime | None:
        """When everything is dropped; None without an end."""
        until = self.limits.until
        return None if until is None else self.reserve.drop_at(until)

    def left(self) -> Seconds | None:
        """Return seconds until everything is dropped, negative after it; None without an end."""
        if self.drop_at is None:
            return None
        return Seconds((self.drop_at - self.tools.clock.now()).total_seconds())

    def check(self) -> None:
        """Raise StopWanted once production must be started."""
        left = self.left()
        if left is not None and left <= 0:
            raise StopWanted("partial", f"the night is over: {self._end_said()}")

    def drop_check(self) -> None:
        """As `check`, while something is measured that is then dropped (raises DropWanted)."""
        left = self.left()
        if left is not None and left <= 0:
            raise DropWanted(
                "partial", f"the night is over, and what was being measured is dropped: {self._end_said()}"
            )

    def check_for(self, seconds: float, what: str) -> None:
        """Raise StopWanted when what comes next would not be over in time."""
        left = self.left()
        if left is not None and left < seconds:
            note = f"the next {what} takes {seconds:.0f} s and does not fit any more: {max(left, 0.0):.0f} s are left"
            raise StopWanted("partial", f"{note}; {self._end_said()}")

    def begin(self, tasks: Sequence[BootTask], *, sweep_id: int) -> None:
        """Say when the night ends for us, before production is taken down.

        Raises:
            StopWanted: Nothing fits into it.
        """
        self.next_boot(tasks)
        if self.drop_at is not None:
            self.tools.store.event("night_reckoned", self._end_said(), sweep_id=sweep_id)
            long = long_night(self.tools.clock.now(), self.limits.until, zone="UTC")
            if long is not None:
                self.tools.store.event("long_night", f"a long night: {long}", level="warning", sweep_id=sweep_id)

    def next_boot(self, tasks: Sequence[BootTask]) -> int:
        """Return which of the boots, in their order, is made next: the first that still fits.

        Raises:
            StopWanted: None fits any more; says what the first one lacks.
        """
        if self.drop_at is not None:
            self.past = self.tools.store.past_starts(self.box_id)
        return self.still_fits(tasks)

    def still_fits(self, tasks: Sequence[BootTask]) -> int:
        """As `next_boot`, by the past starts that are known already: for places that are passed often."""
        left = self.left()
        if left is None:
            return 0
        chosen = first_that_fits(self.plan, tasks, self.past, left=left, fresh=self.fresh)
        if chosen is None:
            note = why_not(self.plan, tasks[0], self.past, left=left, fresh=self.fresh)
            raise StopWanted("partial", f"{note}; {self._end_said()}")
        return chosen

    def too_late_for(self, task: BootTask) -> str | None:
        """Return why a boot that must wait for something would be of no use any more; None while it is."""
        left = self.left()
        if left is None or first_that_fits(self.plan, (task,), self.past, left=left, fresh=True) is not None:
            return None
        return f"{why_not(self.plan, task, self.past, left=left, fresh=True)}; {self._end_said()}"

    @contextlib.contextmanager
    def booting(self, task: BootTask) -> Iterator[None]:
        """Say of a boot that the night's end cuts short how long it had, and what it was reckoned with."""
        self.fresh = False
        begun = self.tools.clock.monotonic()
        try:
            yield
        except StopWanted as stop:
            left = self.left()
            if left is None or left > 0:
                raise
            waited = self.tools.clock.monotonic() - begun
            expected = engine_start(task.config, self.past).source  # not asked for again: the store may be away
            name = task.config.name
            note = f"{name} was dropped {waited:.0f} s after its start was begun (reckoned with {expected})"
            raise StopWanted(stop.state, f"{note}; {stop.note}") from stop

    @contextlib.contextmanager
    def measured_in(self) -> Iterator[None]:
        """Note when the block, in which production is down and engines run, has ended."""
        try:
            yield
        finally:
            self.ended = self.tools.clock.now()

    def late(self) -> str | None:
        """Return, once production serves again, by how much that was too late and why; None when it was in time."""
        until, now = self.limits.until, self.tools.clock.now()
        if until is None or self.ended is None or self.plan.production is None or now <= until:
            return None
        over, start = (now - until).total_seconds(), (now - self.ended).total_seconds()
        return (
            f"production served again {over:.0f} s after until ({_clock(until)}): the last engine was gone at "
            f"{_clock(self.ended)}, and production took {start:.0f} s to serve; {self.reserve.seconds:.0f} s had been kept "
            f"({self.reserve.source})"
        )

    def _end_said(self) -> str:
        until, drop_at = self.limits.until, self.drop_at
        assert until is not None
        assert drop_at is not None
        whose = "production serves" if self.plan.production is not None else "the box is free"
        return f"all is dropped at {_clock(drop_at)} so that {whose} by {_clock(until)} ({self.reserve.source})"


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S} UTC"

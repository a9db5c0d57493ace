"""One decode window: bring the load up, read, hold, read, disconnect, wait until the engine is idle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime

from nightsweep.errors import MetricsUnreadable, RequestFailed
from nightsweep.measurement.flags import SETTLING
from nightsweep.measurement.values import OccupancySample, RawWindow, Reading
from nightsweep.ports import Clock, Target, WindowRequest
from nightsweep.probe.client import DirectClient
from nightsweep.probe.draining import drained
from nightsweep.probe.load import Load
from nightsweep.probe.readings import fetch_reading, require_counter, with_state
from nightsweep.units import Seconds

FASTEST_SAMPLING = 0.25
"""Seconds between occupancy samples at least: reading the page costs the engine some milliseconds."""

SAMPLES_ENOUGH = 20
"""Samples of a window at most: one in two seconds of 40. More tell no more, and each costs engine and probe some milliseconds."""

SAMPLES_WANTED = 8
"""Of a window, however short: of a few samples all show a queue by chance."""

SAMPLED = frozenset({"running", "waiting"})

RAMP_POLL = 0.05
LONGER = 0.03
"""Share of the window after which a blurred reading is not taken once more."""

BLURRED = 0.005
"""A reading whose uncertainty is a larger share of the window than this is read again."""

SHARPENINGS = 4
"""Times that a blurred reading is taken again: a machine that is busy for one round trip is not for each of five."""

ENOUGH_CHUNKS = 16


@dataclass(frozen=True)
class Patience:
    """How long is waited where only time can tell.

    Attributes:
        gauges: Once all streams have their first token, for the engine to report them running and none waiting.
        dying: After requests have failed, for the engine to end: one that dies fails requests seconds before (vLLM:
            1 to 3 s).
        idle: After the streams are ended, for the engine to report nothing running.
    """

    gauges: Seconds = Seconds(30.0)
    dying: Seconds = Seconds(4.0)
    idle: Seconds = Seconds(5.0)


@dataclass
class Closing:
    """Why a window closed before its time."""

    flag: str
    detail: str


@dataclass
class WindowRun:
    """One window, or one warm-up, in the making.

    Attributes:
        gone: Set from outside when the engine is no longer alive.
    """

    client: DirectClient
    load: Load
    target: Target
    request: WindowRequest
    clock: Clock
    poll: Seconds
    gone: asyncio.Event
    patience: Patience = Patience()
    samples: list[OccupancySample] = field(default_factory=list)

    async def measure(self) -> RawWindow:
        """Return the raw window; whatever happens, the load is disconnected.

        Raises:
            DialectMismatch: The engine does not count generated tokens as they come.
        """
        began, started = self.clock.monotonic(), self.clock.now()
        before: Reading | None = None
        after: Reading | None = None
        async with self.load:
            opening = await self._ramp()
            closing = opening if isinstance(opening, Closing) else None
            if isinstance(opening, Reading):
                before = opening
                closing = await self._hold(before)
                after, unread = await self._closing_reading(closing)
                await self._settling()
                closing = closing or unread
        ramp = None if before is None else Seconds(before.at - began)
        return await self._settled(started, before, after, ramp, closing)

    async def warm_up(self) -> None:
        """Run until every stream has had some tokens, or the time is over; then disconnect and wait until idle.

        Raises:
            RequestFailed: Streams kept failing, or no request had a token and some failed: the engine is not warm.
        """
        deadline = self.clock.monotonic() + self.request.window
        closing: Closing | None = None
        async with self.load:
            while not (closing or self.load.warmed(chunks=ENOUGH_CHUNKS)) and self.clock.monotonic() < deadline:
                closing = await self._interrupted(RAMP_POLL)
        await self._drained()
        errors = self.load.first_errors() if self.load.silent_streams() == self.request.concurrency else ()
        if closing is None and errors:
            closing = Closing("request_failed", "; ".join(errors))
        if closing is not None and closing.flag == "request_failed":
            raise RequestFailed(url=self.target.load_url, reason=closing.detail)

    async def _ramp(self) -> Reading | Closing:
        deadline = self.clock.monotonic() + self.request.ramp_timeout
        closing = await self._interrupted(float(self.request.ramp_timeout), until=self.load.started.wait())
        if closing is not None:
            return closing
        if not self.load.started.is_set():
            return self._not_held(f"{self.load.silent_streams()} streams had no token yet")
        try:
            return await self._opening_reading(min(deadline, self.clock.monotonic() + self.patience.gauges))
        finally:
            self.request.waiting("")

    async def _opening_reading(self, deadline: float) -> Reading | Closing:
        """Return the first reading in which the engine runs all streams, or why there was none by the deadline."""
        while True:
            try:
                reading = await self._reading()
            except MetricsUnreadable as error:
                late = Closing("request_failed", f"the opening reading failed: {error}")
                self.request.waiting(f"for the engine's counters: {error}")
            else:
                require_counter(reading, self.target.dialect, "generation_tokens")
                if self._all_run(reading):
                    return reading
                told = f"{_told(reading, 'running')} running, {_told(reading, 'waiting')} waiting"
                late = self._not_held(f"the engine reports {told}")
                self.request.waiting(f"for the engine to run {_all(self.request.concurrency)}: it reports {told}")
            if self.clock.monotonic() > deadline:
                return late
            closing = await self._interrupted(RAMP_POLL)
            if closing is not None:
                return closing

    def _all_run(self, reading: Reading) -> bool:
        """Return whether the engine runs all streams; a gauge that it does not have cannot speak against it."""
        running, waiting = reading.values.get("running"), reading.values.get("waiting")
        return (running is None or running >= self.request.concurrency) and not waiting

    def _not_held(self, reason: str) -> Closing:
        errors = "; ".join(self.load.first_errors())
        streams = self.request.concurrency
        some = "the stream did not run" if streams == 1 else f"{streams} streams did not run together"
        waited = f"{some} in time: {reason}"
        return Closing("underfilled", f"{waited}; {errors}" if errors else waited)

    async def _reading(self) -> Reading:
        """Return a reading; one whose round trip is long against the window is taken again, and the sharpest one kept.

        Not for long: an engine that answers slowly must not make the window much longer than was asked.
        """
        begun = self.clock.monotonic()
        reading = await fetch_reading(self.client, self.target, clock=self.clock)
        for _ in range(SHARPENINGS):
            spent = self.clock.monotonic() - begun
            if reading.uncertainty <= BLURRED * self.request.window or spent > LONGER * self.request.window:
                break
            again = await fetch_reading(self.client, self.target, clock=self.clock)
            reading = again if again.uncertainty <= reading.uncertainty else reading
        return reading

    async def _hold(self, before: Reading) -> Closing | None:
        window = float(self.request.window)
        interval = min(max(float(self.poll), FASTEST_SAMPLING, window / SAMPLES_ENOUGH), window / SAMPLES_WANTED)
        sampler = asyncio.create_task(self._sample(interval, until=before.at + float(self.request.window)))
        try:
            remaining = before.at + self.request.window - self.clock.monotonic()
            return await self._interrupted(remaining)
        finally:
            sampler.cancel()
            await asyncio.gather(sampler, return_exceptions=True)

    async def _sample(self, interval: float, *, until: float) -> None:
        while self.clock.monotonic() + interval * 1.2 < until:
            await asyncio.sleep(interval)
            with contextlib.suppress(MetricsUnreadable):
                reading = await fetch_reading(self.client, self.target, clock=self.clock, only=SAMPLED)
                self.samples.append(
                    OccupancySample(reading.at, reading.values.get("running"), reading.values.get("waiting"))
                )

    async def _closing_reading(self, closing: Closing | None) -> tuple[Reading | None, Closing | None]:
        if closing is not None and closing.flag == "engine_exited":
            return None, None
        for _ in range(2):
            try:
                return await with_state(self.client, self.target, await self._reading()), None
            except MetricsUnreadable as error:
                unread = Closing("request_failed", f"the closing reading failed: {error}")
        return None, await self._blame(unread)

    async def _settling(self) -> None:
        """Read on for a moment: what lies in the sockets when the closing page comes is of the window, and not of others."""
        await asyncio.sleep(float(SETTLING))
        for _ in range(2):  # a process that got no processor meanwhile has its timers first and its sockets after
            await asyncio.sleep(0)

    async def _interrupted(self, timeout: float, *, until: Awaitable[object] | None = None) -> Closing | None:
        """Wait for `timeout`, or for `until`; return why to stop when the engine is gone or the load cannot go on."""
        waits: list[Awaitable[object]] = [self.gone.wait(), self.load.failed.wait()]
        if until is not None:
            waits.append(until)
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, timeout=max(timeout, 0.0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self.gone.is_set():
            return Closing("engine_exited", "the engine ended while it was measured")
        if self.load.failed.is_set():
            return await self._blame(Closing("request_failed", f"streams keep failing: {self.load.failure}"))
        return None

    async def _blame(self, closing: Closing) -> Closing:
        """Return the engine's end as the reason when it comes within some seconds: a dying engine fails requests first."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.gone.wait(), float(self.patience.dying))
            return Closing("engine_exited", f"the engine ended while it was measured; {closing.detail}")
        return closing

    async def _settled(
        self,
        started: datetime,
        before: Reading | None,
        after: Reading | None,
        ramp: Seconds | None,
        closing: Closing | None,
    ) -> RawWindow:
        """Return the window once the engine is idle; the chunks are read meanwhile."""
        gone = closing is not None and closing.flag == "engine_exited"
        draining = None if gone else asyncio.create_task(self._drained())
        requests = await asyncio.to_thread(self.load.timings)
        detail = None if closing is None else closing.detail
        if draining is not None and not await draining:
            detail = "; ".join(filter(None, (detail, f"the engine was not idle {self.patience.idle:g} s later")))
        return RawWindow(
            concurrency=self.request.concurrency,
            seconds_asked=self.request.window,
            started=started,
            before=before,
            after=after,
            samples=tuple(self.samples),
            requests=requests,
            ramp=ramp,
            ended_early=None if closing is None else closing.flag,
            detail=detail,
        )

    async def _drained(self) -> bool:
        patience = self.patience.idle
        return await drained(self.client, self.target, clock=self.clock, timeout=patience, gone=self.gone)


def _all(streams: int) -> str:
    return "the stream" if streams == 1 else f"all {streams} streams"


def _told(reading: Reading, name: str) -> str:
    value = reading.values.get(name)
    return "an unknown number" if value is None else f"{value:g}"

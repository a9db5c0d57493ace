"""N closed-loop streams: each sends its next request when the last one has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx

from nightsweep.measurement.values import RequestTiming
from nightsweep.ports import Clock, Target, WindowRequest
from nightsweep.probe.bodies import PromptOrder, headers_of, path_of, sampling_of, streaming_body
from nightsweep.probe.client import DirectClient
from nightsweep.probe.repetition import LOOKED_AT
from nightsweep.probe.stream import RequestLog, stream_once, timing_of

FAILURES_IN_A_ROW = 3
BACKOFF = (0.1, 0.3, 1.0)
"""Seconds between attempts of a stream whose requests fail, so that a dead engine is not flooded."""


class UsageModes:
    """Remembers which servers refuse continuous usage (400), so that each is asked once."""

    def __init__(self) -> None:
        self._refused: set[tuple[str, str]] = set()

    def continuous(self, target: Target) -> bool:
        """Return whether to ask for a token count with every chunk."""
        return (target.load_url, target.model) not in self._refused

    def refused(self, target: Target) -> None:
        """Remember that this server does not take it."""
        self._refused.add((target.load_url, target.model))


class Load:
    """The probe's load. `started` is set once every stream has had its first token, `failed` when a stream cannot go on.

    Use as an async context: leaving it disconnects all streams.
    """

    def __init__(
        self, client: DirectClient, target: Target, request: WindowRequest, *, clock: Clock, usage: UsageModes
    ) -> None:
        self._client = client
        self._target = target
        self._request = request
        self._clock = clock
        self._usage = usage
        self._url = httpx.URL(target.load_url + path_of(target.api))
        self._headers = httpx.Headers(headers_of(target))
        self._order = PromptOrder(len(request.prompts), seed=request.order_seed, first=request.first_prompt)
        self._sent = 0
        self._waiting_for = set(range(request.concurrency))
        self._tasks: list[asyncio.Task[None]] = []
        self._logs: list[RequestLog] = []
        self._current: dict[int, RequestLog] = {}
        self.started = asyncio.Event()
        self.failed = asyncio.Event()
        self.failure: str | None = None

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._run(stream)) for stream in range(self._request.concurrency)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Disconnect all streams. Idempotent.

        By HTTP/2 a request that is cancelled leaves its stream open (httpcore sends no reset), and the engine would go on for
        nobody: there, the connection is closed, and the client with it.
        """
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._target.http2:
            await self._client.aclose()

    def timings(self) -> tuple[RequestTiming, ...]:
        """Return all requests, in the order they were sent. Reads every chunk: call it when the load is over."""
        return tuple(timing_of(log, read=place < LOOKED_AT) for place, log in enumerate(self._logs))

    def silent_streams(self) -> int:
        """Return how many streams wait for their first token."""
        return len(self._waiting_for)

    def warmed(self, *, chunks: int) -> bool:
        """Return whether every stream has had that many chunks, or a whole request."""
        done = {log.stream for log in self._logs if log.finished or len(log.stamps) >= chunks}
        return len(done) == self._request.concurrency

    def first_errors(self) -> Sequence[str]:
        """Return the distinct errors so far, oldest first."""
        return tuple(dict.fromkeys(log.error for log in self._logs if log.error is not None))

    async def _run(self, stream: int) -> None:
        failures = 0
        while True:
            log = await self._one(stream)
            if log.error is None and log.stamps:
                failures = 0
                self._first(stream)
                continue
            failures += 1
            if failures >= FAILURES_IN_A_ROW and not self.failed.is_set():
                self.failure = log.error or "the stream was empty"
                self.failed.set()
            await asyncio.sleep(BACKOFF[min(failures, len(BACKOFF)) - 1])

    async def _one(self, stream: int) -> RequestLog:
        index = self._order.next()
        position, self._sent = self._sent, self._sent + 1
        log = await self._send(stream, index, position)
        if log.status in (400, 422) and self._usage.continuous(self._target):
            return await self._send(stream, index, position, continuous=False, replacing=log)
        return log

    async def _send(
        self,
        stream: int,
        index: int,
        position: int,
        *,
        continuous: bool | None = None,
        replacing: RequestLog | None = None,
    ) -> RequestLog:
        log = RequestLog(
            stream=stream,
            prompt_index=index,
            on_first=lambda: self._first(stream, counted=continuous is not False),
            sent=self._clock.monotonic(),
        )
        if replacing is not None:
            self._logs.remove(replacing)
        self._logs.append(log)
        prompt: Any = self._request.prompts[index]
        body = streaming_body(
            self._target,
            prompt,
            sampling=sampling_of(
                self._request.sampling,
                temperature=self._request.temperature,
                index=self._request.first_prompt + position,
            ),
            continuous=self._usage.continuous(self._target) if continuous is None else continuous,
        )
        await stream_once(
            self._client,
            self._url,
            body=body,
            headers=self._headers,
            log=log,
            clock=self._clock,
            timeout=self._target.request_timeout,
        )
        return log

    def _first(self, stream: int, *, counted: bool = True) -> None:
        """Note the first token of a stream; one that came only without continuous usage shows that the server has none."""
        if not counted:
            self._usage.refused(self._target)
        if stream not in self._waiting_for:
            return
        self._waiting_for.discard(stream)
        self._request.coming_up(self._request.concurrency - len(self._waiting_for))
        if not self._waiting_for:
            self.started.set()

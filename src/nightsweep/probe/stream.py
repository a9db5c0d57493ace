"""One streamed request: bytes and the time of their arrival, nothing else, while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from nightsweep.measurement.values import RequestTiming
from nightsweep.ports import Clock
from nightsweep.probe.client import DirectClient
from nightsweep.probe.repetition import repetition
from nightsweep.probe.sse import account, has_output, reports_error
from nightsweep.units import MonotonicSeconds, Seconds, Tokens

SHOWN = 300
LAST = 3
"""Reads at the end of a stream in which an error is looked for."""


def _nothing() -> None:
    """Be told of a first token, and do nothing."""


@dataclass
class RequestLog:
    """The record of one request while it runs; a `wire.Recorder`. `stamps` and `chunks` grow together, one entry per read.

    Attributes:
        on_first: Called when the first token has come.
    """

    stream: int
    prompt_index: int
    on_first: Callable[[], None] = _nothing
    sent: float = 0.0
    ended: float | None = None
    status: int | None = None
    error: str | None = None
    cancelled: bool = False
    started: bool = False
    stamps: list[float] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether it ended by itself."""
        return self.ended is not None and not self.cancelled

    def receive(self, at: float, data: bytes) -> None:
        """Keep a read and its time: the hot path. A pattern is searched only until the first token has come."""
        self.stamps.append(at)
        self.chunks.append(data)
        if not self.started and has_output(b"".join(self.chunks)):
            self.started = True
            self.on_first()


async def stream_once(
    client: DirectClient,
    url: httpx.URL,
    *,
    body: bytes,
    headers: httpx.Headers,
    log: RequestLog,
    clock: Clock,
    timeout: Seconds,
) -> None:
    """Send one request and keep what comes, until its end. Failures go into the log; cancelling disconnects.

    Args:
        url: Parsed once by the caller: it costs a tenth of a ms.
        timeout: For the whole request.
    """
    log.sent = clock.monotonic()
    try:
        async with asyncio.timeout(float(timeout)):
            log.status = await client.record("POST", url, headers=headers, recorder=log, body=body)
        log.error = _error_of(log)
    except asyncio.CancelledError:
        log.cancelled = True
        raise
    except (TimeoutError, httpx.TimeoutException) as error:
        log.error = str(error) or f"no end after {timeout:g} s"
    except httpx.HTTPError as error:
        log.error = f"the connection failed: {type(error).__name__} {error}".rstrip()
    finally:
        log.ended = clock.monotonic()


def _error_of(log: RequestLog) -> str | None:
    """Return what the server says went wrong, by its status or inside a stream of status 200."""
    if log.status != 200:
        text = b"".join(log.chunks).decode("utf-8", errors="replace")
        return f"HTTP {log.status}: {text[:SHOWN].strip()}"
    if reports_error(b"".join(log.chunks[-LAST:])):
        return account(log.stamps, log.chunks).error
    return None


def timing_of(log: RequestLog, *, read: bool = False) -> RequestTiming:
    """Return what a request was, once it is over. A stream that was cut by us lacks its end without fault.

    Args:
        read: Look at its text too.
    """
    seen = account(log.stamps, log.chunks)
    error = log.error or seen.error or (None if log.cancelled else seen.lack)
    return RequestTiming(
        stream=log.stream,
        prompt_index=log.prompt_index,
        sent=MonotonicSeconds(log.sent),
        first_token=MonotonicSeconds(seen.chunk_at[0]) if seen.chunk_at else None,
        ended=None if log.ended is None else MonotonicSeconds(log.ended),
        chunk_at=seen.chunk_at,
        chunk_tokens=seen.chunk_tokens,
        prompt_tokens=_tokens(seen.prompt_tokens),
        completion_tokens=None if log.cancelled else _tokens(seen.completion_tokens),
        cached_tokens=_tokens(seen.cached_tokens),
        finish_reason=seen.finish_reason,
        error=error,
        cancelled=log.cancelled,
        acceptance=None if log.cancelled else seen.acceptance,
        repetition=repetition(log.chunks) if read else None,
    )


def _tokens(count: int | None) -> Tokens | None:
    return None if count is None else Tokens(count)

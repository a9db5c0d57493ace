"""A transport of httpx that stamps bytes where they arrive, in the socket's own callback.

httpx with its stock transport passes every chunk through four layers of async iterators, and wakes a task for each:
some 80
microseconds of CPU a chunk, and the stamp is late by as much as the loop is behind. Here the parser (httptools, in
C) hands
the body straight to the request's recorder; the task that waits for the request wakes once, at the end.

HTTP/1.1 only. One request at a time on a connection; a finished one is kept and used again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import httptools
import httpx

RECORDER = "recorder"
"""Name of the request extension that holds the `Recorder`; without one the body is in the response, as ever."""


class Recorder(Protocol):
    """Takes the body of one answer as it comes. Called from the loop: it must be quick and must not raise."""

    def receive(self, at: float, data: bytes) -> None:
        """Take a piece of the body that arrived at `at`, on the probe's monotonic clock."""


class RecordingTransport(httpx.AsyncBaseTransport):
    """Sends requests and lets their recorders have the answers' bodies. It waits as long as the caller does.

    Args:
        now: The probe's monotonic clock.
        connect_timeout: Seconds for TCP and TLS together.
    """

    def __init__(self, *, verify: ssl.SSLContext, now: Callable[[], float], connect_timeout: float) -> None:
        self._verify = verify
        self._now = now
        self._connect_timeout = connect_timeout
        self._idle: dict[tuple[str, str, int], list[_Connection]] = {}
        self._open: set[_Connection] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return once the head of the answer is there; reading the stream waits for its end."""
        whole = _Whole()
        recorder: Recorder = request.extensions.get(RECORDER) or whole
        body = await request.aread()
        origin = _origin(request.url)
        kept = self._waiting(origin)
        connection = kept or await self._connected(origin, request)
        try:
            status, headers = await connection.ask(_head(request) + body, recorder)
        except BaseException as error:
            self._drop(connection)
            if kept is not None and request.method == "GET" and isinstance(error, httpx.RemoteProtocolError):
                return await self.handle_async_request(request)  # the server closed what it had kept long enough
            raise
        stream = _Body(connection, whole.pieces, lambda: self._back(origin, connection))
        return httpx.Response(status, headers=headers, stream=stream)

    async def aclose(self) -> None:
        """Close every connection."""
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()
        await asyncio.sleep(0)

    def _waiting(self, origin: tuple[str, str, int]) -> _Connection | None:
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
            self._drop(connection)
        return None

    async def _connected(self, origin: tuple[str, str, int], request: httpx.Request) -> _Connection:
        scheme, host, port = origin
        secure = scheme == "https"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._now),
                    host,
                    port,
                    ssl=self._verify if secure else None,
                    server_hostname=host if secure else None,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection in {self._connect_timeout:g} s", request=request) from error
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        self._open.add(connection)
        return connection

    def _back(self, origin: tuple[str, str, int], connection: _Connection) -> None:
        """Take a connection back: one whose answer has not ended is closed, which tells the server to stop."""
        if connection.usable:
            self._idle.setdefault(origin, []).append(connection)
        else:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._open.discard(connection)
        connection.abort()


class _Whole:
    """The recorder of a request that brings none: it keeps the body for the response."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def receive(self, at: float, data: bytes) -> None:
        """Keep a piece."""
        self.pieces.append(data)


class _Body(httpx.AsyncByteStream):
    """The rest of an answer, which ends with it. What a recorder has is not yielded once more."""

    def __init__(self, connection: _Connection, pieces: list[bytes], back: Callable[[], None]) -> None:
        self._connection = connection
        self._pieces = pieces
        self._back = back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._connection.ended()
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        self._back()


class _Connection(asyncio.Protocol):
    """One connection. The callbacks are named as asyncio and httptools call them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._transport: Any = None
        self._parser: Any = None
        self._receive: Callable[[float, bytes], None] = _ignore
        self._at = 0.0
        self._headers: list[tuple[bytes, bytes]] = []
        self._answered: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._complete = True
        self._until_close = False
        self._lost = False

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._complete and not self._lost and not self._transport.is_closing()

    async def ask(self, request: bytes, recorder: Recorder) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Send a request; return status and headers."""
        loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._receive = recorder.receive
        self._headers, self._complete, self._until_close = [], False, False
        self._answered, self._ended = loop.create_future(), loop.create_future()
        self._transport.write(request)
        await self._answered
        return self._parser.get_status_code(), self._headers

    async def ended(self) -> None:
        """Wait for the end of the answer."""
        if self._ended is not None:
            await self._ended

    def abort(self) -> None:
        """Close at once; bytes that still come are nobody's."""
        self._receive = _ignore
        if self._transport is not None:
            self._transport.abort()
        for waited in (self._answered, self._ended):
            if waited is None or waited.cancelled():
                continue
            if waited.done():
                waited.exception()  # seen, so that asyncio does not complain of an error that nobody came for
            else:
                waited.cancel()  # nobody waits any more: the end of the connection is no error of this request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._at = self._now()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the answer is not HTTP: {error}")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        if self._complete:
            return
        if self._until_close and exc is None and self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        else:
            self._fail(f"the connection was closed within the answer{f' ({exc})' if exc else ''}")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        framed = {b"content-length", b"transfer-encoding"}
        self._until_close = not any(name.lower() in framed for name, _ in self._headers)
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._receive(self._at, body)

    def on_message_complete(self) -> None:
        self._complete = bool(self._parser.should_keep_alive())
        self._receive = _ignore
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, reason: str) -> None:
        error = httpx.RemoteProtocolError(reason)
        for waited in (self._answered, self._ended):
            if waited is not None and not waited.done():
                waited.set_exception(error)
                waited.exception()  # seen: whoever waits gets it, and one that was cancelled is nobody to complain for
                return


def _ignore(at: float, data: bytes) -> None:
    """Take bytes that nobody waits for."""


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _head(request: httpx.Request) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    lines += [b"%s: %s" % header for header in request.headers.raw]
    return b"\r\n".join(lines) + b"\r\n\r\n"

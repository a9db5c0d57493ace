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
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import httptools
import httpx

Header = tuple[bytes, bytes]


class Recorder(Protocol):
    """Takes the body of one answer as it comes. Called from the loop: it must be quick and must not raise."""

    def receive(self, at: float, data: bytes) -> None:
        """Take a piece of the body that arrived at `at`, on the probe's monotonic clock."""


class RecordingTransport(httpx.AsyncBaseTransport):
    """Sends requests and lets recorders have the answers' bodies. It waits as long as the caller does.

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

    async def record(
        self, method: str, url: httpx.URL, *, headers: httpx.Headers, recorder: Recorder, body: bytes = b""
    ) -> int:
        """Send a request, let the recorder have the answer's body, and return the status once the answer has ended."""
        length = [(b"Content-Length", b"%d" % len(body))] if body else []
        head = [(b"Host", url.netloc), *headers.raw, *length]
        status, _ = await self._exchange(method, url, head, body, recorder)
        return status

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of httpx's own client, once all of the answer is there."""
        whole, body = _Whole(), await request.aread()
        status, headers = await self._exchange(request.method, request.url, request.headers.raw, body, whole)
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(b"".join(whole.pieces)))

    async def _exchange(
        self, method: str, url: httpx.URL, headers: Sequence[Header], body: bytes, recorder: Recorder
    ) -> tuple[int, list[Header]]:
        origin = _origin(url)
        kept = self._waiting(origin)
        connection = kept or await self._connected(origin)
        try:
            return await connection.exchange(_head(method, url, headers) + body, recorder)
        except httpx.RemoteProtocolError:
            if kept is None or method != "GET" or connection.answering:
                raise
        finally:
            self._back(origin, connection)
        return await self._exchange(
            method, url, headers, body, recorder
        )  # the server closed what it had kept long enough

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

    async def _connected(self, origin: tuple[str, str, int]) -> _Connection:
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
            raise httpx.ConnectTimeout(f"no connection in {self._connect_timeout:g} s") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
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
    """The recorder of a request whose answer httpx has: it keeps the body for the response."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def receive(self, at: float, data: bytes) -> None:
        """Keep a piece."""
        self.pieces.append(data)


class _Connection(asyncio.Protocol):
    """One connection. The callbacks are named as asyncio and httptools call them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._transport: Any = None
        self._parser: Any = None
        self._receive: Callable[[float, bytes], None] = _ignore
        self._at = 0.0
        self._headers: list[Header] = []
        self._ended: asyncio.Future[None] | None = None
        self.answering = False
        self._complete = True
        self._until_close = False
        self._lost = False

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._complete and not self._lost and not self._transport.is_closing()

    async def exchange(self, request: bytes, recorder: Recorder) -> tuple[int, list[Header]]:
        """Send a request; return status and headers once the answer has ended."""
        self._parser = httptools.HttpResponseParser(self)
        self._receive = recorder.receive
        self._headers, self.answering, self._complete, self._until_close = [], False, False, False
        self._ended = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._ended
        return self._parser.get_status_code(), self._headers

    def abort(self) -> None:
        """Close at once; bytes that still come are nobody's."""
        self._receive = _ignore
        if self._transport is not None:
            self._transport.abort()
        if self._ended is not None:
            self._ended.cancel()  # nobody waits any more: the end of the connection is no error of this request

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
        if self._until_close and exc is None:
            self._end()
        else:
            self._fail(f"the connection was closed within the answer{f' ({exc})' if exc else ''}")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        framed = {b"content-length", b"transfer-encoding"}
        self.answering = True
        self._until_close = not any(name.lower() in framed for name, _ in self._headers)

    def on_body(self, body: bytes) -> None:
        self._receive(self._at, body)

    def on_message_complete(self) -> None:
        self._complete = bool(self._parser.should_keep_alive())
        self._receive = _ignore
        self._end()

    def _end(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, reason: str) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(httpx.RemoteProtocolError(reason))


def _ignore(at: float, data: bytes) -> None:
    """Take bytes that nobody waits for."""


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _head(method: str, url: httpx.URL, headers: Sequence[Header]) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (method.encode(), url.raw_path)]
    lines += [b"%s: %s" % header for header in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"

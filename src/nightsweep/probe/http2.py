"""The load over HTTP/2, for a proxy that speaks it: httpx's own transport, whose chunks are stamped as they are handed on.

Several streams share a connection, so a stamp is as late as the loop is behind; `wire` is the cheaper and sharper way, and
the default. The recorder gets the same bytes either way.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable

import httpx

from nightsweep.probe.wire import RECORDER, Recorder

STREAMS = 10_000
"""Connections and requests at once: the pool must never be what holds a stream back."""


def stamping_transport(*urls: str, verify: ssl.SSLContext, now: Callable[[], float]) -> httpx.AsyncBaseTransport:
    """Return a transport that speaks HTTP/2 and lets recorders have the answers' bodies.

    With TLS the server picks HTTP/2 or 1.1 in the handshake; without, both sides must know that it is HTTP/2.
    """
    secure = any(url.startswith("https:") for url in urls)
    inner = httpx.AsyncHTTPTransport(
        verify=verify,
        http1=secure,
        http2=True,
        limits=httpx.Limits(max_connections=STREAMS, max_keepalive_connections=STREAMS),
        trust_env=False,
    )
    return _StampingTransport(inner, now=now)


class _StampingTransport(httpx.AsyncBaseTransport):
    def __init__(self, inner: httpx.AsyncBaseTransport, *, now: Callable[[], float]) -> None:
        self._inner, self._now = inner, now

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        recorder: Recorder = request.extensions[RECORDER]
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        body = _Stamped(response.stream, recorder=recorder, now=self._now)
        return httpx.Response(
            response.status_code, headers=response.headers, stream=body, extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Stamped(httpx.AsyncByteStream):
    """An answer's body: its bytes go to the recorder, so iterating yields nothing and ends with the answer."""

    def __init__(self, inner: httpx.AsyncByteStream, *, recorder: Recorder, now: Callable[[], float]) -> None:
        self._inner, self._recorder, self._now = inner, recorder, now

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._inner:
            self._recorder.receive(self._now(), data)
        return
        yield b""  # what makes this a generator

    async def aclose(self) -> None:
        await self._inner.aclose()

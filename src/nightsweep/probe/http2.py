"""The load over HTTP/2, for a proxy that speaks it: httpx's own transport, whose chunks are stamped as they are handed on.

Several streams share a connection, so a stamp is as late as the loop is behind; `wire` is the cheaper and sharper way, and
the default. The recorder gets the same bytes either way.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable

import httpx

from nightsweep.probe.wire import Recorder

STREAMS = 10_000
"""Connections and requests at once: the pool must never be what holds a stream back."""


def stamping_transport(
    *urls: str, verify: ssl.SSLContext, now: Callable[[], float], timeout: httpx.Timeout
) -> StampingTransport:
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
    return StampingTransport(inner, now=now, timeout=timeout)


class StampingTransport(httpx.AsyncBaseTransport):
    """Sends requests by httpx's own transport and hands the answers' bodies on as they come."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *, now: Callable[[], float], timeout: httpx.Timeout) -> None:
        self._inner, self._now, self._timeout = inner, now, timeout

    async def record(
        self, method: str, url: httpx.URL, *, headers: httpx.Headers, recorder: Recorder, body: bytes = b""
    ) -> int:
        """Send a request, let the recorder have the answer's body, and return the status once the answer has ended."""
        extensions = {"timeout": self._timeout.as_dict()}
        request = httpx.Request(method, url, headers=headers, content=body or None, extensions=extensions)
        async with contextlib.aclosing(await self._inner.handle_async_request(request)) as response:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for data in response.stream:
                recorder.receive(self._now(), data)
        return response.status_code

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request of httpx's own client."""
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()

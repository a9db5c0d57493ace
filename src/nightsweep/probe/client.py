"""HTTP clients, one for the load and one for the rest: HTTP/1.1, TLS verified, no proxy from the environment."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import lru_cache

import httpx

from nightsweep.probe.wire import RecordingTransport
from nightsweep.units import Seconds

CONNECT_TIMEOUT = Seconds(10.0)


@lru_cache(maxsize=1)
def _verifying() -> ssl.SSLContext:
    """Return a context with the system's CAs, or those of SSL_CERT_FILE / SSL_CERT_DIR. Takes some 20 ms: made once."""
    return httpx.create_ssl_context(trust_env=True)


def ssl_context(*urls: str) -> ssl.SSLContext:
    """Return a verifying context; for plain HTTP an empty one, which trusts nobody and costs nothing."""
    if any(url.startswith("https:") for url in urls):
        return _verifying()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def make_load_client(*urls: str, timeout: Seconds, now: Callable[[], float]) -> httpx.AsyncClient:
    """Return a client for the load: every request must bring a recorder (see `wire`)."""
    transport = RecordingTransport(
        verify=ssl_context(*urls), now=now, connect_timeout=min(float(timeout), float(CONNECT_TIMEOUT))
    )
    return httpx.AsyncClient(transport=transport, trust_env=False)


def make_client(*urls: str, timeout: Seconds) -> httpx.AsyncClient:
    """Return a client for counters, health and identity.

    `trust_env` is off: a proxy variable of the shell must not carry the load elsewhere. Connect, read, write and
    pool each
    have a timeout that is set on purpose.
    """
    return httpx.AsyncClient(
        verify=ssl_context(*urls),
        trust_env=False,
        http2=False,
        timeout=httpx.Timeout(
            connect=min(float(timeout), float(CONNECT_TIMEOUT)),
            read=float(timeout),
            write=float(timeout),
            pool=float(timeout),
        ),
    )

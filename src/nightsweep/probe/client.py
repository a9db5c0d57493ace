"""HTTP clients, one for what is measured and one for the rest: TLS verified, no proxy from the environment."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import httpx

from nightsweep.errors import InvalidPlan
from nightsweep.probe.wire import RecordingTransport
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.probe.http2 import StampingTransport

CONNECT_TIMEOUT = Seconds(10.0)


@lru_cache(maxsize=4)
def _verifying(ca: str | None, *, http2: bool) -> ssl.SSLContext:
    """Return a context with the system's CAs (or those of SSL_CERT_FILE / SSL_CERT_DIR), and those of `ca` besides.

    Takes some 20 ms: made once. One for each HTTP version, because httpcore writes into the context which versions it offers:
    a client that shared it would offer HTTP/2 and speak 1.1.
    """
    context = httpx.create_ssl_context(trust_env=True)
    if ca is not None:
        context.load_verify_locations(cafile=ca)
    context.set_alpn_protocols(["http/1.1", "h2"] if http2 else ["http/1.1"])
    return context


def require_ca(ca: str | None) -> None:
    """Check that the file of certificate authorities can be used, before anything is touched.

    Raises:
        InvalidPlan: It cannot be read, or holds no certificate.
    """
    if ca is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=ca)
    except ssl.SSLError as error:
        why = "it holds no certificate in PEM form"
        raise InvalidPlan(problems=(f"probe.ca: {ca!r} cannot be used ({why})",)) from error
    except OSError as error:
        raise InvalidPlan(problems=(f"probe.ca: {ca!r} cannot be read ({error.strerror or error})",)) from error


def ssl_context(*urls: str, ca: str | None = None, http2: bool = False) -> ssl.SSLContext:
    """Return a verifying context that offers these versions; for plain HTTP an empty one, which trusts nobody."""
    if any(url.startswith("https:") for url in urls):
        return _verifying(ca, http2=http2)
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class DirectClient(httpx.AsyncClient):
    """A client that can also send a request as it stands: no cookies, redirects or authentication, which cost half a ms each.

    Attributes:
        record: Sends one (see `RecordingTransport.record`); the caller limits its time.
    """

    def __init__(self, transport: RecordingTransport | StampingTransport, *, timeout: httpx.Timeout) -> None:
        super().__init__(transport=transport, trust_env=False, timeout=timeout)
        self.record = transport.record


def make_direct_client(
    *urls: str, timeout: Seconds, now: Callable[[], float], ca: str | None = None, http2: bool = False
) -> DirectClient:
    """Return a client for load and counters, whose recorders see bytes when they arrive (see `wire`).

    Args:
        http2: By HTTP/2: offered in the TLS handshake, spoken from the first byte without TLS. It costs about
            twice the CPU of HTTP/1.1 per chunk.
    """
    timeouts = _timeouts(timeout)
    if http2:
        from nightsweep.probe.http2 import stamping_transport

        verify = ssl_context(*urls, ca=ca, http2=True)
        return DirectClient(stamping_transport(*urls, verify=verify, now=now, timeout=timeouts), timeout=timeouts)
    recording = RecordingTransport(
        verify=ssl_context(*urls, ca=ca), now=now, connect_timeout=min(float(timeout), float(CONNECT_TIMEOUT))
    )
    return DirectClient(recording, timeout=timeouts)


def make_client(*urls: str, timeout: Seconds, ca: str | None = None) -> httpx.AsyncClient:
    """Return a client for health and identity.

    `trust_env` is off: a proxy variable of the shell must not carry the load elsewhere.
    """
    return httpx.AsyncClient(verify=ssl_context(*urls, ca=ca), trust_env=False, http2=False, timeout=_timeouts(timeout))


def _timeouts(timeout: Seconds) -> httpx.Timeout:
    """Return connect, read, write and pool, each set on purpose: none may end a request before its own time is over."""
    whole = float(timeout)
    return httpx.Timeout(connect=min(whole, float(CONNECT_TIMEOUT)), read=whole, write=whole, pool=whole)

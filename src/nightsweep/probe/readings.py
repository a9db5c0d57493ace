"""From a metrics page to canonical values, and the page from the engine with the moment it is of."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import lru_cache

import httpx

from nightsweep.engine.dialects import select, state_values
from nightsweep.engine.exposition import samples_of as samples_of
from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.errors import DialectMismatch, MetricsUnreadable
from nightsweep.measurement.values import Reading
from nightsweep.ports import Clock, Target
from nightsweep.probe.bodies import headers_of
from nightsweep.probe.client import DirectClient
from nightsweep.units import MonotonicSeconds, Seconds

READ_TIMEOUT = Seconds(10.0)
HEADERS = httpx.Headers({"accept": "*/*", "accept-encoding": "identity"})
"""As it is: to compress the page would cost the engine more than to send it."""

COUNTER_LAG = 0.05
COUNTER_TRIES = 4


def wanted_names(dialect: Dialect) -> frozenset[str]:
    """Return the series names that a dialect reads."""
    return frozenset(
        series.name for entry in dialect.series.values() if not isinstance(entry, Unavailable) for series in entry
    )


def canonical(page: bytes, dialect: Dialect, *, only: Collection[str] | None = None) -> dict[str, float]:
    """Return canonical values of a metrics page; what the page does not hold is absent, never 0.

    Args:
        only: Canonical names that are looked for; None looks for all. A few cost a tenth of all.
    """
    if only is not None:
        dialect = replace(dialect, series={name: entry for name, entry in dialect.series.items() if name in only})
    text = page.decode("utf-8", errors="replace")
    return select(samples_of(text, names=wanted_names(dialect)), dialect)


@dataclass
class _Page:
    """A `wire.Recorder` of one page."""

    came: float = 0.0
    pieces: list[bytes] = field(default_factory=list)

    def receive(self, at: float, data: bytes) -> None:
        """Keep a piece and the time of the last one."""
        self.came = at
        self.pieces.append(data)


@lru_cache(maxsize=8)
def _page_of(base_url: str) -> httpx.URL:
    """Return the address of the page. To parse one takes a tenth of a ms: not for each sample anew."""
    return httpx.URL(f"{base_url}/metrics")


async def fetch_reading(
    client: DirectClient, target: Target, *, clock: Clock, only: Collection[str] | None = None
) -> Reading:
    """Return a reading stamped at the midpoint of its own request; half the round trip is the uncertainty.

    Args:
        only: Canonical names that the reading shall hold; None is all.

    Raises:
        MetricsUnreadable: The page did not come, or not with status 200.
    """
    url, page = _page_of(target.base_url), _Page()
    sent = page.came = clock.monotonic()
    try:
        async with asyncio.timeout(float(READ_TIMEOUT)):
            status = await client.record("GET", url, headers=HEADERS, recorder=page)
    except httpx.HTTPError as error:
        raise MetricsUnreadable(url=str(url), reason=_reason(error)) from error
    except TimeoutError as error:
        raise MetricsUnreadable(url=str(url), reason=f"no answer within {READ_TIMEOUT:g} s") from error
    if status != 200:
        raise MetricsUnreadable(url=str(url), reason=f"HTTP {status}")
    raw = b"".join(page.pieces)
    return Reading(
        at=MonotonicSeconds((sent + page.came) / 2),
        uncertainty=Seconds((page.came - sent) / 2),
        wall=clock.now(),
        values=canonical(raw, target.dialect, only=only),
        raw=raw,
    )


async def with_state(client: DirectClient, target: Target, reading: Reading) -> Reading:
    """Return the reading with what the engine's own state tells beside its counters, where it has such a page.

    Asked only for what the counters' page does not hold: an acceptance length of any kind.
    """
    if "acceptance_length_gauge" in reading.values:
        return reading
    headers = headers_of(target)
    for path in target.dialect.state_paths:
        with contextlib.suppress(httpx.HTTPError, ValueError, TimeoutError):
            async with asyncio.timeout(float(READ_TIMEOUT)):
                response = await client.get(target.base_url + path, headers=headers)
            if response.status_code == 200:
                return replace(reading, values={**reading.values, **state_values(response.json())})
    return reading


async def settled_reading(
    client: DirectClient, target: Target, *, clock: Clock, before: Reading, failed: bool
) -> Reading:
    """Return the reading after one request has ended; counters may follow the answer by a moment.

    Args:
        failed: The request failed: nothing is waited for.
    """
    reading = await fetch_reading(client, target, clock=clock)
    for _ in range(COUNTER_TRIES):
        if failed or reading.values.get("prompt_tokens", 0.0) > before.values.get("prompt_tokens", 0.0):
            break
        await asyncio.sleep(COUNTER_LAG)
        reading = await fetch_reading(client, target, clock=clock)
    return reading


def require_counter(reading: Reading, dialect: Dialect, name: str) -> None:
    """Check that the engine counts what the measurement stands on.

    Raises:
        DialectMismatch: It does not; measuring again will not help.
    """
    if name in reading.values:
        return
    entry = dialect.series.get(name)
    if isinstance(entry, Unavailable):
        reason = entry.because
    else:
        listed = " or ".join(series.name for series in entry or ())
        reason = f"its metrics page holds no {listed or name} (statistics may be switched off)"
    raise DialectMismatch(engine=dialect.engine, version=dialect.version, counter=name, reason=reason)


def _reason(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

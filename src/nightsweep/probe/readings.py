"""From a metrics page to canonical values, and the page from the engine with the moment it is of."""

from __future__ import annotations

import asyncio

import httpx

from nightsweep.engine.dialects import select
from nightsweep.engine.exposition import samples_of as samples_of
from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.errors import DialectMismatch, MetricsUnreadable
from nightsweep.measurement.values import Reading
from nightsweep.ports import Clock, Target
from nightsweep.units import MonotonicSeconds, Seconds

READ_TIMEOUT = Seconds(10.0)
COUNTER_LAG = 0.05
COUNTER_TRIES = 4


def wanted_names(dialect: Dialect) -> frozenset[str]:
    """Return the series names that a dialect reads."""
    return frozenset(
        series.name for entry in dialect.series.values() if not isinstance(entry, Unavailable) for series in entry
    )


def canonical(page: bytes, dialect: Dialect) -> dict[str, float]:
    """Return canonical values of a metrics page; what the page does not hold is absent, never 0."""
    text = page.decode("utf-8", errors="replace")
    return select(samples_of(text, names=wanted_names(dialect)), dialect)


async def fetch_reading(client: httpx.AsyncClient, target: Target, *, clock: Clock) -> Reading:
    """Return a reading stamped at the midpoint of its own request; half the round trip is the uncertainty.

    Raises:
        MetricsUnreadable: The page did not come, or not with status 200.
    """
    url = f"{target.base_url}/metrics"
    sent = clock.monotonic()
    try:
        response = await client.get(url, timeout=float(READ_TIMEOUT))
    except httpx.HTTPError as error:
        raise MetricsUnreadable(url=url, reason=_reason(error)) from error
    came = clock.monotonic()
    wall = clock.now()
    if response.status_code != 200:
        raise MetricsUnreadable(url=url, reason=f"HTTP {response.status_code}")
    page = response.content
    return Reading(
        at=MonotonicSeconds((sent + came) / 2),
        uncertainty=Seconds((came - sent) / 2),
        wall=wall,
        values=canonical(page, target.dialect),
        raw=page,
    )


async def settled_reading(
    client: httpx.AsyncClient, target: Target, *, clock: Clock, before: Reading, failed: bool
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

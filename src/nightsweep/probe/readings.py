"""From a metrics page to canonical values, and the page from the engine with the moment it is of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

from nightsweep.engine.dialects import select
from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.errors import DialectMismatch, MetricsUnreadable
from nightsweep.measurement.values import Reading
from nightsweep.ports import Clock, Target
from nightsweep.units import MonotonicSeconds, Seconds

READ_TIMEOUT = Seconds(10.0)


def wanted_names(dialect: Dialect) -> frozenset[str]:
    """Return the series names that a dialect reads."""
    return frozenset(
        series.name for entry in dialect.series.values() if not isinstance(entry, Unavailable) for series in entry
    )


def samples_of(page: str, *, names: frozenset[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield (name, labels, value) of the wanted series of a page in Prometheus' text format.

    A page has hundreds of lines and few are wanted: only those reach the parser. Names match exactly, so `_created`
    companions and longer names do not slip in. A line that cannot be parsed is passed over.
    """
    for line in page.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name not in names:
            continue
        try:
            for family in text_string_to_metric_families(line + "\n"):
                for sample in family.samples:
                    yield sample.name, sample.labels, float(sample.value)
        except ValueError:
            continue


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

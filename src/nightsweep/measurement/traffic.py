"""What production's requests have been like, by the counters of an engine: how many, how long, how many at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from nightsweep.units import Ratio, Seconds

ENOUGH = 30
"""Finished requests below which a mean length says too little: of fewer, a few long ones decide it."""

GIVEN_UP = Ratio(0.02)
"""Share of the generated tokens that may belong to requests that never ended, before the mean of streams leaves too much out."""

PROCESS, CONTAINER = "process", "container"
"""What told the start: the engine's own page, or Docker."""


@dataclass(frozen=True)
class Traffic:
    """What an engine counted over its whole life until it was read. Absent is None.

    Attributes:
        read: When that was.
        since: When its process started, else its container (`since_by`).
        requests: Requests that ended.
        prompt_tokens, generation_tokens: Of those together; prompts count whole, also where a cache had them.
        request_seconds: From arrival to end, of those together.
        generated_tokens: Of all requests, those that were given up among them.
        problem: Why nobody could count, in words; None of one that was read.
    """

    read: datetime
    engine: str | None = None
    version: str | None = None
    since: datetime | None = None
    since_by: str | None = None
    requests: int | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    request_seconds: float | None = None
    generated_tokens: float | None = None
    problem: str | None = None

    @property
    def unknown(self) -> str | None:
        """Why it tells no mean, in words; None where it does."""
        if self.problem is not None:
            return self.problem
        if self.requests is None or self.prompt_tokens is None or self.generation_tokens is None:
            return "its metrics page does not count the tokens of finished requests"
        if self.requests < ENOUGH:
            noun = "request" if self.requests == 1 else "requests"
            return f"it had finished {self.requests} {noun} since its start, and a mean of fewer than {ENOUGH} says too little"
        return None

    @property
    def mean_prompt_tokens(self) -> float | None:
        """Prompt tokens / request; None where it is unknown."""
        return None if self.unknown or not self.requests else (self.prompt_tokens or 0.0) / self.requests

    @property
    def mean_generation_tokens(self) -> float | None:
        """Generated tokens / request; None where it is unknown."""
        return None if self.unknown or not self.requests else (self.generation_tokens or 0.0) / self.requests

    @property
    def period(self) -> Seconds | None:
        """From the start to the reading."""
        return None if self.since is None else Seconds((self.read - self.since).total_seconds())

    @property
    def streams(self) -> float | None:
        """Requests in the engine at once, on average over the period.

        None where the start, the latencies or the tokens of requests that were given up are not known, or those are many: their
        time is in no latency.

        Source:
            Little's law: arrivals per second x mean time in the system = sum of latencies / period, of an engine that is idle at
            both ends.
        """
        made, ended = self.generated_tokens, self.generation_tokens
        if self.unknown or not self.period or self.request_seconds is None or made is None or ended is None:
            return None
        return None if made - ended > GIVEN_UP * made else self.request_seconds / self.period


def traffic_of(
    values: Mapping[str, float],
    *,
    engine: str,
    version: str,
    read: datetime,
    container_started: datetime | None,
) -> Traffic:
    """Return the traffic of a metrics page's canonical values.

    Args:
        values: By `dialects.with_served`; a page that does not hold a value tells nothing of it.
        container_started: When the engine's container was started, for a page that tells no start.
    """
    since, by = _moment(values.get("process_start")), PROCESS
    if since is None or since > read:
        since, by = container_started, CONTAINER
    if since is not None and since > read:
        since = None
    requests = values.get("served_requests")
    return Traffic(
        read=read,
        engine=engine,
        version=version,
        since=since,
        since_by=None if since is None else by,
        requests=None if requests is None else round(requests),
        prompt_tokens=values.get("served_prompt_tokens"),
        generation_tokens=values.get("served_generation_tokens"),
        request_seconds=values.get("served_seconds"),
        generated_tokens=values.get("generation_tokens"),
    )


def _moment(stamp: float | None) -> datetime | None:
    """Return a Unix time as a moment; None for 0, which is no start, and for one that no calendar has."""
    if not stamp:
        return None
    try:
        return datetime.fromtimestamp(stamp, UTC)
    except (OverflowError, ValueError, OSError):
        return None


# --- as a document ---------------------------------------------------------------------------------------------------


def document(traffic: Traffic) -> dict[str, Any]:
    """Return it as JSON knows it, without what is absent."""
    told = {name: value for name, value in asdict(traffic).items() if value is not None}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in told.items()}


def from_document(read: Mapping[str, Any]) -> Traffic:
    """Return the traffic of a document; what a newer version wrote besides is passed over."""
    known = {one.name for one in fields(Traffic)}
    given = {name: value for name, value in read.items() if name in known}
    for name in ("read", "since"):
        if name in given:
            given[name] = datetime.fromisoformat(given[name])
    return Traffic(**given)

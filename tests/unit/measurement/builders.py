"""Builders of measured values: name only what the test is about."""

from __future__ import annotations

from typing import Any

from nightsweep.measurement.values import RequestTiming
from nightsweep.units import MonotonicSeconds


def a_request(*, sent: float = 100.0, ended: float | None = 110.0, stream: int = 0, **fields: Any) -> RequestTiming:
    """Return a request; `first_token` is the first chunk's time unless named."""
    stamps = fields.get("chunk_at", ())
    first = fields.pop("first_token", stamps[0] if stamps else None)
    return RequestTiming(
        stream=stream,
        prompt_index=0,
        sent=MonotonicSeconds(sent),
        first_token=None if first is None else MonotonicSeconds(first),
        ended=None if ended is None else MonotonicSeconds(ended),
        **fields,
    )

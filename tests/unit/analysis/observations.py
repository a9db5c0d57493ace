"""Values with a known truth: what estimates are tried on."""

from __future__ import annotations

from collections.abc import Sequence

from nightsweep.analysis.intervals import Observation


def seen(
    values: Sequence[float],
    *,
    config: str = "a",
    boots: Sequence[int] = (0,),
    streams: int = 1,
    temperature: float = 0.7,
    draws: Sequence[int] | None = None,
) -> list[Observation]:
    """Return a cell's windows; boots go round."""
    numbers = range(len(values)) if draws is None else draws
    return [
        Observation(value, config, boots[i % len(boots)], (config, streams, temperature), streams, temperature, draw)
        for i, (value, draw) in enumerate(zip(values, numbers, strict=True))
    ]

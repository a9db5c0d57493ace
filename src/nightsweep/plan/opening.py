"""The opening of a decision: the places at which every config is measured once, before anything is known."""

from __future__ import annotations

from collections.abc import Iterable

Place = tuple[int, float]
"""Streams and temperature."""


def opening(places: Iterable[Place], *, pooled: bool) -> tuple[Place, ...]:
    """Return the places that tell an objective with the fewest windows, the most telling first.

    Acceptance that is the same at every concurrency of a temperature is told best by the most streams: there every temperature is
    measured, and at each other concurrency, which only tells the rest of the rate, one temperature, in turn.

    Args:
        places: All that the objective weighs.
        pooled: Whether acceptance is taken to be the same at every concurrency; else every place is measured.
    """
    every = sorted(set(places), key=lambda place: (-place[0], place[1]))
    if not pooled:
        return tuple(every)
    temperatures = sorted({place[1] for place in every})
    most, *fewer = dict.fromkeys(place[0] for place in every)
    chosen = [(most, temperature) for temperature in temperatures]
    for turn, streams in enumerate(fewer):
        chosen.append((streams, temperatures[turn % len(temperatures)]))
    return tuple(chosen)

"""Whether boots loaded the same weights: a model repository may change under its name, and no fingerprint tells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

WEIGHTS_WITHIN = 0.005
"""Ratio within which the weights that two boots tell are the same ones."""

BRINGS_OTHER_WEIGHTS = (
    "model",
    "revision",
    "method",
    "algorithm",
    "quantization",
    "dtype",
    "load-format",
    "parallel-size",
    "tp-size",
    "offload-gb",
)
"""How settings end of which each loads other weights by itself: these are of the setting then, and no condition of their own."""


def same_weights(one: float, other: float) -> bool:
    """Return whether two boots' weights are the same ones (both in one unit, above 0)."""
    return abs(other / one - 1) <= WEIGHTS_WITHIN


def levels_of(told: Iterable[float]) -> tuple[float, ...]:
    """Return the different weights among those that boots tell, the smallest first: of those that are the same ones, one.

    Units:
        GiB.
    """
    found: list[float] = []
    for value in sorted(told):
        if not found or not same_weights(found[-1], value):
            found.append(value)
    return tuple(found)


def differ(a: Sequence[float], b: Sequence[float]) -> bool:
    """Return whether two sides loaded other weights; one that tells none does not differ."""
    if not a or not b:
        return False
    return len(a) != len(b) or not all(map(same_weights, a, b))


def brought_by(settings: Collection[str]) -> bool:
    """Return whether settings that differ, by dotted key, load other weights by themselves."""
    return any(name.replace("_", "-").endswith(BRINGS_OTHER_WEIGHTS) for name in settings)


def said(*sides: Sequence[float]) -> list[str]:
    """Return each side's weights in words, with as many decimals as tell all of them apart: "20.0 GiB"."""
    every = {value for side in sides for value in side}
    apart = (digits for digits in (1, 2) if len({f"{value:.{digits}f}" for value in every}) == len(every))
    digits = next(apart, 3)
    return [", ".join(f"{value:.{digits}f} GiB" for value in side) for side in sides]

"""`--at c=1,T=0.7`: which cells are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

import click

from nightsweep.analysis import text
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli.filters import parse_concurrency, parse_temperature

F = TypeVar("F", bound=Callable[..., Any])

_STREAMS = ("c", "concurrency", "streams")
_TEMPERATURE = ("t", "temperature")


@dataclass(frozen=True)
class Place:
    """Streams and temperature of wanted cells; None is any."""

    streams: int | None
    temperature: Decimal | None

    @property
    def said(self) -> str:
        """As it is typed."""
        streams = None if self.streams is None else f"c={self.streams}"
        degrees = None if self.temperature is None else f"T={text.temperature(self.temperature)}"
        return ",".join(filter(None, (streams, degrees)))

    def holds(self, row: WindowRow) -> bool:
        """Return whether the window is of such a cell."""
        return self.streams in (None, row.concurrency) and self.temperature in (None, row.temperature)


def parse_place(words: str) -> Place:
    """Return the place of `c=1,T=0.7`, `c=8` or `T=1.0`.

    Raises:
        ValueError: The words are none, name something else, or name one thing twice.
    """
    streams: int | None = None
    temperature: Decimal | None = None
    for part in words.split(","):
        key, found, value = (piece.strip() for piece in part.partition("="))
        if not found or key.lower() not in (*_STREAMS, *_TEMPERATURE):
            raise ValueError(f"{part.strip()!r} names no cell: write c=STREAMS, T=TEMPERATURE, or both: c=1,T=0.7")
        if key.lower() in _STREAMS and streams is None:
            (streams,) = parse_concurrency(value)
        elif key.lower() in _TEMPERATURE and temperature is None:
            (temperature,) = parse_temperature(value)
        else:
            raise ValueError(f"{words!r} names one thing twice: repeat --at for another cell")
    return Place(streams, temperature)


def at_option(command: F) -> F:
    """Add `--at`; the command takes `at`: none is every cell."""
    option = click.option(
        "--at",
        "at",
        metavar="c=N,T=T",
        multiple=True,
        callback=_places,
        help="Only these cells: c=1,T=0.7, or one of both. Repeatable.",
    )
    return option(command)


def wanted(row: WindowRow, places: Sequence[Place]) -> bool:
    """Return whether the window is of one of the places; without any, every window is."""
    return not places or any(place.holds(row) for place in places)


def narrowed(asked: Filters, places: Sequence[Place], *, config: str) -> Filters:
    """Return the filters of a config at these places, as far as filters can say it; `fits` does the rest."""
    streams = {place.streams for place in places}
    temperatures = {place.temperature for place in places}
    return replace(
        asked,
        config=config,
        concurrency=() if None in streams else tuple(sorted(one for one in streams if one is not None)),
        temperature=() if None in temperatures else tuple(sorted(one for one in temperatures if one is not None)),
    )


def fits(concurrency: int, temperature: float, places: Sequence[Place]) -> bool:
    """Return whether a cell is one of the places; without any, every cell is."""
    at = Decimal(str(temperature))
    return not places or any(
        place.streams in (None, concurrency) and place.temperature in (None, at) for place in places
    )


def _places(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[Place, ...]:
    try:
        return tuple(parse_place(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error

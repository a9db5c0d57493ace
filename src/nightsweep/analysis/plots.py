"""What a plot shows: values, order, labels and axes, in the units that people read. No drawing here."""

from __future__ import annotations

from dataclasses import dataclass

from nightsweep.analysis.values import Spread


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis; a label may have several lines."""

    at: float
    label: str


@dataclass(frozen=True)
class Mark:
    """What was measured at one place: every run as a dot, and the whisker from the least to the most through the mean."""

    at: float
    spread: Spread
    values: tuple[float, ...]


@dataclass(frozen=True)
class Series:
    """A config's marks. `style` is its number in the whole report, so that it looks the same in every plot."""

    name: str
    style: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Panel:
    """One part of a plot of curves: its series, and what stands pale behind them to compare with."""

    title: str
    ticks: tuple[Tick, ...]
    series: tuple[Series, ...]
    behind: tuple[Series, ...] = ()


@dataclass(frozen=True)
class Curves:
    """Values at places that stand equally far apart (streams, draft positions); all panels have the same axes.

    Attributes:
        log: The value axis is logarithmic; else it begins at 0.
        top: Where the value axis ends; None leaves it to the data.
    """

    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    log: bool = False
    top: float | None = None


@dataclass(frozen=True)
class Strip:
    """A row of dots, with the whisker from the least to the most. `note` has the run count."""

    name: str
    note: str
    style: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Strips:
    """Rows of dots around 0."""

    x_label: str
    rows: tuple[Strip, ...]


@dataclass(frozen=True)
class Spot:
    """A config at two numbers, each with its range and runs.

    Attributes:
        x_values, y_values: Every run of each number; they are drawn on the whiskers.
        ahead: No other config has more of both (by means).
    """

    name: str
    style: int
    x: Spread
    y: Spread
    x_values: tuple[float, ...]
    y_values: tuple[float, ...]
    ahead: bool


@dataclass(frozen=True)
class Field:
    """One number against another. `x_from` and `y_from` are where the axes begin."""

    title: str
    x_label: str
    y_label: str
    spots: tuple[Spot, ...]
    x_from: float
    y_from: float

    @property
    def front(self) -> tuple[Spot, ...]:
        """The configs that no other one beats in both numbers, from left to right."""
        return tuple(sorted((spot for spot in self.spots if spot.ahead), key=lambda spot: spot.x.mean))


@dataclass(frozen=True)
class Fields:
    """Several such fields side by side."""

    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Bar:
    """Something that lasted. `begin` and `length` in seconds since the stretch's begin."""

    kind: str
    begin: float
    length: float


@dataclass(frozen=True)
class Lane:
    """A row of a timeline."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Stretch:
    """One night of a timeline. `ticks` and `length` in seconds since its begin."""

    title: str
    length: float
    ticks: tuple[Tick, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True)
class Timeline:
    """What ran when, night by night."""

    x_label: str
    stretches: tuple[Stretch, ...]


Plot = Curves | Strips | Fields | Timeline

COLD_START, SERVING, FAILED_BOOT = "cold start", "serving", "boot that failed"
WINDOW, FLAGGED, PREFILL, SINGLE = "window", "flagged window", "prefill", "single batch"
DOWN, PAUSED = "production down", "paused"
BAR_KINDS = (COLD_START, SERVING, FAILED_BOOT, WINDOW, FLAGGED, PREFILL, SINGLE, DOWN, PAUSED)
"""Kinds of bars, in the order in which a legend names them."""


@dataclass(frozen=True)
class Figure:
    """A plot with its caption, or the sentence that says why there is none.

    Attributes:
        name: Unique in a document, fit for a file name.
        caption: What it shows, where the axes begin, what is left out.
    """

    name: str
    title: str
    caption: str
    plot: Plot | None
    missing: str = ""
    simulated: bool = False

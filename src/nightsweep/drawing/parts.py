"""What several kinds of plots share: legends, wrapped names, axes of numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import Formatter, LogLocator, MaxNLocator

from nightsweep.drawing.canvas import colour, ink, marker

LEGEND_CHARACTERS = 150
"""Characters that fit beside each other below a plot."""
LEGEND_EXTRA = 8
"""Characters that a marker and a gap take."""
MOST_DECIMALS = 6
LEGEND_LINE = 0.2
"""Inches of a legend's line."""


def legend(figure: Figure, named: Sequence[tuple[str, int]]) -> None:
    """Name series below the plot, with the marker and colour of each."""
    handles = [
        Line2D(
            [],
            [],
            color=colour(style),
            marker=marker(style),
            markerfacecolor="none",
            markeredgewidth=1.3,
            markersize=6,
            linewidth=1.2,
            label=shortened(name),
        )
        for name, style in named
    ]
    place_legend(figure, handles)


def place_legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    """Put a legend below everything, in as many columns as fit."""
    if handles:
        names = [str(handle.get_label()) for handle in handles]
        figure.legend(handles=list(handles), loc="outside lower left", ncols=legend_columns(names), fontsize=8.5)


def legend_columns(names: Sequence[str]) -> int:
    """Return how many columns such names fit in; matplotlib fills them one after another, each as wide as it must be."""
    return next((columns for columns in range(len(names), 1, -1) if _wide(names, columns) <= LEGEND_CHARACTERS), 1)


def _wide(names: Sequence[str], columns: int) -> int:
    rows = -(-len(names) // columns)
    starts = range(0, len(names), rows)
    return sum(max(len(name) for name in names[at : at + rows]) + LEGEND_EXTRA for at in starts)


def legend_height(names: Sequence[str]) -> float:
    """Return the height of a legend in inches."""
    short = [shortened(name) for name in names]
    return LEGEND_LINE * -(-len(short) // legend_columns(short)) + 0.15 if short else 0.0


def shortened(name: str, *, at_most: int = 110) -> str:
    """Return a name that fits: without its middle, for names often differ at their ends.

    matplotlib takes a leading underscore as "no label".
    """
    half = (at_most - 1) // 2
    shown = name if len(name) <= at_most else f"{name[:half]}…{name[-half:]}"
    return f" {shown}" if shown.startswith("_") else shown


def wrapped(name: str, *, width: int) -> str:
    """Return a name in at most two lines."""
    return "\n".join(textwrap.wrap(shortened(name, at_most=2 * width - 6), width)[:2])


class Numbers(Formatter):
    """Writes an axis' numbers with thousands set apart, and as many decimals as tell its ticks apart."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the text of one number by itself."""
        del pos
        return f"{x:,.6g}"

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        """Return the texts of all ticks."""
        ticks = [float(value) for value in values]
        step = min((right - left for left, right in pairwise(sorted(set(ticks)))), default=1.0)
        digits = 0
        while digits < MOST_DECIMALS and abs(step - round(step, digits)) > step * 1e-6:
            digits += 1
        return [f"{tick:,.{digits}f}" for tick in ticks]


def linear(axes: Axes, *, axis: str, ticks: int = 6) -> None:
    """Give an axis round numbers."""
    chosen = axes.xaxis if axis == "x" else axes.yaxis
    chosen.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
    chosen.set_major_formatter(Numbers())


def logarithmic(axes: Axes) -> None:
    """Make the value axis logarithmic, with 1, 2 and 5 of each decade written."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(Numbers())
    axes.yaxis.set_minor_locator(LogLocator(subs=()))


def across(axes: Axes, at: float) -> None:
    """Draw a line at a value."""
    axes.axvline(at, color=ink("soft"), linewidth=0.8)

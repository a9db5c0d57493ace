"""Fields: one number against another, with whiskers both ways and the front of what is not beaten."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nightsweep.analysis.plots import Field, Fields, Spot
from nightsweep.analysis.series import TOGETHER
from nightsweep.drawing.canvas import colour, ink, marker
from nightsweep.drawing.parts import legend, legend_height, linear

HIGH = 4.2


def height(plot: Fields) -> float:
    """Return inches."""
    return HIGH + legend_height([name for name, _ in _named(plot)])


def draw(figure: Figure, plot: Fields) -> None:
    """Draw the fields side by side, with one legend."""
    named = dict(_named(plot))
    grid = figure.subplots(1, len(plot.fields), squeeze=False)
    for axes, field in zip(grid.flat, plot.fields, strict=True):
        _field(axes, field, named=named)
    legend(figure, list(named.items()))


def _named(plot: Fields) -> list[tuple[str, int]]:
    """Return what gets a name and a colour: all where they are few, else those on a front; the rest is pale."""
    spots = {spot.name: spot for field in plot.fields for spot in field.spots}
    ahead = {spot.name for field in plot.fields for spot in field.spots if spot.ahead}
    chosen = [spot for spot in spots.values() if len(spots) <= TOGETHER or spot.name in ahead]
    return [(spot.name, spot.style) for spot in sorted(chosen, key=lambda spot: spot.style)]


def _field(axes: Axes, field: Field, *, named: dict[str, int]) -> None:
    front = field.front
    if len(front) > 1:
        axes.plot([spot.x.mean for spot in front], [spot.y.mean for spot in front], color=ink("soft"), lw=1, ls="--")
    for spot in field.spots:
        _spot(axes, spot, known=spot.name in named)
    right = max(max(spot.x_values) for spot in field.spots)
    top = max(max(spot.y_values) for spot in field.spots)
    axes.set_xlim(field.x_from, right + 0.05 * (right - field.x_from or 1.0))
    axes.set_ylim(field.y_from, top + 0.05 * (top - field.y_from or 1.0))
    linear(axes, axis="x")
    linear(axes, axis="y")
    axes.set_xlabel(field.x_label)
    axes.set_ylabel(field.y_label)
    if field.title:
        axes.set_title(field.title, fontsize=9, loc="left")


def _spot(axes: Axes, spot: Spot, *, known: bool) -> None:
    drawn = colour(spot.style) if known else ink("pale")
    above = 4 if known else 2
    axes.hlines(spot.y.mean, spot.x.minimum, spot.x.maximum, color=drawn, linewidth=1.1, zorder=above)
    axes.vlines(spot.x.mean, spot.y.minimum, spot.y.maximum, color=drawn, linewidth=1.1, zorder=above)
    xs = [*spot.x_values, *(spot.x.mean for _ in spot.y_values)]
    ys = [*(spot.y.mean for _ in spot.x_values), *spot.y_values]
    axes.scatter(xs, ys, s=18, color=drawn, alpha=0.65, linewidths=0, zorder=above)
    axes.plot(
        [spot.x.mean],
        [spot.y.mean],
        marker=marker(spot.style) if known else "o",
        markersize=8 if known else 5,
        markerfacecolor="none",
        markeredgecolor=drawn,
        markeredgewidth=1.4,
        linestyle="none",
        zorder=above,
    )

"""Curves: values at places, each run a dot, whiskers, a line through the means."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from nightsweep.analysis.plots import Curves, Panel, Series
from nightsweep.drawing.canvas import WIDTH, colour, ink, marker
from nightsweep.drawing.parts import legend, legend_height, linear, logarithmic, wrapped

ONE_HIGH = 3.9
ROW_HIGH = 2.05
MANY_PLACES = 6
"""Above that, panels are wider so that their labels do not touch."""
DODGE = 0.56
"""Share of the room of a place over which the series lie beside each other, at most."""
CHARACTER = 0.6
"""Width of a character as a share of its size."""
SMALLEST = 4.5
STEP = 0.02
"""Share of the whole axis between two series, at most."""
LOG_ROOM = 1.25
"""Factor that a logarithmic axis goes beyond the values."""


def height(plot: Curves) -> float:
    """Return inches."""
    if len(plot.panels) == 1:
        return ONE_HIGH + legend_height([one.name for one in plot.panels[0].series])
    return ROW_HIGH * _rows(plot) + 0.5


def draw(figure: Figure, plot: Curves) -> None:
    """Draw the panels, all with the same axes."""
    columns = _columns(plot)
    grid = figure.subplots(_rows(plot), columns, squeeze=False)
    single = len(plot.panels) == 1
    for number, axes in enumerate(grid.flat):
        if number < len(plot.panels):
            _panel(axes, plot.panels[number], plot, single=single)
            axes.tick_params(axis="x", labelsize=_label_size(plot, columns), length=2)
            axes.tick_params(axis="y", labelsize=9 if single else 7.5, labelleft=number % columns == 0)
        else:
            axes.set_visible(False)
    if single:  # matplotlib lays a figure's own label and a legend over each other
        grid.flat[0].set(xlabel=plot.x_label, ylabel=plot.y_label)
        legend(figure, [(one.name, one.style) for one in plot.panels[0].series])
    else:
        figure.supxlabel(plot.x_label, fontsize=9, color=ink("ink"))
        figure.supylabel(plot.y_label, fontsize=9, color=ink("ink"))


def _label_size(plot: Curves, columns: int) -> float:
    """Return the size at which the labels of neighbouring places do not touch."""
    room = WIDTH * 72 * 0.9 / columns / len(plot.panels[0].ticks)
    longest = max(
        (len(line) for panel in plot.panels for tick in panel.ticks for line in tick.label.split("\n")), default=1
    )
    return max(SMALLEST, min(9.0 if columns == 1 else 7.0, room / (longest + 1) / CHARACTER))


def _columns(plot: Curves) -> int:
    most = 3 if len(plot.panels[0].ticks) > MANY_PLACES else 4
    return min(most, len(plot.panels))


def _rows(plot: Curves) -> int:
    return math.ceil(len(plot.panels) / _columns(plot))


def _panel(axes: Axes, panel: Panel, plot: Curves, *, single: bool) -> None:
    if plot.log:
        logarithmic(axes)
    else:
        linear(axes, axis="y", ticks=6 if single else 4)
    pale = [[(mark.at, mark.spread.mean) for mark in other.marks] for other in panel.behind]
    axes.add_collection(LineCollection(pale, colors=ink("pale"), linewidths=0.7), autolim=False)
    for number, one in enumerate(panel.series):
        step = min(DODGE / len(panel.series), STEP * len(panel.ticks))
        shift = step * (number - (len(panel.series) - 1) / 2)
        _series(axes, one, shift=shift, size=1.0 if single else 0.7)
    axes.set_xticks([tick.at for tick in panel.ticks], [tick.label for tick in panel.ticks])
    axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(*_limits(plot))
    if panel.title:
        axes.set_title(wrapped(panel.title, width=34), fontsize=8, color=ink("ink"), loc="left")


def _series(axes: Axes, one: Series, *, shift: float, size: float) -> None:
    drawn, shape = colour(one.style), marker(one.style)
    places = [mark.at + shift for mark in one.marks]
    spreads = [mark.spread for mark in one.marks]
    axes.vlines(
        places,
        [spread.minimum for spread in spreads],
        [spread.maximum for spread in spreads],
        color=drawn,
        linewidth=1.3 * size,
    )
    xs = [at for at, mark in zip(places, one.marks, strict=True) for _ in mark.values]
    ys = [value for mark in one.marks for value in mark.values]
    axes.scatter(xs, ys, s=20 * size, color=drawn, alpha=0.7, linewidths=0, zorder=3)
    axes.plot(
        places,
        [spread.mean for spread in spreads],
        color=drawn,
        marker=shape,
        markersize=7.5 * size,
        markerfacecolor="none",
        markeredgewidth=1.2 * size,
        linewidth=1.0 * size,
        zorder=4,
    )


def _limits(plot: Curves) -> tuple[float, float]:
    """Return where the value axis begins and ends: the same in all panels."""
    spreads = [mark.spread for panel in plot.panels for one in panel.series for mark in one.marks]
    most = max((spread.maximum for spread in spreads), default=1.0)
    if plot.log:
        return min(spread.minimum for spread in spreads) / LOG_ROOM, most * LOG_ROOM
    top = most if plot.top is None else plot.top
    return 0.0, top * 1.04 if top > 0 else 1.0

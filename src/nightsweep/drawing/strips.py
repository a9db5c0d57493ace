"""Strips: a row of dots for each config, around 0."""

from __future__ import annotations

from matplotlib.figure import Figure

from nightsweep.analysis.plots import Strips
from nightsweep.drawing.canvas import colour, ink
from nightsweep.drawing.parts import across, linear, shortened

ROW_HIGH = 0.38
AROUND = 1.0


def height(plot: Strips) -> float:
    """Return inches."""
    return ROW_HIGH * len(plot.rows) + AROUND


def draw(figure: Figure, plot: Strips) -> None:
    """Draw the rows from above in their order."""
    axes = figure.subplots()
    across(axes, 0.0)
    for at, row in enumerate(plot.rows):
        drawn = colour(row.style)
        axes.hlines(at, min(row.values), max(row.values), color=drawn, linewidth=1.2)
        axes.scatter(row.values, [at] * len(row.values), s=16, color=drawn, alpha=0.6, linewidths=0, zorder=3)
    axes.set_yticks(
        range(len(plot.rows)),
        [f"{shortened(row.name, at_most=64)}\n{row.note}" for row in plot.rows],
        fontsize=8,
    )
    axes.set_ylim(len(plot.rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    widest = max((abs(value) for row in plot.rows for value in row.values), default=1.0) or 1.0
    axes.set_xlim(-1.06 * widest, 1.06 * widest)
    linear(axes, axis="x", ticks=9)
    axes.set_xlabel(plot.x_label, color=ink("ink"))

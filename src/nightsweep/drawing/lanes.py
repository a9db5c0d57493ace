"""Lanes: a timeline, a part for each night and a lane for each config."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from nightsweep.analysis import plots
from nightsweep.analysis.plots import Stretch, Timeline
from nightsweep.drawing.canvas import ink
from nightsweep.drawing.parts import legend_height, place_legend, shortened

LANE_HIGH = 0.24
AROUND = 0.75
THINNEST = 0.0012
"""A bar is at least this share of the stretch wide, so that a short window is seen."""

LOOKS = {
    plots.COLD_START: (ink("s4"), 0.34),
    plots.SERVING: (ink("pale"), 0.34),
    plots.FAILED_BOOT: (ink("loud"), 0.34),
    plots.WINDOW: (ink("s0"), 0.20),
    plots.FLAGGED: (ink("s1"), 0.30),
    plots.PREFILL: (ink("s2"), 0.20),
    plots.SINGLE: (ink("s3"), 0.20),
    plots.DOWN: (ink("soft"), 0.34),
    plots.PAUSED: (ink("s5"), 0.34),
}
"""Colour and half height of each kind of bar."""


def height(plot: Timeline) -> float:
    """Return inches."""
    return sum(_high(one) for one in plot.stretches) + 0.3 + legend_height(_kinds(plot))


def draw(figure: Figure, plot: Timeline) -> None:
    """Draw the nights below each other."""
    shares = [_high(one) for one in plot.stretches]
    grid = figure.subplots(len(plot.stretches), 1, squeeze=False, height_ratios=shares)
    for axes, stretch in zip(grid.flat, plot.stretches, strict=True):
        _stretch(axes, stretch)
    grid.flat[-1].set_xlabel(plot.x_label)
    place_legend(figure, [Line2D([], [], color=LOOKS[kind][0], linewidth=6, label=kind) for kind in _kinds(plot)])


def _high(stretch: Stretch) -> float:
    return LANE_HIGH * len(stretch.lanes) + AROUND


def _kinds(plot: Timeline) -> list[str]:
    there = {bar.kind for stretch in plot.stretches for lane in stretch.lanes for bar in lane.bars}
    return [kind for kind in plots.BAR_KINDS if kind in there]


def _stretch(axes: Axes, stretch: Stretch) -> None:
    for at, lane in enumerate(stretch.lanes):
        for kind in plots.BAR_KINDS:
            bars = [(bar.begin, max(bar.length, THINNEST * stretch.length)) for bar in lane.bars if bar.kind == kind]
            if bars:
                shade, half = LOOKS[kind]
                axes.broken_barh(bars, (at - half, 2 * half), facecolors=shade, linewidth=0)
    axes.set_yticks(
        range(len(stretch.lanes)), [shortened(lane.label, at_most=48) for lane in stretch.lanes], fontsize=8
    )
    axes.set_ylim(len(stretch.lanes) - 0.4, -0.6)
    axes.set_xticks([tick.at for tick in stretch.ticks], [tick.label for tick in stretch.ticks], fontsize=8)
    axes.set_xlim(-0.005 * stretch.length, 1.005 * stretch.length)
    axes.grid(visible=False, axis="y")
    axes.set_title(stretch.title, fontsize=9, loc="left")

"""Draws each kind of plot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nightsweep.analysis.plots import Curves, Fields, Figure, Strips, Timeline
from nightsweep.drawing import Drawing, curves, fields, lanes, strips
from nightsweep.drawing.canvas import canvas, for_file, for_page, svg_of

KINDS: dict[type, tuple[Callable[[Any], float], Callable[..., None]]] = {
    Curves: (curves.height, curves.draw),
    Strips: (strips.height, strips.draw),
    Fields: (fields.height, fields.draw),
    Timeline: (lanes.height, lanes.draw),
}
"""How high a plot is in inches, and what draws it, by its type."""


def draw(figure: Figure) -> Drawing:
    """Return the figure's plot as SVG; there is one."""
    height, drawn_by = KINDS[type(figure.plot)]
    with canvas(height(figure.plot), title=figure.title, simulated=figure.simulated) as drawn:
        drawn_by(drawn, figure.plot)
        svg = svg_of(drawn, name=figure.name, title=figure.title)
    return Drawing(for_page(svg), for_file(svg, title=figure.title))

"""Plots as SVG, by matplotlib. What is shown is decided in `nightsweep.analysis`; here it is only drawn.

matplotlib is the extra `report`, imported when something is drawn and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from nightsweep.analysis.plots import Figure


@dataclass(frozen=True)
class Drawing:
    """A plot as SVG.

    Attributes:
        for_page: To stand in a page that sets the colours (`nightsweep.analysis.palette.style_sheet`).
        for_file: To stand alone, with its colours.
    """

    for_page: str
    for_file: str


def can_draw() -> bool:
    """Return whether matplotlib is installed; it is not imported."""
    return find_spec("matplotlib") is not None


def drawings(figures: Sequence[Figure]) -> dict[str, Drawing]:
    """Return the drawing of each figure that has a plot, by its name: the same figures give the same text.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from nightsweep.drawing.draw import draw

    return {figure.name: draw(figure) for figure in figures if figure.plot is not None}

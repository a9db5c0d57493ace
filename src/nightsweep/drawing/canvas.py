"""The canvas: matplotlib's SVG with our colours as variables, with nothing of the day or the machine in it."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from nightsweep.analysis import text
from nightsweep.analysis.palette import DARK, LIGHT, SERIES

WIDTH = 10.5
"""Inches; 72 points each."""
FONT = "DejaVu Sans"
FALLBACK = f"'{FONT}', Verdana, system-ui, sans-serif"
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# Colours that nobody would draw in stand for ours until the text is written.
_MARKS = {name: f"#0a0b{number:02x}" for number, name in enumerate(LIGHT)}
_NAMES = {mark: name for name, mark in _MARKS.items()}
_MARK = re.compile("#0a0b[0-9a-f]{2}")


def ink(name: str) -> str:
    """Return a colour of the palette, for matplotlib."""
    return _MARKS[name]


def colour(style: int) -> str:
    """Return the colour of a series by its number; markers tell apart those that share one."""
    return _MARKS[SERIES[style % len(SERIES)]]


def marker(style: int) -> str:
    """Return the marker of a series by its number: the same colour comes again with another one."""
    return MARKERS[(style + style // len(SERIES)) % len(MARKERS)]


@contextmanager
def canvas(height: float, *, title: str, simulated: bool) -> Iterator[Figure]:
    """Give an empty figure of the page's width and so many inches; a user's own matplotlibrc changes nothing.

    Everything must be drawn and written before the block ends.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_style())
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        figure.suptitle(text.printable(title), x=0.005, ha="left", fontsize=11, color=ink("ink"))
        if simulated:
            figure.text(0.995, 0.995, text.SIMULATED, ha="right", va="top", weight="bold", color=ink("loud"))
        yield figure


def svg_of(figure: Figure, *, name: str, title: str) -> str:
    """Return a drawn figure as SVG text without XML head, date or anything from outside; ids begin with `name`.

    Its colours are still stand-ins: see `for_page` and `for_file`.
    """
    mpl.rcParams["svg.hashsalt"] = name
    out = io.StringIO()
    logger = logging.getLogger("matplotlib.font_manager")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")  # a reader's browser has the characters
            figure.savefig(out, format="svg", transparent=True, metadata=dict.fromkeys(_METADATA))
    finally:
        logger.setLevel(level)
    return _cleaned(out.getvalue(), name=name, title=text.printable(title))


def for_page(svg: str) -> str:
    """Return the drawing with colours that the page sets."""
    return _MARK.sub(lambda found: f"var(--{_NAMES[found[0]]})", svg)


def for_file(svg: str, *, title: str) -> str:
    """Return the drawing with colours for light screens and rules that change them on dark ones."""
    said = f"<title>{escape(text.printable(title))}</title>"
    coloured = _MARK.sub(lambda found: LIGHT[_NAMES[found[0]]], svg)
    return coloured.replace(">", f">\n{said}\n<style>{_dark_rules()}</style>", 1)


_METADATA = ("Date", "Creator", "Format", "Type")


def _style() -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "text.parse_math": False,
        "text.usetex": False,
        "font.family": [FONT],
        "font.size": 9,
        "text.color": ink("ink"),
        "axes.edgecolor": ink("soft"),
        "axes.labelcolor": ink("ink"),
        "axes.facecolor": "none",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.unicode_minus": False,
        "grid.color": ink("line"),
        "grid.linewidth": 0.6,
        "xtick.color": ink("soft"),
        "ytick.color": ink("soft"),
        "xtick.labelcolor": ink("ink"),
        "ytick.labelcolor": ink("ink"),
        "legend.frameon": False,
        "figure.facecolor": "none",
    }


def _cleaned(svg: str, *, name: str, title: str) -> str:
    begin = svg.index("<svg")
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[begin:], flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="|url\()#', rf"\g<1>#{name}-", svg)
    svg = svg.replace(f"'{FONT}'", FALLBACK)
    return svg.replace("<svg ", f'<svg role="img" aria-label={quoteattr(title)} ', 1)


def _dark_rules() -> str:
    """Return CSS that changes each colour on dark screens; where CSS is not understood, those for light ones stay."""
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{DARK[name]} !important}}'
        for name, light in LIGHT.items()
        for what in ("fill", "stroke")
    )
    paper = f"svg{{background:{LIGHT['paper']}}}"
    return f"{paper}@media (prefers-color-scheme: dark){{svg{{background:{DARK['paper']}}}{rules}}}"

"""A document as blocks, so that Markdown and HTML say the same: headings, sentences, lists, tables, plots, lines of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nightsweep.analysis.plots import Figure
from nightsweep.analysis.tables import Table


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more; `loud` stands out."""

    text: str
    loud: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list; an item that begins with one of `loud` stands out."""

    items: tuple[str, ...]
    loud: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lines:
    """Lines as they were said, a log's for instance; `language` is for those that colour code."""

    lines: tuple[str, ...]
    language: str = ""


@dataclass(frozen=True)
class Details:
    """What is folded away until somebody asks for it."""

    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Bullets | Lines | Table | Figure | Details


def left_out(figure: Figure) -> Paragraph:
    """Return the line that stands in place of a plot that there is nothing for."""
    return Paragraph(f"{figure.title}: no plot, because {figure.missing}.")


def without_plots(blocks: Sequence[Block]) -> list[Block]:
    """Return the document for where no picture can be shown; what there is nothing for is said all the same."""
    return [
        left_out(block) if isinstance(block, Figure) and block.plot is None else block
        for block in blocks
        if not isinstance(block, Figure) or block.plot is None
    ]


def figures_of(blocks: Sequence[Block]) -> list[Figure]:
    """Return the plots that there is something to draw for."""
    return [block for block in blocks if isinstance(block, Figure) and block.plot is not None]

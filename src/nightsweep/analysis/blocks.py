"""A document as blocks, so that Markdown and HTML say the same: headings, sentences, lists, tables, lines of a log."""

from __future__ import annotations

from dataclasses import dataclass

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
    """Lines as they were said, a log's for instance."""

    lines: tuple[str, ...]


Block = Heading | Paragraph | Bullets | Lines | Table

"""Tables and text as GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from nightsweep.analysis import text
from nightsweep.analysis.blocks import Block, Bullets, Details, Heading, Lines, Paragraph, left_out
from nightsweep.analysis.plots import Figure
from nightsweep.analysis.tables import Row, Table

_SPECIAL = re.compile(r"([\\`*|<>\[\]])")
NO_PICTURES: Mapping[str, str] = MappingProxyType({})


def escape(value: str) -> str:
    """Return text that Markdown shows as it is: config names and log lines come from outside."""
    return _SPECIAL.sub(r"\\\1", text.printable(value))


def document(blocks: Sequence[Block], *, pictures: Mapping[str, str] = NO_PICTURES) -> str:
    """Return the blocks as one text.

    Args:
        pictures: Where the picture of each plot lies, by the plot's name; a plot without one is left out.
    """
    shown = (_figure(block, pictures) if isinstance(block, Figure) else _block(block) for block in blocks)
    return "\n\n".join(part for part in shown if part) + "\n"


def _figure(figure: Figure, pictures: Mapping[str, str]) -> str:
    if figure.plot is None:
        return _block(left_out(figure))
    if figure.name not in pictures:
        return ""
    loud = f" **{text.SIMULATED}**" if figure.simulated else ""
    return (
        f"![{escape(figure.title)}]({pictures[figure.name]})\n\n*{escape(figure.title)}.* {prose(figure.caption)}{loud}"
    )


def _block(block: Block) -> str:
    if isinstance(block, Details):
        inside = "\n\n".join(_block(each) for each in block.blocks)
        return f"<details><summary>{escape(block.summary)}</summary>\n\n{inside}\n\n</details>"
    if isinstance(block, Heading):
        return f"{'#' * block.level} {escape(block.text)}"
    if isinstance(block, Paragraph):
        return f"**{prose(block.text)}**" if block.loud else prose(block.text)
    if isinstance(block, Bullets):
        loud = block.loud or ("\0",)  # no item begins with it
        return bullets(f"**{prose(item)}**" if item.startswith(loud) else prose(item) for item in block.items)
    if isinstance(block, Lines):
        return code(block.lines, language=block.language)
    return "" if isinstance(block, Figure) else table(block)


def prose(value: str) -> str:
    """Return text as `escape` does, with what stands between two backticks as code."""
    parts = text.printable(value).split("`")
    if len(parts) % 2 == 0:
        return escape(value)
    return "".join(
        inline_code(part) if place % 2 and part else _SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts)
    )


def table(content: Table) -> str:
    """Return the table; the groups' heading stands in the first column of each row, notes below."""
    label = [content.label] if content.label else []
    headings = [*label, *(column.one_line for column in content.columns)]
    rules = [*("---" for _ in label), *("---:" if column.right else "---" for column in content.columns)]
    lines = [_line(escape(heading) for heading in headings), _line(rules)]
    for group in content.groups:
        prefix = [escape(group.heading)] if content.label else []
        lines += [_line([*prefix, *_fields(row)]) for row in group.rows]
    loud = f" **{text.SIMULATED}**" if content.simulated else ""
    caption = f"*{escape(content.title)}*{loud}\n\n"
    notes = "".join(f"\n- {escape(note)}" for note in content.notes)
    return caption + "\n".join(lines) + ("\n" + notes if notes else "")


def code(lines: Sequence[str], *, language: str = "") -> str:
    """Return a code block whose fence is longer than any run of backticks in it."""
    body = "\n".join(text.printable(line) for line in lines)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def inline_code(value: str) -> str:
    """Return a code span that may itself hold backticks."""
    shown = text.printable(value)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    tick = "`" * (longest + 1)
    return f"{tick} {shown} {tick}" if longest else f"`{shown}`"


def bullets(items: Iterable[str]) -> str:
    """Return a list; the items are Markdown already."""
    return "\n".join(f"- {item}" for item in items)


def _fields(row: Row) -> list[str]:
    return [f"**{escape(v)}**" if i in row.strong else escape(v) for i, v in enumerate(row.values)]


def _line(fields: Iterable[str]) -> str:
    return "| " + " | ".join(fields) + " |"

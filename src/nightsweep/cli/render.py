"""One way to show rows: styled on a terminal, aligned plain text elsewhere, JSON and CSV for programs."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click
from rich.cells import cell_len

from nightsweep.analysis import listings, tables, text
from nightsweep.analysis.cell_documents import cell_document
from nightsweep.analysis.documents import Document, finite, flat_rows, plain_json
from nightsweep.analysis.tables import Column, Row, Table
from nightsweep.analysis.values import BootRow, CellSummary
from nightsweep.cli.outputs import echo, encodable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

F = TypeVar("F", bound=Callable[..., Any])

STYLES = {
    "single": "yellow",
    "flagged": "dim red",
    "failed": "red",
    "running": "cyan",
    "done": "green",
    "title": "bold",
    "loud": "bold reverse magenta",
    "heading": "dim",
    "group": "bold cyan",
    "note": "italic dim",
    "strong": "bold",
}
GAP = 2
NARROWEST_LAST = 12
LONGEST_RULED = 80
"""Characters of a last column of text that the rule above the rows goes along where nothing folds it."""


class Line(NamedTuple):
    """One line of output and how it looks on a terminal; `spans` are (start, end, style name) on top of `style`."""

    text: str
    style: str = ""
    spans: tuple[tuple[int, int, str], ...] = ()


def output_options(command: F) -> F:
    """Add `--json` and `--csv`, of which one may be given; the command takes `form`: "table", "json" or "csv"."""

    @functools.wraps(command)
    def in_a_form(*args: Any, as_json: bool, as_csv: bool, **given: Any) -> Any:
        if as_json and as_csv:
            raise click.UsageError("--json and --csv are two forms of one answer: write one of them")
        return command(*args, form="json" if as_json else "csv" if as_csv else "table", **given)

    json_option = click.option(
        "--json", "as_json", is_flag=True, help="One JSON document; units stand in the key names."
    )
    csv_option = click.option("--csv", "as_csv", is_flag=True, help="CSV with a header line.")
    return cast("F", json_option(csv_option(in_a_form)))


def cells_table(summaries: Sequence[CellSummary], *, title: str, ruled: bool = False) -> Table:
    """Return the table of cells that `show` prints; `ruled` as of `tables.cells_table`."""
    return tables.cells_table(summaries, title=title, ruled=ruled)


def print_cells(
    summaries: Sequence[CellSummary], *, title: str, console: Console | None = None, ruled: bool = False
) -> None:
    """Show cells grouped by config: decode rate with run count and range, per stream, acceptance length, step time."""
    if summaries:
        show(cells_table(summaries, title=title, ruled=ruled), console=console)
    else:
        write([Line(f"{title}: nothing was measured")], console=console)


def print_boots(rows: Sequence[BootRow], *, title: str = "Boots", console: Console | None = None) -> None:
    """Show boots; below them each failure with its deciding line and its remedy."""
    if not rows:
        write([Line(f"{title}: none")], console=console)
        return
    show(listings.boots_table(rows, title=title), console=console)
    failures = [line for boot in rows if boot.failure_kind is not None for line in _failure_lines(boot)]
    if failures:
        write([Line(""), Line("Failures", style="title"), *failures], console=console)


def show(table: Table, *, console: Console | None = None) -> None:
    """Show a table: with group headings and colours on a terminal, as plain aligned text elsewhere."""
    target = console or terminal()
    if target is not None and target.is_terminal:
        write(table_lines(table, width=target.width, grouped=True), console=target)
    else:
        write(table_lines(table, width=None, grouped=False), console=target)


def write(lines: Iterable[Line], *, console: Console | None = None) -> None:
    """Write lines: styled to a terminal, else as they are."""
    target = console or terminal()
    if target is not None and target.is_terminal:
        for line in lines:
            target.print(styled(line._replace(text=encodable(line.text, target.encoding))), soft_wrap=True)
        return
    stream = sys.stdout if target is None else target.file
    encoding = getattr(stream, "encoding", None)
    for line in lines:
        stream.write(encodable(plain_text(line), encoding) + "\n")
    stream.flush()


def plain_text(line: Line) -> str:
    """Return a line as it is where nothing is styled."""
    return line.text.rstrip()


def print_json(document: Document) -> None:
    """Write one JSON document."""
    echo(json_text(document))


def json_text(document: Document) -> str:
    """Return a JSON document as `print_json` writes it, without the newline at its end; all of it is ASCII."""
    return json.dumps(finite(_plain(document)), indent=2, allow_nan=False)


def cells_json(summaries: Sequence[CellSummary]) -> str:
    """Return cells as the JSON document that `nightsweep cells --json` prints."""
    return json_text({"cells": [cell_document(cell) for cell in summaries]})


def print_csv(documents: Iterable[Document], *, fields: Sequence[str]) -> None:
    """Write CSV; the header does not depend on what is absent."""
    print_rows(*flat_rows(documents, fields=fields))


def print_rows(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write CSV of rows whose fields are plain: what `nightsweep.analysis.documents.flat` returns, or None."""
    from nightsweep.cli.csv_text import csv_text  # tables need none of it

    echo(csv_text(header, rows), nl=False)


def terminal() -> Console | None:
    """Return a console when standard output is a terminal, else None."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console(highlight=False)


def styled(line: Line) -> Text:
    """Return the line for a terminal."""
    from rich.text import Text

    shown = Text(line.text, style=STYLES.get(line.style, ""))
    for start, end, style in line.spans:
        shown.stylize(STYLES[style], start, end)
    return shown


def table_lines(table: Table, *, width: int | None, grouped: bool) -> list[Line]:
    """Return the lines of a table; `grouped` puts a group's heading on a line of its own, else into each row.

    With a width the last column is folded when the line would be longer.
    """
    rows = [(group.heading, row) for group in table.groups for row in group.rows]
    labelled = bool(table.label)
    columns = table.columns if grouped or not labelled else (Column(table.label, right=False), *table.columns)
    contents = [row.values if grouped or not labelled else (heading, *row.values) for heading, row in rows]
    indent = 2 if grouped and labelled else 0
    widths = _widths(columns, contents)
    gap = _fit(widths, width=width, indent=indent, foldable=not columns[-1].right)
    lines = [_title(table)]
    lines += [Line(" " * indent + text_line, style="heading") for text_line in _header(columns, widths, gap=gap)]
    last_ruled = widths[-1] if columns[-1].right else min(widths[-1], LONGEST_RULED)
    rule = sum(widths[:-1]) + last_ruled + gap * (len(widths) - 1) + indent
    lines.append(Line("─" * (rule if width is None else min(rule, width)), style="heading"))
    apart = any(len(group.rows) > 1 for group in table.groups)
    last: str | None = None
    for (heading, row), values in zip(rows, contents, strict=True):
        if heading != last and labelled:
            if grouped:
                lines.append(Line(heading, style="group"))
            elif last is not None and apart:
                lines.append(Line(""))
        last = heading
        lines += _row(row, values, columns=columns, widths=widths, gap=gap, indent=indent)
    return lines + [Line(f"* {note}", style="note") for note in table.notes]


def _title(table: Table) -> Line:
    start = table.caption.find(text.SIMULATED)
    loud = ((start, start + len(text.SIMULATED), "loud"),) if start >= 0 else ()
    return Line(table.caption, style="title", spans=loud)


def _widths(columns: Sequence[Column], contents: Sequence[tuple[str, ...]]) -> list[int]:
    widths = []
    for index, column in enumerate(columns):
        words = [*column.heading.split(), column.unit]
        widths.append(max([cell_len(word) for word in words] + [cell_len(row[index]) for row in contents]))
    return widths


def _fit(widths: list[int], *, width: int | None, indent: int, foldable: bool) -> int:
    """Return the gap between columns; narrow gaps first and then the last column, when the line would be too long."""
    for gap in (GAP, 1):
        over = indent + sum(widths) + gap * (len(widths) - 1) - (width or 0)
        if width is None or over <= 0:
            return gap
    if foldable:
        widths[-1] = max(widths[-1] - over, min(NARROWEST_LAST, widths[-1]))
    return 1


def _header(columns: Sequence[Column], widths: Sequence[int], *, gap: int) -> list[str]:
    stacks = [
        [*_folded(column.heading, width), *([column.unit] if column.unit else [])]
        for column, width in zip(columns, widths, strict=True)
    ]
    height = max(map(len, stacks), default=0)
    padded = [[""] * (height - len(stack)) + stack for stack in stacks]
    return [_joined(level, columns=columns, widths=widths, gap=gap)[0].rstrip() for level in zip(*padded, strict=True)]


def _row(
    row: Row, values: Sequence[str], *, columns: Sequence[Column], widths: Sequence[int], gap: int, indent: int
) -> Iterator[Line]:
    folds = _folded(values[-1], widths[-1]) if not columns[-1].right else [values[-1]]
    first, starts = _joined([*values[:-1], folds[0]], columns=columns, widths=widths, gap=gap)
    shift = len(values) - len(row.values)
    strong = tuple(
        (indent + starts[i + shift], indent + starts[i + shift] + widths[i + shift], "strong") for i in row.strong
    )
    yield Line((" " * indent + first).rstrip(), style=row.mark, spans=strong)
    for fold in folds[1:]:
        yield Line(" " * (indent + starts[-1]) + fold, style=row.mark)


def _joined(
    values: Sequence[str], *, columns: Sequence[Column], widths: Sequence[int], gap: int
) -> tuple[str, list[int]]:
    """Return the line, and where each field starts in it."""
    line = ""
    starts: list[int] = []
    for value, column, width in zip(values, columns, widths, strict=True):
        line += " " * gap if starts else ""
        starts.append(len(line))
        blank = " " * max(width - cell_len(value), 0)
        line += blank + value if column.right else value + blank
    return line, starts


def _folded(value: str, width: int) -> list[str]:
    """Return the text in lines of at most `width` where words allow it; at least one line."""
    lines = [""]
    for word in value.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _failure_lines(boot: BootRow) -> Iterator[Line]:
    ended = f", exit code {boot.exit_code}" if boot.exit_code is not None else ""
    memory = ", killed for memory" if boot.oom_killed else ""
    yield Line(
        f"  {text.printable(boot.config)} (boot {boot.boot_id}): {listings.outcome(boot)}{ended}{memory}", "failed"
    )
    for deciding in boot.failure_lines[:3]:
        yield Line(f"    | {text.printable(deciding)}")
    if boot.failure_remedy:
        yield Line(f"    remedy: {text.printable(boot.failure_remedy)}")


def _plain(document: Document) -> Any:
    return json.loads(json.dumps(document, default=plain_json))

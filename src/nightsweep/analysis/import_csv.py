"""The plain CSV of an import: one run a row, columns as `nightsweep.analysis.import_columns` has them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import tzinfo

from nightsweep.analysis.import_columns import Place, Wrong, row_of, unknown_column
from nightsweep.analysis.imported import CSV, ImportedRow
from nightsweep.errors import InvalidImport

MOST_PROBLEMS = 20


def read_csv(text: str, *, file: str, given: Mapping[str, str], zone: tzinfo) -> tuple[ImportedRow, ...]:
    """Return the rows of a CSV text. Empty lines, and lines that begin with `#`, say nothing.

    Args:
        given: Values by column that stand for every row, whatever the file has there.
        zone: Of moments that have none.

    Raises:
        InvalidImport: With every line that cannot be meant.
    """
    lines = list(_lines(text, file=file))
    if not lines:
        raise InvalidImport(problems=(f"{file}: it holds no line: the first one names the columns",))
    (at, header), *body = lines
    header = [name.strip() for name in header]
    problems = list(_header_problems(header, where=f"{file}:{at}"))
    rows = []
    for line, values in body if not problems else ():
        try:
            rows.append(_row(header, values, Place(file, line, CSV, zone), given))
        except Wrong as wrong:
            problems.append(f"{file}:{line}: {wrong}")
    if problems or not rows:
        problems = problems or [f"{file}: it has a header and no row"]
        more = len(problems) - MOST_PROBLEMS
        tail = (f"{file}: and {more} more lines",) if more > 0 else ()
        raise InvalidImport(problems=(*problems[:MOST_PROBLEMS], *tail))
    return tuple(rows)


def _lines(text: str, *, file: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for values in reader:
            if any(value.strip() for value in values) and not values[0].lstrip().startswith("#"):
                yield reader.line_num, values
    except csv.Error as error:
        raise InvalidImport(problems=(f"{file}:{reader.line_num}: it is no CSV: {error}",)) from error


def _header_problems(header: list[str], *, where: str) -> Iterator[str]:
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        yield f"{where}: columns are separated by commas here; write it with commas"
        return
    for name in header:
        unknown = unknown_column(name) if name else "a column without a name: name it, or take it out"
        if unknown is not None:
            yield f"{where}: {unknown}"
    yield from (
        f"{where}: column {name} is there {times} times" for name, times in Counter(header).items() if times > 1
    )


def _row(header: list[str], values: list[str], place: Place, given: Mapping[str, str]) -> ImportedRow:
    if len(values) != len(header):
        raise Wrong(
            "the line", f"it has {len(values)} fields, the header {len(header)}; put texts with commas in quotes"
        )
    own = {name: value.strip() for name, value in zip(header, values, strict=True)}
    return row_of({**own, **given}, place)

"""From a file's bytes to its rows: which tool wrote it, and what of it is left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo

from nightsweep.analysis import text as words
from nightsweep.analysis.import_columns import OPEN, UNKNOWN, Place, Wrong, unknown_column
from nightsweep.analysis.import_csv import MOST_PROBLEMS, read_csv
from nightsweep.analysis.import_names import NAME, client_named, server_named, without_name
from nightsweep.analysis.import_vllm import (
    NoStreams,
    is_summary,
    read_json,
    read_summary,
    row_of_result,
    tool_of,
)
from nightsweep.analysis.import_vllm_keys import Record, overrides
from nightsweep.analysis.imported import BENCH_SWEEP, CSV, ImportedFile, ImportedRow
from nightsweep.errors import InvalidImport
from nightsweep.plan.mistakes import shown

ANY_ZONE = timedelta(days=1)
"""By how much a moment without a zone may be ahead of UTC."""


@dataclass(frozen=True)
class Said:
    """What the caller says of all rows.

    Attributes:
        columns: Values by column; they stand, whatever a file has there.
        zone: Of moments that have none.
        now: When it is imported: nothing was measured later. None does not ask.
        skip_open_loop: Leave out runs that held no number of streams, instead of refusing their file.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    zone: tzinfo = UTC
    now: datetime | None = None
    skip_open_loop: bool = False


def said_columns(pairs: Sequence[str]) -> dict[str, str]:
    """Return columns by name of words such as `image=vllm/vllm-openai:v0.28.0`.

    Raises:
        ValueError: The words are no such pair, or there is no such column.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"{pair!r} is no column with a value: write image=vllm/vllm-openai:v0.28.0")
        unknown = unknown_column(name.strip())
        if unknown is not None:
            raise ValueError(unknown)
        column, said = name.strip(), value.strip()
        if found.setdefault(column, said) != said:
            raise ValueError(f"{column} is said twice: {shown(found[column])} and {shown(said)}; say it once")
    return found


def read_file(content: bytes, *, name: str, said: Said, of_sweep: bool = False, folder: str = "") -> ImportedFile:
    """Return a file's rows.

    Args:
        name: What it is called in messages and in the store.
        folder: The name of the folder that it lies in, which names the server of a sweep's result.
        of_sweep: Whether it lies in a folder of `vllm bench sweep`.

    Raises:
        InvalidImport: With what is wrong, line by line, and what would do.
    """
    try:
        content_text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidImport(problems=(f"{name}: it is no UTF-8 text (byte {error.start})",)) from error
    if not content_text.strip():
        raise InvalidImport(problems=(f"{name}: it is empty",))
    sha256 = hashlib.sha256(content).hexdigest()
    if name.lower().endswith(".csv") and not is_summary(content_text):
        rows = read_csv(content_text, file=name, given=said.columns, zone=said.zone)
        return _in_time(ImportedFile(name, sha256, CSV, rows), said)
    summary = name.lower().endswith(".csv")
    records = read_summary(content_text, file=name) if summary else read_json(content_text, file=name)
    tool = BENCH_SWEEP if summary else tool_of(records)
    if of_sweep and tool != BENCH_SWEEP:
        unfinished = f"{name}: the sweep was stopped before it wrote what was set; its folder's name alone would say"
        return ImportedFile(name, sha256, BENCH_SWEEP, (), (unfinished,))
    named = _named(records, folder=folder) if tool == BENCH_SWEEP else records
    found, skipped = _rows(records, named, name=name, tool=tool, said=said)
    return _in_time(ImportedFile(name, sha256, tool, found, skipped), said)


def _in_time(file: ImportedFile, said: Said) -> ImportedFile:
    """Return the file (raises InvalidImport where a row was measured after its import)."""
    if said.now is None:
        return file
    late = [row for row in file.rows if row.date is not None and row.date > said.now + ANY_ZONE]
    if late:
        problems = (
            f"{file.name}{'' if row.line is None else f':{row.line}'}: date: found {words.moment(row.date)} UTC, which is yet to "
            "come; write when it was measured, or `unknown`"
            for row in late[:MOST_PROBLEMS]
        )
        raise InvalidImport(problems=tuple(problems))
    return file


def _named(records: Sequence[Record], *, folder: str) -> Sequence[Record]:
    """Return a sweep's results under their servers' names, as far as these are known."""
    by_folder = [server_named(one, folder=folder) for one in records]
    if by_folder == list(records) and client_named(records, [overrides(one) for one in records]):
        return [without_name(one) for one in records]
    return by_folder


def _rows(
    records: Sequence[Record], named: Sequence[Record], *, name: str, tool: str, said: Said
) -> tuple[tuple[ImportedRow, ...], tuple[str, ...]]:
    rows, skipped, problems = [], 0, []
    for place, (written, one) in enumerate(zip(records, named, strict=True), start=1):
        at = f"{name}: result {place}" if len(records) > 1 else name
        try:
            row = row_of_result(one, Place(name, None, tool, said.zone), given=said.columns)
            known_as = "" if one == written or "config" in said.columns else str(written[NAME])
            rows.append(replace(row, known_as=known_as))
        except NoStreams as wrong:
            skipped += 1
            if not said.skip_open_loop:
                problems.append(f"{at}: {wrong}")
        except Wrong as wrong:
            problems.append(f"{at}: {wrong}")
    if problems:
        raise InvalidImport(problems=tuple(problems[:MOST_PROBLEMS]))
    left_out = (f"{name}: {words.plural(skipped, 'run')} without a number of streams left out",) if skipped else ()
    return tuple(rows), left_out


__all__ = ["OPEN", "UNKNOWN", "Said", "read_file", "said_columns"]

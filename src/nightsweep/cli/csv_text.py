"""Rows as CSV text: the columns of numbers, which are nearly all of a long list, are written in one piece for each row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, Literal

import orjson

Rows = Sequence[Sequence[Any]]


def csv_text(header: Sequence[str], rows: Rows) -> str:
    """Return CSV with "\\n" after each row, of texts, numbers and None: an empty field, as is a number that is not finite."""
    start, end = _numbers(rows[0]) if rows else (0, 0)
    written = _in_pieces(header, rows, start=start, end=end) if end - start > 1 else None
    if written is not None and written.count("\n") == len(rows) + 1 and "\r" not in written:
        return written
    written = _by_field([header, *rows], quoting=csv.QUOTE_MINIMAL)
    if "\r" in written:  # which Python before 3.13 leaves bare, and readers take for the end of a row
        written = _by_field([header, *rows], quoting=csv.QUOTE_NONNUMERIC)
    return written


def _numbers(row: Sequence[Any]) -> tuple[int, int]:
    """Return where the longest stretch of numbers and None begins and where it ends."""
    longest, begin = (0, 0), 0
    for place, value in enumerate([*row, ""]):
        if not (value is None or type(value) in (int, float)):
            longest = max(longest, (begin, place), key=lambda one: one[1] - one[0])
            begin = place + 1
    return longest


def _in_pieces(header: Sequence[str], rows: Rows, *, start: int, end: int) -> str | None:
    """Return CSV, a row's numbers from `start` to `end` written by a writer of JSON; None where there are texts among them."""
    try:
        numbers = orjson.dumps([row[start:end] for row in rows]).decode()
    except orjson.JSONEncodeError:  # an int of more than 64 bits
        return None
    if '"' in numbers:
        return None
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(header)
    before, after = csv.writer(out, lineterminator=","), csv.writer(out, lineterminator="\n")
    for row, piece in zip(rows, numbers[2:-2].replace("null", "").split("],["), strict=True):
        if start:
            before.writerow(row[:start])
        out.write(piece)
        if end < len(row):
            out.write(",")
            after.writerow(row[end:])
        else:
            out.write("\n")
    return out.getvalue()


def _by_field(rows: Rows, *, quoting: Literal[0, 2]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=quoting).writerows([[_told(value) for value in row] for row in rows])
    return out.getvalue()


def _told(value: Any) -> Any:
    return None if type(value) is float and not math.isfinite(value) else value

"""CSV whose numbers are written in one piece: read back it is what a writer of fields makes of the same rows."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.cli.csv_text import csv_text

HEADER = ("config", "rate", "n", "cv", "box")


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def by_field(header: tuple[str, ...], rows: list[list[Any]]) -> list[list[str]]:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    return read(out.getvalue())


def alike(one: str, other: str) -> bool:
    """Whether two fields say the same: the same text, or the same number to its last bit."""
    try:
        return one == other or float(one) == float(other)
    except ValueError:
        return False


@pytest.mark.parametrize("name", ["plain", 'a "b", c', "a\nb", "a\rb", "a\r\nb", "null", "],[", ""])
@pytest.mark.parametrize("box", ["spark-1", "a,b", 'the "box"', "x\ny", "null"])
def test_texts_beside_numbers_are_read_back_as_they_were(name: str, box: str) -> None:
    rows = [[name, 40.5, 3, None, box], ["k=5", None, 0, 0.1 + 0.2, name]]
    assert read(csv_text(HEADER, rows)) == [
        list(HEADER),
        [name, "40.5", "3", "", box],
        ["k=5", "", "0", "0.30000000000000004", name],
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[1, 2.5, 3, 4, 5]],
        [["a", "b", "c", "d", "e"]],
        [["a", 1, 2, 3, "b"], ["a", 1, "text where the first row has a number", 3, "b"]],
        [["a", 1, 2, 3, "b"], ["a", 2**70, -(2**70), 3, "b"]],
        [[None, None, None, None, None], ["a", 1, 2, 3, "b"]],
        [["a", 1e-7, 1e300, 5e-324, "b"], ["a", 123456789012345678, 1e16, -0.0, "b"]],
    ],
    ids=["none", "only numbers", "only texts", "a late text", "more than 64 bits", "all absent first", "extremes"],
)
def test_whatever_stands_in_the_rows(rows: list[list[Any]]) -> None:
    found, wanted = read(csv_text(HEADER, rows)), by_field(HEADER, rows)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert all(map(alike, one, other)), (one, other)


def test_a_number_that_is_not_finite_is_an_empty_field() -> None:
    rows = [["a", math.nan, math.inf, -math.inf, "b"]]
    assert read(csv_text(HEADER, rows))[1] == ["a", "", "", "", "b"]
    alone = [["a", math.nan, "b", math.inf, "c"]]
    assert read(csv_text(HEADER, alone))[1] == ["a", "", "b", "", "c"]


FIELD = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())


@given(st.lists(st.lists(FIELD, min_size=5, max_size=5), max_size=6))
def test_any_rows(rows: list[list[Any]]) -> None:
    found, wanted = read(csv_text(HEADER, rows)), by_field(HEADER, rows)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert all(map(alike, one, other)), (one, other)

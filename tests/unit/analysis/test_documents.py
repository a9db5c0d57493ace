"""Documents as rows of CSV: what stands in a field, whatever the document holds."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from nightsweep.analysis.documents import at_path, flat_rows


def written(documents: list[dict[str, Any]], fields: list[str]) -> list[list[str]]:
    header, rows = flat_rows(documents, fields=fields)
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    return list(csv.reader(io.StringIO(out.getvalue())))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e-20, "1e-20"),
        ([], ""),
        (["a", 2], "a; 2"),
        (("0.27.1", "0.28.0"), "0.27.1; 0.28.0"),
        ({}, ""),
        ({"foreign_load": 2, "preempted": 1}, "foreign_load=2; preempted=1"),
        (
            {"kv": {"blocks": 63430, "tokens": None}, "ranks": [1, 2]},
            'kv={"blocks": 63430, "tokens": null}; ranks=[1, 2]',
        ),
        ('a "b", c\nd', 'a "b", c\nd'),
    ],
)
def test_a_field_is_written_so_that_it_is_read_back(value: object, field: str) -> None:
    assert written([{"config": "k=5", "what": value}], ["config", "what"]) == [["config", "what"], ["k=5", field]]


def test_paths_below_one_head_are_looked_up_together_and_one_by_one_alike() -> None:
    rate = {"mean": 40.5, "n": 3, "cv": None}
    documents = [{"config": "a", "rate": rate, "n": 1}, {"config": "b", "rate": None, "n": 2}]
    together = written(documents, ["config", "rate.mean", "rate.n", "rate.cv", "n"])
    apart = written(documents, ["rate.mean", "config", "rate.n", "n", "rate.cv"])
    assert together == [
        ["config", "rate_mean", "rate_n", "rate_cv", "n"],
        ["a", "40.5", "3", "", "1"],
        ["b", "", "", "", "2"],
    ]
    assert [sorted(row) for row in together] == [sorted(row) for row in apart]


def test_a_key_that_holds_dots_itself_is_found_before_what_lies_below_its_head() -> None:
    document = {"args.max-num-seqs": 16, "args": {"max-num-seqs": 8, "port": 1}}
    assert at_path(document, "args.max-num-seqs") == 16
    assert written([document], ["args.max-num-seqs", "args.port"])[1] == ["16", "1"]


def test_deeper_paths_are_followed_to_their_end() -> None:
    document = {"a": {"b": {"c": 1, "d": None}, "e": 2}}
    assert written([document], ["a.b.c", "a.e"])[1] == ["1", "2"]
    assert at_path(document, "a.b.d.e") is None

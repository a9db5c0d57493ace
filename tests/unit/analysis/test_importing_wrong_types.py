"""Any value in any field of an imported file becomes a row or our own error, which names file and field and what would do."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightsweep.analysis.import_columns import KNOWN, OPEN
from nightsweep.analysis.import_reading import Said, read_file
from nightsweep.analysis.imported import ImportedFile, contents
from nightsweep.errors import InvalidImport

RESULT = Path(__file__).parents[2] / "data" / "vllm_bench" / "depth" / "SERVE-k3-BENCH-c4" / "run=0.json"
SAID = Said({"box": "b", "engine": "vllm"})
NAN, INF, HUGE = math.nan, math.inf, 10**400
WRONG = (
    *(None, True, False, "", "52%", "fast", "nan", "inf", "\0", "\ud800", "9" * 5000, "hf_abcdefghijklmnop"),
    *([], ["a"], [0.5, None], [NAN], 0, -1, 0.5, 5e-324, 1e300, HUGE, NAN, INF, -INF),
    *({}, {"a": 1}, {"a": {"b": [INF]}}, {"": None}),
)
NO_NUMBER = (True, False, "52%", "fast", [], ["a"], {}, {"a": 1}, NAN, INF, -INF, "nan", -1, 1e300, HUGE)
MUST_BE_NUMBERS = (
    *("output_throughput", "max_concurrency", "duration", "total_output_tokens", "temperature"),
    *("num_prompts", "completed", "failed", "burstiness", "mean_ttft_ms", "median_tpot_ms", "p99_e2el_ms"),
    *("spec_decode_acceptance_rate", "spec_decode_acceptance_length", "spec_decode_num_drafts"),
    *("spec_decode_draft_tokens", "spec_decode_accepted_tokens"),
)
MAY_BE_NAN = ("mean_ttft_ms", "median_tpot_ms", "p99_e2el_ms")
METADATA = (
    "image",
    "positions",
    "n",
    "kv_tokens",
    "note",
    "boot",
    "speculative.method",
    "args.seed",
    "env.A",
    "version",
)
"""What `--metadata` may say: columns of ours, and one that is none."""
SET = (
    "_benchmark_name",
    "max_num_seqs",
    "speculative_config",
    "speculative-config.method",
    "model",
    "random_input_len",
)
"""What a sweep adds: names, arguments of the server, options of the client."""


def a_result(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULT.read_text())
    for key in ("run_number", "max_num_seqs", "speculative_config"):
        del found[key]
    return found | changes


def as_json(one: Any) -> ImportedFile:
    return read_file(json.dumps(one).encode(), name="r.json", said=SAID)


def as_run(one: Any) -> ImportedFile:
    folder, content = "SERVE--a-BENCH--b", json.dumps({"run_number": 0, **one}).encode()
    return read_file(content, name="r.json", said=SAID, of_sweep=True, folder=folder)


def as_summary(one: dict[str, Any]) -> ImportedFile:
    rows = [{"run_number": 0, **one}, {"run_number": 1, **one}]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return read_file(text.getvalue().encode("utf-8", "replace"), name="r.csv", said=SAID)


def problems_of(read: Any, one: Any) -> tuple[str, ...]:
    """Return what is wrong with a file; none where it became rows that can be kept."""
    try:
        rows = read(one).rows
    except InvalidImport as refused:
        problems: tuple[str, ...] = refused.facts["problems"]
        return problems
    assert len(contents(rows)) == len(rows) >= 1
    json.dumps([[row.all_conditions, row.document, row.numbers] for row in rows], allow_nan=False)
    return ()


def fields() -> Iterator[tuple[str, Any]]:
    yield from ((field, value) for field in (*a_result(), *METADATA, *SET, "label", "a key") for value in WRONG)


@pytest.mark.parametrize("read", [as_json, as_run, as_summary])
def test_no_value_in_any_field_of_a_result_ends_in_anything_but_rows_or_our_error(read: Any) -> None:
    for field, value in fields():
        for problem in problems_of(read, a_result(**{field: value})):
            file, _, said = problem.partition(": ")
            assert file.startswith("r."), (field, value, problem)
            assert said, (field, value, problem)
            assert "hf_abc" not in problem
            assert field in problem, (field, value, problem)


@pytest.mark.parametrize("field", MUST_BE_NUMBERS)
def test_what_is_no_number_is_refused_with_the_files_own_field_what_was_found_and_what_to_write(field: str) -> None:
    for value in NO_NUMBER:
        if field in MAY_BE_NAN and isinstance(value, float) and math.isnan(value):
            continue  # old clients wrote it for a mean of nothing
        (problem,) = problems_of(as_json, a_result(**{field: value}))
        assert problem.startswith(f"r.json: {field}: found "), (value, problem)
        assert "; write " in problem, (value, problem)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("spec_decode_acceptance_rate", "52%", 'found "52%"; write percent as a number: 52.3'),
        ("spec_decode_acceptance_rate", 152, "found 152; write a number from 0 to 100"),
        ("spec_decode_per_position_acceptance_rates", 0.5, "found 0.5; write ratios, position 1 first"),
        ("spec_decode_per_position_acceptance_rates", True, "found true; write ratios, position 1 first"),
        ("spec_decode_per_position_acceptance_rates", {"a": 1}, "found a mapping; write ratios"),
        ("duration", INF, "found Infinity; write a number above 0"),
        ("request_rate", INF, "found Infinity; write a number above 0"),
        ("request_rate", "fast", 'found "fast"; write requests / second, or "inf"'),
        ("backend", NAN, "found NaN; write a text"),
        ("model_id", ["a"], "found a list; write a text"),
        ("label", {"a": 1}, "found a mapping; write a text"),
        ("label", -1, "found -1; write a text, in quotes"),
        ("model_id", 7, "found 7; write a text, in quotes"),
        ("engine_version", 0.3, "found 0.3; write a text, in quotes"),
        ("env.VLLM_X", 8, "found 8; write a text, in quotes"),
        ("env.VLLM_X", True, "found true; write a text, in quotes"),
        ("seed", [INF], "found Infinity, which is no number; write one, a text, or take it out"),
        ("version", NAN, "found NaN, which is no number"),
        ("output_throughput", None, "found nothing (null); take the file as the client wrote it"),
    ],
)
def test_a_field_that_cannot_be_meant_says_what_would_do(field: str, value: Any, said: str) -> None:
    (problem,) = problems_of(as_json, a_result(**{field: value}))
    assert problem.startswith(f"r.json: {field}: {said}")


def test_a_rate_of_requests_without_end_is_a_text() -> None:
    (row,) = as_json(a_result(request_rate="inf")).rows
    assert row.conditions["client"]["request_rate"] == "inf"


def test_a_time_of_nothing_is_absent() -> None:
    (row,) = as_json(a_result(mean_tpot_ms=NAN)).rows
    assert "mean" not in row.numbers["tpot"]
    assert row.numbers["tpot"]["p50"] > 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            json.dumps(a_result(note=1)).replace('"note": 1', f'"note": {"9" * 5000}'),
            "r.json: it holds a number that is",
        ),
        (json.dumps(a_result(note=1)).replace('"note": 1', f'"note": {"[" * 80}{"]" * 80}'), "nested too deeply"),
        (json.dumps(a_result(run_number=0, speculative_config="[" * 100_000)), "speculative_config: found"),
    ],
)
def test_what_no_parser_takes_is_told(content: str, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        read_file(content.encode(), name="r.json", said=SAID)


@pytest.mark.parametrize("literal", ["{1, 2}", "b'x'", "1j", "...", "{1: 2}", "[{1}]", "[" * 90 + "]" * 90])
def test_a_literal_of_python_that_no_json_has_stays_the_text_that_it_is(literal: str) -> None:
    rows = as_summary(a_result(max_num_seqs=literal)).rows
    assert rows[0].document["args"]["max-num-seqs"] == literal


def test_a_name_in_a_summary_that_reads_as_a_number_is_the_text_that_the_results_have() -> None:
    for name in ("7", "-1", "1e3", "1.50"):
        rows = as_summary(a_result(_benchmark_name=name, model_id=name)).rows
        assert [(row.config, row.document["model"]) for row in rows] == [(name, name)] * 2


def test_a_summary_with_a_line_of_another_length_is_refused() -> None:
    text = "output_throughput,run_number,max_concurrency\n100.0,0,4\n100.0,1\n"
    with pytest.raises(InvalidImport, match=r"r.csv: result 2: its line has not as many fields as the header"):
        read_file(text.encode(), name="r.csv", said=SAID)


def test_no_text_in_any_column_of_a_csv_ends_in_anything_but_rows_or_our_error() -> None:
    base = {"config": "a", "engine": "vllm", "model": "m", "box": "b", "concurrency": "1", "temperature": "0.7"}
    base |= {"decode_rate": "20", "date": "2026-05-12", "n": "1"}
    texts = [str(value) for value in WRONG if value != "\ud800"]
    for column in (*KNOWN, *(f"{head}.key" for head in OPEN)):
        for value in texts:
            row = {**base, column: value}
            out = io.StringIO(newline="")
            csv.writer(out).writerows([list(row), list(row.values())])

            def read(content: str) -> ImportedFile:
                return read_file(content.encode(), name="t.csv", said=Said())

            for problem in problems_of(read, out.getvalue()):
                assert problem.startswith("t.csv:2: "), (column, value, problem)
                assert "; " in problem or "take it out" in problem, (column, value, problem)

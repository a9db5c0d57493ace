"""`nightsweep cells` and `nightsweep boots`."""

from __future__ import annotations

import csv
import io

import pytest

from nightsweep.cli.boots import command as boots
from nightsweep.cli.cells import command as cells
from nightsweep.engine.values import LogLine
from nightsweep.errors import NotFound
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import a_window

from .calling import call, json_of, seed_queries


def test_every_mean_stands_beside_its_run_count_and_range() -> None:
    result = call(cells, queries=seed_queries())
    assert result.exit_code == 0
    row = next(line.split() for line in result.output.splitlines() if line.startswith("dflash2 k=5") and " 8 " in line)
    assert row[3:8] == ["8", "0.7", "163.5", "3", "160.9–167.8"]


def test_one_run_is_marked_as_no_measurement() -> None:
    output = call(cells, "--config", "mtp*", "--temperature", "1.0", queries=seed_queries()).output
    assert "one run" in output
    assert "n=1: one run is not a measurement (1 cell)" in output


def test_a_cell_without_a_clean_window_is_shown_without_a_number() -> None:
    output = call(cells, "--concurrency", "8", "--temperature", "1.0", queries=seed_queries()).output
    assert "3: underfilled ×3" in output
    assert "1 cell without a clean window: no number" in output


def test_flagged_windows_are_listed_with_their_reasons_when_asked_for() -> None:
    queries = seed_queries()
    assert "311 tokens" not in call(cells, queries=queries).output
    assert "foreign_load: engine made 311 tokens" in call(cells, "--flagged", queries=queries).output


def test_a_simulated_cell_says_so_in_the_title() -> None:
    assert "SIMULATED" in call(cells, queries=seed_queries(simulated=True)).output.splitlines()[0]
    assert "SIMULATED" not in call(cells, queries=seed_queries()).output


def test_json_is_one_document_with_units_in_its_keys_and_null_for_absent() -> None:
    document = json_of(call(cells, "--json", queries=seed_queries()))
    found = {(cell["config"], cell["concurrency"], cell["temperature"]): cell for cell in document["cells"]}
    rate = found[("dflash2 k=5 probabilistic/standard", 8, 0.7)]["decode_rate_tokens_per_second"]
    assert rate["n"] == 3
    assert rate["mean"] == pytest.approx(163.5)
    absent = found[("mtp k=3", 8, 1.0)]
    assert absent["decode_rate_tokens_per_second"] is None
    assert absent["flags"] == {"underfilled": 3}
    assert document["prefills"][0]["prefill_rate_tokens_per_second"]["n"] == 3


def test_csv_has_the_same_columns_whatever_is_absent() -> None:
    full = list(csv.reader(io.StringIO(call(cells, "--csv", queries=seed_queries()).stdout)))
    bare = FakeQueries(window_rows=[a_window(flags=("aborted",), acceptance_length=None)])
    sparse = list(csv.reader(io.StringIO(call(cells, "--csv", queries=bare).stdout)))
    assert full[0] == sparse[0]
    assert sparse[1][sparse[0].index("decode_rate_tokens_per_second_mean")] == ""
    assert {len(row) for row in full} == {len(full[0])}


def test_two_forms_at_once_are_a_mistake_of_use() -> None:
    result = call(cells, "--json", "--csv", queries=seed_queries())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "write one of them" in result.stderr


def test_an_empty_store_is_said_and_is_no_fault() -> None:
    result = call(cells)
    assert (result.exit_code, result.output) == (0, "no cells match\n")
    assert json_of(call(cells, "--json"))["cells"] == []


def test_a_pattern_that_matches_nothing_is_named() -> None:
    result = call(cells, "--config", "eagle*", "--concurrency", "1,8", queries=seed_queries())
    assert result.exit_code == 0
    assert result.output == "no cells match --config 'eagle*' --concurrency 1,8\n"


def test_an_unknown_sweep_is_not_found_and_near_names_are_offered() -> None:
    result = call(cells, "--sweep", "dflash-depth", queries=seed_queries())
    assert isinstance(result.exception, NotFound)
    assert "did you mean 'dflash2-depth'?" in str(result.exception)


def test_an_unknown_sweep_in_an_empty_store_says_how_to_make_one() -> None:
    result = call(cells, "--sweep", "night")
    assert "no sweep is stored yet" in str(result.exception)


def test_the_store_is_asked_for_flagged_windows_too_and_for_the_sweep_by_id() -> None:
    queries = seed_queries()
    call(cells, "--sweep", "dflash2-depth", "--where", "method=dflash", queries=queries)
    filters, *_other_kinds = queries.seen
    assert (filters.sweep, filters.with_flagged, filters.where) == (1, "yes", (("method", "=", "dflash"),))


def test_boots_show_cold_start_weights_and_kv_tokens_and_a_failure_with_its_line() -> None:
    output = call(boots, queries=seed_queries()).output
    row = next(line for line in output.splitlines() if line.startswith("dflash2 k=5"))
    assert "421.7" in row
    assert "24.92" in row
    assert "838,501" in row
    assert "3.20 at 262,144" in row
    assert "| ValueError: To serve at least one request" in output
    assert "remedy: lower max-model-len" in output


def test_a_limit_counts_what_is_listed_and_not_what_is_read() -> None:
    queries = seed_queries()
    every = json_of(call(boots, "--json", queries=queries))["boots"]
    failed = json_of(call(boots, "--failed", "--json", queries=queries))["boots"]
    assert every[0] != failed[0], "else nothing is shown here"
    assert json_of(call(boots, "--limit", "1", "--json", queries=queries))["boots"] == every[:1]
    assert json_of(call(boots, "--failed", "--limit", "1", "--json", queries=queries))["boots"] == failed[:1]


def test_only_failed_boots_when_asked_for() -> None:
    document = json_of(call(boots, "--failed", "--json", queries=seed_queries()))
    (boot,) = document["boots"]
    assert boot["failure"]["kind"] == "kv_too_small"
    assert boot["cold_start_seconds"] is None


def test_a_boot_that_did_not_fail_has_no_failure() -> None:
    document = json_of(call(boots, "--json", queries=seed_queries()))
    assert document["boots"][0]["failure"] is None
    assert document["boots"][0]["kv_cache_tokens"] == 1_014_892


def test_no_boot_matches_is_said() -> None:
    assert call(boots, "--failed").output == "no boots match --failed\n"


def test_a_boot_log_is_printed_as_it_came() -> None:
    queries = FakeQueries(logs={17: [LogLine("INFO one"), LogLine("  two")]})
    assert call(boots, "--log", "17", queries=queries).output == "INFO one\n  two\n"
    assert isinstance(call(boots, "--log", "18", queries=queries).exception, NotFound)


@pytest.mark.parametrize("command", [cells, boots])
def test_help_shows_an_example(command: object) -> None:
    output = call(command, "--help").output  # type: ignore[arg-type]
    assert "Example:" in output
    assert "nightsweep " in output

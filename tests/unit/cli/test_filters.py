"""Filters: from words to values, and a usage error for what cannot be meant."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.cli.boots import command as boots
from nightsweep.cli.cells import command as cells
from nightsweep.cli.compare import command as compare
from nightsweep.cli.filters import parse_concurrency, parse_since, parse_temperature, parse_where, typed
from nightsweep.cli.show import command as show
from nightsweep.cli.sweeps import command as sweeps

from .calling import MORNING, call, seed_queries


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("speculative.method=dflash", ("speculative.method", "=", "dflash")),
        ("num_speculative_tokens>=5", ("num_speculative_tokens", ">=", 5)),
        ("args.max-num-seqs < 16", ("args.max-num-seqs", "<", 16)),
        ("args.gpu-memory-utilization<=0.9", ("args.gpu-memory-utilization", "<=", 0.9)),
        ("args.enforce-eager==true", ("args.enforce-eager", "=", True)),
        ("speculative.method!=mtp", ("speculative.method", "!=", "mtp")),
        ("speculative=null", ("speculative", "=", None)),
        ("args.x='5'", ("args.x", "=", "5")),
        ("env.X=a=b>=c", ("env.X", "=", "a=b>=c")),
    ],
)
def test_a_condition_is_read_with_its_value_typed(words: str, found: tuple[str, str, Any]) -> None:
    assert parse_where(words) == found


@pytest.mark.parametrize(
    "words", ["method", "=dflash", "method=", "k=>5", "k=<5", "k===3", "k>=deep", "k<true", "", "5>=k"]
)
def test_what_is_no_condition_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"condition|value|compar"):
        parse_where(words)


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "Infinity", "1_000x", "0x10", "v0.28.0"])
def test_a_word_that_is_no_number_stays_a_word(word: str) -> None:
    assert typed(word) == word


@pytest.mark.parametrize(
    ("words", "ago"),
    [
        ("45m", timedelta(minutes=45)),
        ("12h", timedelta(hours=12)),
        ("30d", timedelta(days=30)),
        ("2W", timedelta(weeks=2)),
    ],
)
def test_an_age_is_counted_back_from_now(words: str, ago: timedelta) -> None:
    assert parse_since(words, now=MORNING) == MORNING - ago


def test_a_date_is_utc_unless_it_says_otherwise() -> None:
    assert parse_since("2026-11-28", now=MORNING) == datetime(2026, 11, 28, tzinfo=UTC)
    assert parse_since("2026-11-28T01:00+02:00", now=MORNING) == datetime(2026, 11, 27, 23, tzinfo=UTC)


@pytest.mark.parametrize("words", ["yesterday", "30", "30y", "-3d", "2026-13-01", "99999999999d"])
def test_what_is_neither_age_nor_date_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"neither|longer ago"):
        parse_since(words, now=MORNING)


def test_numbers_are_listed_with_commas() -> None:
    assert parse_concurrency("1, 2,16") == (1, 2, 16)
    assert parse_temperature("0.7,1") == (Decimal("0.7"), Decimal(1))


@pytest.mark.parametrize("words", ["0", "1,,2", "-1", "two", "1.5", "²", ""])
def test_a_number_of_streams_is_whole_and_positive(words: str) -> None:
    with pytest.raises(ValueError, match=r"streams|empty"):
        parse_concurrency(words)


@pytest.mark.parametrize("words", ["-0.1", "warm", "nan", "inf", ","])
def test_a_temperature_is_a_number_from_zero_on(words: str) -> None:
    with pytest.raises(ValueError, match=r"temperature|empty"):
        parse_temperature(words)


@pytest.mark.parametrize(
    "words",
    [
        ("--where", "method"),
        ("--since", "yesterday"),
        ("--concurrency", "0"),
        ("--temperature", "hot"),
        ("--no-such-option",),
        ("--where",),
    ],
)
def test_a_filter_that_cannot_be_meant_is_a_usage_error_before_the_store_is_opened(words: tuple[str, ...]) -> None:
    queries = seed_queries()
    result = call(cells, *words, queries=queries)
    assert result.exit_code == 2
    assert queries.opened == 0
    assert words[0] in result.output


def test_a_usage_error_says_what_was_found_and_what_is_allowed() -> None:
    output = call(cells, "--where", "k>=deep").output
    assert ">= compares numbers, and 'deep' is none" in output


def test_filters_that_may_be_repeated_add_up() -> None:
    queries = seed_queries()
    call(cells, "--where", "a=1", "--where", "b>2", "--concurrency", "1", "--concurrency", "2,4", queries=queries)
    filters, *_other_kinds = queries.seen
    assert filters.where == (("a", "=", 1), ("b", ">", 2))
    assert filters.concurrency == (1, 2, 4)


def test_since_counts_from_the_clock_that_is_given() -> None:
    queries = seed_queries()
    call(cells, "--since", "1h", queries=queries)
    assert queries.seen[0].since == MORNING - timedelta(hours=1)


@pytest.mark.parametrize(("words", "found"), [((), None), (("--imported",), True), (("--no-imported",), False)])
def test_imports_are_asked_for_or_left_out(words: tuple[str, ...], found: bool | None) -> None:
    queries = seed_queries()
    assert call(boots, *words, queries=queries).exit_code == 0
    assert queries.seen[0].imported is found


@pytest.mark.parametrize("words", [("--imported", "--no-imported"), ("--no-imported", "--imported")])
def test_imports_alone_and_without_them_is_nothing_that_can_be_meant(words: tuple[str, ...]) -> None:
    refused = call(cells, *words)
    assert refused.exit_code == 2
    assert "--imported and --no-imported leave nothing over" in refused.output


@given(st.text(max_size=30))
def test_no_words_whatever_make_more_than_a_usage_error(words: str) -> None:
    for parse in (parse_where, parse_concurrency, parse_temperature, lambda given: parse_since(given, now=MORNING)):
        try:
            parse(words)
        except ValueError as error:
            assert str(error)


@pytest.mark.parametrize(
    "words",
    [
        "--where speculative!=null",
        "--where args.enforce-eager=true",
        "--where args.offset=-1",
        "--temperature unknown",
        "--temperature 0.7,1",
        "--config 'k=5*'",
        "--imported",
        "--no-imported",
    ],
)
def test_an_empty_answer_says_the_filters_as_they_could_be_typed(words: str) -> None:
    assert call(boots if "temp" not in words else cells, *shlex.split(words)).output.endswith(f" match {words}\n")


@pytest.mark.parametrize("command", [cells, boots, sweeps])
@pytest.mark.parametrize("words", [("--sort", "nope"), ("--columns", "nope"), ("--parquet", "x.parquet", "--csv")])
def test_what_cannot_be_meant_is_refused_of_an_empty_answer_too(command: click.Command, words: tuple[str, ...]) -> None:
    refused = call(command, *words)
    assert refused.exit_code == 2, refused.output
    assert words[0] in refused.output or words[1] in refused.output


@pytest.mark.parametrize("other", [("--group-by", "method"), ("--whole-runs",)])
@pytest.mark.parametrize("beside", ["--pooled", "--flagged"])
def test_two_lists_at_once_are_refused(other: tuple[str, ...], beside: str) -> None:
    refused = call(cells, *other, beside)
    assert refused.exit_code == 2
    assert f"{other[0]} and {beside} are two lists" in refused.output


@pytest.mark.parametrize("table", [("--csv",), ("--columns", "n"), ("--parquet", "x.parquet")])
@pytest.mark.parametrize("beside", ["--pooled", "--flagged"])
def test_what_no_single_table_has_room_for_is_refused(table: tuple[str, ...], beside: str) -> None:
    refused = call(cells, beside, *table)
    assert refused.exit_code == 2
    assert f"{table[0]} is one table, of cells" in refused.output


def test_a_side_that_names_its_sweep_has_no_other() -> None:
    words = ("sweep:dflash2-depth/*k=5*", "*k=7*", "--sweep", "dflash2-depth")
    refused = call(compare, *words, queries=seed_queries())
    assert refused.exit_code == 2
    assert "names its sweep: leave --sweep out" in refused.output


@pytest.mark.parametrize("words", [("cell", "9" * 21), ("window", "0"), ("boot", str(2**63))])
def test_an_id_that_no_row_can_have_is_a_usage_error(words: tuple[str, str]) -> None:
    refused = call(show, *words)
    assert refused.exit_code == 2
    assert "is not in the range" in refused.output

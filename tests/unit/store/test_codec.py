"""Documents go in and come out as they were; what PostgreSQL cannot hold is made so that it can."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.engine.values import LogLine
from nightsweep.measurement.values import DecodeNumbers, PrefillResult, RequestTiming, WindowResult
from nightsweep.ports import Secret
from nightsweep.store.codec import (
    JSON_ZLIB,
    clean_text,
    digest,
    load_of,
    pack,
    pack_lines,
    plain,
    read_load,
    two_decimals,
    unpack,
    unpack_lines,
    without_secrets,
)
from nightsweep.store.measured import COLUMN_OF
from nightsweep.store.schema import prefills, windows
from nightsweep.units import MonotonicSeconds, Tokens
from tests.storekit.builders import a_plan, a_request

times = st.floats(min_value=0.0, max_value=1e7, allow_nan=False)


@given(chunks=st.lists(times, max_size=30), tokens=st.lists(st.integers(0, 10**9), max_size=30), sent=times)
def test_timings_come_back_bit_for_bit(chunks: list[float], tokens: list[int], sent: float) -> None:
    request = RequestTiming(
        stream=1,
        prompt_index=2,
        sent=MonotonicSeconds(sent),
        first_token=None,
        ended=None,
        chunk_at=tuple(chunks),
        chunk_tokens=tuple(tokens),
        prompt_tokens=Tokens(3),
        error="broke off",
    )
    data, _ = pack(load_of((request,), ()))
    assert read_load(unpack(JSON_ZLIB, data)) == ((request,), ())


def test_a_monotonic_clocks_times_are_kept_as_steps_of_nanoseconds() -> None:
    document = load_of((a_request(),), ())
    assert document["requests"][0]["chunk_at"]["ns"][1:] == [31_700_001] * 49
    assert read_load(document)[0] == (a_request(),)


@given(st.lists(st.text(st.characters(exclude_categories=[]), max_size=20)))
def test_log_lines_come_back_whatever_bytes_they_were_made_of(texts: list[str]) -> None:
    lines = [LogLine(text=text, seconds=float(at), stream="stderr") for at, text in enumerate(texts)]
    assert unpack_lines(JSON_ZLIB, pack_lines(lines)[0]) == lines


def test_a_packing_of_a_newer_program_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="zstd"):
        unpack("json+zstd", b"")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_document_becomes_json_that_postgresql_takes(document: object) -> None:
    text = json.dumps(plain(document), allow_nan=False)
    assert "\\u0000" not in text
    json.loads(text).__class__  # noqa: B018 - it reads


def test_values_become_plain_and_keep_what_they_say() -> None:
    assert plain({"t": Decimal("0.70"), "at": datetime(2026, 11, 29, tzinfo=UTC), 3: (1, 2.5)}) == {
        "t": "0.70",
        "at": "2026-11-29T00:00:00+00:00",
        "3": [1, 2.5],
    }
    assert plain([math.nan, math.inf, -math.inf]) == ["nan", "inf", "-inf"]
    assert math.isnan(float(plain(math.nan)))
    assert plain(Secret("sk-1")) == "***"


def test_a_plan_becomes_a_document_in_which_a_secret_is_only_a_name() -> None:
    document = plain(a_plan())
    assert document["configs"][0]["engine"]["env"]["HF_TOKEN"] == {"from_env": "HF_TOKEN"}
    assert document["probe"]["temperature"] == ["0.7", "1.0"]


def test_text_that_postgresql_cannot_hold_says_that_something_was_there() -> None:
    assert clean_text("a\x00b\ud83dc é 😀") == "a\ufffdb\ufffdc é 😀"


@pytest.mark.parametrize("given_as", [Decimal("0.7"), Decimal("0.70"), 0.7, 0.1 + 0.6])
def test_a_temperature_has_one_spelling(given_as: Decimal | float) -> None:
    assert str(two_decimals(given_as)) == "0.70"


def test_secret_flags_lose_their_values_and_nothing_else_does() -> None:
    command = [
        "serve",
        "--api-key",
        "sk-1",
        "--hf-token=hf_1",
        "--max-num-batched-tokens",
        "8192",
        "--api-key",
        "--x",
        "1",
    ]
    assert without_secrets(command) == [
        "serve", "--api-key", "***", "--hf-token=***", "--max-num-batched-tokens", "8192", "--api-key", "--x", "1"
    ]  # fmt: skip


def test_a_digest_knows_where_each_part_ends() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


def test_a_window_is_stored_with_all_that_its_result_has() -> None:
    assert {field.name for field in fields(WindowResult)} - {"raw", "numbers"} <= set(windows.c.keys())


def test_every_number_of_a_measurement_has_a_column() -> None:
    for table, kind in ((windows, DecodeNumbers), (prefills, PrefillResult)):
        own = {} if table is windows else COLUMN_OF
        renamed = {"step_time": "step_time_s"} | dict(own)
        assert {renamed.get(field.name, field.name) for field in fields(kind)} <= set(table.c.keys())

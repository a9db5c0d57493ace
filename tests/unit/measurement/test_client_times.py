from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.measurement.client_times import chunk_gaps, e2es, percentiles, tpots, ttfts
from nightsweep.units import MonotonicSeconds
from tests.unit.measurement.builders import a_request

OPENED, CLOSED = MonotonicSeconds(100.0), MonotonicSeconds(140.0)


def test_ttft_is_of_requests_sent_and_answered_inside_the_window() -> None:
    requests = [
        a_request(sent=99.0, ended=120.0, chunk_at=(101.0,)),
        a_request(sent=101.0, ended=120.0, chunk_at=(101.25,)),
        a_request(sent=139.9, ended=150.0, chunk_at=(140.5,)),
    ]
    assert ttfts(requests, opened=OPENED, closed=CLOSED) == (0.25,)


def test_end_to_end_leaves_out_what_the_probe_cut_or_what_failed() -> None:
    requests = [
        a_request(sent=101.0, ended=111.0),
        a_request(sent=101.0, ended=112.0, cancelled=True),
        a_request(sent=101.0, ended=113.0, error="HTTP 500"),
    ]
    assert e2es(requests, opened=OPENED, closed=CLOSED) == (10.0,)


def test_tpot_of_a_whole_request_is_decode_time_over_tokens_less_the_first() -> None:
    request = a_request(sent=101.0, ended=112.0, chunk_at=(102.0, 111.9), completion_tokens=101)
    assert tpots([request], opened=OPENED, closed=CLOSED) == (pytest.approx(0.1),)


def test_tpot_of_a_cut_request_takes_the_part_inside() -> None:
    stamps = tuple(90.0 + i for i in range(70))
    request = a_request(
        sent=80.0, ended=160.0, chunk_at=stamps, chunk_tokens=tuple(4 * (i + 1) for i in range(70)), cancelled=True
    )
    assert tpots([request], opened=OPENED, closed=CLOSED) == (0.25,)


def test_a_sliver_of_a_request_gives_no_tpot() -> None:
    request = a_request(sent=80.0, ended=101.0, chunk_at=(99.0, 100.5, 100.9), chunk_tokens=(5, 6, 8), cancelled=True)
    assert tpots([request], opened=OPENED, closed=CLOSED) == ()


def test_a_single_token_has_no_tpot() -> None:
    request = a_request(sent=101.0, ended=102.0, chunk_at=(101.5,), completion_tokens=1)
    assert tpots([request], opened=OPENED, closed=CLOSED) == ()


def test_chunk_gaps_never_span_two_requests_or_the_edges() -> None:
    requests = [
        a_request(sent=90.0, ended=103.0, chunk_at=(99.0, 101.0, 102.0)),
        a_request(sent=103.0, ended=150.0, chunk_at=(104.0, 104.5, 141.0)),
    ]
    assert chunk_gaps(requests, opened=OPENED, closed=CLOSED) == (1.0, 0.5)


def test_no_sample_is_no_distribution() -> None:
    assert percentiles(()) is None


@given(samples=st.lists(st.floats(min_value=0, max_value=1e4), min_size=2, max_size=200))
def test_percentiles_agree_with_the_standard_librarys_inclusive_quantiles(samples: list[float]) -> None:
    found = percentiles(samples)
    assert found is not None
    cuts = statistics.quantiles(samples, n=100, method="inclusive")
    assert found.p50 == pytest.approx(statistics.median(samples))
    assert found.p90 == pytest.approx(cuts[89])
    assert found.p99 == pytest.approx(cuts[98])
    assert (found.n, found.minimum, found.maximum) == (len(samples), min(samples), max(samples))

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nightsweep.measurement.occupancy import in_flight, mean_running, occupancy, own_tokens, queued_share, running_above
from nightsweep.measurement.values import OccupancySample
from nightsweep.units import MonotonicSeconds
from tests.unit.measurement.builders import a_request

OPENED, CLOSED = MonotonicSeconds(100.0), MonotonicSeconds(140.0)


def test_a_request_across_the_whole_window_fills_its_stream() -> None:
    assert occupancy([a_request(sent=90.0, ended=150.0)], concurrency=1, opened=OPENED, closed=CLOSED) == 1.0


def test_only_time_inside_the_window_counts() -> None:
    requests = [a_request(sent=90.0, ended=110.0), a_request(sent=130.0, ended=150.0), a_request(sent=10.0, ended=50.0)]
    assert in_flight(requests, opened=OPENED, closed=CLOSED) == 20.0


def test_a_request_without_end_is_in_flight_until_the_window_closes() -> None:
    assert in_flight([a_request(sent=120.0, ended=None)], opened=OPENED, closed=CLOSED) == 20.0


def test_own_tokens_are_counted_at_the_edges_without_interpolation() -> None:
    request = a_request(
        sent=90.0, ended=150.0, chunk_at=(95.0, 99.9, 100.1, 139.9, 140.1), chunk_tokens=(1, 4, 6, 90, 95)
    )
    assert own_tokens([request], opened=OPENED, closed=CLOSED) == 86


def test_a_request_that_begins_inside_counts_from_its_first_token() -> None:
    request = a_request(sent=110.0, ended=130.0, chunk_at=(111.0, 112.0), chunk_tokens=(1, 3))
    assert own_tokens([request], opened=OPENED, closed=CLOSED) == 3


def test_without_continuous_usage_a_cut_request_cannot_be_counted() -> None:
    cut = a_request(sent=90.0, ended=150.0, chunk_at=(95.0, 145.0), completion_tokens=50)
    assert own_tokens([cut], opened=OPENED, closed=CLOSED) is None


def test_without_continuous_usage_a_whole_request_counts_by_its_final_usage() -> None:
    whole = a_request(sent=101.0, ended=120.0, chunk_at=(102.0, 119.0), completion_tokens=50)
    outside = a_request(sent=10.0, ended=50.0, chunk_at=(11.0, 49.0), completion_tokens=70)
    assert own_tokens([whole, outside], opened=OPENED, closed=CLOSED) == 50


def test_more_running_than_streams_is_seen() -> None:
    samples = [
        OccupancySample(OPENED, 4.0, 0.0),
        OccupancySample(OPENED, 5.0, 0.0),
        OccupancySample(OPENED, None, None),
    ]
    assert running_above(samples, concurrency=4) == 1
    assert mean_running(samples) == 4.5
    assert queued_share(samples) == 0.0
    assert queued_share(samples[2:]) is None


@given(
    stamps=st.lists(st.floats(min_value=0, max_value=300), min_size=1, max_size=60).map(sorted),
    gains=st.lists(st.integers(min_value=1, max_value=8), min_size=60, max_size=60),
    edge=st.floats(min_value=0, max_value=300),
)
def test_tokens_of_neighbouring_windows_add_up(stamps: list[float], gains: list[int], edge: float) -> None:
    counts = tuple(sum(gains[: i + 1]) for i in range(len(stamps)))
    request = a_request(sent=-1.0, ended=301.0, chunk_at=tuple(stamps), chunk_tokens=counts)
    start, end = MonotonicSeconds(-1.0), MonotonicSeconds(300.0)
    left = own_tokens([request], opened=start, closed=MonotonicSeconds(edge))
    right = own_tokens([request], opened=MonotonicSeconds(edge), closed=end)
    assert left is not None
    assert right is not None
    assert left + right == own_tokens([request], opened=start, closed=end) == counts[-1]

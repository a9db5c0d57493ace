"""Noise of classes that have too few windows: what others say of how it goes with the streams."""

from __future__ import annotations

import math

import pytest

from nightsweep.analysis.borrowing import constant, curve_of

STREAMS = (1, 2, 4, 8, 16)


@pytest.mark.parametrize(("content", "rest"), [(0.04, 0.0), (0.0, 0.0025), (0.04, 0.0025)])
def test_a_curve_finds_what_shrinks_with_the_streams_and_what_does_not(content: float, rest: float) -> None:
    found = curve_of([(streams, content / streams + rest, 3.0) for streams in STREAMS])
    assert found is not None
    for streams in (1, 6, 16, 32):
        assert found.at(streams)[0] == pytest.approx(content / streams + rest, rel=0.01)


def test_it_knows_no_more_than_its_classes_and_less_far_away() -> None:
    found = curve_of([(streams, 0.04 / streams + 0.0025, 3.0) for streams in STREAMS])
    assert found is not None
    assert 3.0 < found.at(4)[1] < 15.0
    assert found.at(64)[1] < found.at(8)[1]
    assert found.known_less(2.0).at(4)[1] == pytest.approx(found.at(4)[1] / 2)


def test_one_number_of_streams_is_taken_to_scatter_by_content() -> None:
    found = curve_of([(4, 0.01, 3.0), (16, 0.9, 0.5)])  # half a degree of freedom tells nothing of the shape
    assert found is not None
    assert found.rest == 0.0
    assert curve_of([]) is None


def test_nothing_scatters_and_nothing_breaks() -> None:
    found = curve_of([(1, 0.0, 3.0), (8, 0.0, 3.0)])
    assert found is not None
    assert found.at(8) == (0.0, math.inf)
    assert constant(0.01, 5.0).at(7) == pytest.approx((0.01, 5.0))


def test_a_class_that_is_noisier_with_more_streams_makes_no_part_negative() -> None:
    found = curve_of([(1, 0.0001, 3.0), (16, 0.01, 3.0)])
    assert found is not None
    assert found.content >= 0
    assert found.rest > 0

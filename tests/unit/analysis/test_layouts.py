"""How windows lie in boots: intervals hold the truth whatever the layout, and say where it tells nothing of boots."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from nightsweep.analysis.comparing import BETTER, WORSE, Comparison, compare
from nightsweep.analysis.intervals import Observation, noise_of
from nightsweep.analysis.layouts import Residual, blocks_of, fitted

Layout = Sequence[Sequence[tuple[int, int]]]
"""Boots of a config, each with streams and windows of its cells."""

STREAMS = (1, 2, 4, 8, 16)
APART: Layout = [[(streams, 3)] for streams in (1, 8, 16)]


def each_its_own(streams: Sequence[int], n: int) -> Layout:
    return [[(one, 1)] for one in streams for _ in range(n)]


def night(layout: Layout, chance: random.Random, *, scatter: float, boots: float) -> list[list[Observation]]:
    """Return two equal configs, both measured in this layout."""
    sides: list[list[Observation]] = []
    for config in "ab":
        side: list[Observation] = []
        for number, boot in enumerate(layout):
            luck = chance.gauss(0, boots)
            for streams in [streams for streams, n in boot for _ in range(n)]:
                value = 100 * (1 + luck + chance.gauss(0, scatter))
                side.append(Observation(value, config, number, (config, streams), streams, 0.7, draw=-len(side)))
        sides.append(side)
    return sides


@pytest.mark.parametrize(
    "layout",
    [
        each_its_own((1, 8), 2),
        each_its_own((1, 8), 4),
        each_its_own(STREAMS, 2),
        each_its_own(STREAMS, 3),
        each_its_own(STREAMS, 6),
        [*each_its_own(STREAMS, 2), [(1, 2)]],
        [[(1, 3), (16, 1)], [(16, 2)]],
        [[(1, 2), (8, 1)], [(8, 2), (16, 1)], [(16, 2)]],
        [*[[(1, 1), (8, 1)]] * 3, *each_its_own((16,), 3)],
        [*[[(streams, 1) for streams in STREAMS]] * 3, *each_its_own((1,), 3)],
    ],
    ids=[
        *(
            "own boots 2x2",
            "own boots 2x4",
            "own boots 5x2",
            "own boots 5x3",
            "own boots 5x6",
            "own boots and one of two",
        ),
        *("interrupted", "chain", "one cell apart", "crossed and own"),
    ],
)
def test_intervals_hold_the_truth_however_windows_lie_in_boots(layout: Layout) -> None:
    chance, tables = random.Random(20261130), 60
    found: list[Comparison] = []
    wrong = 0
    for _ in range(tables):
        table = compare(*night(layout, chance, scatter=0.05, boots=0.03))
        found += table
        wrong += any(one.verdict in (BETTER, WORSE) for one in table)
    covered = sum(one.low is not None and one.high is not None and one.low <= 1 <= one.high for one in found)
    assert covered / len(found) >= 0.90  # 95%, and what sixty tables tell of it
    assert wrong / tables <= 0.117  # 5% of 60 tables, and two standard errors and a half
    assert all(one.a is not None and one.a.boot_spread_known for one in found)


def test_boots_that_share_no_cell_tell_nothing_of_how_boots_differ() -> None:
    a, b = night(APART, random.Random(1), scatter=0.005, boots=0.05)
    assert noise_of([*a, *b]).between is None
    assert all(one.a is not None and not one.a.boot_spread_known for one in compare(a, b))


def test_a_boot_that_shares_one_cell_with_another_ends_that() -> None:
    a, b = night([*APART[:2], [(16, 3), (8, 1)]], random.Random(1), scatter=0.005, boots=0.05)
    assert noise_of([*a, *b]).between is not None


def residuals(layout: Layout) -> list[Residual]:
    chance = random.Random(2)
    (side, _) = night(layout, chance, scatter=0.05, boots=0.03)
    cells = {cell: [one.value for one in side if one.cell == cell] for cell in {one.cell for one in side}}
    means = {cell: sum(values) / len(values) for cell, values in cells.items()}
    return [
        Residual(
            one.value / means[one.cell] - 1, one.config, one.boot, one.cell, one.streams, 0.7, 0, len(cells[one.cell])
        )
        for one in side
    ]


def test_what_boots_hold_all_cells_is_a_case_of_least_squares() -> None:
    """The short way and the long one agree: the same windows twice, once with a window of a boot that changes nothing."""
    plain = residuals([[(1, 2), (8, 1)]] * 3)
    lone = Residual(0.0, "a", 0, "a cell of one window", 4, 0.7, 0, 1)  # its leverage is 0; it is of no crossed layout
    (short,), (long,) = blocks_of(plain), blocks_of([*plain, lone])
    one, other = fitted(short, float_streams), fitted(long, float_streams)
    assert one is not None
    assert other is not None
    assert other.effects == pytest.approx(one.effects)
    assert (other.squares, other.noise, other.seen) == pytest.approx((one.squares, one.noise, one.seen))
    for kind in one.taken:
        assert other.taken[kind] == pytest.approx(one.taken[kind])
        assert other.lost_once[kind] == pytest.approx(one.lost_once[kind])


def float_streams(kind: tuple[int, float]) -> float:
    return float(kind[0])


def test_a_fit_takes_all_where_every_window_is_of_a_boot_of_its_own() -> None:
    for block in blocks_of(residuals(each_its_own((1, 8), 3))):
        fit = fitted(block, float_streams)
        assert fit is not None
        assert block.free == 0
        assert sum(fit.taken.values()) == pytest.approx(2.0)

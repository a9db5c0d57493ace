"""What windows can tell of boots, by how they lie in them: cells and boots that hang together, and boots' effects in each.

Boots are told apart only where they measured the same cell, so a config falls into blocks: two boots are of one block when a
chain of shared cells leads from one to the other. In a block the boots' effects are fitted beside its cells' means (C. R.
Henderson, Biometrics 9, 1953, method 3; what the fit takes of each class of noise is its leverage). Where every window of a cell
is of a boot of its own, the fit takes all: boots and windows cannot be told apart there.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

Kind = tuple[int, float]
"""Class of window noise: streams and temperature."""


@dataclass(frozen=True)
class Residual:
    """A window's distance from its cell's mean, in ratios of that mean.

    Attributes:
        of: Windows of its cell.
    """

    value: float
    config: Hashable
    boot: int
    cell: Hashable
    streams: int
    temperature: float
    draw: int
    of: int

    @property
    def kind(self) -> Kind:
        """Its class of noise."""
        return self.streams, self.temperature


@dataclass(frozen=True)
class Block:
    """Cells and boots of one config that hang together.

    Attributes:
        cells: Windows of each cell.
        boots: All of them; with one alone, nothing is known of how boots differ.
    """

    config: Hashable
    cells: Sequence[Sequence[Residual]]
    boots: Sequence[int]

    @property
    def free(self) -> int:
        """Degrees of freedom that are left to window noise when cells' means and boots' effects are fitted; 0: none is told."""
        return sum(len(cell) - 1 for cell in self.cells) - len(self.boots) + 1


@dataclass(frozen=True)
class Fit:
    """Boots' effects in one block, by given weights.

    Attributes:
        effects: Of each boot, as a ratio; 0 in the mean.
        squares: Mean square of the effects, weighted as the fit is, times `rank`: variance of boots plus `noise`, times `rank`.
        noise: What window noise brings into one such square, if weights are inverse variances.
        rank: Differences between boots that are told.
        seen: Degrees of freedom of `squares` if all of it were boots: fewer than `rank` where some are told better than others.
        taken: Degrees of freedom that the fit takes from each class of window noise (its leverage).
        lost_once: Of these, what is lost once only to the knowledge of the class's variance, not twice (see `free_of`).
        shares: Of each class in all the weights.
    """

    effects: Mapping[int, float]
    squares: float
    noise: float
    rank: int
    seen: float
    taken: Mapping[Kind, float]
    lost_once: Mapping[Kind, float]
    shares: Mapping[Kind, float]


def blocks_of(data: Sequence[Residual]) -> list[Block]:
    """Return the blocks of all configs, in the order of their first windows."""
    cells: dict[Hashable, list[Residual]] = defaultdict(list)
    for one in data:
        cells[one.cell].append(one)
    joined: dict[tuple[Hashable, int], tuple[Hashable, int]] = {}
    for cell in cells.values():
        first = _root(joined, (cell[0].config, cell[0].boot))
        for one in cell[1:]:
            joined[_root(joined, (one.config, one.boot))] = first
    members: dict[tuple[Hashable, int], list[list[Residual]]] = defaultdict(list)
    for cell in cells.values():
        members[_root(joined, (cell[0].config, cell[0].boot))].append(cell)
    return [
        Block(config, own, tuple(dict.fromkeys(one.boot for cell in own for one in cell)))
        for (config, _), own in members.items()
    ]


def _root(joined: dict[tuple[Hashable, int], tuple[Hashable, int]], boot: tuple[Hashable, int]) -> tuple[Hashable, int]:
    """Return the boot that stands for all that this one hangs together with."""
    while (above := joined.setdefault(boot, boot)) != boot:
        joined[boot] = joined[above]
        boot = above
    return boot


def fitted(block: Block, weight: Callable[[Kind], float]) -> Fit | None:
    """Return the boots' effects of a block; None where it has one boot only.

    Args:
        weight: Of a window of a class: the inverse of its variance.
    """
    if len(block.boots) < 2:
        return None
    sums: dict[int, float] = dict.fromkeys(block.boots, 0.0)
    classes: dict[Kind, float] = defaultdict(float)
    for cell in block.cells:
        own = weight(cell[0].kind)
        for one in cell:
            sums[one.boot] += own * one.value
            classes[one.kind] += own
    total = math.fsum(classes.values())
    shares = {kind: value / total for kind, value in classes.items()}
    counts = [Counter(one.boot for one in cell) for cell in block.cells]
    if all(len(count) == len(block.boots) and len(set(count.values())) == 1 for count in counts):
        return _crossed(sums, total, shares)
    return _least_squares(block, counts, sums, weight, shares)


def _crossed(sums: Mapping[int, float], total: float, shares: Mapping[Kind, float]) -> Fit:
    """Return the fit where all boots have as many windows of each cell as the others: each class tells its share of it."""
    rank, precision = len(sums) - 1, total / len(sums)
    raw = {boot: value / precision for boot, value in sums.items()}
    middle = math.fsum(raw.values()) / len(raw)
    effects = {boot: value - middle for boot, value in raw.items()}
    squares = math.fsum(value * value for value in effects.values())
    taken = {kind: rank * share for kind, share in shares.items()}
    once = {kind: rank * share * share for kind, share in shares.items()}
    return Fit(effects, squares, 1 / precision, rank, float(rank), taken, once, shares)


def _least_squares(
    block: Block,
    counts: Sequence[Mapping[int, int]],
    sums: Mapping[int, float],
    weight: Callable[[Kind], float],
    shares: Mapping[Kind, float],
) -> Fit:
    from nightsweep.analysis.numeric import np

    places = {boot: place for place, boot in enumerate(block.boots)}
    own = {kind: np.zeros((len(places), len(places))) for kind in shares}
    for cell, count in zip(block.cells, counts, strict=True):
        n = np.zeros(len(places))
        for boot, windows in count.items():
            n[places[boot]] = windows
        own[cell[0].kind] += weight(cell[0].kind) * (np.diag(n) - np.outer(n, n) / len(cell))
    whole = sum(own.values(), np.zeros((len(places), len(places))))
    inverse = np.linalg.pinv(whole, hermitian=True)
    right = np.array([sums[boot] for boot in block.boots])
    effects = inverse @ right
    rank, trace = len(places) - 1, float(np.trace(whole))
    leverage = {kind: inverse @ matrix for kind, matrix in own.items()}
    return Fit(
        dict(zip(block.boots, map(float, effects), strict=True)),
        float(right @ effects) * rank / trace,
        rank / trace,
        rank,
        trace * trace / float(np.sum(whole * whole)),
        {kind: float(np.trace(matrix)) for kind, matrix in leverage.items()},
        {kind: float(np.sum(matrix * matrix.T)) for kind, matrix in leverage.items()},
        shares,
    )

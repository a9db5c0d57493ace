"""Acceptance of contenders that drew the same prompts: least squares with blocks.

The logarithm of acceptance has one number for each config (at each temperature, or place) and one for each block of windows that
drew the same prompts, so that what a prompt does to every config falls out of a difference. A window of more streams saw more
prompts, and weighs as much more.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nightsweep.analysis.intervals import Variance
from nightsweep.analysis.racing import Rule, Run
from nightsweep.plan.opening import Place

SINGULAR = 1e-9
"""Below this part of the largest, an eigenvalue is 0: one number of a class's level is free."""


@dataclass(frozen=True)
class Fit:
    """Least squares of the logarithm of acceptance: one number per config and class, one per block of equal prompts.

    Attributes:
        index: Of each config and class in `values` and `information`.
        variance: Of a stream's worth of acceptance, without what its prompts do to every config; infinite where nothing tells it.
        streams: Of each config and class, all its windows together.
        content: Variance, by class, of the level that all configs share: what the prompts drawn do to it. Of differences between
            configs that speculate it falls out; against one that does not it stays.
    """

    index: Mapping[tuple[str, Hashable], int] = field(default_factory=dict)
    values: Sequence[float] = ()
    information: Sequence[Sequence[float]] = ()
    variance: Variance = field(default_factory=lambda: Variance(0.0, 0.0))
    streams: Mapping[tuple[str, Hashable], int] = field(default_factory=dict)
    content: Mapping[Hashable, Variance] = field(default_factory=dict)

    def level(self, config: str, kind: Hashable) -> float:
        """Return the variance of a config's own acceptance, against nothing."""
        return self.variance.value / self.streams[config, kind] + self.content[kind].value


def acceptance(runs: Sequence[Run], rule: Rule) -> Fit:
    """Return the fit of all windows that have an acceptance length."""
    return Squares.of(runs, rule).fit(rule)


@dataclass(frozen=True)
class Squares:
    """The solved least squares. Each window is of one config's class and of one block, so that blocks are eliminated by hand.

    Attributes:
        used: Windows with acceptance; `of_class`, `of_block`, `weights` and `residual` are theirs.
        between: Weight of each class (row) in each block (column); `of_blocks` is the blocks' own.
        information: Of the classes, blocks eliminated.
    """

    used: Sequence[Run]
    index: Mapping[tuple[str, Hashable], int]
    blocks: Mapping[tuple[Place, int], int]
    of_class: Any
    of_block: Any
    weights: Any
    between: Any
    of_blocks: Any
    information: Any
    classes: Any
    effects: Any
    residual: Any
    df: int

    @staticmethod
    def of(runs: Sequence[Run], rule: Rule) -> Squares:
        """Solve for the windows that have an acceptance length."""
        from nightsweep.analysis.numeric import np

        used = [run for run in runs if run.acceptance is not None]
        index: dict[tuple[str, Hashable], int] = {}
        blocks: dict[tuple[Place, int], int] = {}
        i = np.array([index.setdefault((r.config, rule.kind(r.place)), len(index)) for r in used], dtype=int)
        j = np.array([blocks.setdefault((r.place, r.draw), len(blocks)) for r in used], dtype=int)
        values = np.array([math.log(run.acceptance or 1.0) for run in used])
        weights = np.array([float(run.place[0]) for run in used])
        between, of_blocks = np.zeros((len(index), len(blocks))), np.bincount(j, weights)
        np.add.at(between, (i, j), weights)
        lengths, axes = np.linalg.eigh(np.diag(between.sum(axis=1)) - (between / of_blocks) @ between.T)
        kept = lengths > SINGULAR * max(lengths.max(initial=0.0), weights.max(initial=0.0))
        information = (axes[:, kept] / lengths[kept]) @ axes[:, kept].T
        in_blocks = np.bincount(j, weights * values)
        classes = information @ (np.bincount(i, weights * values) - between @ (in_blocks / of_blocks))
        effects = (in_blocks - between.T @ classes) / of_blocks
        residual = values - classes[i] - effects[j]
        df = len(used) - int(kept.sum()) - len(blocks)
        return Squares(
            used, index, blocks, i, j, weights, between, of_blocks, information, classes, effects, residual, df
        )

    def fit(self, rule: Rule) -> Fit:
        """Return what is known of each config's acceptance."""
        if not self.used:
            return Fit()
        variance = float(self.weights @ self.residual**2) / self.df if self.df > 0 else math.inf
        streams: dict[tuple[str, Hashable], int] = defaultdict(int)
        for run in self.used:
            streams[run.config, rule.kind(run.place)] += run.place[0]
        values, content = self.values(rule)
        return Fit(
            self.index,
            values,
            self.information.tolist(),
            Variance(variance, float(self.df)),
            dict(streams),
            content,
        )

    def values(self, rule: Rule, *, without: Run | None = None) -> tuple[list[float], dict[Hashable, Variance]]:
        """Return the classes' values, with the variance of their level; `without` leaves a window out."""
        classes, effects = (self.classes, self.effects) if without is None else self._without(without)
        levels, content = _levels(effects.tolist(), self.blocks, rule)
        return [value + levels[kind] for value, (_, kind) in zip(classes.tolist(), self.index, strict=True)], content

    def _without(self, run: Run) -> tuple[Any, Any]:
        """Return the solution with one window left out; the same where that window alone tells its block or its class.

        Source:
            R. D. Cook, Technometrics 19, 1977: what deleting a row changes, by its leverage.
        """
        row = next((at for at, one in enumerate(self.used) if one is run), None)
        if row is None:
            return self.classes, self.effects
        i, j, weight = self.of_class[row], self.of_block[row], self.weights[row]
        pull = self.information[:, i] - self.information @ self.between[:, j] / self.of_blocks[j]
        pull_blocks = -(self.between.T @ pull) / self.of_blocks
        pull_blocks[j] += 1 / self.of_blocks[j]
        leverage = float(weight * (pull[i] + pull_blocks[j]))
        if leverage > 1 - SINGULAR:
            return self.classes, self.effects
        step = weight * self.residual[row] / (1 - leverage)
        return self.classes - pull * step, self.effects - pull_blocks * step


def _levels(
    effects: Sequence[float], blocks: Mapping[tuple[Place, int], int], rule: Rule
) -> tuple[dict[Hashable, float], dict[Hashable, Variance]]:
    """Return the mean effect of each class's blocks, which belongs to the configs, and how far it scatters with the prompts."""
    members: dict[Hashable, list[tuple[int, float]]] = defaultdict(list)
    for (place, _), at in blocks.items():
        members[rule.kind(place)].append((place[0], effects[at]))
    totals = {kind: sum(streams for streams, _ in group) for kind, group in members.items()}
    means = {
        kind: math.fsum(streams * value for streams, value in group) / totals[kind] for kind, group in members.items()
    }
    df = len(blocks) - len(members)
    squares = math.fsum(
        streams * (value - means[kind]) ** 2 for kind, group in members.items() for streams, value in group
    )
    one = squares / df if df > 0 else math.inf
    return means, {kind: Variance(one / totals[kind], float(df)) for kind in members}

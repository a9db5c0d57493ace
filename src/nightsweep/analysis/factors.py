"""The grid that a set of configs makes: its factors, their levels, and the corners that were not measured."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nightsweep.analysis.differing import flat

Document = Mapping[str, object]
Corner = tuple[int, ...]
"""One level of each factor, by place."""

MOST_MISSING = 12
"""Missing corners that are named."""
MOST_CORNERS = 10_000
"""Corners that are looked through for missing ones."""


@dataclass(frozen=True)
class Factor:
    """A setting that was varied; several settings that always changed together are one factor, and cannot be told apart.

    Attributes:
        keys: Dotted keys of the config document.
        levels: Values by level, in the order of the plan; of each level one value for each key, None where it is absent. The
            first level is what the others are held against.
    """

    keys: tuple[str, ...]
    levels: tuple[tuple[object, ...], ...]

    @property
    def name(self) -> str:
        """The settings as people write them in a grid."""
        return " + ".join(_bare(key) for key in self.keys)

    def label(self, level: int) -> str:
        """Return a level with its settings: "num_speculative_tokens=7"."""
        pairs = zip(self.keys, self.levels[level], strict=True)
        return " + ".join(f"{_bare(key)}={'absent' if value is None else value}" for key, value in pairs)


@dataclass(frozen=True)
class Grid:
    """Configs as corners of a grid.

    Attributes:
        corners: Where each config stands, by fingerprint.
        fixed: Settings that all of them share, by dotted key.
    """

    factors: tuple[Factor, ...]
    corners: Mapping[str, Corner]
    fixed: Mapping[str, object]

    @property
    def missing(self) -> list[Corner]:
        """Corners of the full factorial that no config stands on."""
        have = set(self.corners.values())
        return [corner for corner in itertools.islice(self.all_corners(), MOST_CORNERS) if corner not in have]

    def all_corners(self) -> Iterator[Corner]:
        """Yield every corner of the full factorial."""
        return itertools.product(*(range(len(factor.levels)) for factor in self.factors))

    def described(self, corner: Corner) -> str:
        """Return a corner in words."""
        return ", ".join(factor.label(level) for factor, level in zip(self.factors, corner, strict=True))


def _bare(key: str) -> str:
    return key.removeprefix("speculative.")


def grid_of(configs: Mapping[str, Document]) -> Grid:
    """Return the grid of the configs, given by fingerprint in the order of the plan; factors in the order of their keys."""
    flats = {fingerprint: flat(document) for fingerprint, document in configs.items()}
    keys = list(dict.fromkeys(key for one in flats.values() for key in one))
    columns = {key: tuple(_hashable(one.get(key)) for one in flats.values()) for key in keys}
    moved = {key: _partition(column) for key, column in columns.items() if len(set(column)) > 1}
    together: dict[tuple[int, ...], list[str]] = {}
    for key, partition in moved.items():
        together.setdefault(partition, []).append(key)
    factors, places = [], []
    for partition, same in together.items():
        first = [partition.index(level) for level in range(max(partition) + 1)]
        values = list(flats.values())
        factors.append(Factor(tuple(same), tuple(tuple(values[i].get(key) for key in same) for i in first)))
        places.append(partition)
    corners = {fingerprint: tuple(place[i] for place in places) for i, fingerprint in enumerate(flats)}
    some = next(iter(flats.values()), {})
    return Grid(tuple(factors), corners, {key: value for key, value in some.items() if key not in moved})


def _hashable(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _partition(column: Sequence[str]) -> tuple[int, ...]:
    """Return for each config which distinct value it has, numbered in the order they appear in."""
    numbers: dict[str, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for value in column)


def family_of(configs: Mapping[str, Document]) -> dict[str, Document]:
    """Return the configs that one grid can be made of: the most that share a method of speculation."""
    methods = {fingerprint: _method(document) for fingerprint, document in configs.items()}
    most = max(Counter(methods.values()).items(), key=lambda item: item[1], default=("", 0))[0]
    return {fingerprint: document for fingerprint, document in configs.items() if methods[fingerprint] == most}


def _method(document: Document) -> str:
    settings = document.get("speculative")
    if not isinstance(settings, Mapping):
        return "none"
    return str(settings.get("method") or settings.get("algorithm"))


# --- what would fill it ----------------------------------------------------------------------------------------------


def lines_for(grid: Grid) -> list[str]:
    """Return lines of a sweep file that measure the missing corners: these alone where they make a grid, else the whole one."""
    missing = grid.missing if grid.factors else []
    if not missing:
        return []
    levels = [sorted({corner[i] for corner in missing}) for i in range(len(grid.factors))]
    whole = math.prod(map(len, levels)) != len(missing)
    wanted = [list(range(len(factor.levels))) for factor in grid.factors] if whole else levels
    names = " ".join(f"{{{_grid_key(key)}}}" for factor in grid.factors for key in factor.keys)
    fixed = {
        key.removeprefix("speculative."): value for key, value in grid.fixed.items() if key.startswith("speculative.")
    }
    lines = ["configs:", f'  - name: "{names}"']
    if fixed:
        lines.append(f"    speculative: {_flow(fixed)}")
    lines.append("    grid:")
    for factor, chosen in zip(grid.factors, wanted, strict=True):
        lines += _grid_lines(factor, chosen)
    if whole:
        lines.append(
            "# corners that were measured under equal conditions are taken over by: nightsweep run FILE --reuse"
        )
    return lines


def _grid_lines(factor: Factor, chosen: Sequence[int]) -> Iterator[str]:
    if len(factor.keys) > 1:
        yield f"    # {factor.name} always changed together: to tell them apart, each needs values of its own"
    for place, key in enumerate(factor.keys):
        values = list(dict.fromkeys(_hashable(factor.levels[level][place]) for level in chosen))
        if not _in_a_grid(key):
            yield f"    # {key} cannot stand in a grid: one config for each of {', '.join(values)}"
        elif "null" in values:
            yield f"    # {key} was absent in some configs: write the engine's own default in its place"
            yield f"    # {_grid_key(key)}: [{', '.join(values)}]"
        else:
            yield f"      {_grid_key(key)}: [{', '.join(values)}]"


def _grid_key(key: str) -> str:
    bare = _bare(key)
    return key if bare in ("model", "image") else bare  # without its prefix, `model` is the target's


def _in_a_grid(key: str) -> bool:
    head = key.split(".")[0]
    return head in ("speculative", "args", "env", "image", "model")


def _flow(settings: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key}: {_hashable(value)}" for key, value in settings.items()) + "}"

"""Which windows of many configs answer one question, as `sides.chosen` tells it of two: the rest is left out and said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nightsweep.analysis.differing import Difference, config_differences, differences
from nightsweep.analysis.sides import Documents, Under, expanded, unnamed
from nightsweep.analysis.values import WindowRow


@dataclass(frozen=True)
class LeftOut:
    """Windows of a config that are not of one question with the others.

    Attributes:
        windows: How many.
        differ_in: Names of the conditions by which they differ from those that are kept.
    """

    windows: int
    differ_in: tuple[str, ...]


@dataclass(frozen=True)
class OneQuestion:
    """Windows that answer one question together: of each config those under one set of conditions.

    Attributes:
        left_out: By config's fingerprint; a config may be left out whole.
    """

    rows: tuple[WindowRow, ...]
    left_out: Mapping[str, LeftOut]


def of_one_question(rows: Sequence[WindowRow], *, of: str, against: str, known: Documents) -> OneQuestion:
    """Return the windows that config `of` may be held against the others by.

    Its set of conditions is one that `against`, then as many others as possible were measured under as well; then the one that
    differs least from theirs, then the newest.

    Args:
        rows: Windows that may enter a mean, at least one of `of`.
        of, against: Configs' fingerprints.
    """
    return _Sets(rows, of=of, known=known).one(against=against)


def _under(row: WindowRow) -> Under:
    return row.conditions, row.box, row.simulated


class _Sets:
    """Sets of conditions that windows were measured under; see `of_one_question`."""

    def __init__(self, rows: Sequence[WindowRow], *, of: str, known: Documents) -> None:
        self.rows, self.of = rows, of
        self.newest: dict[str, dict[Under, datetime]] = defaultdict(dict)
        for row in rows:
            own = self.newest[row.config_fingerprint]
            own[_under(row)] = max(row.started, own.get(_under(row), row.started))
        self.documents = {under: expanded(under, known) for own in self.newest.values() for under in own}
        self.named = {
            name: {one.name for one in config_differences(known.configs.get(of, {}), known.configs.get(name, {}))}
            for name in self.newest
        }

    def one(self, *, against: str) -> OneQuestion:
        best = min(self.newest[self.of], key=lambda own: self._rank(own, against=against))
        kept = self._beside(best)
        rows = tuple(row for row in self.rows if _under(row) == kept.get(row.config_fingerprint))
        return OneQuestion(rows, dict(self._left_out(kept, like=best)))

    def _rank(self, own: Under, *, against: str) -> tuple[bool, int, int, float]:
        found = self._beside(own)
        differing = sum(len(self._apart(own, under, name)) for name, under in found.items())
        return against not in found, -len(found), differing, -self.newest[self.of][own].timestamp()

    def _beside(self, own: Under) -> dict[str, Under]:
        """Return under which conditions each config is taken beside these; none for one that was measured otherwise only."""
        found = {self.of: own}
        for name in self.newest.keys() - {self.of}:
            fits = [under for under in self.newest[name] if self._fits(own, under, name)]
            if fits:
                found[name] = min(fits, key=lambda under, name=name: self._far(own, under, name))  # type: ignore[misc]
        return found

    def _far(self, own: Under, under: Under, name: str) -> tuple[int, float]:
        return len(self._apart(own, under, name)), -self.newest[name][under].timestamp()

    def _fits(self, own: Under, under: Under, name: str) -> bool:
        return under[2] == own[2] and not any(one.meaningless for one in self._apart(own, under, name))

    def _apart(self, own: Under, under: Under, name: str) -> list[Difference]:
        return unnamed(differences(self.documents[own], self.documents[under]), self.named[name])

    def _left_out(self, kept: Mapping[str, Under], *, like: Under) -> Iterator[tuple[str, LeftOut]]:
        out: dict[str, list[Under]] = defaultdict(list)
        for row in self.rows:
            if _under(row) != kept.get(row.config_fingerprint):
                out[row.config_fingerprint].append(_under(row))
        for name, unders in out.items():
            names = {one for under in set(unders) for one in self._why(kept.get(name), under, name, like=like)}
            yield name, LeftOut(len(unders), tuple(sorted(names)))

    def _why(self, own: Under | None, under: Under, config: str, *, like: Under) -> list[str]:
        """Return by which conditions windows differ from those of the same config that are kept, else from the question's."""
        if own is not None:
            return [one.name for one in differences(self.documents[own], self.documents[under])]
        return [one.name for one in self._apart(like, under, config) if one.meaningless]

"""Which windows of two configs are compared: those of conditions that both have in common, the newest of them.

Windows of several conditions are never pooled. Simulated numbers are never held against real ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from nightsweep.analysis import text, weights
from nightsweep.analysis.differing import Difference, config_differences, differences, flat
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NotComparable, SeveralConfigs

Document = Mapping[str, object]
Under = tuple[str, str, bool]
"""Conditions' fingerprint, box, simulated."""
Cell = tuple[int, Decimal]
"""Streams and temperature."""

NOT_OF_THE_BOX = ("docker", "memory_bytes")
"""Facts of a box that are no condition."""
OF_THE_CONFIG = {"draft_model": "speculative.model", "draft_revision": "speculative.revision"}
"""Conditions that a setting of the config names already."""
WEIGHTS = "weights"
"""What boots tell of the model that they loaded: in no conditions' document, and a condition all the same."""


@dataclass(frozen=True)
class Documents:
    """What fingerprints stand for."""

    conditions: Mapping[str, Document]
    configs: Mapping[str, Document]
    boxes: Mapping[str, Document]


@dataclass(frozen=True)
class Pool:
    """Windows of one config, under one name and one set of conditions, that may enter a mean: how many, not which.

    Attributes:
        newest: When the last of them started.
        sweeps: Names of the sweeps that they are of.
    """

    config: str
    config_fingerprint: str
    conditions: str
    box: str
    simulated: bool
    windows: int
    newest: datetime
    sweeps: tuple[str, ...]

    @property
    def under(self) -> Under:
        """What its windows were measured under."""
        return self.conditions, self.box, self.simulated


@dataclass(frozen=True)
class Asked:
    """Cells of which one is asked for: those of them that each side has, by what they were measured under."""

    a: Mapping[Under, frozenset[Cell]]
    b: Mapping[Under, frozenset[Cell]]

    def both(self, pair: tuple[Under, Under]) -> bool:
        """Return whether both sides have one of them, the same, under such conditions."""
        return bool(self.a.get(pair[0], frozenset()) & self.b.get(pair[1], frozenset()))

    def either(self, pair: tuple[Under, Under]) -> bool:
        """Return whether a side has one of them under such conditions."""
        return bool(self.a.get(pair[0]) or self.b.get(pair[1]))


@dataclass(frozen=True)
class Chosen:
    """Which windows of a side are compared.

    Attributes:
        names: What the config is called in them.
        left_out, left_out_for: See `Side`.
    """

    names: frozenset[str]
    fingerprint: str
    under: Under
    left_out: int
    left_out_for: tuple[str, ...]

    def holds(self, row: WindowRow) -> bool:
        """Return whether a window is one of them."""
        here = (row.conditions, row.box, row.simulated)
        return here == self.under and row.config_fingerprint == self.fingerprint and row.config in self.names


@dataclass(frozen=True)
class Choice:
    """Which windows of both sides are compared, and all that differs between them."""

    a: Chosen
    b: Chosen
    settings: tuple[Difference, ...]
    conditions: tuple[Difference, ...]


@dataclass(frozen=True)
class Side:
    """One side's windows, all of one config under one set of conditions.

    Attributes:
        left_out: Clean windows of the same config under other conditions.
        left_out_for: Names of the conditions by which those differ.
        weights: The different weights that its boots loaded, GiB; empty where none tells.
    """

    config: str
    fingerprint: str
    conditions: str
    rows: tuple[WindowRow, ...]
    left_out: int
    left_out_for: tuple[str, ...]
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Pairing:
    """Two sides that may be compared, and all that differs between them."""

    a: Side
    b: Side
    settings: tuple[Difference, ...]
    conditions: tuple[Difference, ...]

    @property
    def several(self) -> int:
        """How many things differ by themselves: weights that a setting brings along are that setting's."""
        names = {one.name for one in self.settings}
        brought = sum(one.name == WEIGHTS and weights.brought_by(names) for one in self.conditions)
        return len(self.settings) + len(self.conditions) - brought

    @property
    def kind(self) -> str:
        """Which kind of windows is compared."""
        return self.a.rows[0].kind

    @property
    def simulated(self) -> bool:
        """Whether the numbers are of a simulated engine or box."""
        return self.a.rows[0].simulated  # it is part of what windows are chosen by


def measured(rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return the windows that may enter a mean, each once: clean, of no control's extra boot, with a decode rate."""
    once = {row.window_id: row for row in rows}
    return [row for row in once.values() if not row.flags and not row.control and row.decode_rate is not None]


def pools_of(rows: Sequence[WindowRow]) -> list[Pool]:
    """Return windows counted by what may be pooled, in the order of the windows."""
    found: dict[tuple[str, str, str, str, bool], list[WindowRow]] = defaultdict(list)
    for row in measured(rows):
        found[row.config, row.config_fingerprint, row.conditions, row.box, row.simulated].append(row)
    return [
        Pool(
            *key,
            windows=len(group),
            newest=max(row.started for row in group),
            sweeps=tuple(sorted({row.sweep_name for row in group})),
        )
        for key, group in found.items()
    ]


def one_config(pools: Sequence[Pool], *, wanted: str) -> list[Pool]:
    """Return the pools of the one config that is meant: of configs that fit, those that are called exactly so go first.

    Raises:
        SeveralConfigs: Several are left, with their names, fingerprints, sweeps and run counts.
    """
    meant = [pool for pool in pools if pool.config == wanted] or list(pools)
    found: dict[str, list[Pool]] = defaultdict(list)
    for pool in meant:
        found[pool.config_fingerprint].append(pool)
    if len(found) > 1:
        listing = "\n".join(_listed(fingerprint, group) for fingerprint, group in found.items())
        raise SeveralConfigs(wanted=wanted, count=len(found), listing=listing)
    return meant


def _listed(fingerprint: str, group: Sequence[Pool]) -> str:
    names = " / ".join(sorted({pool.config for pool in group}))
    runs = text.plural(sum(pool.windows for pool in group), "window")
    sweeps = text.several(sorted({name for pool in group for name in pool.sweeps}))
    newest = text.moment(max(pool.newest for pool in group))
    return f"  {text.short(fingerprint)}  {names}  ({runs}, the newest of {newest} UTC; sweeps {sweeps})"


def chosen(
    a: Sequence[Pool], b: Sequence[Pool], *, known: Documents, across: bool = False, asked: Sequence[Asked] = ()
) -> Choice:
    """Return the newest conditions that both have in common; where there are none, those that differ least.

    Args:
        a, b: Pools as `one_config` gives them, at least one each.
        across: Compare also where conditions differ that make two numbers answers to different questions.
        asked: Cells that are asked for: conditions under which both sides have the most of them go first.

    Raises:
        NotComparable: They differ in such a condition, or one side is simulated and the other is not.
    """
    settings = tuple(config_differences(*(known.configs.get(side[0].config_fingerprint, {}) for side in (a, b))))
    named = {one.name for one in settings}
    newest_a, newest_b = _newest(a), _newest(b)
    pairs = [(one, other) for one in newest_a for other in newest_b if one[2] == other[2]]
    if not pairs:
        raise NotComparable(reason="one is simulated and the other is real", remedy="Such are never compared")
    documents = {under: expanded(under, known) for under in {*newest_a, *newest_b}}
    between = {pair: unnamed(differences(documents[pair[0]], documents[pair[1]]), named) for pair in pairs}

    def rank(pair: tuple[Under, Under]) -> tuple[float, ...]:
        found = between[pair]
        newest = min(newest_a[pair[0]], newest_b[pair[1]])
        another = sum(one.meaningless for one in found)
        both, either = sum(one.both(pair) for one in asked), sum(one.either(pair) for one in asked)
        return another > 0 and not across, -both, another, len(found), -either, -newest.timestamp()

    best = min(pairs, key=rank)
    _refuse([one for one in between[best] if one.meaningless], across=across)
    return Choice(_chosen(a, best[0], documents), _chosen(b, best[1], documents), settings, tuple(between[best]))


def paired(
    choice: Choice, a: Sequence[WindowRow], b: Sequence[WindowRow], *, loaded: Mapping[int, float] | None = None
) -> Pairing:
    """Return the two sides of a choice with their windows, at least one each.

    Args:
        loaded: Weights by boot, GiB, of the boots that tell them.

    Raises:
        NotComparable: Both sides have the same windows.
    """
    if {row.window_id for row in a} & {row.window_id for row in b}:
        raise NotComparable(
            reason="both have the same windows", remedy="Name two configs, or one in two sweeps: sweep:NAME/CONFIG"
        )
    one, other = _side(choice.a, a, loaded or {}), _side(choice.b, b, loaded or {})
    return Pairing(one, other, choice.settings, (*choice.conditions, *_weights(one, other)))


def _weights(a: Side, b: Side) -> list[Difference]:
    if not weights.differ(a.weights, b.weights):
        return []
    was, by_now = weights.said(a.weights, b.weights)
    return [Difference(WEIGHTS, was, by_now, False)]


def expanded(key: Under, known: Documents) -> dict[str, object]:
    """Return a document of conditions by dotted key, with the box's own facts in place of its fingerprint."""
    document = dict(known.conditions.get(key[0], {}))
    facts = known.boxes.get(str(document.get("box")))
    if facts is not None:
        document["box"] = {name: value for name, value in facts.items() if name not in NOT_OF_THE_BOX} | {
            "name": key[1]
        }
    elif "box" not in document:
        document["box"] = key[1]
    return {name: value for name, value in flat(document).items() if value is not None and value != []}


def unnamed(found: Sequence[Difference], named: Collection[str]) -> list[Difference]:
    """Return the differences without conditions that are settings of the config, which `named` are, under another name."""
    return [one for one in found if OF_THE_CONFIG.get(one.name) not in named]


def _newest(pools: Sequence[Pool]) -> dict[Under, datetime]:
    """Return when the last window under each set of conditions started."""
    found: dict[Under, datetime] = {}
    for pool in pools:
        found[pool.under] = max(pool.newest, found.get(pool.under, pool.newest))
    return found


def _refuse(found: Sequence[Difference], *, across: bool) -> None:
    if not found or across:
        return
    listed = [f"{one.name} ({brief(one.a)} / {brief(one.b)})" for one in found]
    raise NotComparable(reason=f"they differ in {text.several(listed)}", remedy="Compare all the same with --across")


def brief(value: str) -> str:
    """Return a value short enough for a line; a hash by its beginning."""
    hashed = len(value) >= 64 and all(char in "0123456789abcdef" for char in value.removeprefix("sha256:"))
    return text.short(value) if hashed else text.printable(value)


def _chosen(pools: Sequence[Pool], under: Under, documents: Mapping[Under, Document]) -> Chosen:
    kept = [pool for pool in pools if pool.under == under]
    others = {pool.under for pool in pools} - {under}
    left_out = sum(pool.windows for pool in pools if pool.under != under)
    differing = {one.name for other in others for one in differences(documents[under], documents[other])}
    names = frozenset(pool.config for pool in kept)
    return Chosen(names, kept[0].config_fingerprint, under, left_out, tuple(sorted(differing)))


def _side(chosen: Chosen, rows: Sequence[WindowRow], loaded: Mapping[int, float]) -> Side:
    newest = max(rows, key=lambda row: row.started)
    levels = weights.levels_of(loaded[boot] for boot in {row.boot_id for row in rows} if boot in loaded)
    return Side(
        newest.config, chosen.fingerprint, chosen.under[0], tuple(rows), chosen.left_out, chosen.left_out_for, levels
    )

"""Which windows of two configs are compared: those of conditions that both have in common, the newest of them.

Windows of several conditions are never pooled. Simulated numbers are never held against real ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nightsweep.analysis import text
from nightsweep.analysis.comparing import Difference, config_differences, differences, flat
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NotComparable, SeveralConfigs

Document = Mapping[str, object]

NOT_OF_THE_BOX = ("docker", "memory_bytes")
"""Facts of a box that are no condition."""
OF_THE_CONFIG = {"draft_model": "speculative.model", "draft_revision": "speculative.revision"}
"""Conditions that a setting of the config names already."""


@dataclass(frozen=True)
class Documents:
    """What fingerprints stand for."""

    conditions: Mapping[str, Document]
    configs: Mapping[str, Document]
    boxes: Mapping[str, Document]


@dataclass(frozen=True)
class Side:
    """One side's windows, all of one config under one set of conditions.

    Attributes:
        left_out: Clean windows of the same config under other conditions.
        left_out_for: Names of the conditions by which those differ.
    """

    config: str
    fingerprint: str
    conditions: str
    rows: tuple[WindowRow, ...]
    left_out: int
    left_out_for: tuple[str, ...]


@dataclass(frozen=True)
class Pairing:
    """Two sides that may be compared, and all that differs between them."""

    a: Side
    b: Side
    settings: tuple[Difference, ...]
    conditions: tuple[Difference, ...]

    @property
    def simulated(self) -> bool:
        """Whether the numbers are of a simulated engine or box."""
        return any(row.simulated for row in self.a.rows)


def measured(rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return the windows that may enter a mean, each once: clean, of no control's extra boot, with a decode rate."""
    once = {row.window_id: row for row in rows}
    return [row for row in once.values() if not row.flags and not row.control and row.decode_rate is not None]


def one_config(rows: Sequence[WindowRow], *, wanted: str) -> list[WindowRow]:
    """Return the windows of the one config that is meant: of configs that fit, those that are called exactly so go first.

    Raises:
        SeveralConfigs: Several are left, with their names, fingerprints, sweeps and run counts.
    """
    exact = [row for row in rows if row.config == wanted]
    meant = exact or list(rows)
    found: dict[str, list[WindowRow]] = defaultdict(list)
    for row in meant:
        found[row.config_fingerprint].append(row)
    if len(found) > 1:
        lines = [
            f"  {text.short(fingerprint)}  {' / '.join(sorted({row.config for row in group}))}"
            f"  ({text.plural(len(group), 'window')}; sweeps {text.several(sorted({row.sweep_name for row in group}))})"
            for fingerprint, group in found.items()
        ]
        raise SeveralConfigs(wanted=wanted, count=len(found), listing="\n".join(lines))
    return meant


def paired(a: Sequence[WindowRow], b: Sequence[WindowRow], *, known: Documents, across: bool = False) -> Pairing:
    """Return the newest conditions that both have in common; where there are none, those that differ least.

    Args:
        a, b: Windows as `one_config` gives them, at least one each.
        across: Compare also where conditions differ that make two numbers answers to different questions.

    Raises:
        NotComparable: They differ in such a condition, or one side is simulated and the other is not.
    """
    settings = tuple(config_differences(*(known.configs.get(side[0].config_fingerprint, {}) for side in (a, b))))
    named = {one.name for one in settings}
    sets_a, sets_b = _by_conditions(a), _by_conditions(b)
    pairs = [(one, other) for one in sets_a for other in sets_b if one[2] == other[2]]
    if not pairs:
        raise NotComparable(reason="one is simulated and the other is real", remedy="Such are never compared")
    documents = {key: expanded(key, known) for key in {*sets_a, *sets_b}}
    between = {pair: _unnamed(differences(documents[pair[0]], documents[pair[1]]), named) for pair in pairs}

    def rank(pair: tuple[_Set, _Set]) -> tuple[int, int, float]:
        found = between[pair]
        newest = min(_newest(sets_a[pair[0]]), _newest(sets_b[pair[1]]))
        return sum(one.meaningless for one in found), len(found), -newest.timestamp()

    best = min(pairs, key=rank)
    _refuse([one for one in between[best] if one.meaningless], across=across)
    if {row.window_id for row in sets_a[best[0]]} & {row.window_id for row in sets_b[best[1]]}:
        raise NotComparable(
            reason="both have the same windows", remedy="Name two configs, or one in two sweeps: sweep:NAME/CONFIG"
        )
    return Pairing(
        _side(a, best[0], sets_a, documents),
        _side(b, best[1], sets_b, documents),
        settings,
        tuple(between[best]),
    )


_Set = tuple[str, str, bool]
"""Conditions' fingerprint, box, simulated."""


def expanded(key: _Set, known: Documents) -> dict[str, object]:
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


def _by_conditions(rows: Sequence[WindowRow]) -> dict[_Set, list[WindowRow]]:
    found: dict[_Set, list[WindowRow]] = defaultdict(list)
    for row in rows:
        found[row.conditions, row.box, row.simulated].append(row)
    return found


def _unnamed(found: Sequence[Difference], named: set[str]) -> list[Difference]:
    """Leave out conditions that are settings of the config under another name."""
    return [one for one in found if OF_THE_CONFIG.get(one.name) not in named]


def _newest(rows: Sequence[WindowRow]) -> datetime:
    return max(row.started for row in rows)


def _refuse(found: Sequence[Difference], *, across: bool) -> None:
    if not found or across:
        return
    listed = [f"{one.name} ({brief(one.a)} / {brief(one.b)})" for one in found]
    raise NotComparable(reason=f"they differ in {text.several(listed)}", remedy="Compare all the same with --across")


def brief(value: str) -> str:
    """Return a value short enough for a line; a hash by its beginning."""
    hashed = len(value) >= 64 and all(char in "0123456789abcdef" for char in value.removeprefix("sha256:"))
    return text.short(value) if hashed else text.printable(value)


def _side(
    rows: Sequence[WindowRow],
    chosen: _Set,
    sets: Mapping[_Set, Sequence[WindowRow]],
    documents: Mapping[_Set, Document],
) -> Side:
    others = [key for key in sets if key != chosen]
    names = {one.name for key in others for one in differences(documents[chosen], documents[key])}
    left_out = sum(len(sets[key]) for key in others)
    kept = tuple(sets[chosen])
    newest = max(kept, key=lambda row: row.started)
    return Side(newest.config, newest.config_fingerprint, chosen[0], kept, left_out, tuple(sorted(names)))

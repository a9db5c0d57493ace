"""A decision and what it rests on: the windows, and every condition that was held fixed. What differs by now questions it.

"Seven is too deep" was true of greedy drafting only. A conclusion is kept with the conditions that it is true under, so that a
change of one of them is seen, named, and asked about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from nightsweep.analysis.differing import flat
from nightsweep.analysis.sides import brief
from nightsweep.analysis.traffic import JUDGED, same
from nightsweep.analysis.values import Spread
from nightsweep.analysis.weights import same_weights
from nightsweep.plan.words import DECODE

CONFIG = "config."
PRODUCTION = "production."
WEIGHTS = "weights_gib"
VERSION, DIGEST, IMAGE = "engine_version", "image_digest", "config.image"

DEFAULTS: Mapping[str, str] = {
    "speculative.draft_sample_method": "greedy",
    "speculative.rejection_sample_method": "standard",
}
"""What a setting that is not written means.

Source:
    vLLM config/speculative.py, `SpeculativeConfig`, 0.22 to 0.28.
"""

SAME_QUESTION = ("engine", "model", "speculative.method", "speculative.algorithm")
"""What a newer config must have as the chosen one has it, to be held against the same question."""

STANDING, QUESTIONED, RETIRED = "standing", "questioned", "retired"


@dataclass(frozen=True)
class CellEvidence:
    """A config's windows in one cell.

    Attributes:
        config: Its fingerprint; `name` is what the sweep called it.
        low, high: 95% interval of the mean, None where none can be given.
        stated: Runs that each window stands for, as of `Spread`: an imported one may be a mean of several, or not say.

    Units:
        tokens / second, all streams.
    """

    config: str
    name: str
    concurrency: int
    temperature: Decimal
    windows: tuple[int, ...]
    boots: int
    mean: float
    minimum: float
    maximum: float
    low: float | None = None
    high: float | None = None
    stated: int | None = 1

    @property
    def n(self) -> int:
        """Clean windows."""
        return len(self.windows)

    @property
    def spread(self) -> Spread:
        """The mean as tables have it; how far single windows lie apart is not kept."""
        return Spread(self.n, self.boots, self.mean, self.minimum, self.maximum, None, self.stated)


@dataclass(frozen=True)
class Apart:
    """A setting or condition, by its dotted name, in which choice and fallback differ besides what was decided; in words."""

    name: str
    chosen: str
    fallback: str


@dataclass(frozen=True)
class Evidence:
    """What a decision rests on.

    Attributes:
        configs: Names by fingerprint, in the plan's order, of the configs that the question is among.
        runner_up: Fingerprint of the best of the others; None where there is no other.
        verdicts: How the chosen one stands to the runner-up, the strongest other of each cell and the fallback, in words.
        not_fixed: Conditions that were not the same over all windows, by name, each with its values in words.
        warnings: What a reader must not miss of the choice and the fallback, the gravest first.
        of_runner_up: What must not be missed of the runner-up's own evidence.
        notes: What else is to be known of it.
        rule: How the sweep's own rule decided (`decision_said.ruling`); None of a sweep that has none.
        kind: Of the windows: `decode`, or whole runs of another client.
        unknown: Premises that could not be recorded, in words.
        container: The production container that was looked at; None without one.
        traffic: How the traffic among the premises was counted (`traffic.counted`); None where it is no premise.
        apart: In what choice and fallback differ besides what was decided; empty in decisions kept before that was looked at.
    """

    cells: tuple[CellEvidence, ...]
    configs: Mapping[str, str]
    runner_up: str | None = None
    verdicts: tuple[str, ...] = ()
    not_fixed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    container: str | None = None
    of_runner_up: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rule: Mapping[str, Any] | None = None
    kind: str = DECODE
    traffic: Mapping[str, Any] | None = None
    apart: tuple[Apart, ...] = ()


@dataclass(frozen=True)
class Accepted:
    """A change that a person has looked at: with this value the decision stands."""

    value: Any
    reason: str
    at: datetime


@dataclass(frozen=True)
class Decision:
    """What was chosen, with what it rests on.

    Attributes:
        decision_id: 0 before it is kept.
        factors: Dotted keys of the config document that it is about.
        chosen, fallback: Fingerprints.
        premises: Every condition held fixed, by name: `config.KEY`, `box.KEY`, `production.KEY`, `traffic.KEY`, and the
            conditions' own names.
        retired_why: None while it stands.
    """

    decision_id: int
    sweep_id: int
    sweep_name: str
    box: str
    simulated: bool
    question: str
    factors: tuple[str, ...]
    chosen: str
    chosen_name: str
    fallback: str
    fallback_name: str
    evidence: Evidence
    premises: Mapping[str, Any]
    decided: datetime
    accepted: Mapping[str, Accepted] = field(default_factory=dict)
    retired: datetime | None = None
    retired_why: str | None = None

    @property
    def places(self) -> list[tuple[int, Decimal]]:
        """The cells that it was decided at: (streams, temperature)."""
        return sorted({(cell.concurrency, cell.temperature) for cell in self.evidence.cells})


@dataclass(frozen=True)
class Known:
    """What a premise's value is now, and what says so."""

    value: Any
    source: str


@dataclass(frozen=True)
class Drafting:
    """A config of a newer sweep on the same box, with its settings by dotted key."""

    sweep_id: int
    sweep_name: str
    config: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Now:
    """What holds now, as far as it is known; a premise that is absent here is not judged.

    Attributes:
        newer: Configs of sweeps that came after the decision's, newest sweep first.
        image: The image's reference of the newest boot, for a sweep file.
        production: Settings of the production container; None when it could not be looked at.
        skipped: What was not looked at, and why.
    """

    values: Mapping[str, Known] = field(default_factory=dict)
    newer: tuple[Drafting, ...] = ()
    image: str | None = None
    production: Mapping[str, Any] | None = None
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """A premise that is no longer what it was. None is absent.

    Attributes:
        accepted: Why a person found that the decision stands all the same; None when nobody has.
    """

    name: str
    old: Any
    new: Any
    source: str
    accepted: str | None = None

    @property
    def words(self) -> str:
        """The change as a sentence's part."""
        return f"{self.name}: was {shown(self.old)}, is {shown(self.new)} ({self.source})"


@dataclass(frozen=True)
class Questioned:
    """A decision in force, with the premises that changed and that nobody has accepted: at least one."""

    decision: Decision
    changes: tuple[Change, ...]


def changes(decision: Decision, now: Now, *, chosen_settings: Mapping[str, Any]) -> list[Change]:
    """Return the premises of a decision that differ by now, accepted ones too.

    Args:
        chosen_settings: The chosen config's document by dotted key: production that runs what was chosen departs from nothing.
    """
    found = [
        *_told(decision, now),
        *_drafting(decision, now.newer, chosen=chosen_settings),
        *_production(decision, now.production, chosen=chosen_settings),
    ]
    return [_with_acceptance(change, decision.accepted.get(change.name)) for change in found]


def asked_the_same(newer: Decision, other: Decision) -> bool:
    """Return whether a decision answers all that another one did: the same settings of one model, in all of its cells."""

    def question(one: Decision) -> tuple[Any, ...]:
        fixed = [one.premises.get(CONFIG + key) for key in SAME_QUESTION]
        return (one.box, one.simulated, one.factors, one.evidence.kind, fixed)

    return question(newer) == question(other) and set(other.places) <= set(newer.places)


def state_of(decision: Decision, found: Sequence[Change]) -> str:
    """Return standing | questioned | retired."""
    if decision.retired_why is not None:
        return RETIRED
    return QUESTIONED if any(change.accepted is None for change in found) else STANDING


def shown(value: Any) -> str:
    """Return a premise's value for people."""
    if value is None:
        return "absent"
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    text = brief(text)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _with_acceptance(change: Change, accepted: Accepted | None) -> Change:
    if accepted is None or not same_value(change.name, accepted.value, change.new):
        return change
    return Change(change.name, change.old, change.new, change.source, accepted.reason)


def _told(decision: Decision, now: Now) -> Iterator[Change]:
    for name, known in now.values.items():
        if name in decision.premises and not same_value(name, decision.premises[name], known.value):
            yield Change(name, decision.premises[name], known.value, known.source)


def same_value(name: str, old: Any, new: Any) -> bool:
    """Return whether two values of a premise are the same one: weights and mean lengths within their limits."""
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    if name == WEIGHTS and numbers and old:
        return same_weights(old, new)
    if name in JUDGED and numbers:
        return same(old, new)
    return bool(old == new)


def _drafting(decision: Decision, newer: Sequence[Drafting], *, chosen: Mapping[str, Any]) -> Iterator[Change]:
    """Yield how the drafting rule of newer sweeps departs: of each sweep, its config that departs most."""
    seen: set[str] = set()
    by_sweep: dict[int, list[Drafting]] = {}
    for one in newer:
        by_sweep.setdefault(one.sweep_id, []).append(one)
    for members in by_sweep.values():
        most = max((list(_departures(decision, one, chosen=chosen)) for one in members), key=len)
        for change in most:
            if change.name not in seen:
                seen.add(change.name)
                yield change


def _departures(decision: Decision, other: Drafting, *, chosen: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the speculative settings by which a config departs from what was held fixed; none of another question's."""
    if any(chosen.get(key) != other.settings.get(key) for key in SAME_QUESTION) or not _drafts(chosen):
        return
    fixed = {name.removeprefix(CONFIG): value for name, value in decision.premises.items() if name.startswith(CONFIG)}
    keys = {key for key in (*fixed, *other.settings) if key.startswith("speculative.")}
    for key in sorted(keys - set(decision.factors)):
        old, new = fixed.get(key), other.settings.get(key)
        if meant(key, old) != meant(key, new):
            yield Change(CONFIG + key, old, new, f"{other.config} in sweep {other.sweep_id} {other.sweep_name}")


def _drafts(settings: Mapping[str, Any]) -> bool:
    return any(key.startswith("speculative.") for key in settings)


def meant(key: str, value: Any) -> Any:
    """Return what a setting means: the engine's own default where it is not written."""
    return DEFAULTS.get(key) if value is None else value


def _production(decision: Decision, now: Mapping[str, Any] | None, *, chosen: Mapping[str, Any]) -> Iterator[Change]:
    """Yield how production departs from what ran when it was decided, but for what it has of the chosen config."""
    before = {
        name.removeprefix(PRODUCTION): value for name, value in decision.premises.items() if name.startswith(PRODUCTION)
    }
    if now is None or not before:
        return
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if old != new and meant(key, new) != meant(key, chosen.get(key)):
            yield Change(PRODUCTION + key, old, new, f"container {decision.evidence.container}")


# --- what is held fixed ----------------------------------------------------------------------------------------------

OF_THE_CONFIG = ("config", "engine", "model", "model_revision", "draft_model", "draft_revision")
NOT_COMPARED = (*OF_THE_CONFIG, "software", "box", "not_applied", "page_cache_dropped")
"""Conditions that are no premise of their own: the config says them, or they change no engine, as this program's version."""


def held_fixed(documents: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Return what is equal over all flat documents, and what is not, with each value in words."""
    fixed: dict[str, Any] = {}
    moved: dict[str, tuple[str, ...]] = {}
    for key in dict.fromkeys(key for document in documents for key in document):
        values = [document.get(key) for document in documents]
        if all(value == values[0] for value in values):
            fixed[key] = values[0]
        else:
            moved[key] = tuple(dict.fromkeys(shown(value) for value in values))
    return fixed, moved


def settings_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config's document by dotted key."""
    return {key: value for key, value in flat(document).items() if value is not None}

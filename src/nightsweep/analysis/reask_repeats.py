"""The `repeats` of a sweep that asks a decision again, where its sweep decides by itself (`repeats: {mode: decide}`).

The configs that are asked have other names than those of the decision's sweep, and fewer cells are measured: contenders,
incumbent and objective are written anew, as the decision had them and not as its sweep's file may have them by now.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from nightsweep.analysis.decision_said import objective_said
from nightsweep.analysis.premises import Decision
from nightsweep.plan import names
from nightsweep.plan.model import SweepPlan

Weights = Sequence[tuple[int, Decimal, float]]
"""(streams, temperature, weight) of each place."""

REWRITTEN = ("between", "objective", "incumbent")
MOST_PARTS = 10**6
"""Whole numbers up to this stand for weights that are exactly in their ratios; it is the largest weight that a file may have."""
ROUNDING = 1e-12
"""Ratio within which two shares are the same: they went through a few products and quotients of floats."""

_ALIKE = re.compile(r"at ([\d, ]+) streams and T=([\d., ]+), all alike")
_SHARE = re.compile(r"c=(\d+) T=([\d.]+) ([\d.]+)%")


@dataclass(frozen=True)
class Asked:
    """An entry of the new file's `configs`.

    Attributes:
        origin: Fingerprint of the config of the decision's sweep that it comes from.
        as_it_was: Whether it is written beside the question's own, without what changed.
    """

    entry: Mapping[str, Any]
    origin: str
    as_it_was: bool = False

    @property
    def name(self) -> str:
        """What the config is called once the file is read."""
        return names.filled(self.entry["name"], {})


def repeats_of(
    raw: Any,
    asked: Sequence[Asked],
    *,
    decision: Decision,
    plan: SweepPlan,
    cells: tuple[Collection[int], Collection[Decimal]],
) -> tuple[Any, tuple[str, ...]]:
    """Return the new file's `probe.repeats`, and what is to be said of it.

    Args:
        raw: As the decision's sweep has it; a plain number stays one.
        plan: Of the decision's sweep, by its file as it is now.
        cells: Concurrencies and temperatures that the new file measures.
    """
    if plan.decide is None or not isinstance(raw, Mapping):
        return raw, ()
    repeats = {key: value for key, value in raw.items() if key not in REWRITTEN}
    contending = _contending(asked, _contenders(decision, plan))
    if len(contending) < len(asked):
        repeats["between"] = [one.name for one in contending]
    weights, said = _weights(decision, plan)
    objective, left = _objective(weights, *cells)
    if objective:
        repeats["objective"] = objective
    lines = [] if left else ["Nothing that it was weighed by is asked here: all cells count alike."]
    serving, why = _incumbent(contending, plan)
    if serving is not None:
        repeats["incumbent"] = serving
    return repeats, (*said, *lines, *why)


def _contenders(decision: Decision, plan: SweepPlan) -> set[str]:
    """Return the fingerprints of what was decided between: by the rule that was kept with the decision, else by the file.

    The choice is among them, also where a person took another config than the rule was asked about.
    """
    rule = decision.evidence.rule or {}
    ranked = {str(one["fingerprint"]) for one in rule.get("standings", ())}
    dropped = {config.fingerprint for config in plan.configs if config.name in rule.get("dropped", ())}
    by_file = set() if plan.decide is None else set(plan.decide.between)
    return {*(ranked | dropped if ranked else by_file), decision.chosen}


def _contending(asked: Sequence[Asked], contenders: Collection[str]) -> Sequence[Asked]:
    """Return the new file's contenders: what comes from one; all where only one is left, for one alone decides nothing."""
    found = [one for one in asked if one.origin in contenders]
    return found if len(found) > 1 else asked


def _incumbent(contending: Sequence[Asked], plan: SweepPlan) -> tuple[str | None, list[str]]:
    """Return the name of what serves now: as it was, where that is asked beside what changed; and what is left out."""
    if plan.decide is None or plan.decide.incumbent is None:
        return None, []
    own = [one for one in contending if one.origin == plan.decide.incumbent]
    if own:
        return max(own, key=lambda one: one.as_it_was).name, []
    name = plan.config(plan.decide.incumbent).name
    return None, [f"Left out: the incumbent {name}, which does not contend here."]


# --- objective -------------------------------------------------------------------------------------------------------


def _weights(decision: Decision, plan: SweepPlan) -> tuple[Weights, list[str]]:
    """Return the weights that were decided by, and what is to be said where the file has others by now."""
    own = () if plan.decide is None else plan.decide.weights
    rule = decision.evidence.rule
    if rule is None:
        return own, []
    decided = weights_kept(rule)
    if decided is None:  # decided before weights were kept: the words are all there is
        same, decided = rule["objective"] == objective_said(plan), weights_said(str(rule["objective"]))
    else:
        same = _same_shares(decided, own)
    if same or decided is None:
        return own, []
    return decided, [f"Weighed as it was decided ({rule['objective']}); its sweep's file weighs otherwise by now."]


def weights_kept(rule: Mapping[str, Any]) -> Weights | None:
    """Return the weights that are kept with a decision (`decision_said.ruling`); None of one that has only their words."""
    kept = rule.get("weights")
    return None if kept is None else tuple((int(c), Decimal(str(t)), float(weight)) for c, t, weight in kept)


def _same_shares(one: Weights, other: Weights) -> bool:
    """Return whether both weigh the same places in the same ratios."""
    shares = [{(c, t): weight / math.fsum(w for _, _, w in of) for c, t, weight in of} for of in (one, other)]
    return shares[0].keys() == shares[1].keys() and all(
        math.isclose(share, shares[1][place], rel_tol=ROUNDING) for place, share in shares[0].items()
    )


def weights_said(objective: str) -> Weights | None:
    """Return the weights that an objective's words tell (`decision_said.objective_said`); None of other words.

    Words give shares to 0.1%: the smallest whole numbers that have them stand for what was rounded.
    """
    alike = _ALIKE.search(objective)
    if alike is not None:
        streams, degrees = (part.split(", ") for part in alike.groups())
        return tuple((int(c), Decimal(t), 1.0) for c in streams for t in degrees)
    shares = _SHARE.findall(objective)
    parts = _parts_of([share for _, _, share in shares])
    return tuple((int(c), Decimal(t), part) for (c, t, _), part in zip(shares, parts, strict=True)) or None


def _parts_of(shares: Sequence[str]) -> list[float]:
    """Return the smallest whole numbers that are told as these percentages; the percentages where none up to 1,000 are."""
    told = [float(share) for share in shares]
    for total in range(1, 1001):
        parts = [round(share * total / 100) for share in told]
        if sum(parts) == total and [f"{100 * part / total:.1f}" for part in parts] == list(shares):
            return [float(part) for part in parts]
    return told


def _objective(
    weights: Weights, concurrency: Collection[int], temperature: Collection[Decimal]
) -> tuple[dict[str, dict[Any, Any]], bool]:
    """Return the objective over the cells that are measured, empty where all weigh alike; and whether any weighs something."""
    left = {(c, t): w for c, t, w in weights if c in concurrency and t in temperature and w > 0}
    if not left:
        return {}, False
    most_streams, warmest = max(left, key=lambda place: left[place])  # a place's weight is its two weights' product
    by_key: tuple[tuple[str, dict[Any, float], int], ...] = (
        ("concurrency", {c: w for (c, t), w in left.items() if t == warmest}, len(concurrency)),
        ("temperature", {float(t): w for (c, t), w in left.items() if c == most_streams}, len(temperature)),
    )
    return {key: _in_parts(own) for key, own, places in by_key if len(own) < places or len(set(own.values())) > 1}, True


def _in_parts(weights: Mapping[Any, float]) -> dict[Any, int | float]:
    """Return weights in the same ratios: in the smallest whole numbers, where none has exactly these as they are."""
    largest = max(weights.values())
    ratios = {key: Fraction(weight / largest).limit_denominator(MOST_PARTS) for key, weight in weights.items()}
    scale = math.lcm(*(ratio.denominator for ratio in ratios.values()))
    exact = all(math.isclose(ratio, weights[key] / largest, rel_tol=ROUNDING) for key, ratio in ratios.items())
    if scale > MOST_PARTS or not exact:
        return dict(weights) if largest <= MOST_PARTS else {key: weight / largest for key, weight in weights.items()}
    return {key: int(ratio * scale) for key, ratio in ratios.items()}

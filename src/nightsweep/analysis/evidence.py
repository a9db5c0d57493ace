"""From a sweep's windows to a decision: which question it answers, on what evidence, under which premises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.grounds import Choice as Choice
from nightsweep.analysis.grounds import Material as Material
from nightsweep.analysis.grounds import evidence_of, is_premise, one_each, refuse
from nightsweep.analysis.one_question import OneQuestion, of_one_question
from nightsweep.analysis.premises import CONFIG, PRODUCTION, WEIGHTS, Decision, held_fixed, settings_of
from nightsweep.analysis.sides import expanded, measured
from nightsweep.analysis.traffic import premises_of
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NothingToDecide


def decide(choice: Choice, material: Material, *, at: datetime) -> Decision:
    """Return the decision with its evidence and premises.

    Raises:
        NothingToDecide: The fallback is the choice; one of the two has nothing to serve with or to be chosen by; or there is no
            other config to choose it from.
    """
    clean = measured(material.windows)
    refuse(choice, material, clean)
    kept = of_one_question(clean, of=choice.chosen, against=choice.fallback, known=material.documents)
    names = {row.config_fingerprint: row.config for row in kept.rows}
    settings = {name: settings_of(material.documents.configs.get(name, {})) for name in names}
    among = _among(choice, settings)
    if among == [choice.chosen]:
        raise NothingToDecide(sweep=material.sweep.name, reason=_alone(kept))
    factors = tuple(held_fixed([settings[name] for name in among])[1])
    evidence = evidence_of(choice, material, kept, among)
    names = {**{boot.config_fingerprint: boot.config for boot in material.boots}, **names}
    return Decision(
        decision_id=0,
        sweep_id=material.sweep.sweep_id,
        sweep_name=material.sweep.name,
        box=material.sweep.box,
        simulated=material.sweep.simulated,
        question=choice.question or _question(factors, choice.chosen, among, settings),
        factors=factors,
        chosen=choice.chosen,
        chosen_name=names[choice.chosen],
        fallback=choice.fallback,
        fallback_name=names.get(choice.fallback, choice.fallback[:12]),
        evidence=evidence,
        premises=_premises(choice, material, kept.rows, among, settings),
        decided=at,
    )


def _alone(kept: OneQuestion) -> str:
    """Return why there is nothing to choose from."""
    differ = sorted({name for one in kept.left_out.values() for name in one.differ_in})
    if differ:
        return (
            f"every other config was measured under conditions that make it another question ({text.several(differ)})"
        )
    return "there is no other config with a clean window in these cells"


def _among(choice: Choice, settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the configs that the question is among: those that were named, else those that draft as the chosen one does, where
    there are several.
    """
    if choice.among:
        return [name for name in settings if name in choice.among or name == choice.chosen]
    same = [name for name in settings if _method(settings[name]) == _method(settings[choice.chosen])]
    return same if len(same) > 1 else list(settings)


def _method(settings: Mapping[str, Any]) -> Any:
    return settings.get("speculative.method", settings.get("speculative.algorithm"))


def _question(
    factors: Sequence[str], chosen: str, among: Sequence[str], settings: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the question in words: `num_speculative_tokens: 4, 5 or 7 (5 chosen)`."""
    parts = []
    for key in factors:
        values = sorted({str(settings[name].get(key, "absent")) for name in among}, key=lambda one: (len(one), one))
        listed = " or ".join(", ".join(some) for some in (values[:-1], values[-1:]) if some)
        parts.append(f"{key.removeprefix('speculative.')}: {listed} ({settings[chosen].get(key, 'absent')} chosen)")
    return "; ".join(parts)


# --- premises --------------------------------------------------------------------------------------------------------


def _premises(
    choice: Choice,
    material: Material,
    rows: Sequence[WindowRow],
    among: Sequence[str],
    settings: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    of_config, _ = held_fixed([settings[name] for name in among])
    evidence = [row for row in one_each(rows) if row.config_fingerprint in among]
    conditions = [expanded((row.conditions, row.box, row.simulated), material.documents) for row in evidence]
    of_conditions, _ = held_fixed(conditions)
    weights = {
        round(boot.weights, 2)
        for boot in material.boots
        if boot.config_fingerprint == choice.chosen and boot.weights is not None
    }
    found = {CONFIG + key: value for key, value in of_config.items()}
    found |= {name: value for name, value in of_conditions.items() if value is not None and is_premise(name)}
    if len(weights) == 1:
        found[WEIGHTS] = weights.pop()
    found |= {PRODUCTION + key: value for key, value in material.production.items()}
    return found | ({} if material.traffic is None else premises_of(material.traffic.traffic))

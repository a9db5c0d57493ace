"""Reads `repeats: {mode: decide, ...}`: between which configs, by what objective, and how much may be spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from nightsweep.plan import quantities
from nightsweep.plan.expect import matching
from nightsweep.plan.mistakes import Mistake, Path, Refused, nearest, shown
from nightsweep.plan.model import DecideSpec, EngineConfig, ProbeSpec
from nightsweep.plan.schema import DecideIn
from nightsweep.plan.sections import checked
from nightsweep.plan.yamltree import scalar

REPEATS: Path = ("probe", "repeats")
MOST = 100
"""Windows of one config at one place at most: more tell nothing that a night is worth."""
MOST_NAMED = 5
SCHEDULED_LENGTHS = "per_batch_size"
"""In the name of a speculative setting: draft lengths that go with the batch, so that acceptance goes with the concurrency."""


def split_repeats(raw: Any, mistakes: list[Mistake]) -> tuple[DecideIn | None, Any]:
    """Return the decision that the probe's `repeats` asks for (None for a plain number) and the probe without it.

    What is wrong with it by itself is added to `mistakes`.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("repeats"), dict):
        return None, raw
    section, found = checked(DecideIn, raw["repeats"], path=REPEATS, stand_ins={"mode": "decide"})
    mistakes += found
    if raw.get("boots") not in (None, 1):
        remedy = "Leave it out: a decision makes its own boots, one for each round that a config is in."
        mistakes.append(Mistake(("probe", "boots"), shown(raw["boots"]), "1 beside `mode: decide`", remedy))
    return section, {**raw, "repeats": 1, "boots": 1}


def decide_of(
    section: DecideIn | None, configs: Sequence[EngineConfig], probe: ProbeSpec, mistakes: list[Mistake]
) -> DecideSpec | None:
    """Return what is to be decided; what is wrong with it is added to `mistakes`."""
    if section is None:
        return None
    known = len(mistakes)
    between = _between(section.between, configs, mistakes)
    incumbent = _incumbent(section.incumbent, between, configs, mistakes)
    weights = _weights(section, probe, mistakes)
    if section.max > MOST:
        mistakes.append(
            Mistake(
                (*REPEATS, "max"),
                str(section.max),
                f"at most {MOST}",
                "Few decisions need more than 12 windows of a cell.",
            )
        )
    if len(mistakes) > known:
        return None
    return DecideSpec(
        between=tuple(config.fingerprint for config in between),
        weights=weights,
        most=section.max,
        incumbent=incumbent,
        pooled=_alike(between) if section.pooled is None else section.pooled,
    )


def _alike(between: Sequence[EngineConfig]) -> bool:
    """Return whether acceptance may be taken to be the same at every concurrency, until the data contradict it."""
    return not any(SCHEDULED_LENGTHS in key for config in between for key in config.speculative or ())


def _between(
    patterns: Sequence[str], configs: Sequence[EngineConfig], mistakes: list[Mistake]
) -> tuple[EngineConfig, ...]:
    chosen: set[str] = set()
    path = (*REPEATS, "between")
    for index, pattern in enumerate(patterns):
        found = matching(pattern, configs)
        if not found:
            mistakes.append(_unknown(pattern, configs, path=(*path, index)))
        chosen |= {config.fingerprint for config in found}
    between = tuple(config for config in configs if config.fingerprint in chosen)
    if len(between) == 1 or len(configs) == 1:
        found_one = f"one config ({shown(configs[0].name if len(configs) == 1 else between[0].name)})"
        remedy = "Name another, or leave `between` out for all; one config alone is measured by a plain `repeats: 3`."
        mistakes.append(Mistake(path, found_one, "two configs or more", remedy))
    return between


def _incumbent(
    name: str | None, between: Sequence[EngineConfig], configs: Sequence[EngineConfig], mistakes: list[Mistake]
) -> str | None:
    if name is None:
        return None
    path = (*REPEATS, "incumbent")
    found = next((config for config in configs if config.name == name), None)
    if found is None:
        mistakes.append(_unknown(name, configs, path=path, pattern=False))
        return None
    if found not in between:
        remedy = "Add it to `between`: what serves now is held against the others."
        mistakes.append(Mistake(path, f"{shown(name)}, which is no contender", "one of `between`", remedy))
    return found.fingerprint


def _unknown(name: str, configs: Sequence[EngineConfig], *, path: Path, pattern: bool = True) -> Mistake:
    names = tuple(config.name for config in configs)
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    words = "the name of a config, or a pattern of names" if pattern else "the name of a config"
    return Mistake(path, shown(name), f"{words}: {', '.join(names[:MOST_NAMED])}{more}", nearest(name, names))


def _weights(section: DecideIn, probe: ProbeSpec, mistakes: list[Mistake]) -> tuple[tuple[int, Decimal, float], ...]:
    streams = _of_key(section.objective.concurrency, probe.concurrency, "concurrency", mistakes)
    degrees = _of_key(section.objective.temperature, probe.temperature, "temperature", mistakes)
    found = ((c, t, streams[c] * degrees[t]) for c in probe.concurrency for t in probe.temperature)
    return tuple(one for one in found if one[2] > 0)


def _of_key(
    given: Mapping[str, float] | None, there: Sequence[Any], key: str, mistakes: list[Mistake]
) -> dict[Any, float]:
    """Return the weight of each value that the probe has: equal ones where the file says nothing, else 0 for those not named."""
    if given is None:
        return dict.fromkeys(there, 1.0)
    path = (*REPEATS, "objective", key)
    weights = dict.fromkeys(there, 0.0)
    for word, weight in given.items():
        value = _value(word, key)
        if value in weights:
            weights[value] = weight
        else:
            allowed = f"a {key} that is measured: {', '.join(map(str, there))}"
            mistakes.append(Mistake((*path, word), shown(word), allowed, f"Add it to `probe.{key}`, or drop it here."))
    if not any(weights.values()) and all(_value(word, key) in weights for word in given):
        mistakes.append(Mistake(path, "weights that are all 0", "one above 0", "Leave it out for equal weights."))
    return weights


def _value(word: str, key: str) -> Any:
    read = quantities.whole(least=1) if key == "concurrency" else quantities.temperature
    try:
        return read(scalar(word, plain=True))
    except Refused:
        return None

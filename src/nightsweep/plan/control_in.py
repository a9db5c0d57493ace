"""Reads `control`: the config that is booted again through the night."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nightsweep.plan.mistakes import Mistake, nearest, shown
from nightsweep.plan.model import ControlSpec, EngineConfig
from nightsweep.plan.schema import ControlIn
from nightsweep.plan.sections import checked

MOST_NAMED = 5


def control_of(raw: Any, configs: Sequence[EngineConfig], mistakes: list[Mistake]) -> ControlSpec | None:
    """Return the control that the file names; what is wrong with it is added to `mistakes`.

    Args:
        raw: A config's name, as its template makes it, or `{config: NAME, every: BOOTS}`.
    """
    if raw is None:
        return None
    section, found = checked(ControlIn, {"config": raw} if isinstance(raw, str) else raw, path=("control",))
    mistakes += found
    if section is None or found:
        return None
    config = next((config for config in configs if config.name == section.config), None)
    if config is None:
        mistakes.append(
            _unknown(section.config, configs, path=("control",) if isinstance(raw, str) else ("control", "config"))
        )
        return None
    return ControlSpec(config=config.fingerprint, every=section.every)


def _unknown(name: str, configs: Sequence[EngineConfig], *, path: tuple[str, ...]) -> Mistake:
    names = tuple(config.name for config in configs)
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    allowed = f"the name of a config: {', '.join(names[:MOST_NAMED])}{more}"
    return Mistake(path, shown(name), allowed, nearest(name, names))

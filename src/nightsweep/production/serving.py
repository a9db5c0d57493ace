"""What a production container serves, as settings by dotted key: comparable with an engine config's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightsweep.errors import InvalidPlan
from nightsweep.plan.commandline import read_command
from nightsweep.ports import ForeignContainer, Secret


def served_settings(found: ForeignContainer) -> dict[str, Any]:
    """Return image, model, arguments and speculative settings; without secrets. A command that cannot be read is kept whole."""
    settings: dict[str, Any] = {"image": found.image}
    plain = {name: value for name, value in found.env.items() if not isinstance(value, Secret)}
    entrypoint = found.shown_entrypoint or found.entrypoint
    try:
        served = read_command(
            entrypoint=entrypoint, command=found.shown_command or found.command, env=plain, image=found.image
        )
    except InvalidPlan:
        return settings | {"command": list(found.shown_command)}
    settings |= {"model": served.model, "model_revision": served.model_revision}
    settings |= _dotted("args", served.args) | _dotted("speculative", served.speculative)
    return {key: value for key, value in settings.items() if value is not None}


def _dotted(head: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{head}.{name}": value for name, value in settings.items()}

"""Names of configs: templates over the settings that make a config (`dflash k={num_speculative_tokens}`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from nightsweep.plan.mistakes import Refused, nearest
from nightsweep.plan.settings_in import grid_key

_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|([{}])")


def placeholders(template: str) -> tuple[str, ...]:
    """Return the keys that a template takes, in their one spelling.

    Raises:
        Refused: A brace that opens or closes nothing.
    """
    keys: list[str] = []
    for part in _PART.finditer(template):
        if part[2]:
            remedy = "Write {{ or }} for a brace itself."
            raise Refused("{key} placeholders", found=f"a lone `{part[2]}`", remedy=remedy)
        if part[1] is not None:
            keys.append(_key(part[1]))
    return tuple(keys)


def check(template: str, *, known: Iterable[str]) -> None:
    """Refuse a template that takes a key which is not there."""
    listed = sorted(known)
    for key in placeholders(template):
        if key not in listed:
            allowed = "placeholders for " + (
                ", ".join(f"{{{one}}}" for one in listed) or "settings; there are none here"
            )
            raise Refused(allowed, found=f"the placeholder {{{key}}}", remedy=nearest(key, listed))


def filled(template: str, settings: Mapping[str, Any]) -> str:
    """Return the name for these settings; `check` has said that all keys are there."""

    def one(part: re.Match[str]) -> str:
        if part[1] is None:
            return part[0][0]
        return _text(settings.get(_key(part[1])))

    return _PART.sub(one, template) if "{" in template or "}" in template else template


def _key(written: str) -> str:
    try:
        return grid_key(written.strip())
    except Refused:
        return written.strip()


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

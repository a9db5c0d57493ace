"""Checks one section of a sweep file against its model, and tells what pydantic found in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from nightsweep.plan.mistakes import Mistake, Path, Refused, SeveralRefused, nearest, shown
from nightsweep.plan.schema import NOT_YET, SECTIONS, TOP_KEYS, Section

S = TypeVar("S", bound=Section)

_NESTED = frozenset(name.rpartition(".")[2] for name in SECTIONS if "." in name)
_EXAMPLES = {
    "kind": "kind: vllm",
    "name": "name: my-sweep",
    "container": "container: NAME",
    "concurrency": "concurrency: [1, 2, 4, 8]",
    "temperature": "temperature: [0.7]",
    "tokens": "tokens: 12000",
    "mode": "mode: decide",
}


def checked(
    model: type[S], raw: Any, *, path: Path, stand_ins: Mapping[str, Any] | None = None
) -> tuple[S | None, list[Mistake]]:
    """Return a section's values and its mistakes.

    With mistakes, the values are what is left without the keys at fault, `stand_ins` taking the place of required ones: good
    enough to look for further mistakes elsewhere, and None when even that does not hold.
    """
    if not isinstance(raw, dict):
        return None, [Mistake(path, shown(raw), f"a mapping with the keys {_keys(model)}")]
    present = _without_nulls(raw, model)
    try:
        return model.model_validate(present), []
    except ValidationError as error:
        found = error.errors(include_url=False)
    mistakes = [mistake for one in found for mistake in _told(one, model=model, path=path)]
    at_fault = {one["loc"][0] for one in found}
    rest = {key: value for key, value in present.items() if key not in at_fault}
    try:
        return model.model_validate({**(stand_ins or {}), **rest}), mistakes
    except ValidationError:
        return None, mistakes


def unknown_key(key: str, *, known: tuple[str, ...], path: Path) -> Mistake:
    """Return the mistake of an unknown key: the nearest known one, the section it belongs to, or that it is for later."""
    allowed = ", ".join(known)
    place = ".".join([*(str(step) for step in path if isinstance(step, str)), key])
    if place in NOT_YET:
        remedy = f"{NOT_YET[place]} (`{key}`) is not supported by this version; leave it out."
        return Mistake((*path, key), "a key of a later version", allowed, remedy)
    homes = [name for name, section in SECTIONS.items() if key in section.model_fields]
    if path == () and key not in known and homes:
        return Mistake((*path, key), "a key in the wrong place", allowed, f"It belongs under `{homes[0]}`.")
    remedy = nearest(key, known)
    if not remedy and homes and homes[0] != place.rpartition(".")[0]:
        remedy = f"It belongs under `{homes[0]}`."
    return Mistake((*path, key), "an unknown key", allowed, remedy)


def unknown_top_keys(raw: Mapping[str, Any]) -> list[Mistake]:
    """Return mistakes for keys at the top of the file; `x-...` keys may hold anchors and are free."""
    return [
        unknown_key(key, known=TOP_KEYS, path=()) for key in raw if key not in TOP_KEYS and not key.startswith("x-")
    ]


def refused_at(path: Path, value: Any, refused: Refused) -> list[Mistake]:
    """Return the mistakes of a refused value, one for each member that was refused."""
    if isinstance(refused, SeveralRefused):
        return [
            Mistake((*path, *below), one.found or shown(found), one.allowed, one.remedy)
            for below, found, one in refused.parts
        ]
    return [Mistake(path, refused.found or shown(value), refused.allowed, refused.remedy)]


def _keys(model: type[Section]) -> str:
    return ", ".join(model.model_fields)


def _without_nulls(raw: Mapping[str, Any], model: type[Section]) -> dict[str, Any]:
    """An empty key (`until:`) is an absent one; inside args, env and grid a null means something and stays."""
    out: dict[str, Any] = {}
    for key, value in raw.items():
        if value is None and key in model.model_fields:
            continue
        deeper = key in _NESTED and isinstance(value, dict)
        out[key] = {k: v for k, v in value.items() if v is not None} if deeper else value
    return out


def _told(error: Any, *, model: type[Section], path: Path) -> list[Mistake]:
    where = (*path, *error["loc"])
    kind = error["type"]
    owner = _owner(model, error["loc"])
    if kind == "extra_forbidden":
        return [unknown_key(str(error["loc"][-1]), known=tuple(owner.model_fields), path=where[:-1])]
    if kind == "missing":
        key = str(error["loc"][-1])
        return [
            Mistake(where, "nothing", "a value; the key is required", f"Add `{_EXAMPLES.get(key, f'{key}: ...')}`.")
        ]
    refused = error.get("ctx", {}).get("error")
    if isinstance(refused, Refused):
        return refused_at(where, error["input"], refused)
    inner = _owner(model, (*error["loc"], ""))
    return [Mistake(where, shown(error["input"]), f"a mapping with the keys {_keys(inner)}")]


def _owner(model: type[Section], loc: tuple[Any, ...]) -> type[Section]:
    """Return the model that holds the last step of `loc`."""
    for step in loc[:-1]:
        nested = SECTIONS.get(f"{_name(model)}.{step}") or SECTIONS.get(f"engine.{step}")
        model = nested or model
    return model


def _name(model: type[Section]) -> str:
    return next((name for name, section in SECTIONS.items() if section is model), "")

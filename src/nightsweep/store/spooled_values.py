"""Values of the store's writes as JSON and back, exactly: what is stored of them later must have the same hash as now.

Objects are told by name, and only our own frozen values can come back: a file of the spool is data, never code.
"""

from __future__ import annotations

import base64
import dataclasses
import inspect
import math
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from nightsweep import ports
from nightsweep.engine import values as engine_values
from nightsweep.measurement import boxstate
from nightsweep.measurement import values as measurement_values
from nightsweep.plan import model
from nightsweep.ports import Secret
from nightsweep.store.codec import plain

MARK = "~"
"""Key of an object that stands for something that JSON has not."""
HELD = "v"


def _known() -> dict[str, type[Any]]:
    modules = (ports, engine_values, measurement_values, boxstate, model)
    return {
        name: kind
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if dataclasses.is_dataclass(kind)
    }


KNOWN = _known()

_WORDS: Mapping[type[Any], tuple[str, Callable[[Any], str]]] = {
    datetime: ("time", datetime.isoformat),
    Decimal: ("decimal", str),
    uuid.UUID: ("uuid", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode("ascii")),
}
_READ: Mapping[str, Callable[[Any], Any]] = {
    "time": datetime.fromisoformat,
    "decimal": Decimal,
    "uuid": uuid.UUID,
    "bytes": base64.b64decode,
    "float": float,
    "tuple": lambda members: tuple(map(read_back, members)),
    "map": lambda pairs: {read_back(key): read_back(member) for key, member in pairs},
}


def written(value: Any) -> Any:
    """Return the value as JSON knows it. A secret is `***`; what is none of ours is as the database would have held it."""
    if isinstance(value, Secret):
        return "***"
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _as("float", str(value))
    if isinstance(value, list):
        return [written(member) for member in value]
    if isinstance(value, tuple):
        return _as("tuple", [written(member) for member in value])
    if isinstance(value, Mapping):
        return _as("map", [[written(key), written(member)] for key, member in value.items()])
    return _object(value)


def _object(value: Any) -> Any:
    if KNOWN.get(type(value).__name__) is type(value):
        held = {field.name: written(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return _as(type(value).__name__, held)
    word = _WORDS.get(type(value))
    return written(plain(value)) if word is None else _as(word[0], word[1](value))


def _as(word: str, held: Any) -> dict[str, Any]:
    return {MARK: word, HELD: held}


def read_back(value: Any) -> Any:
    """Return what `written` was given.

    Raises:
        ValueError: An object of a name that is not ours.
        TypeError: An object with a field that this program does not know.
    """
    if isinstance(value, list):
        return [read_back(member) for member in value]
    if not isinstance(value, dict):
        return value
    word, held = value[MARK], value[HELD]
    if word in _READ:
        return _READ[word](held)
    if word not in KNOWN:
        raise ValueError(f"{word!r} is no value of ours")
    return KNOWN[word](**{name: read_back(member) for name, member in held.items()})

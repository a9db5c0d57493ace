"""A plan out of the document that was stored of it: what `plain` made of the dataclasses, made into them again.

Reading the sweep file again brings all its checks along, which a command that only shows a sweep need not wait for.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

from nightsweep.plan.model import SweepPlan

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, InvalidOperation)


def plan_in(document: Mapping[str, Any]) -> SweepPlan | None:
    """Return the stored plan; None where the document is of another program, or of none.

    What the document lacks (an older program knew less) has its default; what this program does not know makes it unreadable.
    """
    try:
        found = _made(SweepPlan, document)
    except _UNREADABLE:
        return None
    return found if isinstance(found, SweepPlan) and found.configs else None


def _made(kind: Any, value: Any) -> Any:
    """Return a value of JSON as one of this type (raises one of `_UNREADABLE`)."""
    if isinstance(kind, NewType):
        kind = kind.__supertype__
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else _made(_arm(inner, value), value)
    if origin is tuple:
        return _tuple_made(inner, value)
    if origin is Mapping:
        return {key: _made(inner[1], member) for key, member in value.items()}
    if is_dataclass(kind):
        return _dataclass_made(kind, value)
    if kind in (Decimal, float):
        return kind(value)
    if kind is not Any and not isinstance(value, kind):
        raise TypeError(f"no {kind}: {value!r}")
    return value


def _tuple_made(inner: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"no list: {value!r}")
    of_each = inner[:1] * len(value) if inner[1:] == (Ellipsis,) else inner
    return tuple(_made(one, member) for one, member in zip(of_each, value, strict=True))


def _dataclass_made(kind: Any, value: Mapping[str, Any]) -> Any:
    types_of = _types_of(kind)
    return kind(**{name: _made(types_of[name], member) for name, member in value.items()})


def _arm(arms: tuple[Any, ...], value: Any) -> Any:
    """Return the type among several that an object of JSON is of: a dataclass, or what else there is."""
    of_objects = [arm for arm in arms if is_dataclass(arm)]
    others = [arm for arm in arms if arm is not type(None) and arm not in of_objects]
    return of_objects[0] if of_objects and (isinstance(value, Mapping) or not others) else others[0]


@functools.cache
def _types_of(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}

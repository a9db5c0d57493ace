"""Filters of the reading side, as SQL. Every value is a bound parameter."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from nightsweep.analysis.values import Filters
from nightsweep.errors import BadFilter, PlanError
from nightsweep.store.schema import boots, boxes, cells, conditions, configs, images, sweep_configs, sweeps

Clause = sa.ColumnElement[bool]
Comparison = Callable[[Any, Any], Any]

_ORDERS: dict[str, Comparison] = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
OPERATORS = ("=", "!=", *_ORDERS)


class UnknownOperator(PlanError):
    """A filter compares in a way that there is not."""

    summary = "unknown comparison {operator!r}: use one of {known}"


_FINGERPRINT = re.compile("^[0-9a-f]{6,64}$")
TOP = frozenset(("engine", "image", "command", "model_revision", "secrets", "args", "env", "container", "speculative"))
"""Bare keys that are the config document's own, and no speculative setting's."""
WHOLE = "config"
"""First part of a key that starts at the document's top whatever it is called: "config.model"."""


def of_config(filters: Filters, *, by_content: bool = False) -> Iterator[Clause]:
    """Yield what a row's config (joined: configs, sweep_configs) must fulfil.

    Args:
        by_content: A name finds the config itself, under whatever name other sweeps have it (joined: configs alone).
    """
    if filters.config is not None:
        named = matches(sweep_configs.c.name, filters.config)
        if by_content:
            called = sweep_configs.alias("called")
            named = configs.c.id.in_(sa.select(called.c.config_id).where(matches(called.c.name, filters.config)))
        # Only where it may be one: with the second way in, no index finds a name.
        begins = configs.c.hash.startswith(filters.config, autoescape=True)
        yield sa.or_(named, begins) if _FINGERPRINT.match(filters.config) else named
    for key, comparison, value in filters.where:
        yield where(key, comparison, value)


def of_place(filters: Filters) -> Iterator[Clause]:
    """Yield what sweep, box and boot's image (joined: sweeps, boxes, boots) must fulfil."""
    if filters.sweep is not None:
        yield sweeps.c.id == filters.sweep
    if filters.box is not None:
        yield matches(boxes.c.name, filters.box)
    if filters.image is not None:
        yield _image_named(filters.image)


def of_time(filters: Filters, column: sa.Column[Any]) -> Iterator[Clause]:
    """Yield what the moment that a row is of must fulfil: from `since` on, and before `before`."""
    if filters.since is not None:
        yield column >= filters.since
    if filters.before is not None:
        yield column < filters.before


def of_source(filters: Filters, source: sa.ColumnElement[Any]) -> Iterator[Clause]:
    """Yield what a row's source must fulfil: it is NULL of what was measured here."""
    if filters.imported is not None:
        yield source.is_not(None) if filters.imported else source.is_(None)


def _image_named(pattern: str) -> Clause:
    """Return whether a boot's image is called so; of an imported one, which has none, what its config says."""
    names = sa.func.unnest(images.c.refs).table_valued("ref").render_derived()
    listed = images.join(names, sa.true())
    found = sa.select(1).select_from(listed).where(images.c.id == boots.c.image_id, matches(names.c.ref, pattern))
    said = sa.and_(boots.c.image_id.is_(None), matches(configs.c.doc[("image",)].astext, pattern))
    return sa.or_(sa.exists(found.correlate(boots)), said)


def of_conditions(filters: Filters) -> Iterator[Clause]:
    """Yield what a row's conditions (joined: conditions) must fulfil."""
    if filters.conditions is not None:
        yield conditions.c.fingerprint == filters.conditions


def of_cell(filters: Filters) -> Iterator[Clause]:
    """Yield what the cell must fulfil."""
    if filters.concurrency:
        yield cells.c.concurrency.in_(filters.concurrency)
    if filters.temperature:
        yield cells.c.temperature.in_(filters.temperature)


def matches(column: sa.ColumnElement[str], pattern: str) -> Clause:
    """Return whether a text is the pattern itself, or fits it shell-style (`*`, `?`, `[abc]`); names may hold brackets."""
    if not any(char in pattern for char in "*?["):
        return column == pattern  # an index answers this
    return sa.or_(column == pattern, column.regexp_match(_regex(pattern)))


def _regex(pattern: str) -> str:
    """Return the pattern as a POSIX regular expression over the whole text."""
    out, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        closed = pattern.find("]", at + 2 + pattern.startswith("!", at + 1)) if char == "[" else -1
        if closed > 0:
            out += _one_of(pattern[at + 1 : closed], pattern)
            at = closed
        else:
            out += {"*": ".*", "?": "."}.get(char) or (char if char.isalnum() else "\\" + char)
        at += 1
    return f"^(?:{out})$"


def _one_of(inside: str, pattern: str) -> str:
    """Return a bracket of the pattern as one of the regular expression (raises BadFilter for a range that runs backwards)."""
    members = inside.removeprefix("!")
    for first, last in re.findall("(?s)(.)-(.)", members):
        if first > last:
            reason = f"the range {first}-{last} in the pattern {pattern!r} runs backwards: write {last}-{first}"
            raise BadFilter(what="filter", reason=reason)
    escaped = "".join("\\" + char if char in "\\[^" else char for char in members)
    return f"[{'^' if inside != members else ''}{escaped}]"


def where(key: str, comparison: str, value: Any) -> Clause:
    """Return the comparison of one key of the config document.

    Keys are those of `path_of`. A text equals a member of a list, too. An order compares numbers with numbers and texts with
    texts; an absent key fulfils `!=` and, with None, `=`, and nothing else. Variables of the environment are texts: there, a
    number is compared with what the text says.

    Raises:
        UnknownOperator: With the ones there are.
    """
    path = path_of(key)
    if comparison == "=":
        return _equal(path, value)
    if comparison == "!=":
        return sa.not_(sa.func.coalesce(_equal(path, value), sa.false()))
    if comparison not in _ORDERS:
        raise UnknownOperator(operator=comparison, known=", ".join(OPERATORS))
    return _ordered(path, _ORDERS[comparison], value)


def path_of(key: str) -> list[str]:
    """Return where a key stands in the config document.

    A dotted key starts at the top ("args.max-num-seqs", "config.model"); a bare one is one of the speculative settings,
    unless only the document itself has it ("image").
    """
    head, dot, rest = key.partition(".")
    if dot:
        return rest.split(".") if head == WHOLE else key.split(".")
    return [key] if key in TOP else ["speculative", key]


def _equal(path: list[str], value: Any) -> Clause:
    if value is None:
        return _text(path).is_(None)
    if isinstance(value, str):
        return sa.or_(_text(path) == value, at_path(path).contains(sa.cast([value], JSONB)))
    if path[0] == "env":
        return sa.func.lower(_text(path)) == str(value).lower()
    for name in reversed(path):
        value = {name: value}
    return configs.c.doc.contains(sa.cast(value, JSONB))  # the GIN index answers this


def _ordered(path: list[str], compare: Comparison, value: Any) -> Clause:
    number = _number(value)
    kind = sa.func.jsonb_typeof(at_path(path))
    text = _text(path)
    if number is None:
        return sa.case((kind == "string", compare(text, str(value))), else_=sa.false())
    counts = kind == "number"
    if path[0] == "env":
        counts = text.regexp_match(r"^-?[0-9]+(\.[0-9]+)?$")
    return sa.case((counts, compare(sa.cast(text, sa.Numeric), number)), else_=sa.false())


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _text(path: list[str]) -> sa.ColumnElement[str]:
    text: sa.ColumnElement[str] = at_path(path).astext
    return text


def at_path(path: Sequence[str]) -> Any:
    """Return what stands at a path of the config document; every part is a key's own text, whatever characters it has."""
    return configs.c.doc[tuple(_as_member(part) for part in path)]


def _as_member(part: str) -> str:
    """Return a text as a member of PostgreSQL's array literal, which is how a path is sent."""
    escaped = part.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

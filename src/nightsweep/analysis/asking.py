"""What can be asked of the store, in words: from words to values. The command line and notebooks read them here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from nightsweep.plan.words import UNKNOWN_TEMPERATURE

_WHERE = re.compile(r"^\s*([A-Za-z_][\w.\-]*)\s*(>=|<=|!=|==|=|>|<)\s*(.*?)\s*$", re.DOTALL)
_AGE = re.compile(r"^(\d+(?:\.\d+)?)\s*(m|h|d|w)$")
_AGE_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "none": None}


def parse_where(words: str) -> tuple[str, str, Any]:
    """Return (key, operator, value) of words such as `num_speculative_tokens>=5`; numbers, true, false and null are typed.

    Raises:
        ValueError: The words are no condition, or an order is asked of something that is not a number.
    """
    found = _WHERE.match(words)
    if found is None:
        raise ValueError(f"{words!r} is no condition: write KEY=VALUE, or one of != >= <= > < in place of =")
    key, operator, raw = found.groups()
    operator = "=" if operator == "==" else operator
    value = typed(raw)
    if operator == "=" and raw[:1] in ("<", ">", "="):
        meant = f"{raw[0]}=" if raw[0] in "<>" else "="
        raise ValueError(f"{words!r} has no comparison that there is: write {meant}, or the value in quotes")
    if raw == "":
        raise ValueError(f"{words!r} has no value after {operator}")
    if operator in (">=", "<=", ">", "<") and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{operator} compares numbers, and {raw!r} is none")
    return key, operator, value


def typed(raw: str) -> Any:
    """Return the value that the words stand for; a text in quotes stays a text."""
    if len(raw) >= 2 and raw[0] == raw[-1] and raw[0] in "'\"":
        return raw[1:-1]
    if raw.lower() in _WORDS:
        return _WORDS[raw.lower()]
    for kind in (int, float):
        try:
            value = kind(raw)
        except ValueError:
            continue
        if kind is int or abs(value) < float("inf"):  # "nan" and "inf" are names, not numbers, in an engine's config
            return value
    return raw


def parse_since(words: str, *, now: datetime) -> datetime:
    """Return the moment: an age (`45m`, `12h`, `30d`, `2w`) before `now`, or a date or moment in ISO 8601, UTC unless it says.

    Raises:
        ValueError: The words are neither.
    """
    age = _AGE.match(words.strip().lower())
    if age is not None:
        try:
            return now - timedelta(seconds=float(age.group(1)) * _AGE_SECONDS[age.group(2)])
        except OverflowError:
            raise ValueError(f"{words!r} is longer ago than there are dates") from None
    try:
        at = datetime.fromisoformat(words.strip())
    except ValueError:
        raise ValueError(f"{words!r} is neither an age (30d, 12h, 45m, 2w) nor a date (2026-11-28)") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def parse_concurrency(words: str) -> tuple[int, ...]:
    """Return the whole numbers of `1,2,16`.

    Raises:
        ValueError: One is no whole number of at least 1.
    """
    return tuple(_positive(word) for word in _listed(words))


def parse_temperature(words: str) -> tuple[Decimal, ...]:
    """Return the temperatures of `0.7,1.0`.

    Raises:
        ValueError: One is no number of at least 0.
    """
    return tuple(_temperature(word) for word in _listed(words))


def _listed(words: str) -> list[str]:
    listed = [word.strip() for word in words.split(",")]
    if not all(listed):
        raise ValueError(f"{words!r} has an empty place: write numbers with commas between them")
    return listed


def _positive(word: str) -> int:
    if not (word.isascii() and word.isdigit()) or int(word) < 1:
        raise ValueError(f"{word!r} is no number of streams: whole numbers from 1 on, with commas between them")
    return int(word)


def _temperature(word: str) -> Decimal:
    if word.lower() == "unknown":
        return UNKNOWN_TEMPERATURE
    try:
        value = Decimal(word)
    except InvalidOperation:
        raise ValueError(f"{word!r} is no temperature: numbers from 0 on, with commas between them") from None
    if not value.is_finite() or value < 0:
        raise ValueError(f"{word!r} is no temperature: numbers from 0 on, with commas between them")
    return value

"""Readers of single values: each returns what was meant, or raises `Refused` saying what it would take."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from nightsweep.plan.mistakes import Refused, gathered, nearest, number_meant
from nightsweep.units import Bytes, Seconds

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*)+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_FACTOR = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Reader = Callable[[Any], Any]


def text(value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        remedy = "Put it in quotes." if isinstance(value, int | float) else ""
        raise Refused("a text", remedy=remedy)
    return value


def truth(value: Any) -> bool:
    """Return true or false; YAML 1.1's yes, no, on and off are texts here."""
    if isinstance(value, bool):
        return value
    meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(value).lower())
    raise Refused("true or false", remedy=f"Did you mean {meant}?" if meant else "")


MOST_WHOLE = 2**31 - 1
"""What the database keeps as a whole number at most."""
MOST_PRIORITY = 1000
"""A schedule's priority lies between this and its negative."""


def whole(*, least: int, most: int = MOST_WHOLE) -> Reader:
    """Return a reader of whole numbers from `least` to `most`."""
    allowed = {0: "whole numbers >= 0", 1: "whole numbers > 0"}.get(least, f"whole numbers >= {least}")
    limits = allowed if most >= MOST_WHOLE else f"whole numbers from {least} to {most}"

    def read(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise Refused(limits, remedy=number_meant(value))
        if value > most:
            raise Refused(f"whole numbers from {least} to {most}")
        return value

    return read


def number(*, least: float, most: float, above_least: bool = False) -> Reader:
    """Return a reader of numbers between two limits; `above_least` leaves the lower one out."""
    start = f"numbers {'above' if above_least else 'from'} {least:g}"
    allowed = f"{start} up to {most:g}" if most < math.inf else start + ("" if above_least else " on")

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Refused(allowed, remedy=number_meant(value))
        if value > most or value < least or (above_least and value == least):
            raise Refused(allowed)
        return float(value)

    return read


def duration(*, zero: bool = False) -> Reader:
    """Return a reader of durations (`40s`, `20m`, `1h30m`, or a number of seconds).

    Units:
        seconds.
    """
    allowed = f"a duration {'>= 0' if zero else '> 0'} such as 40s, 20m, 1h30m, or a number of seconds"

    def read(value: Any) -> Seconds:
        seconds = _seconds(value)
        if seconds is None or not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
            raise Refused(allowed, remedy=_duration_meant(value))
        return Seconds(seconds)

    return read


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        return None
    written = value.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", written):
        return float(written)
    if not _DURATION.fullmatch(written):
        return None
    return sum(float(count) * _SECONDS[unit] for count, unit in _DURATION_PART.findall(written))


def _duration_meant(value: Any) -> str:
    spelled = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(sec|min|hour|hr|day|second|minute)s?\s*", str(value), re.IGNORECASE)
    return f"Did you mean {spelled[1]}{spelled[2][0].lower()}?" if spelled else ""


def size(value: Any) -> Bytes:
    """Return a size of memory: `16G` is 16 * 2**30 bytes, as Docker reads it; a plain number is bytes.

    Units:
        bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return Bytes(value)
    matched = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    counted = int(float(matched[1]) * _SIZE_FACTOR[matched[2].lower()]) if matched else 0
    if counted <= 0:
        raise Refused("a size > 0 such as 512M or 16G, or a number of bytes")
    return Bytes(counted)


def choice(*known: str) -> Reader:
    """Return a reader that takes one of the known words."""

    def read(value: Any) -> str:
        if value not in known:
            raise Refused(" | ".join(known), remedy=nearest(str(value), known))
        return str(value)

    return read


def temperature(value: Any) -> Decimal:
    """Return a temperature from 0 to 2 with at most two decimals, exactly as written."""
    allowed = "numbers from 0 to 2 with at most two decimals"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Refused(allowed, remedy=number_meant(value))
    exact = Decimal(str(value))
    if not exact.is_finite() or not 0 <= exact <= 2 or exact != round(exact, 2):
        raise Refused(allowed)
    return round(exact, 2)


def listing(reader: Reader, *, what: str) -> Reader:
    """Return a reader of lists that are not empty and hold nothing twice; a single value is a list of one."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            return (reader(value),)
        if not value:
            raise Refused(f"a list of {what} with at least one", found="an empty list")
        out: list[Any] = []
        with gathered() as parts:
            for index, member in enumerate(value):
                with parts.at((index,), member):
                    one = reader(member)
                    if one in out:
                        raise Refused(f"each of the {what} once", remedy="Drop one.")
                    out.append(one)
        return tuple(out)

    return read


def command(value: Any) -> tuple[str, ...]:
    """Return a command line: a list of words, or a text split as a shell would (nothing is expanded)."""
    allowed = "a command line: a list of words or a text"
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise Refused(allowed, found=f"a text whose quotes do not match ({error})") from None
    if isinstance(value, list) and all(isinstance(word, str | int | float) for word in value):
        return tuple(str(word) for word in value)
    raise Refused(allowed)


def port(value: Any) -> int:
    """Return a port number; `auto` (0) takes a free one at each boot."""
    if value in ("auto", 0) and value is not False:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise Refused("a port from 1 to 65535, or auto", remedy=number_meant(value))
    return value


def url(value: Any) -> str:
    """Return a base URL without a trailing slash; one that carries a password is refused."""
    allowed = "a URL such as https://gateway.lan/v1"
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        host = parts.hostname if parts else None
    except ValueError:
        parts, host = None, None
    if parts is None or parts.scheme not in ("http", "https") or not host:
        raise Refused(allowed, remedy="It starts with http:// or https://.")
    if parts.username or parts.password:
        remedy = "Give it as `probe.api_key: {from_env: NAME}`."
        raise Refused(f"{allowed}, without user or password", remedy=remedy, found="a URL with a secret (not shown)")
    return str(value).rstrip("/")


def url_v1(value: Any) -> str:
    """Return a base URL that ends in /v1, whether or not it was written."""
    base = url(value)
    return base if base.endswith("/v1") else f"{base}/v1"


def clock_time(value: Any) -> str:
    """Return a time of day as HH:MM."""
    matched = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise Refused('a time of day from "00:00" to "23:59"')
    return f"{int(matched[1]):02d}:{matched[2]}"


def cron(value: Any) -> str:
    """Return a cron expression of five fields."""
    from nightsweep.plan.nights import some_start

    allowed = 'a cron expression of five fields (minute hour day month weekday), such as "30 22 * * *"'
    if not isinstance(value, str) or len(value.split()) != 5:
        raise Refused(allowed)
    if some_start(value) is None:
        raise Refused(allowed, remedy="one of these fields cannot be read, or the five name a day that never comes")
    return " ".join(value.split())


def zone(value: Any) -> str:
    """Return the name of a time zone."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, TypeError, OSError):
        remedy = nearest(str(value), available_timezones())
        raise Refused("a time zone's name such as Europe/Amsterdam or UTC", remedy=remedy) from None
    return str(value)


def env_name(value: Any) -> str:
    """Return the name of an environment variable."""
    if not isinstance(value, str) or not _ENV_NAME.fullmatch(value):
        raise Refused("the name of an environment variable (letters, digits, _)")
    return value

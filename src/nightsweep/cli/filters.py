"""Filters of the reading commands: from words on the command line to `Filters`. What cannot be meant is a usage error."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import click

from nightsweep.analysis.values import Filters
from nightsweep.cli.reading import Queries, access, find_sweep

F = TypeVar("F", bound=Callable[..., Any])

_KEPT = "nightsweep.filters"
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


def filter_options(*, cells: bool) -> Callable[[F], F]:
    """Add the filter options; those of cells (concurrency, temperature) only where `cells`. Read them with `asked`."""
    options = [
        click.option("--sweep", metavar="NAME|ID", expose_value=False, callback=_keep, help="Of this sweep."),
        click.option("--box", metavar="NAME", expose_value=False, callback=_keep, help="Of this box."),
        click.option(
            "--config",
            metavar="PATTERN",
            expose_value=False,
            callback=_keep,
            help="Config names by shell pattern ('mtp*'), or a fingerprint's first 6 characters or more.",
        ),
        click.option(
            "--where",
            metavar="KEY=VALUE",
            multiple=True,
            expose_value=False,
            callback=_each(parse_where),
            help="Any key of the config: speculative.method=dflash, num_speculative_tokens>=5. Repeatable.",
        ),
        click.option("--image", metavar="PATTERN", expose_value=False, callback=_keep, help="Image by shell pattern."),
        click.option(
            "--since", metavar="AGE|DATE", expose_value=False, callback=_since, help="30d, 12h, or 2026-11-28 (UTC)."
        ),
    ]
    if cells:
        options += [
            click.option(
                "--concurrency",
                metavar="N,N",
                multiple=True,
                expose_value=False,
                callback=_each(parse_concurrency),
                help="Streams: 1,2,16.",
            ),
            click.option(
                "--temperature",
                metavar="T,T",
                multiple=True,
                expose_value=False,
                callback=_each(parse_temperature),
                help="Temperatures: 0.7,1.0.",
            ),
        ]

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def asked(ctx: click.Context, queries: Queries) -> Filters:
    """Return the filters of this call, flagged rows included (raises NotFound for an unknown sweep)."""
    kept: dict[str, Any] = ctx.meta.get(_KEPT, {})
    sweep = kept.get("sweep")
    return Filters(
        sweep=None if sweep is None else find_sweep(queries, sweep).sweep_id,
        box=kept.get("box"),
        config=kept.get("config"),
        where=kept.get("where", ()),
        concurrency=_flat(kept.get("concurrency", ())),
        temperature=_flat(kept.get("temperature", ())),
        image=kept.get("image"),
        since=kept.get("since"),
        with_flagged="yes",
    )


def described(ctx: click.Context) -> str:
    """Return the options of this call as they could be typed, for "nothing matches ..."."""
    kept: dict[str, Any] = ctx.meta.get(_KEPT, {})
    words = []
    for name, value in kept.items():
        if name == "where":
            words += [f"--where {key}{operator}{item}" for key, operator, item in value]
        elif name in ("concurrency", "temperature"):
            words.append(f"--{name} {','.join(str(item) for item in _flat(value))}")
        elif name == "since":
            words.append(f"--since {value:%Y-%m-%dT%H:%M}")
        else:
            words.append(f"--{name} {value!r}")
    return " ".join(words)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value not in (None, ()):
        ctx.meta.setdefault(_KEPT, {})[param.name] = value


def _each(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], None]:
    def callback(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> None:
        try:
            _keep(ctx, param, tuple(parse(value) for value in values))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx=ctx, param=param) from error

    return callback


def _since(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    try:
        _keep(ctx, param, parse_since(value, now=access(ctx).now()))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error


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
    try:
        value = Decimal(word)
    except InvalidOperation:
        raise ValueError(f"{word!r} is no temperature: numbers from 0 on, with commas between them") from None
    if not value.is_finite() or value < 0:
        raise ValueError(f"{word!r} is no temperature: numbers from 0 on, with commas between them")
    return value


def _flat(groups: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    return tuple(item for group in groups for item in group)

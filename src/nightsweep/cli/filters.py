"""Filters of the reading commands: from words on the command line to `Filters`. What cannot be meant is a usage error."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any, TypeVar

import click

from nightsweep.analysis.asking import parse_concurrency as parse_concurrency
from nightsweep.analysis.asking import parse_since as parse_since
from nightsweep.analysis.asking import parse_temperature as parse_temperature
from nightsweep.analysis.asking import parse_where as parse_where
from nightsweep.analysis.asking import typed as typed
from nightsweep.analysis.values import Filters
from nightsweep.cli.reading import Queries, access, find_sweep_id
from nightsweep.plan.words import UNKNOWN_TEMPERATURE

F = TypeVar("F", bound=Callable[..., Any])

_KEPT = "nightsweep.filters"


def filter_options(*, cells: bool, without: Collection[str] = ()) -> Callable[[F], F]:
    """Add the filter options; those of cells (concurrency, temperature) only where `cells`. Read them with `asked`.

    Args:
        without: Names of options ("--config") that the command has no use for.
    """
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
            "--since", metavar="AGE|DATE", expose_value=False, callback=_moment, help="30d, 12h, or 2026-11-28 (UTC)."
        ),
        click.option(
            "--before", metavar="AGE|DATE", expose_value=False, callback=_moment, help="Earlier than that; as --since."
        ),
    ]
    options += [
        click.option(
            "--imported",
            is_flag=True,
            expose_value=False,
            callback=_imported(True),
            help="Only what was imported from other tools.",
        ),
        click.option(
            "--no-imported",
            is_flag=True,
            expose_value=False,
            callback=_imported(False),
            help="Only what was measured here.",
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

    names = [
        "--sweep",
        "--box",
        "--config",
        "--where",
        "--image",
        "--since",
        "--before",
        "--imported",
        "--no-imported",
        "--concurrency",
        "--temperature",
    ]
    wanted = [option for name, option in zip(names, options, strict=False) if name not in without]

    def add(command: F) -> F:
        for option in reversed(wanted):
            command = option(command)
        return command

    return add


def asked(ctx: click.Context, queries: Queries) -> Filters:
    """Return the filters of this call, flagged rows included (raises NotFound for an unknown sweep)."""
    kept: dict[str, Any] = ctx.meta.get(_KEPT, {})
    sweep = kept.get("sweep")
    return Filters(
        sweep=None if sweep is None else find_sweep_id(queries, sweep),
        box=kept.get("box"),
        config=kept.get("config"),
        where=kept.get("where", ()),
        concurrency=_flat(kept.get("concurrency", ())),
        temperature=_flat(kept.get("temperature", ())),
        image=kept.get("image"),
        since=kept.get("since"),
        before=kept.get("before"),
        imported=kept.get("imported"),
        with_flagged="yes",
    )


def described(ctx: click.Context) -> str:
    """Return the options of this call as they could be typed, for "nothing matches ..."."""
    kept: dict[str, Any] = ctx.meta.get(_KEPT, {})
    words = []
    for name, value in kept.items():
        if name == "where":
            words += [f"--where {key}{operator}{_typed(item)}" for key, operator, item in value]
        elif name in ("concurrency", "temperature"):
            words.append(f"--{name} {','.join(_typed(item) for item in _flat(value))}")
        elif name in ("since", "before"):
            words.append(f"--{name} {value:%Y-%m-%dT%H:%M}")
        elif name == "imported":
            words.append("--imported" if value else "--no-imported")
        else:
            words.append(f"--{name} {value!r}")
    return " ".join(words)


def _typed(value: Any) -> str:
    """Return a filter's value as it is typed."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return "unknown" if isinstance(value, Decimal) and value == UNKNOWN_TEMPERATURE else str(value)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value not in (None, ()):
        ctx.meta.setdefault(_KEPT, {})[param.name] = value


def _imported(wanted: bool) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(ctx: click.Context, param: click.Parameter, given: bool) -> None:
        if not given:
            return
        if ctx.meta.get(_KEPT, {}).get("imported", wanted) != wanted:
            raise click.UsageError("--imported and --no-imported leave nothing over: give one of them", ctx=ctx)
        ctx.meta.setdefault(_KEPT, {})["imported"] = wanted

    return callback


def _each(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], None]:
    def callback(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> None:
        try:
            _keep(ctx, param, tuple(parse(value) for value in values))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx=ctx, param=param) from error

    return callback


def _moment(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    try:
        _keep(ctx, param, parse_since(value, now=access(ctx).now()))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error


def _flat(groups: tuple[tuple[Any, ...], ...]) -> tuple[Any, ...]:
    return tuple(item for group in groups for item in group)

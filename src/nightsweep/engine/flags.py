"""Engine arguments of a sweep file as command-line tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from nightsweep.plan.model import SecretRef


def compact_json(value: Any) -> str:
    """Return JSON without blanks, keys in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain)


def tokens(args: Mapping[str, Any], *, negate: bool, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return `args` as tokens, in file order.

    True is a bare flag; False is `--no-flag` where the engine has such (`negate`), else left out; None is left out; a list is
    one flag with several values; a mapping is JSON; a human size ("36G") and any other text stays as it is.

    Args:
        args: Argument names without leading dashes.
        negate: Whether the engine's switches have a `--no-` form.
        without: Names that are set elsewhere and must not come twice.
    """
    skipped = {canonical(name) for name in without}
    found: list[str] = []
    for name, value in args.items():
        if canonical(name) not in skipped:
            found.extend(_tokens_of(name, value, negate=negate))
    return tuple(found)


def canonical(name: str) -> str:
    """Return an argument's name as the engines' own documents write it: no leading dashes, dashes between words."""
    return name.lstrip("-").replace("_", "-")


def argument(args: Mapping[str, Any], *names: str) -> Any:
    """Return the first argument that goes by one of `names`, however its words are joined; None when there is none."""
    wanted = {canonical(name) for name in names}
    return next((value for name, value in args.items() if canonical(name) in wanted and value is not None), None)


def text_of(value: Any) -> str:
    """Return one value as a token."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list | tuple):
        return compact_json(value)
    return str(value)


def _tokens_of(name: str, value: Any, *, negate: bool) -> tuple[str, ...]:
    bare = name.lstrip("-")
    flag = f"-{bare}" if len(bare) == 1 else f"--{bare}"
    if value is None or isinstance(value, SecretRef):  # a secret on a command line would be seen by everybody
        return ()
    if isinstance(value, bool):
        return _switch(bare, flag, value, negate=negate)
    if isinstance(value, list | tuple):
        return (flag, *(text_of(member) for member in value))
    return (flag, text_of(value))


def _switch(bare: str, flag: str, value: bool, *, negate: bool) -> tuple[str, ...]:
    if "." in bare:  # one key of a JSON argument: `--compilation-config.enabled true`
        return (flag, text_of(value))
    if value:
        return (flag,)
    return (f"--no-{bare}",) if negate else ()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be an engine argument")

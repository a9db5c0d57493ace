"""Which configs of a sweep a word means: those of that name, those that a pattern fits, or of a fingerprint that begins so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import click

from nightsweep.analysis import text
from nightsweep.analysis.premises import held_fixed, settings_of, shown
from nightsweep.plan.mistakes import nearest

LEAST_OF_A_FINGERPRINT = 4
"""Characters from which on a word may be the beginning of one."""
LISTED = 8


@dataclass(frozen=True)
class Called:
    """A config of a sweep, as people tell it from others.

    Attributes:
        windows: Clean windows in the cells that are asked about.
        document: Its settings, as far as they are known.
    """

    name: str
    windows: int
    document: Mapping[str, Any]


def fitting(wanted: str, known: Mapping[str, Called]) -> list[str]:
    """Return the fingerprints that a word means; a name goes before patterns, and those before fingerprints."""
    for fits in (
        [key for key, one in known.items() if one.name == wanted],
        [key for key, one in known.items() if fnmatchcase(one.name, wanted)],
        [key for key in known if len(wanted) >= LEAST_OF_A_FINGERPRINT and key.startswith(wanted.lower())],
    ):
        if fits:
            return fits
    return []


def named(wanted: str, known: Mapping[str, Called], *, option: str) -> str:
    """Return the fingerprint of the one config that is meant (raises BadParameter, with what tells several apart)."""
    fits = fitting(wanted, known)
    if len(fits) == 1:
        return fits[0]
    if not fits:
        said = f"{wanted!r} is no config of this sweep. {_hint(wanted, known)}"
    else:
        listing = "\n".join(_apart({key: known[key] for key in fits}))
        said = f"{wanted!r} fits {len(fits)} configs; name one, the beginning of its fingerprint will do:\n{listing}"
    raise click.BadParameter(said, param_hint=option)


def among(patterns: Sequence[str], known: Mapping[str, Called], *, option: str) -> Collection[str]:
    """Return the fingerprints of the measured configs that any pattern fits (raises BadParameter for one that fits none)."""
    measured = {key: one for key, one in known.items() if one.windows}
    found: dict[str, None] = {}
    for pattern in patterns:
        fits = fitting(pattern, measured)
        if not fits:
            what = "a clean window in these cells" if fitting(pattern, known) else "that name"
            said = f"{pattern!r} fits no config with {what}. {_hint(pattern, measured)}"
            raise click.BadParameter(said, param_hint=option)
        found |= dict.fromkeys(fits)
    return found


def _hint(wanted: str, known: Mapping[str, Called]) -> str:
    names = list(dict.fromkeys(one.name for one in known.values()))
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    near = nearest(wanted, names)
    listed = f"There are: {', '.join(repr(text.printable(name)) for name in names[:LISTED])}{more}" if names else ""
    return f"{near} {listed}".strip()


def _apart(those: Mapping[str, Called]) -> Iterator[str]:
    """Yield each config with its fingerprint and the settings by which it differs from the others."""
    settings = {key: settings_of(one.document) for key, one in those.items()}
    _, moved = held_fixed(list(settings.values()))
    for key, one in list(those.items())[:LISTED]:
        told = text.several([f"{name} {shown(settings[key].get(name))}" for name in moved])
        windows = text.plural(one.windows, "window")
        yield text.printable(f"{text.short(key)}  {one.name}  ({windows}{f'; {told}' if told else ''})")
    if len(those) > LISTED:
        yield f"and {len(those) - LISTED} more"

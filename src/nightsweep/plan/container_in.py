"""Readers of container settings, in Docker's own words."""

from __future__ import annotations

import re
from typing import Any

from nightsweep.plan.mistakes import Refused
from nightsweep.plan.quantities import Reader, text

_VOLUME = re.compile(r"[^:.~][^:]*:/[^:]*(:[a-zA-Z,]+)?")
_ULIMIT = re.compile(r"[a-z]+=-?\d+(:-?\d+)?")


def gpus(value: Any) -> str:
    """Return `all`, a count, or device ids ("0,1"); a single id is written "device=1"."""
    allowed = 'all, a count such as 2, or ids such as "0,1" or "device=1"'
    if isinstance(value, list) and value and all(isinstance(one, str | int) for one in value):
        return _by_ids(",".join(str(one) for one in value))
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise Refused(allowed)
    written = str(value)
    if written.startswith("device="):
        return _by_ids(written.removeprefix("device="))
    if written != "all" and not re.fullmatch(r"\d+(,\d+)*|(GPU|MIG)-[\w-]+(,(GPU|MIG)-[\w-]+)*", written):
        raise Refused(allowed)
    return written


def _by_ids(ids: str) -> str:
    return ids if "," in ids or not ids.isdigit() else f"device={ids}"


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts."""
    if not isinstance(value, list):
        raise Refused("a list of texts")
    return tuple(text(str(one) if isinstance(one, int) else one) for one in value)


def shaped(pattern: re.Pattern[str], *, allowed: str) -> Reader:
    """Return a reader of lists of texts of one shape."""

    def read(value: Any) -> tuple[str, ...]:
        listed = value if isinstance(value, list) else [value]
        for one in listed:
            if not isinstance(one, str) or not pattern.fullmatch(one):
                raise Refused(allowed)
        return tuple(listed)

    return read


volumes = shaped(_VOLUME, allowed='a list of "/host/path:/container/path[:ro]"')
ulimits = shaped(_ULIMIT, allowed='a list of "name=soft[:hard]", such as "memlock=-1"')


def ipc(value: Any) -> str:
    """Return the IPC mode."""
    if value in ("host", "private", "shareable", "none") or str(value).startswith("container:"):
        return str(value)
    raise Refused("host | private | shareable | none | container:NAME")

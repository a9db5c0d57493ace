"""The machine's own time zone: what its clock on the wall shows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

LOCALTIME = Path("/etc/localtime")
TIMEZONE = Path("/etc/timezone")


def machine_zone(
    environ: Mapping[str, str] = os.environ, *, localtime: Path = LOCALTIME, timezone: Path = TIMEZONE
) -> str | None:
    """Return the name of this machine's zone as the tz database has it, such as Europe/Amsterdam; None when nothing names one.

    `TZ` says it, else the link `/etc/localtime`, else the text `/etc/timezone`; a machine with none of them runs on UTC.
    """
    if "TZ" in environ:
        return _known(environ["TZ"].removeprefix(":") or "UTC")
    if not localtime.exists():
        return "UTC"
    if localtime.is_symlink():
        return _known(os.path.realpath(localtime))
    try:
        return _known(timezone.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return None


def wall_zone(now: datetime) -> str | None:
    """Return a zone that shows at `now` what this machine's clock does, by its name or its offset; None for one with neither."""
    named = machine_zone()
    if named is not None:
        return named
    offset = now.astimezone().utcoffset() or timedelta(0)
    hours, rest = divmod(offset, timedelta(hours=1))
    return None if rest else _known(f"Etc/GMT{-hours:+d}")  # the sign is POSIX's: Etc/GMT-1 is an hour ahead


def _known(name: str) -> str | None:
    """Return a name, or the one that a path into a tz database ends with, where there is such a zone."""
    name = name.split("zoneinfo/", 1)[-1]
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
    return name

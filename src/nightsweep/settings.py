"""Settings from the environment. Adapters take plain values, never this object."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from nightsweep.analysis.notices import KINDS
from nightsweep.errors import PlanError

T = TypeVar("T")
PREFECT_PORT = 4270


class InvalidSetting(PlanError):
    """An environment variable holds something that cannot be used."""

    summary = "environment variable {variable}: found {found!r}; {allowed}"


@dataclass(frozen=True)
class Settings:
    """Where things are.

    Attributes:
        home: Directory of the embedded database, engine records and mirrors of what must come back.
        database_url: A PostgreSQL to use instead of the embedded one.
        prefect_api_url: A Prefect server to use instead of starting one.
        box: Name of this box.
        prefect_port: Where a Prefect server of our own listens.
        notify: Where people are told: addresses of Apprise, and prefect://TYPE/NAME for a notification block. Secrets.
        notify_on: What they are told.
        database_away: The database that is configured cannot be read out of its setting: no other is asked in its place.
    """

    home: Path
    database_url: str | None
    prefect_api_url: str | None
    box: str
    prefect_port: int
    lease_ttl: float = 60.0
    notify: tuple[str, ...] = field(default=(), repr=False)
    notify_on: tuple[str, ...] = KINDS
    database_away: bool = False


def from_environment(environ: Mapping[str, str], *, warn: Callable[[str], None] | None = None) -> Settings:
    """Read `NIGHTSWEEP_HOME`, `_DATABASE_URL`, `_PREFECT_API_URL`, `_PREFECT_PORT`, `_BOX`, `_NOTIFY` and `_NOTIFY_ON`.

    Args:
        warn: For those who bring production back, which waits for nobody's slip of the keys: told in a line each of what
            cannot be used, which is left at its default then. A database that cannot be used counts as one that is away.

    Raises:
        InvalidSetting: Something cannot be used, and nobody is warned; or it is the home, where what is owed is noted.
    """
    away = False

    def read(variable: str, reader: Callable[[str | None], T], *, default: T, without: str) -> T:
        try:
            return reader(environ.get(variable))
        except InvalidSetting as error:
            if warn is None:
                raise
            warn(f"{error}; going on without it: {without}")
            nonlocal away
            away = away or variable == "NIGHTSWEEP_DATABASE_URL"
            return default

    return Settings(
        home=_home(environ),
        database_url=read(
            "NIGHTSWEEP_DATABASE_URL", _database_url, default=None, without="the database counts as one that is away"
        ),
        prefect_api_url=environ.get("NIGHTSWEEP_PREFECT_API_URL") or None,
        box=environ.get("NIGHTSWEEP_BOX") or socket.gethostname(),
        prefect_port=read("NIGHTSWEEP_PREFECT_PORT", _port, default=PREFECT_PORT, without=f"{PREFECT_PORT} is taken"),
        notify=read("NIGHTSWEEP_NOTIFY", _addresses, default=(), without="nobody is sent a message"),
        notify_on=read("NIGHTSWEEP_NOTIFY_ON", _kinds, default=KINDS, without="everything is told"),
        database_away=away,
    )


def _addresses(given: str | None) -> tuple[str, ...]:
    """Return the addresses: parted by white space, or by a comma before the next scheme (an address may hold commas)."""
    parts = re.split(r"\s+|,\s*(?=[A-Za-z][A-Za-z0-9+.-]*://)", (given or "").strip())
    addresses = tuple(part.rstrip(",") for part in parts if part.rstrip(","))
    for place, address in enumerate(addresses, start=1):
        if "://" not in address:  # never echoed: it may be a token
            raise InvalidSetting(
                variable="NIGHTSWEEP_NOTIFY",
                found=f"address {place} without a scheme",
                allowed="give Apprise addresses such as ntfys://ntfy.sh/topic, or prefect://slack-webhook/NAME",
            )
    return addresses


def _kinds(given: str | None) -> tuple[str, ...]:
    """Return what people are told; everything when nothing is said."""
    named = tuple(part for part in re.split(r"[\s,]+", given or "") if part)
    for name in named:
        if name not in KINDS:
            raise InvalidSetting(
                variable="NIGHTSWEEP_NOTIFY_ON", found=name, allowed=f"give some of {', '.join(KINDS)}"
            )
    return named or KINDS


def _home(environ: Mapping[str, str]) -> Path:
    given = environ.get("NIGHTSWEEP_HOME")
    found = given or f"{environ.get('XDG_DATA_HOME') or '~/.local/share'}/nightsweep"
    try:
        return Path(found).expanduser().absolute()
    except RuntimeError as error:  # no user of that name, or none at all
        raise InvalidSetting(
            variable="NIGHTSWEEP_HOME", found=given or "nothing", allowed=f"give a directory ({error})"
        ) from error


def _database_url(given: str | None) -> str | None:
    if not given:
        return None
    for prefix in ("postgresql+psycopg://", "postgresql://", "postgres://"):
        if given.startswith(prefix):
            return "postgresql+psycopg://" + given[len(prefix) :]
    scheme = given.split(":", 1)[0]  # never echo a URL: it may hold a password
    raise InvalidSetting(
        variable="NIGHTSWEEP_DATABASE_URL",
        found=f"{scheme}:...",
        allowed="give a PostgreSQL URL such as postgresql://user@host/nightsweep",
    )


def _port(found: str | None) -> int:
    if not found:
        return PREFECT_PORT
    if found.isascii() and found.isdigit() and 0 < int(found) < 65536:
        return int(found)
    raise InvalidSetting(variable="NIGHTSWEEP_PREFECT_PORT", found=found, allowed="give a port number from 1 to 65535")

"""Settings from the environment. Adapters take plain values, never this object."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nightsweep.analysis.notices import KINDS
from nightsweep.errors import PlanError


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
    """

    home: Path
    database_url: str | None
    prefect_api_url: str | None
    box: str
    prefect_port: int
    lease_ttl: float = 60.0
    notify: tuple[str, ...] = field(default=(), repr=False)
    notify_on: tuple[str, ...] = KINDS


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Read `NIGHTSWEEP_HOME`, `_DATABASE_URL`, `_PREFECT_API_URL`, `_PREFECT_PORT`, `_BOX`, `_NOTIFY` and `_NOTIFY_ON`."""
    home = environ.get("NIGHTSWEEP_HOME") or _default_home(environ)
    return Settings(
        home=Path(home).expanduser().absolute(),
        database_url=_database_url(environ.get("NIGHTSWEEP_DATABASE_URL")),
        prefect_api_url=environ.get("NIGHTSWEEP_PREFECT_API_URL") or None,
        box=environ.get("NIGHTSWEEP_BOX") or socket.gethostname(),
        prefect_port=_port(environ, "NIGHTSWEEP_PREFECT_PORT", 4270),
        notify=_addresses(environ.get("NIGHTSWEEP_NOTIFY")),
        notify_on=_kinds(environ.get("NIGHTSWEEP_NOTIFY_ON")),
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


def _default_home(environ: Mapping[str, str]) -> str:
    data = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return f"{data}/nightsweep"


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


def _port(environ: Mapping[str, str], variable: str, default: int) -> int:
    found = environ.get(variable)
    if not found:
        return default
    if found.isdigit() and 0 < int(found) < 65536:
        return int(found)
    raise InvalidSetting(variable=variable, found=found, allowed="give a port number from 1 to 65535")

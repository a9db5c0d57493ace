"""The spool: a directory of writes that PostgreSQL could not take, one file each, in the order in which they were made.

A file is whole or not there: it is written under another name, flushed to disk, and only then given its number. It holds the
write as the store's method would have been called, under the lease's fence; delivering it twice is the same as once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightsweep.errors import SpoolUnreadable

ENDING = ".write"
FORMAT = 1


@dataclass(frozen=True)
class Write:
    """One call of the store: its method's name and arguments.

    Attributes:
        key: The write's own name, made once: a second delivery is known by it, or by what it holds.
    """

    method: str
    args: Mapping[str, Any]
    key: uuid.UUID

    @property
    def sweep_id(self) -> int | None:
        """The sweep that it belongs to, as far as it says."""
        lease = self.args.get("lease")
        found = self.args.get("sweep_id") if lease is None else lease.sweep_id
        return None if found is None else int(found)


class Spool:
    """The spool of one home. Several processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refused_folder = folder / "refused"
        self._numbering = threading.Lock()  # of this process; what another one spools meanwhile is of another sweep

    def keep(self, write: Write) -> Path:
        """Keep a write durably behind those that are there already; return its file.

        Raises:
            OSError: It cannot be kept: no room, no right.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.folder / f"unfinished-{uuid.uuid4().hex}"
        try:
            with open(fresh, "xb") as file:
                file.write(_packed(write))
                file.flush()
                os.fsync(file.fileno())
            with self._numbering:
                last = max((_number(path) for path in self.waiting()), default=0)
                path = self.folder / f"{last + 1:09d}-{write.key.hex}{ENDING}"
                os.replace(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
        _flush_folder(self.folder)
        return path

    def waiting(self) -> tuple[Path, ...]:
        """Return the files that wait to be stored, oldest first."""
        return _files(self.folder)

    def refused(self) -> tuple[Path, ...]:
        """Return the files that were refused and are kept aside."""
        return _files(self.refused_folder)

    def read(self, path: Path) -> Write:
        """Return the write of a file.

        Raises:
            SpoolUnreadable: It is damaged, or of another version of the program.
            FileNotFoundError: Somebody else has delivered it.
        """
        try:
            return _unpacked(path.read_bytes())
        except FileNotFoundError:
            raise
        except (OSError, zlib.error, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SpoolUnreadable(path=str(path), reason=str(error) or type(error).__name__) from error

    def done(self, path: Path) -> None:
        """Take a file away: it is stored."""
        path.unlink(missing_ok=True)

    def refuse(self, path: Path) -> Path:
        """Put a file aside, where nobody delivers it by himself; return where it lies."""
        self.refused_folder.mkdir(mode=0o700, exist_ok=True)
        aside = self.aside(path)
        os.replace(path, aside)
        _flush_folder(self.refused_folder)
        return aside

    def aside(self, path: Path) -> Path:
        """Return where a file lies if it was refused."""
        return self.refused_folder / path.name

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
        """Yield whether it is ours to deliver what waits: one thread of one process at a time, in order."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)  # the folder itself: a full disk takes no new file
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(lock)


def spools_below(folder: Path) -> tuple[Spool, ...]:
    """Return the spools that lie in a folder."""
    try:
        return tuple(Spool(folder / name) for name in sorted(os.listdir(folder)))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _files(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(folder / name for name in os.listdir(folder) if name.endswith(ENDING)))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _number(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _packed(write: Write) -> bytes:
    from nightsweep.store.spooled_values import written  # brings all values along: who looks what waits needs none

    args = {name: written(value) for name, value in write.args.items()}
    document = {"format": FORMAT, "method": write.method, "key": str(write.key), "args": args}
    text = json.dumps(document, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(text).hexdigest().encode("ascii") + zlib.compress(text)


def _unpacked(data: bytes) -> Write:
    from nightsweep.store.spooled_values import read_back

    digest, text = data[:64].decode("ascii"), zlib.decompress(data[64:])
    if hashlib.sha256(text).hexdigest() != digest:
        raise ValueError("its contents are not those that were written")
    document = json.loads(text)
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']} is of another version of nightsweep")
    args = {name: read_back(value) for name, value in document["args"].items()}
    return Write(method=document["method"], args=args, key=uuid.UUID(document["key"]))


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

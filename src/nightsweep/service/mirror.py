"""A small file that says which production container was taken down, for when the database is not there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class FileMirror:
    """Keeps what must come back in one JSON file, written durably and atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, container: str, facts: Mapping[str, Any]) -> None:
        """Note that the container was taken down."""
        with self._alone():
            self._replace({**self.read(), container: dict(facts)})

    def clear(self, container: str) -> None:
        """Strike the container off: it serves again."""
        if container not in self.read():
            return
        with self._alone():
            self._replace({name: facts for name, facts in self.read().items() if name != container})

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what was taken down and is not noted as back, by container name."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:  # cut short by a power loss before the rename: cannot be, but must not hide production
            return {}
        return found if isinstance(found, dict) else {}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others out for a moment: a sweep, a service and a watchdog may write at once."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _replace(self, noted: Mapping[str, Any]) -> None:
        if not noted:
            self._path.unlink(missing_ok=True)
            return
        fresh = self._path.with_suffix(".new")
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(noted, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)

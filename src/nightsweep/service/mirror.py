"""A small file that says which production container was taken down, for when the database is not there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class FileMirror:
    """Keeps what must come back in one JSON file, written durably and atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, container: str, facts: Mapping[str, Any]) -> None:
        """Note that the container was taken down."""
        noted = dict(self.read())
        noted[container] = dict(facts)
        self._replace(noted)

    def clear(self, container: str) -> None:
        """Strike the container off: it serves again."""
        noted = dict(self.read())
        if noted.pop(container, None) is not None:
            self._replace(noted)

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what was taken down and is not noted as back, by container name."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:  # cut short by a power loss before the rename: cannot be, but must not hide production
            return {}
        return found if isinstance(found, dict) else {}

    def _replace(self, noted: Mapping[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if not noted:
            self._path.unlink(missing_ok=True)
            return
        fresh = self._path.with_suffix(".new")
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(noted, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self._path)

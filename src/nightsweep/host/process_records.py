"""One small record per engine process, on disk, so that it is found again when the service that started it is dead."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from nightsweep.host import process_tree

RECORD = "engine.json"
LOG = "engine.log"


@dataclass(frozen=True)
class EngineRecord:
    """What is written down of an engine process.

    Attributes:
        pid: None between the record and the start: the engine's mark still finds it.
        birth: See `process_tree.birth`.
        machine: See `process_tree.boot_of_machine`.
        started_at: UTC, ISO 8601.
        command: Without secrets.
        service: Pid of the process that started it, with its birth.
        holder: Who started it, as in a lease: others leave the engine alone while that one lives.
    """

    boot_key: str
    port: int
    machine: str
    started_at: str
    command: tuple[str, ...]
    service: str
    pid: int | None = None
    birth: str | None = None
    holder: str | None = None

    @property
    def id(self) -> str:
        """The id of the engine's handle."""
        return f"{self.pid}:{self.birth}"

    def living(self) -> dict[int, str]:
        """Return the engine's living processes with their births; of another run of the machine there are none."""
        if self.machine != process_tree.boot_of_machine():
            return {}
        return process_tree.members(mark=self.boot_key, leader=self.pid, leader_birth=self.birth)


class EngineRecords:
    """The records under one directory, one subdirectory per engine with its record and its log."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir

    def folder(self, boot_key: str) -> Path:
        """Return the directory of an engine; its name is readable and no two keys share one."""
        readable = re.sub(r"[^a-zA-Z0-9_.-]+", "-", boot_key)[:80]
        return self._root / f"{readable}-{hashlib.sha256(boot_key.encode()).hexdigest()[:8]}"

    def log_path(self, boot_key: str) -> Path:
        """Return where the engine's output goes."""
        return self.folder(boot_key) / LOG

    def write(self, record: EngineRecord) -> None:
        """Write a record, whole or not at all."""
        folder = self.folder(record.boot_key)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = folder / f".{RECORD}.{os.getpid()}"
        draft.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
        draft.replace(folder / RECORD)

    def read(self, boot_key: str) -> EngineRecord | None:
        """Return the record of an engine; None when there is none that can be read."""
        return _load(self.folder(boot_key) / RECORD)

    def all(self) -> Iterator[EngineRecord]:
        """Yield every record that can be read."""
        for path in sorted(self._root.glob(f"*/{RECORD}")):
            record = _load(path)
            if record is not None:
                yield record

    def remove(self, boot_key: str) -> None:
        """Remove an engine's record and log; none there is no error."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder(boot_key))


def _load(path: Path) -> EngineRecord | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return EngineRecord(**{**content, "command": tuple(content["command"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None

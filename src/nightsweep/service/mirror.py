"""A small file that says which production container was taken down, for when the database is not there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nightsweep.errors import HostError


class OwedUnreadable(HostError):
    """The file that says what production must come back is damaged, and nothing else can tell."""

    summary = (
        "{path} says which production is down, and is damaged ({reason}); {named}. What else it named is not known: "
        "`nightsweep restore NAME` brings a container back by its name; remove the file when all of them serve"
    )


@dataclass(frozen=True)
class Reading:
    """What the file says.

    Attributes:
        noted: What can be read, by container name; of one of which only the name can be read, nothing more.
        damage: Why it cannot be read to its end; None when it can.
    """

    noted: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    damage: str | None = None


class FileMirror:
    """Keeps what must come back in one JSON file, written durably and atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, container: str, facts: Mapping[str, Any]) -> None:
        """Note that the container was taken down."""
        with self._alone():
            found = self.look()
            if found.damage is not None:
                self._keep_remains()
            self._replace({**found.noted, container: dict(facts)})

    def clear(self, container: str) -> None:
        """Strike the container off: it serves again. A damaged file stays as it is: what else it named is not known."""
        found = self.look()
        if found.damage is not None or container not in found.noted:
            return
        with self._alone():
            self._replace({name: facts for name, facts in self.read().items() if name != container})

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what was taken down and is not noted as back, by container name; of a damaged file, what can be read."""
        return self.look().noted

    def look(self) -> Reading:
        """Return what the file says, and whether that is all of it."""
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return Reading()
        except OSError as error:
            return Reading(damage=f"cannot be read: {error.strerror}")
        return read_noted(text)

    def whole(self) -> None:
        """Raise OwedUnreadable when the file is damaged."""
        found = self.look()
        if found.damage is not None:
            named = f"it still names {', '.join(sorted(found.noted))}" if found.noted else "no name can be read in it"
            raise OwedUnreadable(path=str(self._path), reason=found.damage, named=named)

    def renew(self, noted: Mapping[str, Mapping[str, Any]]) -> Path:
        """Write a damaged file anew, from what else is known; return where its remains are kept, for people."""
        with self._alone():
            fresh = self.look()
            if fresh.damage is None:  # a sweep has written it meanwhile, and knows better
                self._replace({**noted, **fresh.noted})
            else:
                self._keep_remains()
                self._replace(noted)
        return self._remains

    @property
    def _remains(self) -> Path:
        return self._path.with_suffix(".damaged")

    def _keep_remains(self) -> None:
        with contextlib.suppress(OSError):  # one that cannot be read cannot be copied either
            shutil.copyfile(self._path, self._remains)

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


def read_noted(text: str) -> Reading:
    """Return what a file's text says; of a damaged one, every name and every whole entry before the damage."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return Reading(_salvaged(text), damage="it is no JSON")
    if not isinstance(found, dict):
        return Reading(damage="it is no JSON object")
    return Reading({name: _sound(facts) for name, facts in found.items()})


def _salvaged(text: str) -> dict[str, Mapping[str, Any]]:
    """Read names and entries one after the other, as far as that goes."""
    noted: dict[str, Mapping[str, Any]] = {}
    decoder, rest = json.JSONDecoder(), text.strip()
    opened, more = rest[:1], rest[1:].lstrip()
    with contextlib.suppress(ValueError, RecursionError):
        while opened in ("{", ","):
            name, end = decoder.raw_decode(more)
            more = more[end:].lstrip()
            if not isinstance(name, str):
                break
            noted[name] = {}
            if not more.startswith(":"):
                break
            facts, end = decoder.raw_decode(more[1:].lstrip())
            noted[name] = _sound(facts)
            more = more[1:].lstrip()[end:].lstrip()
            opened, more = more[:1], more[1:].lstrip()
    return noted


def _sound(facts: Any) -> Mapping[str, Any]:
    """Return an entry without what its readers could not use of a holder; an entry that is none says nothing."""
    if not isinstance(facts, dict):
        return {}
    return {key: value for key, value in facts.items() if value is None or _SOUND.get(key, _anything)(value)}


def _anything(value: Any) -> bool:
    return True


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _moment(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


_SOUND = {
    "owner": lambda value: isinstance(value, str),
    "box_id": _number,
    "sweep_id": _number,
    "restore_started_at": _moment,
}

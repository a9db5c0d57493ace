"""Judges what the kills left behind. Pure: it is given what was seen from outside, and returns what is wrong with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Slot = tuple[str, str, int, int]
"""Sweep, config, concurrency, repeat: what is planned to be measured once."""


@dataclass(frozen=True)
class StoredWindow:
    """A row of `windows`, with what names its slot.

    Attributes:
        content: Hash over everything that was measured, as stored.
    """

    id: int
    slot: Slot
    attempt: int
    clean: bool
    content: str


@dataclass(frozen=True)
class Container:
    """What must not change of a container that is not ours.

    Attributes:
        life: When it was started and how often Docker restarted it; None of one that may be stopped and started.
        made: Image, command, entrypoint, environment, restart policy and mounts, as Docker says them.
    """

    name: str
    id: str
    running: bool
    life: tuple[str, int] | None
    made: Mapping[str, Any]


@dataclass(frozen=True)
class Tally:
    """How the planned windows stand."""

    planned: int
    clean: int
    exhausted: int
    problems: tuple[str, ...]

    @property
    def once(self) -> int:
        """Planned windows that are stored exactly once, clean, or flagged as often as the plan allows."""
        return self.clean + self.exhausted


def tally(planned: Iterable[Slot], stored: Sequence[StoredWindow], *, max_attempts: int) -> Tally:
    """Return how the planned windows stand: each must be clean exactly once, or flagged `max_attempts` times."""
    rows: dict[Slot, list[StoredWindow]] = defaultdict(list)
    for window in stored:
        rows[window.slot].append(window)
    slots = tuple(planned)
    problems: list[str] = [f"{_named(slot)}: stored, and never planned" for slot in rows if slot not in set(slots)]
    clean = exhausted = 0
    for slot in slots:
        found = rows.get(slot, [])
        wrong = _wrong(found, max_attempts=max_attempts)
        problems += [f"{_named(slot)}: {one}" for one in wrong]
        if not wrong:
            clean += any(window.clean for window in found)
            exhausted += not any(window.clean for window in found)
    return Tally(planned=len(slots), clean=clean, exhausted=exhausted, problems=tuple(problems))


def _wrong(found: Sequence[StoredWindow], *, max_attempts: int) -> list[str]:
    clean = [window for window in found if window.clean]
    if not clean:
        if len(found) >= max_attempts:
            return []
        return [f"missing: {len(found)} flagged attempts of {max_attempts}, none clean"]
    wrong = []
    if len(clean) > 1:
        wrong.append(f"clean {len(clean)} times (windows {', '.join(str(window.id) for window in clean)})")
    first = min(clean, key=lambda window: window.id)
    again = [window for window in found if window.id > first.id and not window.clean]
    if again:
        wrong.append(f"measured again after window {first.id} was clean (window {again[0].id})")
    return wrong


def lost(committed: Mapping[int, StoredWindow], stored: Sequence[StoredWindow]) -> tuple[str, ...]:
    """Return what was seen committed before a kill and is gone, or not the same any more."""
    now = {window.id: window for window in stored}
    problems = []
    for window_id, before in committed.items():
        after = now.get(window_id)
        if after is None:
            problems.append(f"window {window_id} ({_named(before.slot)}) was committed and is gone")
        elif after != before:
            problems.append(f"window {window_id} ({_named(before.slot)}) was committed and has changed since")
    return tuple(problems)


def touched(before: Container, after: Container | None) -> tuple[str, ...]:
    """Return what became of a container that must not be touched; of one without `life`, what must not be changed."""
    if after is None or after.id != before.id:
        return (f"{before.name}: removed" if after is None else f"{before.name}: removed and made anew",)
    problems = []
    if after.made != before.made:
        changed = sorted(key for key in {*before.made, *after.made} if before.made.get(key) != after.made.get(key))
        problems.append(f"{before.name}: changed ({', '.join(changed)})")
    if before.life is not None and (after.life, after.running) != (before.life, before.running):
        problems.append(f"{before.name}: touched: was {before.life}, is {after.life}, running {after.running}")
    return tuple(problems)


def _named(slot: Slot) -> str:
    sweep, config, concurrency, repeat = slot
    return f"{sweep}: {config} c={concurrency} #{repeat + 1}"

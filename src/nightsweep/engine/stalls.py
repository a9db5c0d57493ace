"""How long an engine's processes have waited for each other, by their own once-a-minute sentence.

Source:
    vLLM distributed/device_communicators/shm_broadcast.py: one line a minute and process while nobody writes; level WARNING in
    0.9 and 0.10, INFO later. Every rank says it, and one slow compilation makes each say it a few times.
"""

from __future__ import annotations

import re

SENTENCE = "No available shared memory broadcast block found"
_TIME = re.compile(r"\b(\d\d):(\d\d):(\d\d)\b")
_DAY = 86_400
_ONE_WAIT = 150
"""Seconds between two of the lines of one wait: it is told every 60."""

_GENERATED = re.compile(r"generation throughput: (?!0(?:\.0+)? )\d")


class Stalls:
    """Counts the minutes of the wait that is still on."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[int, int | None]] = {}

    @property
    def longest(self) -> int:
        """How often in a row one process said that it waits."""
        return max((count for count, _ in self._runs.values()), default=0)

    def wait(self, *, prefix: str, raw: str) -> None:
        """Note that a process waits; a wait long after the one before is another one."""
        found = _TIME.search(raw)
        at = None if found is None else int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
        count, before = self._runs.get(prefix, (0, None))
        if at is not None and before is not None and (at - before) % _DAY > _ONE_WAIT:
            count = 0
        self._runs[prefix] = (count + 1, at)

    def moved(self) -> None:
        """Note that the engine went on."""
        self._runs.clear()


def generates(message: str) -> bool:
    """Whether a report on traffic shows that tokens come."""
    return _GENERATED.search(message) is not None

"""The log of an engine process: its output in a file, read while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from nightsweep.engine.values import LogLine
from nightsweep.host.loglines import LineAssembler
from nightsweep.ports import Clock
from nightsweep.units import Seconds

POLL = Seconds(0.1)
CHUNK = 256 * 1024
LATE = 2.0
"""Seconds after the start from which lines that were already there have no known time."""


def follow(
    path: Path, *, started: datetime, alive: Callable[[], bool], stop: Callable[[], bool], clock: Clock
) -> Iterator[LogLine]:
    """Yield lines with the seconds at which they were seen (at most `POLL` late), until the end or `stop()`.

    Stdout and stderr share the file, in the order in which they were written. Lines that were written long before
    reading began (a service that was started again) carry no time.
    """
    assembler = LineAssembler()
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    seconds = _since(started, clock)
    stamp = None if seconds > LATE else seconds
    with file:
        while not stop():
            ended = not alive()
            chunk = file.read(CHUNK)
            for text in assembler.feed(chunk):
                yield LogLine(text=text, seconds=stamp)
            if len(chunk) == CHUNK:
                continue
            if ended and not chunk:
                break
            if not ended:
                clock.sleep(POLL)
            stamp = _since(started, clock)
        for text in assembler.flush():
            yield LogLine(text=text, seconds=_since(started, clock))


def _since(started: datetime, clock: Clock) -> float:
    return max(0.0, (clock.now() - started).total_seconds())

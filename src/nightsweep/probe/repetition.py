"""Whether an answer says anything: a text that repeats itself is easy to draft, and its rate is of no use to anybody."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence

from nightsweep.probe.sse import data_lines

LOOKED_AT = 8
"""Requests of a window whose text is looked at."""
LONGEST = 4096
SHORTEST = 600
"""Characters: of longer texts the beginning is taken, shorter ones say nothing."""


def repetition(stamps: Sequence[float], chunks: Sequence[bytes]) -> float | None:
    """Return the size of the text when compressed, as a share of its size; None for a text that is too short.

    Prose and code give 0.2 to 0.5, a short block over and over 0.02.
    """
    text = ""
    for _, line in data_lines(stamps, chunks):
        text += "".join(_texts(line))
        if len(text) >= LONGEST:
            break
    data = text[:LONGEST].encode("utf-8", errors="replace")
    return len(zlib.compress(data, 9)) / len(data) if len(text) >= SHORTEST else None


def _texts(line: bytes) -> Iterable[str]:
    try:
        event = json.loads(line)
    except ValueError:
        return
    for choice in (event.get("choices") or ()) if isinstance(event, dict) else ():
        delta = choice.get("delta") or {}
        for told in (choice.get("text"), *(delta.get(key) for key in ("content", "reasoning", "reasoning_content"))):
            if isinstance(told, str):
                yield told

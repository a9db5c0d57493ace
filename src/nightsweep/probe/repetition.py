"""Whether an answer says anything: a text that repeats itself is easy to draft, and its rate is of no use to anybody."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

TEXT = re.compile(rb'"(?:content|reasoning|reasoning_content|text)":\s*"((?:[^"\\]|\\.)*)"')
"""Text in an event, as JSON escapes it: for how often it repeats itself that is as good, and costs a fifth of reading JSON."""

LOOKED_AT = 8
"""Requests of a window whose text is looked at."""
LONGEST = 4096
SHORTEST = 600
"""Characters: of longer texts the beginning is taken, shorter ones say nothing."""


def repetition(chunks: Sequence[bytes]) -> float | None:
    """Return the size of the text when compressed, as a share of its size; None for a text that is too short.

    Prose and code give 0.2 to 0.5, a short block over and over 0.02.

    Args:
        chunks: The reads of a stream.
    """
    received = b"".join(chunks)
    texts = TEXT.findall(received)
    if b'"meta_info"' in received:  # SGLang's native endpoint sends the whole text so far with every event
        texts = texts[-1:]
    data = b"".join(texts)[:LONGEST]
    return len(zlib.compress(data, 9)) / len(data) if len(data) >= SHORTEST else None

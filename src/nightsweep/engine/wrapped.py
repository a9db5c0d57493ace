"""Sentences that a terminal or a mail program wrapped over several lines, put together again."""

from __future__ import annotations

from nightsweep.engine.lines import Line

MOST_LINES = 6
"""Further lines that one sentence may take."""

MOST_CHARACTERS = 2_000

OPENING = "max seq len ("
"""How vLLM's refusals of a KV cache begin: the numbers come after, on the same line or on the next ones.

Source:
    vLLM v1/core/kv_cache_utils.py, 0.8 to 0.33.
"""


class Wrapped:
    """Gathers the lines of a sentence that was wrapped: from its opening on, as long as no line has a header of its own."""

    def __init__(self) -> None:
        self._text = ""
        self._left = 0

    def joined(self, message: str, line: Line) -> str | None:
        """Return the sentence so far when a message goes on with it; None when it does not belong to any."""
        if OPENING in message:
            self._text, self._left = message[:MOST_CHARACTERS], MOST_LINES
            return None
        if not self._left or line.headed or len(self._text) >= MOST_CHARACTERS:
            self._left = 0
            return None
        self._left -= 1
        self._text = f"{self._text} {message}"[:MOST_CHARACTERS]
        return self._text

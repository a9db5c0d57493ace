"""Streams that go wrong in the middle, as servers and proxies let them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nightsweep.simulator.answers import DONE, Stream

SPOILT_AFTER = 3
"""Events that a stream still sends before it breaks."""

_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>upstream prematurely closed connection</body></html>\n"


class SpoiledStream(Stream):
    """A stream that breaks in one of these ways.

    Args:
        how: "cut_stream": the connection ends without a word. "stream_error": an error event, then [DONE], as vLLM sends it.
            "empty_stream": [DONE] and nothing else. "garbage": a proxy's page instead of events.
        cut: Ends the connection at once.
    """

    def __init__(
        self, *args: Any, how: str, cut: Callable[[], None], write: Callable[[bytes], None], **more: Any
    ) -> None:
        super().__init__(*args, write=write, **more)
        self._how = how
        self._cut = cut
        self._raw = write
        self._sent = 0
        self._over = False

    def tokens(self, start: int, count: int, finish_reason: str | None) -> bool:
        """Send tokens until it is time to break; see `Outlet`."""
        if self._over:
            return False
        late = self._sent >= SPOILT_AFTER or finish_reason is not None
        if late or self._how in ("empty_stream", "garbage"):
            self._break()
            return False
        self._sent += 1
        return super().tokens(start, count, finish_reason)

    def _break(self) -> None:
        self._over = True
        if self._how == "stream_error":
            self.fail()
            return
        if self._how == "cut_stream":
            self._cut()
        else:
            self._raw(DONE if self._how == "empty_stream" else _PAGE)
        self.done.set()

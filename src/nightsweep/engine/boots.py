"""Where the next boot begins in a log that holds several: a container that is restarted goes on writing to the same log.

Source:
    vLLM entrypoints/utils.py and api_utils.py (banner, version, arguments come once a boot, before anything is loaded); SGLang
    entrypoints/engine.py (`server_args=`); docker compose ("vllm-1 exited with code 2").
"""

from __future__ import annotations

import re

from nightsweep.engine.lines import Line

_SIGNS = ("non-default args", "vLLM API server version", "vLLM server version", "server_args=")
_INITIALS = frozenset("▄nvs")
_WRITER = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,80})\s{0,40}\|\s")
_EXITED = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,80}) exited with code -?\d+")


def sign_of(message: str) -> str | None:
    """Return which of the sentences this is that an engine says once, early in its boot; None for all others."""
    text = message.lstrip()
    if text[:1] not in _INITIALS:
        return None
    if text.startswith("▄▄"):
        return "banner" if " version " in text else None
    return next((sign for sign in _SIGNS if text.startswith(sign)), None)


class Boots:
    """Tells a log's boots apart.

    A boot begins with its first sentence, said again or said after more than arguments was told, and with what a container
    writes after compose told that it ended. One of several API servers says nothing of a boot.
    """

    def __init__(self) -> None:
        self._signs: set[str] = set()
        self._writers: set[str] = set()
        self._exited: str | None = None
        self.by_exit = False

    def engine_wrote(self, line: Line) -> None:
        """Note that a line is the engine's, so that its container is known from others in the same log."""
        if "|" in line.raw[:128] and len(self._writers) < 16:
            found = _WRITER.match(line.raw)
            if found is not None:
                self._writers.add(found.group(1))

    @property
    def signed(self) -> bool:
        """Whether this boot said any of its first sentences."""
        return bool(self._signs)

    def begins(self, line: Line, *, moved: bool) -> bool:
        """Return whether a line is the first of a new boot.

        Args:
            moved: Whether the boot so far told more than its arguments.
        """
        if self._after_exit(line):
            self._start(by_exit=True)
            return True
        sign = sign_of(line.message)
        if sign is None or "ApiServer_" in line.prefix:
            return False
        again = moved or sign in self._signs
        if again:
            self._start(by_exit=False)
        self._signs.add(sign)
        return again

    def _start(self, *, by_exit: bool) -> None:
        self._signs.clear()
        self._exited = None
        self.by_exit = by_exit

    def _after_exit(self, line: Line) -> bool:
        if line.headed and self._exited is None:
            return False
        ended = None if line.headed or " exited with code " not in line.raw else _EXITED.match(line.raw)
        if ended is not None:
            if ended.group(1) in self._writers:
                self._exited = ended.group(1)
            return False
        if self._exited is None:
            return False
        writer = _WRITER.match(line.raw)
        return writer is not None and writer.group(1) == self._exited

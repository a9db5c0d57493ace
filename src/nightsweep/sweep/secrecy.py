"""Secrets taken out of what engines and servers say, before anything of it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nightsweep.measurement.values import WindowResult
from nightsweep.ports import Secret

SHORTEST = 4
"""Characters: anything shorter is no secret, and hiding it would tear holes into every text."""


class Hider:
    """Replaces the secrets of one engine start wherever they stand in a text."""

    def __init__(self, values: Iterable[str | None]) -> None:
        found = {str(value) for value in values if isinstance(value, Secret) and len(value) >= SHORTEST}
        self._secrets = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return the text with every secret as `***`."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def window(self, result: WindowResult) -> WindowResult:
        """Return the window with its texts freed of secrets: a server's error may repeat what it was sent."""
        if not self._secrets:
            return result
        raw = result.raw
        requests = tuple(
            one if one.error is None else replace(one, error=self(one.error))  # a window may hold thousands
            for one in raw.requests
        )
        raw = replace(raw, requests=requests, detail=None if raw.detail is None else self(raw.detail))
        details = {flag: self(text) for flag, text in result.flag_details.items()}
        return replace(result, raw=raw, flag_details=details)

"""Messages to people, as values."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("done", "failed", "night_over", "cancelled", "production_not_restored")
"""What is told, as NIGHTSWEEP_NOTIFY_ON names it."""

LEVELS = {
    "done": "success",
    "failed": "failure",
    "night_over": "info",
    "cancelled": "info",
    "production_not_restored": "failure",
    "test": "info",
}


@dataclass(frozen=True)
class Notice:
    """A message.

    Attributes:
        kind: One of `KINDS`, or "test".
        level: success | info | warning | failure, as notification services know it.
        body: Plain text, lines of it.
    """

    kind: str
    level: str
    title: str
    body: str

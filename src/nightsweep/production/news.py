"""What people are told when production is back, the same whoever brought it back. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from nightsweep.production.returning import Back


@dataclass(frozen=True)
class News:
    """An event to be kept."""

    kind: str
    level: str
    message: str


def news_of(back: Back) -> tuple[News, ...]:
    """Return what is told of production that serves again: what differs and what was not checked, loudly."""
    told = []
    if back.differences:
        said = f"{back.name} is not what was stopped: {'; '.join(back.differences)}"
        told.append(News("production_differs", "warning", said))
    if back.unchecked:
        told.append(News("production_unchecked", "warning", f"{back.name}: {'; '.join(back.unchecked)}"))
    return (*told, News("production_restored", "info", f"{back.name} serves again: {back.told}"))

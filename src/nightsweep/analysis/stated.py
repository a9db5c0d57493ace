"""How many runs a stored row stands for: one of ours is one run, an imported one is what its file says it is.

A mean of three runs is one number without a spread: it never becomes three observations.
"""

from __future__ import annotations

from collections.abc import Iterable

from nightsweep.plan.words import MEAN_OF, NO_COUNT


def stated_in(notes: Iterable[str]) -> int | None:
    """Return the runs that one row stands for, by its notes; None where its file does not say."""
    said = tuple(notes)
    if NO_COUNT in said:
        return None
    return next((_number(note) for note in said if note.startswith(MEAN_OF)), 1)


def stated_of(rows: Iterable[Iterable[str]]) -> int | None:
    """Return the runs that each of several rows stands for, by their notes; None where that is not known or not the same."""
    found = {stated_in(notes) for notes in rows}
    return found.pop() if len(found) == 1 else None


def stated_among(notes: Iterable[str], *, n: int) -> int | None:
    """Return it of `n` rows of which only all notes together are known, each once."""
    counted = {note for note in notes if note == NO_COUNT or note.startswith(MEAN_OF)}
    if n > 1 and counted:
        return None  # which of them are means, and which are single runs, their notes together do not tell
    return stated_of([counted])


def _number(note: str) -> int | None:
    number = note.removeprefix(MEAN_OF).split(" ", 1)[0]
    return int(number) if number.isdecimal() else None

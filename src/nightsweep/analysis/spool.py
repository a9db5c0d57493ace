"""What lies in the spool, in words. By itself: `status` says it, and loads none of the checks that `doctor` has."""

from __future__ import annotations

from typing import NamedTuple

from nightsweep.analysis import text


class SpoolFacts(NamedTuple):
    """What lies in the spool: writes that the database could not take."""

    folder: str
    waiting: int = 0
    refused: int = 0


def spool_said(facts: SpoolFacts) -> str:
    """Return what lies in the spool, in words; "" for nothing."""
    waiting = f"{text.plural(facts.waiting, 'write')} in {facts.folder} for a database that was away"
    refused = f"{text.plural(facts.refused, 'refused write')} below {facts.folder}"
    return "; ".join((*([waiting] if facts.waiting else ()), *([refused] if facts.refused else ())))

"""What a cause of failure is: the sentence that tells it, and what follows from it."""

from __future__ import annotations

import re
from dataclasses import dataclass

CAUSE, HINT, CONSEQUENCE = 3, 2, 1
"""How much a sentence tells: the cause itself; a generic cause or weak sign; only that something failed elsewhere."""

NEVER, SAME, AFTER_MEMORY = "never", "same", "after_memory"


@dataclass(frozen=True)
class Cause:
    """One way to fail.

    Attributes:
        kind: The class of the failure.
        needle: A text that every such line holds: looked for before the pattern is tried.
        pattern: Searched in the message; its named groups fill `remedy`.
        weight: CAUSE, HINT or CONSEQUENCE.
        stage: Where, when the sentence tells it; "" is where the log had got to.
    """

    kind: str
    needle: str
    pattern: re.Pattern[str]
    retry: str
    remedy: str
    weight: int = CAUSE
    stage: str = ""


def cause(
    kind: str, pattern: str, *, needle: str, retry: str = NEVER, remedy: str, weight: int = CAUSE, stage: str = ""
) -> Cause:
    """Return a cause; `pattern` is searched in the message of a line that holds `needle`."""
    return Cause(
        kind=kind,
        needle=needle,
        pattern=re.compile(pattern),
        retry=retry,
        remedy=remedy,
        weight=weight,
        stage=stage,
    )

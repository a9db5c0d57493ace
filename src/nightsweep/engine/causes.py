"""What a cause of failure is: the sentence that tells it, and what follows from it; and a table of them that is quick to ask."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nightsweep.plan.words import NEVER

CAUSE, HINT, CONSEQUENCE = 3, 2, 1
"""How much a sentence tells: the cause itself; a generic cause or weak sign; only that something failed elsewhere."""

_WORD = re.compile(r"[A-Za-z]+")
_INNER_WORD = re.compile(r"(?<=[^A-Za-z])[A-Za-z]+(?=[^A-Za-z])")


@dataclass(frozen=True)
class Cause:
    """One way to fail.

    Attributes:
        kind: The class of the failure.
        needle: A text that every such line holds: looked for before the pattern is tried.
        pattern: Searched in the message; its named groups fill `remedy`.
        weight: CAUSE, HINT or CONSEQUENCE.
        stage: Where, when the sentence tells it; "" is where the log had got to.
        words: Whole words (letters only) of which every such line holds at least one; empty when there are none such.
    """

    kind: str
    needle: str
    pattern: re.Pattern[str]
    retry: str
    remedy: str
    weight: int = CAUSE
    stage: str = ""
    words: tuple[str, ...] = ()


def cause(
    kind: str,
    pattern: str,
    *,
    needle: str = "",
    words: str = "",
    retry: str = NEVER,
    remedy: str,
    weight: int = CAUSE,
    stage: str = "",
) -> Cause:
    """Return a cause; `pattern` is searched in the message of a line that holds `needle` and one of `words`.

    A pattern must cost no more than linear time in the line's length: nothing unbounded before something that may fail,
    unless a look-behind keeps it from starting anew at every character.
    """
    inner = sorted(_INNER_WORD.findall(needle), key=len, reverse=True)[:1]
    return Cause(
        kind=kind,
        needle=needle,
        pattern=re.compile(pattern),
        retry=retry,
        remedy=remedy,
        weight=weight,
        stage=stage,
        words=tuple(words.split()) or tuple(inner),
    )


class Causes:
    """A table of causes, asked by the words of a line: a line of errors mostly holds no cause's word at all."""

    def __init__(self, table: Sequence[Cause]) -> None:
        self.table = tuple(table)
        self._always = tuple(at for at, one in enumerate(self.table) if not one.words)
        by_word: dict[str, list[int]] = {}
        for at, one in enumerate(self.table):
            for word in one.words:
                by_word.setdefault(word, []).append(at)
        self._by_word = by_word
        self._words = frozenset(by_word)

    def first(self, text: str) -> tuple[Cause, re.Match[str]] | None:
        """Return the first cause of the table that a text states, with what was found, or None."""
        places = set(self._always)
        for word in self._words.intersection(_WORD.findall(text)):
            places.update(self._by_word[word])
        for at in sorted(places):
            one = self.table[at]
            if one.needle in text:
                found = one.pattern.search(text)
                if found is not None:
                    return one, found
        return None

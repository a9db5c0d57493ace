"""Collecting facts from messages: rules by first word, ranks and duplicates by rule, never one fact from another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nightsweep.engine.lines import Line, RankKey, rank_key
from nightsweep.engine.redact import redacted_text
from nightsweep.engine.values import Fact

MAX_FACTS = 2_000
"""Facts kept of one log; a log with more says the same again and again."""

MAX_WARNINGS = 60
MAX_KEPT_LINE = 2_000


MAX_DIGITS = 15
"""Digits of a number that a box can have; more are damage, and no database column holds them."""


def number(text: str) -> float:
    """Return a number as engines write it (raises ValueError)."""
    return float(_sane(text))


def count(text: str) -> int:
    """Return a count as engines write it, with or without thousands separators (raises ValueError)."""
    return int(_sane(text))


def _sane(text: str) -> str:
    plain = text.replace(",", "")
    if len(plain.partition(".")[0]) > MAX_DIGITS:
        raise ValueError(text[:40])
    return plain


_ABRIDGED = re.compile(r"[\d.,]{0,3}(?:\.\.|\s?(?:…|\.\.\.|\[truncated|\[\.\.\.|<truncated))|[.,]?\d")


def abridged(text: str, end: int) -> bool:
    """Whether a value ends where somebody shortened the line ("GPU blocks: 12...") or inside a longer number."""
    return _ABRIDGED.match(text, end) is not None


def _shortened(found: re.Match[str], name: str) -> bool:
    """Whether a group is the end of its sentence only because the line was shortened there."""
    end = found.end(name)
    return found.string[end - 1 : end] in ("…", ".") or (end == found.end() and abridged(found.string, end))


@dataclass(frozen=True)
class Rule:
    """One sentence of an engine.

    Attributes:
        pattern: Matched at the message's start. Each named group is a fact of that name.
        convert: How a group's text becomes a value, by group name; a group without an entry is a float.
        also: Facts with a fixed value that the sentence states.
    """

    pattern: re.Pattern[str]
    convert: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)


def rule(pattern: str, *, text: str = "", counts: str = "", also: Mapping[str, Any] | None = None) -> Rule:
    """Return a rule; `text` and `counts` name the groups (separated by blanks) that are no floats."""
    convert: dict[str, Callable[[str], Any]] = dict.fromkeys(text.split(), str)
    convert |= dict.fromkeys(counts.split(), count)
    return Rule(pattern=re.compile(pattern), convert=convert, also=also or {})


class Collector:
    """Facts of one boot, as they come.

    Of a fact that several ranks state, the lowest rank's value is the one that counts, and of one rank's values the first;
    all different ones are kept in `facts`. Values are never added up over ranks: each is of one device.
    """

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._seen: set[tuple[str, str | None, str]] = set()
        self._best: dict[str, tuple[RankKey, Any]] = {}
        self._warnings: dict[str, str] = {}
        self.stated = 0
        """How often a fact was stated, again or anew."""

    def add(self, name: str, value: Any, line: Line) -> None:
        """Keep a fact that `line` states; not one that is the last word of a line that breaks off, nor an absurd number."""
        if isinstance(value, str) and line.raw[-1:] == "…" and line.raw.endswith((value, f"{value}…")):
            return
        if isinstance(value, int | float) and not abs(value) < 10**MAX_DIGITS:
            return
        self.stated += 1
        rank = line.rank
        key = (name, rank, repr(value))
        order = rank_key(line.prefix)
        best = self._best.get(name)
        if best is None or order < best[0]:
            self._best[name] = (order, value)
        if key in self._seen or len(self._facts) >= MAX_FACTS:
            return
        self._seen.add(key)
        kept = redacted_text(line.raw[:MAX_KEPT_LINE].strip())
        self._facts.append(Fact(name=name, value=value, line=kept, rank=rank))

    def rename(self, old: str, new: str, *, rank: str | None) -> None:
        """Turn the facts of a name on one rank into another name: a later line told what they really were."""
        moved = [fact for fact in self._facts if fact.name == old and fact.rank == rank]
        if not moved:
            return
        self._facts = [
            Fact(name=new, value=fact.value, line=fact.line, rank=fact.rank) if fact in moved else fact
            for fact in self._facts
        ]
        best = self._best.pop(old, None)
        if best is not None:
            self._best.setdefault(new, best)

    def warn(self, message: str) -> None:
        """Keep a warning once, however often and with whatever numbers it comes."""
        key = re.sub(r"\d+", "#", message[:200])
        if len(self._warnings) < MAX_WARNINGS:
            self._warnings.setdefault(key, redacted_text(message[:600].strip()))

    def apply(self, rules: Sequence[Rule], line: Line) -> bool:
        """Try rules in order on a message; return whether one matched."""
        for candidate in rules:
            found = candidate.pattern.match(line.message)
            if found is None:
                continue
            for name, text in found.groupdict().items():
                if text is not None and not _shortened(found, name):
                    self._convert(candidate, name, text, line)
            for name, value in candidate.also.items():
                self.add(name, value, line)
            return True
        return False

    def _convert(self, candidate: Rule, name: str, text: str, line: Line) -> None:
        try:
            value = candidate.convert.get(name, number)(text)
        except (ValueError, OverflowError):  # a cut or mangled number is no number
            return
        self.add(name, value, line)

    def get(self, name: str) -> Any:
        """Return the value that counts, or None."""
        best = self._best.get(name)
        return None if best is None else best[1]

    def first_of(self, *names: str) -> Any:
        """Return the value of the first name that was stated."""
        return next((self._best[name][1] for name in names if name in self._best), None)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Everything stated, in order."""
        return tuple(self._facts)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings worth keeping, in order of appearance."""
        return tuple(self._warnings.values())


class Stages:
    """Seconds by stage of the cold start, from the times at which milestones were reached."""

    def __init__(self, order: Sequence[str], *, start: float | None = 0.0) -> None:
        """Begin at `start` seconds; None when nobody told when it began, so that the first stage has no length."""
        self._order = tuple(order)
        self._start = start
        self._reached: dict[str, float] = {}

    def reach(self, stage: str, seconds: float | None) -> None:
        """Note that a stage ended; of several ranks the last one counts, and nothing after the engine was ready."""
        if seconds is None or "ready" in self._reached:
            return
        self._reached[stage] = max(seconds, self._reached.get(stage, seconds))

    def seconds(self) -> dict[str, float]:
        """Return each stage's seconds. A stage whose end no line tells is part of the next one."""
        spans: dict[str, float] = {}
        before = self._start
        for stage in self._order:
            at = self._reached.get(stage)
            if at is not None and before is None:
                before = at
            elif at is not None and before is not None and at >= before:
                spans[stage] = round(at - before, 3)
                before = at
        return spans

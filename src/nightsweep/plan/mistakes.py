"""Mistakes in a sweep file: where, what was found, what is allowed, and how to mend it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file to a value."""

_WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_NUMBER_WORDS = {word: number for number, word in enumerate(_WORDS.split())}
_SECRET_WORDS = frozenset({"TOKEN", "KEY", "APIKEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"})
_WHERE_NOT_WHAT = ("PATH", "FILE", "DIR", "IDS")  # HF_TOKEN_PATH says where a secret lies, and is none
_TOKEN_SHAPE = re.compile(r"^(hf_|sk-|ghp_|github_pat_|glpat-|xox[abp]-|AKIA|eyJ)[A-Za-z0-9._-]{8,}$")
_PASSWORD_IN_URL = re.compile(r"[^/\s]:[^/@\s]+@")
_SHOWN_LENGTH = 60


@dataclass(frozen=True)
class Mistake:
    """One mistake, ready to be told.

    Attributes:
        found: What stands there, in words; never a secret.
        allowed: What may stand there.
        remedy: A sentence that says how to mend it; may be empty.
        line: Where, when the path alone does not tell.
    """

    path: Path
    found: str
    allowed: str
    remedy: str = ""
    line: int | None = None

    def told(self, *, source: str, line: int) -> str:
        """Return the one line that people read."""
        where = dotted(self.path)
        head = f"{source}:{self.line or line}: {where}: " if where else f"{source}:{self.line or line}: "
        return f"{head}found {self.found}; allowed: {self.allowed}." + (f" {self.remedy}" if self.remedy else "")


class Refused(ValueError):
    """A value that a reader of values does not take; says what it would take."""

    def __init__(self, allowed: str, *, remedy: str = "", found: str | None = None) -> None:
        super().__init__(allowed)
        self.allowed = allowed
        self.remedy = remedy
        self.found = found


class SeveralRefused(Refused):
    """Several members of one value were refused: (place below the value, what stands there, why)."""

    def __init__(self, parts: tuple[tuple[Path, Any, Refused], ...]) -> None:
        super().__init__(parts[0][2].allowed)
        self.parts = parts


class Parts:
    """Gathers what is refused below a value, so that all of it is told at once."""

    def __init__(self) -> None:
        self.refused: list[tuple[Path, Any, Refused]] = []

    @contextmanager
    def at(self, below: Path, value: Any) -> Iterator[None]:
        """Note a refusal inside the block, with its place and value, and go on after it."""
        try:
            yield
        except SeveralRefused as several:
            self.refused += [((*below, *deeper), found, one) for deeper, found, one in several.parts]
        except Refused as refused:
            self.refused.append((below, value, refused))


@contextmanager
def gathered() -> Iterator[Parts]:
    """Raise, at the end of the block, all that was refused in it together."""
    parts = Parts()
    yield parts
    if parts.refused:
        raise SeveralRefused(tuple(parts.refused))


def dotted(path: Path) -> str:
    """Return a path as people write it: `configs[1].grid.num_speculative_tokens`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: Any) -> str:
    """Return a value as it is shown in a mistake: JSON, cut when long, without anything that may hold a secret."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, str) and (looks_like_token(value) or _PASSWORD_IN_URL.search(value)):
        return "a value that looks like a secret (not shown)"
    if isinstance(value, dict | list):  # members are not shown: one of them may be a secret
        return "a mapping" if isinstance(value, dict) else "a list"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH else text[: _SHOWN_LENGTH - 3] + "..."


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "Did you mean ...?" when a known word is near, else the empty string."""
    by_fold = {item.lower().replace("-", "_"): item for item in known}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), list(by_fold), n=1, cutoff=0.6)
    return f"Did you mean `{by_fold[close[0]]}`?" if close else ""


def number_meant(value: Any) -> str:
    """Return "Did you mean 4?" for a number written as a word or in quotes, else the empty string."""
    if not isinstance(value, str):
        return ""
    word = value.strip().lower()
    if word in _NUMBER_WORDS:
        return f"Did you mean {_NUMBER_WORDS[word]}?"
    digits = re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", word)
    return f"Did you mean {word}, without quotes?" if digits else ""


def looks_secret(name: str) -> bool:
    """Whether an environment variable or argument of this name usually holds a secret (HF_TOKEN, api-key, DB_PASSWORD)."""
    words = name.upper().replace("-", "_").split("_")
    return words[-1] not in _WHERE_NOT_WHAT and bool(_SECRET_WORDS & set(words))


def looks_like_token(value: str) -> bool:
    """Whether a text has the shape of a well-known kind of access token, whatever its name."""
    return _TOKEN_SHAPE.match(value) is not None

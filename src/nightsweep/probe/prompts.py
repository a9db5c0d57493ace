"""Prompt sets: three bundled texts, random ids, or the user's own JSONL.

The bundled sets are written for this project and come under its licence. None shares a long beginning with another
of its
set, so that a prefix cache helps no stream more than another.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from nightsweep.errors import InvalidPlan

BUNDLED = ("code", "prose", "tools", "random-ids")
RANDOM_SEED = 20260101
RANDOM_PROMPTS = 64
RANDOM_LENGTH = 256
RANDOM_LOWEST, RANDOM_HIGHEST = 100, 8000
"""Ids that vocabularies of interest have; below lie special tokens."""

SHOWN_PROBLEMS = 20

Prompt = str | list[Any]


@dataclass(frozen=True)
class PromptSet:
    """A set of prompts.

    Attributes:
        prompts: Each a text, a list of chat messages, or (random-ids) a list of token ids. The completions API is
            sent ids as
            they are; the chat API, which takes none, made-up words, one for each id.
        sha256: Of the content that reaches the engine: the same prompts give the same hash, however the file is laid
        out.
    """

    name: str
    prompts: tuple[Prompt, ...]
    sha256: str


def load_prompts(name_or_path: str) -> PromptSet:
    """Return a bundled set by name, or the set of a JSONL file.

    A file's lines are `{"prompt": "text"}` or `{"messages": [{"role": ..., "content": ...}, ...]}`; empty lines are
    passed over.

    Raises:
        InvalidPlan: Neither a bundled name nor a readable file, or lines that are wrong: each named by its number.
    """
    if name_or_path == "random-ids":
        return _named(name_or_path, random_ids())
    if name_or_path in BUNDLED:
        text = (files("nightsweep.probe") / "promptsets" / f"{name_or_path}.jsonl").read_text(encoding="utf-8")
        return _named(name_or_path, parse_prompts(text, source=name_or_path))
    path = Path(name_or_path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is no UTF-8 text"
        raise InvalidPlan(
            problems=(
                f"probe.prompts: {name_or_path!r} cannot be read ({why}); "
                f"use one of {', '.join(BUNDLED)} or the path of a JSONL file",
            )
        ) from error
    return _named(path.name, parse_prompts(text, source=name_or_path))


def too_few(prompts: Sequence[Prompt], *, streams: int) -> str | None:
    """Return what so few different prompts do to the numbers, for people; None when there is one for every stream.

    It is no mistake: who serves one prompt wants to know how fast that one is.
    """
    different = len(set(_canonical(tuple(prompts))))
    if different >= streams and different > 1:
        return None
    many = (
        f"{different} different prompt{'' if different == 1 else 's'} for {streams} stream{'' if streams == 1 else 's'}"
    )
    return (
        f"{many}: prompts repeat, so that TTFT is of prefix-cache hits, and acceptance and rates are of these texts alone; "
        f"give {'several' if streams == 1 else 'at least one for each stream'} (the bundled sets hold {RANDOM_PROMPTS})"
    )


def random_ids() -> tuple[Prompt, ...]:
    """Return prompts of random token ids, always the same ones: a strange workload, comparable with other publications."""
    chance = random.Random(RANDOM_SEED)
    return tuple(
        [chance.randrange(RANDOM_LOWEST, RANDOM_HIGHEST) for _ in range(RANDOM_LENGTH)] for _ in range(RANDOM_PROMPTS)
    )


def parse_prompts(text: str, *, source: str) -> tuple[Prompt, ...]:
    """Return the prompts of a JSONL text.

    Raises:
        InvalidPlan: Names every wrong line.
    """
    prompts: list[Prompt] = []
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            prompts.append(_prompt(line))
        except ValueError as error:
            problems.append(f"{source}:{number}: {error}")
    if not prompts and not problems:
        problems.append(f"{source}: holds no prompt")
    if problems:
        more = len(problems) - SHOWN_PROBLEMS
        shown = problems[:SHOWN_PROBLEMS] + ([f"and {more} more lines"] if more > 0 else [])
        raise InvalidPlan(problems=tuple(shown))
    return tuple(prompts)


def _prompt(line: str) -> Prompt:
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from error
    if not isinstance(entry, dict):
        raise ValueError(f'found {type(entry).__name__}, expected {{"prompt": "..."}} or {{"messages": [...]}}')
    unknown = set(entry) - {"prompt", "messages"}
    if unknown or len(entry) != 1:
        found = ", ".join(sorted(map(str, entry))) or "nothing"
        raise ValueError(f'found {found}, expected exactly one of "prompt" and "messages"')
    if "prompt" in entry:
        return _text(entry["prompt"])
    return _messages(entry["messages"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError('"prompt" must be text that is not empty')
    return value


def _messages(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError('"messages" must be a list that is not empty')
    for place, message in enumerate(value):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str) or "content" not in message:
            raise ValueError(f'"messages"[{place}] must hold "role" and "content"')
    return value


def _canonical(prompts: tuple[Prompt, ...]) -> Iterator[bytes]:
    for prompt in prompts:
        yield json.dumps(prompt, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _named(name: str, prompts: tuple[Prompt, ...]) -> PromptSet:
    digest = hashlib.sha256()
    for line in _canonical(prompts):
        digest.update(line)
    return PromptSet(name=name, prompts=prompts, sha256=digest.hexdigest())

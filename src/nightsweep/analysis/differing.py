"""What differs between two documents, of conditions or of configs, and whether numbers can be compared across it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MEANINGLESS = (
    "source",
    "client",
    "box",
    "simulated",
    "api",
    "prompts",
    "prompt_seed",
    "sampling",
    "model",
    "through_proxy",
    "http2",
    "engine",
)
"""Conditions under which two numbers are not of the same question."""


MOVES_ON_A_BOX = ("driver", "cuda", "kernel", "os")
"""Facts of a box that an upgrade changes: the same question, under another condition."""


@dataclass(frozen=True)
class Difference:
    """A condition that is not the same on both sides."""

    name: str
    a: str
    b: str
    meaningless: bool  # to compare across it answers no question, unless the user says that it does


def differences(a: Mapping[str, object], b: Mapping[str, object]) -> list[Difference]:
    """Return the conditions, besides the config itself, that differ; those that make a comparison meaningless first."""
    names = sorted({*a, *b} - {"config"})
    found = [
        Difference(name, _shown(a.get(name)), _shown(b.get(name)), _meaningless(name))
        for name in names
        if a.get(name) != b.get(name)
    ]
    return sorted(found, key=lambda one: (not one.meaningless, one.name != "source", one.name))


def _meaningless(name: str) -> bool:
    """Return whether a condition, by its dotted name, makes a comparison across it meaningless."""
    head, _, rest = name.partition(".")
    return head in MEANINGLESS and not (head == "box" and rest.split(".")[0] in MOVES_ON_A_BOX)


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)


def config_differences(a: Mapping[str, object], b: Mapping[str, object]) -> list[Difference]:
    """Return what differs between two config documents, by dotted key: the settings that a comparison is about."""
    left, right = flat(a), flat(b)
    return [
        Difference(key, _shown(left.get(key)), _shown(right.get(key)), False)
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key)
    ]


def flat(document: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return a document by dotted key."""
    found: dict[str, object] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found

"""A decision as what is shipped: the engine's arguments and environment, with the fallback beside them as a comment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightsweep.analysis.premises import Decision
from nightsweep.plan import yamltree
from nightsweep.plan.model import EnvValue, SecretRef

FORMS = ("args", "compose", "yaml")


@dataclass(frozen=True)
class Shipped:
    """A config of a decision.

    Attributes:
        image: Of its container; None is a process.
        command: Words of its command line.
        env: All its environment variables; of a secret only the name of the variable that has it is ever written.
        entry: It as an entry of its sweep file's `configs`: what it has besides the file's `engine`.
    """

    name: str
    image: str | None
    command: tuple[str, ...]
    env: Mapping[str, EnvValue]
    entry: Mapping[str, Any]


def exported(decision: Decision, chosen: Shipped, fallback: Shipped, *, form: str, state: str) -> str:
    """Return the text; `form` is one of `FORMS`, `state` is how the decision stands today."""
    head = [
        f"decision {decision.decision_id} ({state}), {decision.decided:%Y-%m-%d}, sweep {decision.sweep_name}: "
        f"{decision.question}",
        *decision.evidence.warnings,
    ]
    if decision.simulated:
        head.insert(1, "SIMULATED: the evidence is of a simulated engine")
    if form == "yaml":
        head.append(f"an entry of `configs`; what the file of sweep {decision.sweep_name} has in `engine` goes with it")
    body, other = (_FORMS[form](one) for one in (chosen, fallback))
    lines = [*_comment(head), *_comment([f"chosen: {chosen.name}", *_notes(chosen, form=form)]), *body]
    lines += [*_comment([f"fallback: {fallback.name}", *_notes(fallback, form=form)]), *_comment(other)]
    return "\n".join(lines) + "\n"


def _notes(one: Shipped, *, form: str) -> list[str]:
    """Return what a form has no place for: a container's arguments stand alone, and Compose says its container otherwise."""
    notes = []
    if form == "args" and one.image is not None:
        notes.append(f"image: {one.image}")
        if one.env:
            notes.append(f"environment: {' '.join(_assigned(one))}")
    if form != "yaml" and one.entry.get("container"):
        own = json.dumps(one.entry["container"], ensure_ascii=False)
        notes.append(f"container, besides the sweep file's engine: {own}")
    return notes


def _comment(lines: Sequence[str]) -> list[str]:
    return [f"# {line}".rstrip() for text in lines for line in text.splitlines() or [""]]


def _args(one: Shipped) -> list[str]:
    """Return the command as a shell reads it, one option a line; a process's variables are set before it."""
    lines = _assigned(one) if one.image is None else []
    for at, word in enumerate(one.command):
        if word.startswith("--") or at == 0:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


def _assigned(one: Shipped) -> list[str]:
    """Return the environment as a shell sets it."""
    return [
        f'{name}="${{{value.from_env}}}"' if isinstance(value, SecretRef) else f"{name}={shlex.quote(value)}"
        for name, value in one.env.items()
    ]


def _compose(one: Shipped) -> list[str]:
    """Return `image`, `environment` and `command` of a Compose service; Compose reads `$` itself, so each is doubled."""
    given: dict[str, Any] = {"image": one.image} if one.image else {}
    if one.env:
        given["environment"] = {
            name: f"${{{value.from_env}}}" if isinstance(value, SecretRef) else value.replace("$", "$$")
            for name, value in one.env.items()
        }
    given["command"] = [word.replace("$", "$$") for word in one.command]
    return yamltree.write(given, width=1000).splitlines()


def _yaml(one: Shipped) -> list[str]:
    return yamltree.write([dict(one.entry)], width=1000).splitlines()


_FORMS = {"args": _args, "compose": _compose, "yaml": _yaml}

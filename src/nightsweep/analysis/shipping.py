"""A decision as what is shipped: the engine's arguments, with the fallback beside them as a comment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightsweep.analysis.premises import Decision
from nightsweep.plan import yamltree

FORMS = ("args", "compose", "yaml")


@dataclass(frozen=True)
class Shipped:
    """A config of a decision.

    Attributes:
        command: Words of its command line.
        speculative: Its speculative settings; None is no speculation.
    """

    name: str
    image: str | None
    command: tuple[str, ...]
    speculative: Mapping[str, Any] | None


def exported(decision: Decision, chosen: Shipped, fallback: Shipped, *, form: str, state: str) -> str:
    """Return the text; `form` is one of `FORMS`, `state` is how the decision stands today."""
    head = [
        f"decision {decision.decision_id} ({state}), {decision.decided:%Y-%m-%d}, sweep {decision.sweep_name}: "
        f"{decision.question}",
        *decision.evidence.warnings,
    ]
    if decision.simulated:
        head.insert(1, "SIMULATED: the evidence is of a simulated engine")
    body, other = (_FORMS[form](one) for one in (chosen, fallback))
    lines = [*_comment(head), *_comment([f"chosen: {chosen.name}"]), *body]
    if fallback.command != chosen.command:
        lines += [*_comment([f"fallback: {fallback.name}"]), *_comment(other)]
    return "\n".join(lines) + "\n"


def _comment(lines: Sequence[str]) -> list[str]:
    return [f"# {line}".rstrip() for text in lines for line in text.splitlines() or [""]]


def _args(one: Shipped) -> list[str]:
    """Return the command as a shell reads it, one option a line."""
    import shlex

    lines: list[str] = []
    for word in one.command:
        if word.startswith("--") or not lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


def _compose(one: Shipped) -> list[str]:
    """Return `image` and `command` of a Compose service; Compose reads `$` itself, so each is doubled."""
    command = [word.replace("$", "$$") for word in one.command]
    given = {"image": one.image, "command": command} if one.image else {"command": command}
    return yamltree.write(given, width=1000).splitlines()


def _yaml(one: Shipped) -> list[str]:
    """Return an entry of a sweep file's `configs`."""
    entry: dict[str, Any] = {"name": one.name.replace("{", "{{").replace("}", "}}")}
    if one.speculative:
        entry["speculative"] = dict(one.speculative)
    return yamltree.write([entry], width=1000).splitlines()


_FORMS = {"args": _args, "compose": _compose, "yaml": _yaml}

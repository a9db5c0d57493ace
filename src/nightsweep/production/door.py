"""Where a production container is asked, by which name and with which key: read off the container itself. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nightsweep.errors import InvalidPlan
from nightsweep.plan.commandline import Served, read_command
from nightsweep.ports import ForeignContainer, Secret

LISTENS = {"vllm": 8000, "sglang": 30000}
"""Port on which an engine listens when nobody says so."""
ANYTHING = 8000
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Door:
    """How production is asked.

    Attributes:
        base_url: Without /v1; None where it has no port that this machine reaches.
        kind: "vllm" or "sglang"; None for what is neither.
        model: The name it serves, as its arguments say; None where they do not.
        key: The key that it asks of its clients; taken from the container at run time, and kept nowhere.
    """

    base_url: str | None
    kind: str | None = None
    model: str | None = None
    key: Secret | None = None


def door_of(found: ForeignContainer, *, url: str | None) -> Door:
    """Return how a container is asked.

    Args:
        url: What the sweep file says; None takes the published port, on the host's network the port of its arguments,
            else its own address on Docker's network.
    """
    served = _served(found)
    base = _own_address(found, served) if url is None else url.rstrip("/").removesuffix("/v1")
    if served is None:
        return Door(base, key=_key(found))
    return Door(base, kind=served.kind, model=served.served_name or served.model, key=_key(found))


def _served(found: ForeignContainer) -> Served | None:
    """Return what its command serves; None when it is no vLLM or SGLang, or cannot be read."""
    plain = {name: value for name, value in found.env.items() if not isinstance(value, Secret)}
    try:
        return read_command(entrypoint=found.entrypoint, command=found.command, env=plain, image=found.image)
    except InvalidPlan:
        return None


def _own_address(found: ForeignContainer, served: Served | None) -> str | None:
    inside = _port(found, served)
    if found.container.network == "host":
        return f"http://127.0.0.1:{inside or ANYTHING}"
    if found.ports:
        outside = found.ports.get(inside or 0) or next(iter(found.ports.values()))
        return f"http://127.0.0.1:{outside}"
    if inside is not None and found.addresses:
        return f"http://{found.addresses[0]}:{inside}"
    return None


def _port(found: ForeignContainer, served: Served | None) -> int | None:
    if served is not None:
        return served.port or LISTENS[served.kind]
    return next((int(word) for word in _values(found, "--port") if word.isdigit()), None)


def _key(found: ForeignContainer) -> Secret | None:
    for value in (*_values(found, "--api-key"), found.env.get("VLLM_API_KEY", "")):
        variable = _VARIABLE.fullmatch(value)
        real = found.env.get(variable[1], "") if variable else value
        if real:
            return Secret(real)
    return None


def _values(found: ForeignContainer, flag: str) -> Iterator[str]:
    words = list(_words((*found.entrypoint, *found.command)))
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") != flag:
            continue
        if equals:
            yield value
        elif index + 1 < len(words):
            yield words[index + 1]


def _words(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command; a shell's script is taken apart."""
    for word in command:
        if not re.search(r"\s", word):
            yield word
            continue
        try:
            yield from shlex.split(word)
        except ValueError:
            yield word

"""An engine's command line, read back: which engine, which model, which arguments, which speculation. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nightsweep.errors import InvalidPlan
from nightsweep.plan.mistakes import looks_like_token, looks_secret
from nightsweep.plan.settings_in import argument_name, speculative_name

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_SEPARATORS = re.compile(r"[;&|]+")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_NUMBER = re.compile(r"-(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_BARE = re.compile(r"(enable|disable|no|skip|trust|enforce|use|allow|return|is|log)-")  # flags that take no value
_SHORT = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-O": "O",
    "-cc": "compilation-config",
}
_SPEC_FLAGS = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}
_VLLM_SERVE = ("vllm", "serve")


@dataclass
class Served:
    """What a command line serves.

    Attributes:
        prefix: What is executed before the engine's own arguments; empty when the entry point serves by itself.
        entrypoint: What must replace the container's entry point; None keeps the image's own.
        notes: What could not be carried over, for people.
        secrets: Environment variables that take the place of secrets on the command line.
    """

    kind: str
    prefix: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] | None = None
    model: str | None = None
    model_revision: str | None = None
    served_name: str | None = None
    port: int | None = None
    args: dict[str, Any] = field(default_factory=dict)
    speculative: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)


def read_command(
    *, entrypoint: Sequence[str], command: Sequence[str], env: Mapping[str, str], image: str = ""
) -> Served:
    """Return what a container's entry point and command serve.

    Args:
        env: The container's variables, without secrets; `$NAME` in a shell's script is filled in from them.
        image: Tells the engine when the entry point is a script of the image's own.

    Raises:
        InvalidPlan: No engine can be seen in it, or its settings cannot be read.
    """
    served, words = _engine(tuple(entrypoint), tuple(command), env=env, image=image)
    _take_flags(served, words)
    if not served.model:
        raise InvalidPlan(problems=(f"the command names no model: {_safe(words)}",))
    return served


# --- finding the engine ------------------------------------------------------------------------------------------


def _engine(
    entrypoint: tuple[str, ...], command: tuple[str, ...], *, env: Mapping[str, str], image: str
) -> tuple[Served, list[str]]:
    words = [*entrypoint, *command]
    script = _script(words)
    if script is not None:
        return _from_script(words[script], shell_is_entrypoint=script - 1 < len(entrypoint), env=env)
    start, end, kind = _marker(words)
    if kind is None:
        return _by_image(entrypoint, command, image=image)
    served = Served(kind=kind)
    if end <= len(entrypoint):
        if (
            _API_SERVER in words[start:end]
        ):  # old images; `vllm serve` is in them too, and takes its model in one way only
            served.entrypoint = _VLLM_SERVE
            served.notes.append("the older entry point is replaced by `vllm serve`")
    else:
        served.prefix = tuple(words[len(entrypoint) : end])
    return served, words[end:]


def _script(words: Sequence[str]) -> int | None:
    """Return the position of a shell's script; None when no shell is called."""
    for index, word in enumerate(words[:-1]):
        if _base(word) in _SHELLS:
            for later in range(index + 1, len(words) - 1):
                if re.fullmatch(r"-[a-z]*c", words[later]):
                    return later + 1
    return None


def _from_script(script: str, *, shell_is_entrypoint: bool, env: Mapping[str, str]) -> tuple[Served, list[str]]:
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    try:
        words = [_filled(word, env) for word in lexer]
    except ValueError as error:
        raise InvalidPlan(problems=(f"the shell script of the container cannot be read: {error}",)) from None
    start, end, kind = _marker(words)
    if kind is None:
        raise InvalidPlan(problems=("no `vllm serve` or `sglang.launch_server` in the container's shell script",))
    before = [index for index, word in enumerate(words[:start]) if _SEPARATORS.fullmatch(word)]
    first = before[-1] + 1 if before else 0
    after = [index for index, word in enumerate(words) if index >= end and _SEPARATORS.fullmatch(word)]
    served = Served(kind=kind)
    if first:
        served.notes.append(f"shell commands before the engine are left out: {_safe(words[: first - 1])}")
    for word in [one for one in words[first:start] if _ASSIGNMENT.fullmatch(one)]:
        name, _, value = word.partition("=")
        served.env[name] = value
    prefix = [word for word in words[first:end] if word != "exec" and not _ASSIGNMENT.fullmatch(word)]
    if shell_is_entrypoint:
        served.entrypoint = _VLLM_SERVE if _API_SERVER in prefix else tuple(prefix)
    else:
        served.prefix = tuple(prefix)
    return served, words[end : after[0] if after else len(words)]


def _marker(words: Sequence[str]) -> tuple[int, int, str | None]:
    """Return (start, end, engine kind) of the words that start an engine."""
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if _base(word) in ("vllm", "sglang") and following == "serve":
            return index, index + 2, _base(word)
        if word == "-m" and following in _MODULES:
            kind = _MODULES[following]
            return max(index - 1, 0), index + 2, kind
    return 0, 0, None


_API_SERVER = "vllm.entrypoints.openai.api_server"
_MODULES = {
    _API_SERVER: "vllm",
    "sglang.launch_server": "sglang",
    "nightsweep.simulator": "vllm",
}


def _by_image(entrypoint: tuple[str, ...], command: tuple[str, ...], *, image: str) -> tuple[Served, list[str]]:
    for kind in ("sglang", "vllm"):
        if kind in image.lower() or any(kind in word.lower() for word in entrypoint):
            served = Served(kind=kind)
            served.notes.append(f"the image's entry point ({_safe(entrypoint) or 'none'}) is taken to start {kind}")
            return served, list(command)
    shown = _safe([*entrypoint, *command])
    raise InvalidPlan(problems=(f"no vLLM or SGLang in this command: {shown or '(none)'}",))


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _filled(word: str, env: Mapping[str, str]) -> str:
    def one(part: re.Match[str]) -> str:
        name = part[1] or part[3]
        return env.get(name) or (part[2] if part[2] is not None else part[0])

    return _VARIABLE.sub(one, word)


def _safe(words: Sequence[str]) -> str:
    """Return words for a message, without what follows a flag that looks secret."""
    shown: list[str] = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        name = word.partition("=")[0]
        hidden = looks_like_token(word) or (before.startswith("-") and looks_secret(before.lstrip("-")))
        shown.append("***" if hidden else f"{name}=***" if "=" in word and looks_secret(name.lstrip("-")) else word)
    return shlex.join(shown)[:300]


# --- flags -------------------------------------------------------------------------------------------------------


def _take_flags(served: Served, words: Sequence[str]) -> None:
    positional, flags = _split(words)
    if positional:
        served.model = positional[0]
    for extra in positional[1:]:
        served.notes.append(f"not understood: {_safe([extra])}")
    for name, values in flags:
        _take(served, name, values)


def _split(words: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return words that belong to no flag, and flags with the words that follow them."""
    positional: list[str] = []
    flags: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word):
            flags.append(_flag(word))
        elif flags and not _closed(flags[-1], has_model=bool(positional)):
            flags[-1][1].append(word)
        else:
            positional.append(word)
    return positional, flags


def _flag(word: str) -> tuple[str, list[str]]:
    name, equals, value = word.partition("=")
    if re.fullmatch(r"-O\d", name):
        name, equals, value = "-O", "=", name[2:]
    full = name if name.startswith("--") else _SHORT.get(name, name)
    return full if full.startswith("-") and not full.startswith("--") else argument_name(full), [
        value
    ] if equals else []


def _closed(flag: tuple[str, list[str]], *, has_model: bool) -> bool:
    name, values = flag
    return bool(_BARE.match(name)) and not values and not has_model


def _take(served: Served, name: str, values: list[str]) -> None:
    if name in _OWN_PLACE:
        _OWN_PLACE[name](served, values)
    elif looks_secret(name) and values:
        _take_secret(served, name)
    elif not _take_speculative(served, name, values):
        _take_argument(served, name, values)


def _take_model(served: Served, values: list[str]) -> None:
    served.model = values[-1] if values else None


def _take_revision(served: Served, values: list[str]) -> None:
    served.model_revision = values[-1] if values else None


def _take_port(served: Served, values: list[str]) -> None:
    served.port = int(values[-1]) if values and values[-1].isdigit() else None


def _take_served_name(served: Served, values: list[str]) -> None:
    served.served_name = values[0] if values else None
    if len(values) > 1:
        served.notes.append(f"only the first of the served names is kept: {_safe(values)}")


_OWN_PLACE: Mapping[str, Callable[[Served, list[str]], None]] = {
    "model": _take_model,
    "model-path": _take_model,
    "model-tag": _take_model,
    "revision": _take_revision,
    "port": _take_port,
    "served-model-name": _take_served_name,
    "host": lambda served, values: None,  # set at each boot
}


def _take_secret(served: Served, name: str) -> None:
    variable = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}.get(name) if served.kind == "vllm" else None
    if variable:
        served.secrets = (*served.secrets, variable)
        served.notes.append(f"--{name} is taken from the variable {variable}: command lines are stored")
    else:
        served.notes.append(f"--{name} is left out: command lines are stored")


def _take_speculative(served: Served, name: str, values: list[str]) -> bool:
    if served.kind == "sglang":
        if not name.startswith("speculative-"):
            return False
        served.speculative[speculative_name(name)] = _value(name, values)
        return True
    if name in _SPEC_FLAGS:
        served.speculative[_SPEC_FLAGS[name]] = _value(name, values)
    elif name.startswith("speculative-config."):
        served.speculative[speculative_name(name.partition(".")[2])] = _value(name, values)
    elif name == "speculative-config":
        served.speculative |= _speculative_json(" ".join(values))
    else:
        return False
    return True


def _speculative_json(text: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise InvalidPlan(problems=("--speculative-config is not a JSON mapping: the quotes may have been lost",))
    return {speculative_name(key): value for key, value in settings.items()}


def _take_argument(served: Served, name: str, values: list[str]) -> None:
    if name.startswith("-"):
        served.notes.append(f"not understood: {_safe([name, *values])}")
        return
    value = _value(name, values)
    if served.kind == "vllm" and name.startswith("no-") and value is True:
        name, value = name[3:], False
    if name in served.args and served.args[name] != value:
        served.notes.append(f"--{name} is given twice; the last one counts")
    served.args[name] = value


def _value(name: str, values: list[str]) -> Any:
    if not values:
        return True
    typed = [_typed(value) for value in values]
    return typed[0] if len(typed) == 1 else typed


def _typed(text: str) -> Any:
    """Return a word as what it says: JSON, a plain number, or itself."""
    if text[:1] in "{[" and text[:1]:
        try:
            return json.loads(text)
        except ValueError:
            return text
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d{1,9}\.\d{1,9}", text) else text

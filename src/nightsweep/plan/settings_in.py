"""Readers of the engine's own settings: arguments, environment, container, speculation, grid.

The engine's words are passed on as they are; what is refused here are secrets in plain sight and keys that have a place of
their own (a second `--port`, speculation hidden among the arguments, which would make a baseline speculate).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nightsweep.plan import quantities
from nightsweep.plan.mistakes import Refused, gathered, looks_like_token, looks_secret, nearest, shown
from nightsweep.plan.model import EnvValue, SecretRef

MAX_COMBINATIONS = 100_000
GRID_PREFIXES = ("args.", "env.")
GRID_WORDS = ("image", "model")

# Keys that hold a count in every engine that has them; all other keys are the engine's own business.
_COUNTS = frozenset(
    {
        "num_speculative_tokens",
        "num_steps",
        "num_draft_tokens",
        "eagle_topk",
        "draft_tensor_parallel_size",
        "prompt_lookup_max",
        "prompt_lookup_min",
        "dspark_block_size",
        "dflash_block_size",
    }
)
_OWN_PLACE = {
    "model": "engine.model",
    "model-path": "engine.model",
    "model-tag": "engine.model",
    "port": "engine.port",
    "served-model-name": "engine.served_name",
    "revision": "engine.model_revision",
    "speculative-config": "speculative (of a config)",
    "sc": "speculative (of a config)",
    "spec-method": "speculative.method (of a config)",
    "spec-model": "speculative.model (of a config)",
    "spec-tokens": "speculative.num_speculative_tokens (of a config)",
}
_HIDDEN = "a secret in plain sight (not shown)"
_SECRET_ALLOWED = "{from_env: NAME}, so that the secret is used and never stored"


def argument_name(written: str) -> str:
    """Return an argument's one spelling: no leading dashes, dashes for underscores up to the first dot."""
    head, dot, rest = written.strip().lstrip("-").partition(".")
    return head.replace("_", "-") + dot + rest


def speculative_name(written: str) -> str:
    """Return a speculative key's one spelling: underscores, without SGLang's prefix."""
    return written.strip().lstrip("-").replace("-", "_").removeprefix("speculative_")


def mapping_of(value: Any, *, what: str) -> dict[str, Any]:
    """Return a mapping, or refuse."""
    if not isinstance(value, dict):
        raise Refused(f"a mapping of {what}")
    return value


def args(value: Any) -> dict[str, Any]:
    """Return engine arguments by their one spelling. A null stays: it takes an inherited argument away."""
    out: dict[str, Any] = {}
    with gathered() as parts:
        for written, argument in mapping_of(value, what="arguments without leading dashes").items():
            with parts.at((written,), argument):
                name = argument_name(written)
                if name in out:
                    raise Refused("each argument once", remedy=f"`{written}` is `{name}` in another spelling.")
                out[name] = _argument(name, argument)
    return out


def _argument(name: str, value: Any) -> Any:
    place = _OWN_PLACE.get(name) or ("speculative (of a config)" if name.startswith("speculative-") else None)
    if place:
        raise Refused(f"engine arguments other than {name}", remedy=f"It has its own place: {place}.")
    if isinstance(value, Mapping) and set(value) == {"from_env"}:
        if not looks_secret(name):
            raise Refused("a value; only secrets are taken with from_env")
        return SecretRef(env_variable(value["from_env"]))
    if isinstance(value, str) and (looks_secret(name) or looks_like_token(value)):
        raise Refused(_SECRET_ALLOWED, remedy="Use from_env and set the variable for the service.", found=_HIDDEN)
    return value


def env(value: Any) -> dict[str, EnvValue | None]:
    """Return environment variables; a null takes an inherited one away."""
    out: dict[str, EnvValue | None] = {}
    with gathered() as parts:
        for name, setting in mapping_of(value, what="environment variables").items():
            with parts.at((name,), setting):
                out[_known_form(name)] = env_value(name, setting)
    return out


def _known_form(name: str) -> str:
    try:
        return quantities.env_name(name)
    except Refused as refused:
        raise Refused(refused.allowed, found=f"the name {shown(name)}") from None


def env_value(name: str, value: Any) -> EnvValue | None:
    """Return one variable's value, or where its secret is taken from."""
    if isinstance(value, dict):
        if set(value) != {"from_env"}:
            raise Refused("a text, or {from_env: NAME}")
        return SecretRef(env_variable(value["from_env"]))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        meant = f'Write "{str(value).lower()}" or "{int(value)}" in quotes.' if isinstance(value, bool) else ""
        raise Refused("a text or a number, or {from_env: NAME}", remedy=meant)
    if (looks_secret(name) and not _is_switch(value)) or looks_like_token(str(value)):
        remedy = f"Write `{name}: {{from_env: {name}}}` and set the variable for the service."
        raise Refused(_SECRET_ALLOWED, remedy=remedy, found=_HIDDEN)
    return str(value)


def _is_switch(value: Any) -> bool:
    return str(value).lower() in ("", "0", "1", "true", "false")


def command(value: Any) -> tuple[str, ...]:
    """Return a command line; one that carries a secret is refused, for command lines are stored."""
    words = quantities.command(value)
    for index, word in enumerate(words):
        name, given, _ = word.partition("=")
        literal = bool(given) or index + 1 < len(words)
        if looks_like_token(word) or (name.startswith("--") and looks_secret(name.lstrip("-")) and literal):
            remedy = "Give it as an environment variable, or leave it out: command lines are stored."
            raise Refused("a command line without secrets", remedy=remedy, found=_HIDDEN)
    return words


def env_variable(value: Any) -> str:
    """Return the name of the variable that a secret is taken from; refuse the secret itself put there by mistake."""
    if isinstance(value, str) and looks_like_token(value):
        remedy = "from_env takes the variable's name, not its value."
        raise Refused("the name of an environment variable", remedy=remedy, found=_HIDDEN)
    try:
        return quantities.env_name(value)
    except Refused as refused:  # somebody may have put the secret itself here
        raise Refused(refused.allowed, found="from_env with something else (not shown)") from None


def secret(value: Any) -> SecretRef:
    """Return where a secret is taken from; a literal one is refused and not shown."""
    if not isinstance(value, dict) or set(value) != {"from_env"}:
        remedy = "Write {from_env: NAME} and set the variable for the service."
        raise Refused(_SECRET_ALLOWED, remedy=remedy, found=_HIDDEN if isinstance(value, str) else None)
    return SecretRef(env_variable(value["from_env"]))


def speculative(value: Any) -> dict[str, Any]:
    """Return speculative settings by their one spelling."""
    if value in ("none", "off", False) or value == {}:
        raise Refused("a mapping of the engine's own keys", remedy="Leave the key out for no speculation.")
    out: dict[str, Any] = {}
    with gathered() as parts:
        for written, setting in mapping_of(value, what="the engine's own speculative keys").items():
            with parts.at((written,), setting):
                name = speculative_name(written)
                if name in out:
                    raise Refused("each key once", remedy=f"`{written}` is `{name}` in another spelling.")
                out[name] = _speculative_value(name, setting)
    return out


def _speculative_value(name: str, value: Any) -> Any:
    if name in _COUNTS and value is not None:
        return quantities.whole(least=1)(value)
    if isinstance(value, str) and looks_like_token(value):
        raise Refused("the engine's own value", found=_HIDDEN)
    return value


def grid(value: Any) -> dict[str, tuple[Any, ...]]:
    """Return a grid: its keys in the order written, each with its values."""
    out: dict[str, tuple[Any, ...]] = {}
    with gathered() as parts:
        for written, values in mapping_of(value, what="keys, each with a list of values").items():
            with parts.at((written,), values):
                out[grid_key(written)] = _grid_values(grid_key(written), values)
    return out


def grid_key(written: str) -> str:
    """Return a grid key's one spelling: `args.X`, `env.X`, `image`, `model`, or a speculative key.

    `model` is the target's; the draft's is `speculative.model`, the one key that keeps its prefix.
    """
    if written.startswith("args."):
        return "args." + argument_name(written[5:])
    if written.startswith("env.") or written in GRID_WORDS:
        return written
    if written.startswith("speculative."):
        name = speculative_name(written.removeprefix("speculative."))
        return f"speculative.{name}" if name in GRID_WORDS else name
    if "." in written:
        prefix = written.partition(".")[0] + "."
        known = (*GRID_PREFIXES, "speculative.")
        remedy = nearest(prefix, known) or "A key without a dot is a speculative one."
        raise Refused("speculative keys, args.NAME, env.NAME, image, model", remedy=remedy, found="an unknown grid key")
    return speculative_name(written)


def _grid_values(key: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise Refused("a list of values", remedy=f"Write [{json.dumps(values, default=str)}].")
    if not values:
        remedy = "Drop the key, or give it values."
        raise Refused("a list with at least one value", remedy=remedy, found="an empty list")
    out: list[Any] = []
    with gathered() as parts:
        for index, value in enumerate(values):
            with parts.at((index,), value):
                one = _grid_value(key, value)
                if any(one == other and type(one) is type(other) for other in out):
                    raise Refused("each value once", remedy="Drop one.")
                out.append(one)
    return tuple(out)


def _grid_value(key: str, value: Any) -> Any:
    if key.startswith("args."):
        return _argument(key[5:], value)
    if key.startswith("env."):
        return env_value(key[4:], value)
    if key in GRID_WORDS:
        return quantities.text(value)
    return _speculative_value(key.removeprefix("speculative."), value)


def exclude(value: Any) -> tuple[dict[str, Any], ...]:
    """Return what is dropped from a grid: partial combinations, as mappings of grid keys to a value or a list of values."""
    entries = [value] if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise Refused("a list of partial combinations, such as [{draft_sample_method: greedy}]")
    out: list[dict[str, Any]] = []
    with gathered() as parts:
        for index, entry in enumerate(entries):
            with parts.at((index,), entry):
                if not isinstance(entry, dict) or not entry:
                    raise Refused("a mapping of grid keys to values")
                out.append({grid_key(key): _matched(grid_key(key), value) for key, value in entry.items()})
    return tuple(out)


def _matched(key: str, value: Any) -> Any:
    """Return what an exclusion matches, as the grid has it: variables are texts."""
    if not key.startswith("env."):
        return value
    return [_matched(key, one) for one in value] if isinstance(value, list) else env_value(key[4:], value)

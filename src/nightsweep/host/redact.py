"""What must not be shown: names that look secret, and their values in command lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nightsweep.plan.mistakes import looks_like_token
from nightsweep.ports import Secret

SECRET_NAME = re.compile(
    r"TOKEN$|TOKEN_|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY|_KEY$|^KEY$|AUTH",
    re.I,
)
HIDDEN = "***"
IN_SCRIPT = re.compile(r"(?<![\w-])(--?[\w-]+(?==|\s+[^-\s])|[A-Za-z_]\w*(?==))(=|\s+)(\"[^\"]*\"|'[^']*'|[^\s;&|]+)")
"""A flag or variable with its value, in a shell's script."""


def looks_secret(name: str) -> bool:
    """Return whether a variable or flag of this name holds a secret, going by its name."""
    return SECRET_NAME.search(name) is not None


def masked_command(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command line for the record: values of secrets and of flags that look secret are hidden.

    A flag may take several values (`--api-key A B`), and a word may be a whole script (`sh -c "..."`).
    """
    values = [str(value) for value in env.values() if isinstance(value, Secret) and len(value) >= 4]
    shown: list[str] = []
    hiding = False
    for word in command:
        flag, equals, _ = word.partition("=")
        secret_flag = flag.startswith("-") and " " not in flag and looks_secret(flag.lstrip("-"))
        hiding = (hiding and not word.startswith("-")) or (secret_flag and not equals)
        if hiding and not secret_flag:
            shown.append(HIDDEN)
        elif secret_flag and equals:
            shown.append(f"{flag}={HIDDEN}")
        else:
            shown.append(_without(word, values))
    return tuple(shown)


def _without(word: str, values: Sequence[str]) -> str:
    for value in values:
        word = word.replace(value, HIDDEN)
    if looks_like_token(word):
        return HIDDEN
    return IN_SCRIPT.sub(_hidden_in_script, word) if " " in word else word


def _hidden_in_script(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{HIDDEN}" if looks_secret(found[1].lstrip("-")) else found[0]

"""What must not be shown: names that look secret, and their values in command lines. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nightsweep.ports import Secret

SECRET_NAME = re.compile(
    r"TOKEN$|TOKEN_|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY|_KEY$|^KEY$|AUTH",
    re.I,
)
HIDDEN = "***"


def looks_secret(name: str) -> bool:
    """Return whether a variable or flag of this name holds a secret, going by its name."""
    return SECRET_NAME.search(name) is not None


def masked_command(command: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Return a command line for the record: values of secrets and of flags that look secret are hidden."""
    values = [str(value) for value in env.values() if isinstance(value, Secret) and len(value) >= 4]
    shown: list[str] = []
    hide_next = False
    for word in command:
        flag, equals, _ = word.partition("=")
        secret_flag = flag.startswith("-") and looks_secret(flag.lstrip("-"))
        if hide_next and not word.startswith("-"):
            shown.append(HIDDEN)
        elif secret_flag and equals:
            shown.append(f"{flag}={HIDDEN}")
        else:
            shown.append(_without(word, values))
        hide_next = secret_flag and not equals
    return tuple(shown)


def _without(word: str, values: Sequence[str]) -> str:
    for value in values:
        word = word.replace(value, HIDDEN)
    return word

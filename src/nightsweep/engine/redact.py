"""Secrets that engines echo in their argument lines: never kept in a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?keys?|admin[_-]?api[_-]?key|hf[_-]?token|token|secret|password|passwd|credentials?)$", re.I
)
_NOT_SECRET = re.compile(r"(?:num|max|min|per|tokens?_)", re.I)
_IN_TEXT = re.compile(
    r"(['\"]?(?:api[_-]?keys?|admin[_-]?api[_-]?key|hf[_-]?token|secret|password)['\"]?\s*[:=]\s*)"
    r"(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[^\s,)}]+)",
    re.I,
)
_SIGNS = ("apikey", "api_key", "api-key", "hftoken", "hf_token", "hf-token", "secret", "password")
"""Of which every text with a secret's name holds one: most lines hold none, and the pattern is slow."""


def is_secret_name(name: str) -> bool:
    """Return whether an argument of this name holds a secret ("api_key", "hf_token"; not "max_tokens")."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET.search(name)


def redacted(value: Any, *, name: str = "") -> Any:
    """Return a value without secrets; mappings and lists are gone through."""
    if name and is_secret_name(name) and value not in (None, "", [], False, True):
        return HIDDEN
    if isinstance(value, Mapping):
        return {key: redacted(inner, name=str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(inner) for inner in value]
    return value


def redacted_text(text: str) -> str:
    """Return a line of text in which the values of secret names are hidden; an echoed None stays."""
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return text
    return _IN_TEXT.sub(lambda found: found[1] + (found[2] if found[2] == "None" else HIDDEN), text)

"""What both engines' speculative settings have in common: known keys by version, nearest names, draft-length units."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nightsweep.engine.versions import Version, release


@dataclass(frozen=True)
class Span:
    """Releases that know something: from `since` on, and up to and without `gone`."""

    since: Version = (0, 0, 0)
    gone: Version | None = None

    def problem(self, engine: str, what: str, version: Version | None) -> str | None:
        """Return why `what` does not exist in a release, or None; an unknown release has no problem."""
        if version is None:
            return None
        if version < self.since:
            return f"{what} needs {engine} {release(self.since)} or newer, and the image is {release(version)}"
        if self.gone is not None and version >= self.gone:
            return f"{what} is gone since {engine} {release(self.gone)}, and the image is {release(version)}"
        return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, or None when none is."""
    folded = {candidate.replace("-", "_").lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.replace("-", "_").lower(), folded, n=1, cutoff=0.45)
    return folded[found[0]] if found else None


def unknown(engine: str, what: str, name: str, known: Iterable[str]) -> str:
    """Return the warning for a name that the engine does not know as far as we know."""
    near = nearest(name, known)
    hint = f"; the nearest known one is {near!r}" if near else ""
    return f"{engine} knows no {what} {name!r}{hint}. It is passed on as it is"


def whole(value: Any) -> int | None:
    """Return a whole number, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def proposed_drafts(kind: str, settings: Mapping[str, Any] | None) -> int | None:
    """Return how many draft tokens a step proposes, in the same unit for both engines; None when the settings do not say.

    vLLM counts proposals (`num_speculative_tokens` 7). SGLang's `num_draft_tokens` is the window that is verified, one token
    more (8); its DSpark block size (gamma) counts proposals again, and a chain draft of n steps (topk 1) proposes n.

    Source:
        vLLM config/speculative.py; SGLang arg_groups/fields/spec.py: `spec_num_proposed_drafts` = num_draft_tokens - 1.
    """
    if not settings:
        return None
    keys = {_sglang_key(name): value for name, value in settings.items()}
    if kind == "vllm":
        return whole(keys.get("num_speculative_tokens"))
    if str(keys.get("algorithm", "")).upper() == "DSPARK" and whole(keys.get("dspark_block_size")) is not None:
        return whole(keys.get("dspark_block_size"))
    for name in ("num_draft_tokens", "dflash_block_size"):
        window = whole(keys.get(name))
        if window is not None:
            return window - 1
    steps = whole(keys.get("num_steps"))
    return steps if steps is not None and keys.get("eagle_topk", 1) == 1 else None


def _sglang_key(name: str) -> str:
    bare = name.lstrip("-").replace("-", "_")
    return bare.removeprefix("speculative_")

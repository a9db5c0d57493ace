"""Whether what answers is what was booted: pure comparisons over JSON answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nightsweep.engine.flags import argument
from nightsweep.engine.values import BootFacts, ServedIdentity
from nightsweep.plan.model import EngineConfig

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)$")
_SCALE = {"": 1, "k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2, "g": 1000**3, "G": 1024**3}


def served_models(answer: Any) -> tuple[tuple[str, ...], int | None, Mapping[str, Any]]:
    """Return (ids, context length of the first, the first entry) of a `/v1/models` answer."""
    entries = answer.get("data") if isinstance(answer, Mapping) else None
    models = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    names = tuple(str(entry["id"]) for entry in models if "id" in entry)
    first: Mapping[str, Any] = models[0] if models else {}
    longest = first.get("max_model_len")
    return names, longest if isinstance(longest, int) and not isinstance(longest, bool) else None, first


def says_simulated(version: str | None, *answers: Any) -> bool:
    """Return whether an engine says that it is a simulation: in its version's local part or by a field of its answers."""
    local = (version or "").partition("+")[2].lower()
    if "simulated" in re.split(r"[.\-_]", local):
        return True
    return any(isinstance(answer, Mapping) and answer.get("simulated") is True for answer in answers)


def process_start(answers: Mapping[str, Any]) -> float | None:
    """Return the engine's start (Unix seconds) among the canonical metrics, where it is exposed."""
    metrics = answers.get("metrics")
    start = metrics.get("process_start") if isinstance(metrics, Mapping) else None
    return float(start) if isinstance(start, int | float) else None


def tokens_of(value: Any) -> int | None:
    """Return a context length as configured ("256k" is 256,000, "256K" is 262,144); None for "auto", -1 and nonsense.

    Source:
        vLLM `human_readable_int`: lower case is decimal, upper case binary.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value > 0 else None
    found = _SIZE.match(value.strip()) if isinstance(value, str) else None
    return int(float(found[1]) * _SCALE[found[2]]) if found else None


def problem(
    config: EngineConfig, identity: ServedIdentity, facts: BootFacts, *, length_names: tuple[str, ...]
) -> str | None:
    """Return why what answers is not this config as booted; None when all that was told agrees.

    Args:
        config: What was asked for.
        identity: What answers.
        facts: What the boot's own log says.
        length_names: Names of the argument that sets the context length.
    """
    wanted = config.engine.served_name
    if identity.served_names and wanted not in identity.served_names:
        return f"it serves {', '.join(identity.served_names)}, not {wanted}"
    if not identity.served_names:
        return "it names no served model: /v1/models did not answer"
    return (
        _simulated(config, identity)
        or _version(identity, facts)
        or _length(tokens_of(argument(config.engine.args, *length_names)), identity, facts)
    )


def _simulated(config: EngineConfig, identity: ServedIdentity) -> str | None:
    if identity.simulated and not config.engine.simulated:
        return "the engine says that it is simulated: set engine.simulated: true"
    if config.engine.simulated and not identity.simulated:
        return "engine.simulated is true, but the engine does not say that it is simulated: set it to false"
    return None


def _version(identity: ServedIdentity, facts: BootFacts) -> str | None:
    if identity.version is None or facts.engine_version is None:
        return None
    (here, here_local), (there, there_local) = _parts(identity.version), _parts(facts.engine_version)
    if here != there or (here_local and there_local and here_local != there_local):
        return f"it is version {identity.version}, but the boot log says {facts.engine_version}"
    return None


def _parts(version: str) -> tuple[str, str]:
    public, _, local = version.strip().lstrip("v").partition("+")
    return public, local


def _length(wanted: int | None, identity: ServedIdentity, facts: BootFacts) -> str | None:
    """Return why the context served is not this boot's.

    A length that the boot's own log states is this boot's, also when the engine reduced it: that config was not applied
    as asked, and is not another engine's.
    """
    served = identity.max_model_len
    if wanted is None or served is None or served == wanted:
        return None
    if any(fact.name == "max_model_len" and fact.value == served for fact in facts.facts):
        return None
    how = "only " if served < wanted else ""
    return f"it serves a context of {how}{served:,} tokens, but {wanted:,} were asked for"

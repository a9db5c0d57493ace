"""Asks production once what it has to say: is it ready, does it serve a token, under which name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nightsweep.engine.registry import engine_for
from nightsweep.ports import Probe, Target
from nightsweep.production.door import Door
from nightsweep.units import Seconds

LOOK = Seconds(5.0)
TOKEN = Seconds(120.0)
APIS = ("chat", "completions")
NO_TEXT = frozenset({400, 404, 405, 422, 501})
"""Answers of a server that makes no text (embeddings, reranking), to a request for some."""
REFUSED = frozenset({401, 403})
GONE = frozenset({404, 405, 501})
_STATUS = re.compile(r"HTTP (\d{3})")


@dataclass(frozen=True)
class Asked:
    """What production answered.

    Attributes:
        missing: What is not there yet; None when all that can be asked was answered.
        checks: What was checked, for the record.
        unchecked: What could not be checked, and why, for people.
    """

    missing: str | None
    checks: Mapping[str, Any] = field(default_factory=dict)
    unchecked: tuple[str, ...] = ()


def ask(door: Door, probe: Probe) -> Asked:
    """Return what production answers now."""
    if door.base_url is None:
        why = "no port that this machine reaches: only that it runs was checked (`production.url` names another way)"
        return Asked(None, {"ready": "runs", "token": "not checked"}, (why,))
    ready = _readiness(door, door.base_url, probe)
    if ready.missing is not None:
        return ready
    names = _names(door, door.base_url, probe)
    if door.kind is None and names is None:
        why = "it is no LLM server that we know: that it answers was checked, a token was not"
        return replace(ready, checks={**ready.checks, "token": "not checked"}, unchecked=(why,))
    told = _token(door, door.base_url, probe, names=names or ())
    return replace(told, checks={"url": door.base_url, **ready.checks, **told.checks})


def _readiness(door: Door, base: str, probe: Probe) -> Asked:
    """Healthy; or, where there is no /health, it lists its models; or, for what is no engine, it answers at all."""
    path = engine_for(door.kind).readiness().path if door.kind is not None else "/health"
    health = probe.reach(base + path, timeout=LOOK, api_key=door.key)
    if health.status == 200:
        return Asked(None, {"url": base, "ready": path})
    if door.kind is not None and health.status not in GONE | REFUSED:
        return Asked(f"{base}{path} answers {_shown(health.status, listening=health.listening)}")
    models = probe.reach(f"{base}/v1/models", timeout=LOOK, api_key=door.key)
    if models.status == 200 or (door.kind is not None and models.status in REFUSED):
        return Asked(None, {"url": base, "ready": "/v1/models"})
    if door.kind is not None:
        return Asked(f"{base}/v1/models answers {_shown(models.status, listening=models.listening)}")
    if health.status is not None and (health.status < 500 or health.status in GONE):
        return Asked(None, {"url": base, "ready": f"HTTP {health.status}"})
    if health.status is None and health.listening:
        return Asked(None, {"url": base, "ready": "accepts connections"})
    return Asked(f"{base} answers {_shown(health.status, listening=health.listening)}")


def _shown(status: int | None, *, listening: bool) -> str:
    if status is not None:
        return f"HTTP {status}"
    return "nothing within a few seconds" if listening else "nothing"


def _names(door: Door, base: str, probe: Probe) -> tuple[str, ...] | None:
    """Return the names that it lists; None when it lists none that we may see."""
    answers = probe.ask(base, {"models": "/v1/models"}, timeout=LOOK, api_key=door.key)
    models = answers.get("models")
    listed = models.get("data") if isinstance(models, dict) else None
    if not isinstance(listed, list):
        return None
    return tuple(str(one["id"]) for one in listed if isinstance(one, dict) and one.get("id"))


def _token(door: Door, base: str, probe: Probe, *, names: tuple[str, ...]) -> Asked:
    known = door.model is not None and (not names or door.model in names)
    model = door.model if known else next(iter(names), None)
    if model is None:
        return Asked(None, {"token": "not checked"}, ("it names no model, so no token was asked for",))
    reasons = []
    for api in APIS:
        reason = probe.served_token(_target(door, base, model, api=api), timeout=TOKEN)
        if reason is None:
            return Asked(None, {"token": "served", "model": model, "api": api})
        reasons.append(reason)
        if _status(reason) not in NO_TEXT:
            break
    return _no_token(model, reasons)


def _no_token(model: str, reasons: list[str]) -> Asked:
    status = _status(reasons[-1])
    if status in REFUSED:
        why = f"it demands a key that its container does not show (HTTP {status}): that it is ready was checked, a token was not"
        return Asked(None, {"token": "not checked", "model": model}, (why,))
    if all(_status(reason) in NO_TEXT for reason in reasons):
        why = f"it makes no text (HTTP {status}): that it is ready was checked, a token was not"
        return Asked(None, {"token": "not checked", "model": model}, (why,))
    return Asked(f"it serves no token: {reasons[-1]}")


def _target(door: Door, base: str, model: str, *, api: str) -> Target:
    dialect = engine_for(door.kind or "vllm").dialect(None)
    return Target(base_url=base, load_url=base, model=model, dialect=dialect, api=api, api_key=door.key)


def _status(reason: str) -> int | None:
    found = _STATUS.match(reason)
    return int(found[1]) if found else None

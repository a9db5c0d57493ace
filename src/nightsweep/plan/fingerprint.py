"""Content fingerprints: SHA-256 over canonical JSON, so that equal content is one thing however it was written."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from decimal import Decimal
from typing import Any

from nightsweep.plan.model import ContainerSpec, EngineConfig, EngineSpec, ProbeSpec, SecretRef, SweepPlan

_DEFAULT_CONTAINER = asdict(ContainerSpec())


def canonical_json(doc: Any) -> str:
    """Return one text for one content: keys sorted, a null member absent, 1.0 as 1, -0 as 0, no spaces.

    Raises:
        ValueError: NaN or infinity, which JSON does not have.
        TypeError: A value that is not JSON, or a key that is not text.

    Source:
        After RFC 8785, but keys are sorted by code point and null members are left out.
    """
    return json.dumps(_canonical(doc), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(doc: Any) -> str:
    """Return the SHA-256 of the canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(doc).encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _number(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a key that is not text: {key!r}")
        return {key: _canonical(member) for key, member in value.items() if member is not None}
    if isinstance(value, list | tuple):
        return [_canonical(member) for member in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    raise TypeError(f"not JSON: {type(value).__name__}")  # also subclasses of str: one of them holds secrets


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueError(f"not a JSON number: {value!r}")
    return int(value) if value.is_integer() else value


def config_document(engine: EngineSpec, speculative: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the content that makes an engine config what it is.

    In it: engine kind, image reference, command, model and revision, arguments, environment, container settings, speculative
    settings. Of secrets only the variables' names. Not in it: names, port, host kind (image or command tell it), timeouts.
    What is empty or default is absent, so that writing a default down changes nothing.
    """
    return with_speculation(engine_document(engine), speculative)


def with_speculation(document: Mapping[str, Any], speculative: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a config's document from its engine's; see `config_document`."""
    settings = {name: _argument(value) for name, value in (speculative or {}).items() if value is not None}
    return {**document, "speculative": settings} if settings else dict(document)


def engine_document(engine: EngineSpec) -> dict[str, Any]:
    """Return the part of a config's document that its engine makes; see `config_document`."""
    secrets = [name for name, value in engine.env.items() if isinstance(value, SecretRef)]
    secrets += [f"--{name}" for name, value in engine.args.items() if isinstance(value, SecretRef)]
    given = {name: value for name, value in engine.args.items() if not isinstance(value, SecretRef)}
    if engine.kind == "sglang" and given.get("enable-metrics") is True:
        del given["enable-metrics"]  # SGLang has no counters without it, so every boot has it, written down or not
    parts = {
        "engine": engine.kind,
        "image": engine.image,
        "command": list(engine.command),
        "model": engine.model,
        "model_revision": engine.model_revision,
        "args": {name: _argument(value) for name, value in given.items() if value is not None},
        "env": {name: value for name, value in engine.env.items() if isinstance(value, str)},
        "secrets": sorted(secrets),
        "container": _container(engine.container),
    }
    return {key: value for key, value in parts.items() if value is not None and value != {} and value != []}


def _container(container: ContainerSpec) -> dict[str, Any]:
    given = {field.name: getattr(container, field.name) for field in fields(container)}
    changed = {name: value for name, value in given.items() if value != _DEFAULT_CONTAINER[name]}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


def _argument(value: Any) -> Any:
    """Return an argument as the engine reads it: `"8192"` and 8192 give one command line, a JSON text and its mapping too."""
    if not isinstance(value, str):
        return value
    if value[:1] == "{" and value[-1:] == "}":
        try:
            return json.loads(value)
        except ValueError:
            return value
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if str(number) == value and math.isfinite(number):
            return number
    return value


def probe_document(probe: ProbeSpec) -> dict[str, Any]:
    """Return what a measured number depends on in the probe, and which cells there are.

    Not in it: how often (repeats, boots, attempts, runs), and what moves no number (API key, trusted authorities, time limits).
    """
    return {
        "concurrency": sorted(probe.concurrency),
        "temperature": sorted(probe.temperature),
        "window": probe.window,
        "prompts": probe.prompts_hash or probe.prompts,
        "prompt_seed": probe.prompt_seed,
        "api": probe.api,
        "through": probe.through,
        # Once 0 was not sent, and written null: such a sweep goes on, and the conditions of its windows tell the two apart.
        "sampling": {**asdict(probe.sampling), "min_p": probe.sampling.min_p or None},
        "prefill_tokens": probe.prefill.tokens if probe.prefill else None,
        "warmup": probe.warmup,
        **_later_keys(probe),
    }


def _later_keys(probe: ProbeSpec) -> dict[str, Any]:
    """Return what came after the first version; absent where it is not used, so that older plans keep their fingerprint."""
    prefill, single = probe.prefill, probe.single_batch
    return {
        "prefill_others": list(prefill.others) or None if prefill else None,
        "prefill_under_load": prefill.under_load or None if prefill else None,
        "single_batch": {"input": single.input, "output": single.output, "temperature": single.temperature}
        if single
        else None,
        "http2": probe.http2 or None,
        "draws_by_repeat": probe.draws_by_repeat or None,
    }


def plan_fingerprint(configs: tuple[EngineConfig, ...], probe: ProbeSpec) -> str:
    """Return a sweep's fingerprint: over its configs (in any order) and the conditions of its probe.

    Name, repeats, boots, schedule, production and box are left out, so that raising the repeats, or sweeping on another night,
    goes on with the same sweep instead of starting a new one.
    """
    return fingerprint({"configs": sorted(c.fingerprint for c in configs), "probe": probe_document(probe)})


def with_prompts_hash(plan: SweepPlan, prompts_hash: str) -> SweepPlan:
    """Return the plan with the prompt set's content pinned, and its fingerprint taken again.

    The fingerprint is over the configs' fingerprints and the probe's conditions, the prompts' hash among them; not over name,
    repeats, boots, schedule, production and box (see `plan_fingerprint`): raised repeats extend the same sweep.
    """
    probe = replace(plan.probe, prompts_hash=prompts_hash)
    return replace(plan, probe=probe, fingerprint=plan_fingerprint(plan.configs, probe))

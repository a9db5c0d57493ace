"""All that a number depends on, as one document: repeats pool only when it is equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nightsweep.plan.model import EngineConfig, SingleBatchSpec, SweepPlan
from nightsweep.sweep.boot import Running

TOLD_BY_BOOT = ("engine_version", "image_digest", "simulated", "not_applied")
"""Conditions that only a running engine tells; of an image, the digest is known as soon as it is on the box."""


def known_conditions(
    plan: SweepPlan, config: EngineConfig, *, box_fingerprint: str, software: str
) -> Mapping[str, Any]:
    """Return the conditions of a window that are known before any boot of its config."""
    spec = plan.probe
    speculative = config.speculative or {}
    return {
        "config": config.fingerprint,
        "engine": config.engine.kind,
        "model": config.engine.model,
        "model_revision": config.engine.model_revision,
        "draft_model": speculative.get("model"),
        "draft_revision": speculative.get("revision"),
        "box": box_fingerprint,
        "prompts": spec.prompts_hash,
        "prompt_seed": spec.prompt_seed,
        "api": spec.api,
        "sampling": asdict(spec.sampling),
        "window_seconds": spec.window,
        "through_proxy": spec.through,
        "http2": spec.http2 or None,  # absent where it is not used, so that older windows keep their conditions
        "page_cache_dropped": config.engine.drop_page_cache or None,
        "software": software,
    }


def told_conditions(running: Running) -> Mapping[str, Any]:
    """Return the conditions that a boot tells (`TOLD_BY_BOOT`)."""
    return {
        "engine_version": running.identity.version or running.facts.engine_version,
        "image_digest": running.handle.image_digest,
        "simulated": running.identity.simulated,
        "not_applied": list(running.applied.not_applied),
    }


def conditions_of(plan: SweepPlan, running: Running, *, box_fingerprint: str, software: str) -> Mapping[str, Any]:
    """Return the conditions of a window in this boot.

    What differs from window to window without making it another measurement (the position in the night, seconds since
    boot) is kept beside the window, not here. What was not applied is here: such a window never pools with one of a boot
    in which it was.
    """
    known = known_conditions(plan, running.config, box_fingerprint=box_fingerprint, software=software)
    return {**known, **told_conditions(running)}


def single_batch_conditions(
    plan: SweepPlan, running: Running, spec: SingleBatchSpec, *, box_fingerprint: str, software: str
) -> Mapping[str, Any]:
    """Return the conditions of a single-batch run in this boot."""
    return of_single_batch(conditions_of(plan, running, box_fingerprint=box_fingerprint, software=software), spec)


def of_single_batch(known: Mapping[str, Any], spec: SingleBatchSpec) -> Mapping[str, Any]:
    """Return a window's conditions as those of a single-batch run: prompts and window are its own, and no proxy is between."""
    not_its_own = ("prompts", "prompt_seed", "window_seconds", "through_proxy", "http2", "api")
    return {
        **{name: value for name, value in known.items() if name not in not_its_own},
        "probe": "single_batch",
        "input_tokens": spec.input,
        "output_tokens": spec.output,
        "sampling": {**known["sampling"], "max_tokens": spec.output, "ignore_eos": True},
    }

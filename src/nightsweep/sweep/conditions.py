"""All that a number depends on, as one document: repeats pool only when it is equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nightsweep.plan.model import SingleBatchSpec, SweepPlan
from nightsweep.sweep.boot import Running


def conditions_of(plan: SweepPlan, running: Running, *, box_fingerprint: str, software: str) -> Mapping[str, Any]:
    """Return the conditions of a window in this boot.

    What differs from window to window without making it another measurement (the position in the night, seconds since
    boot) is kept beside the window, not here. What was not applied is here: such a window never pools with one of a boot
    in which it was.
    """
    spec = plan.probe
    config = running.config
    speculative = config.speculative or {}
    return {
        "config": config.fingerprint,
        "engine": config.engine.kind,
        "engine_version": running.identity.version or running.facts.engine_version,
        "image_digest": running.handle.image_digest,
        "model": config.engine.model,
        "model_revision": config.engine.model_revision,
        "draft_model": speculative.get("model"),
        "draft_revision": speculative.get("revision"),
        "box": box_fingerprint,
        "simulated": running.identity.simulated,
        "not_applied": list(running.applied.not_applied),
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


def single_batch_conditions(
    plan: SweepPlan, running: Running, spec: SingleBatchSpec, *, box_fingerprint: str, software: str
) -> Mapping[str, Any]:
    """Return the conditions of a single-batch run in this boot: prompts and window are its own, and no proxy is between."""
    known = conditions_of(plan, running, box_fingerprint=box_fingerprint, software=software)
    not_its_own = ("prompts", "prompt_seed", "window_seconds", "through_proxy", "http2", "api")
    return {
        **{name: value for name, value in known.items() if name not in not_its_own},
        "probe": "single_batch",
        "input_tokens": spec.input,
        "output_tokens": spec.output,
        "sampling": {**known["sampling"], "max_tokens": spec.output, "ignore_eos": True},
    }

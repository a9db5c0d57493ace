"""All that a number depends on, as one document: repeats pool only when it is equal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nightsweep.plan.model import SweepPlan
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
        "software": software,
    }

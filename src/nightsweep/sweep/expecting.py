"""Expectations on their way into the store, before anything of their cells is measured."""

from __future__ import annotations

import contextlib
from decimal import Decimal

from nightsweep.analysis.bandwidth import Known, bandwidth_of, estimates
from nightsweep.errors import StoreUnavailable
from nightsweep.plan.expect import ACCEPTANCE_LENGTH, predictions_of
from nightsweep.plan.model import SweepPlan
from nightsweep.ports import BoxFacts, Lease
from nightsweep.sweep.boot import Running
from nightsweep.sweep.tools import Tools


def write_expected(tools: Tools, lease: Lease, plan: SweepPlan) -> None:
    """Keep what the sweep file expects; called at each start, for a file may say more than before."""
    found = predictions_of(plan.expect, plan.configs, plan.probe)
    if found:
        tools.store.predict(lease, found, at=tools.clock.now())


def write_estimates(tools: Tools, lease: Lease, plan: SweepPlan, running: Running, *, box: BoxFacts) -> None:
    """Keep the bandwidth estimate of a config whose weights its boot has just told; nothing where a part is not known."""
    real = {} if box.simulated else box.facts  # this machine's accelerator says nothing of a simulated one
    bandwidth = bandwidth_of(real, written=plan.memory_bandwidth)
    facts, config = running.facts, running.config
    if bandwidth is None or not facts.weights:
        return
    known = Known(bandwidth, facts.weights, kv_cache=facts.kv_cache, kv_tokens=facts.kv_tokens)
    found = estimates(config, plan.probe, known, acceptance=_acceptance(plan, config.fingerprint))
    with contextlib.suppress(StoreUnavailable):  # an estimate that is lost is no reason to lose the boot
        tools.store.predict(lease, found, at=tools.clock.now())


def _acceptance(plan: SweepPlan, config: str) -> dict[tuple[int, Decimal], float]:
    """Return the highest acceptance length that the file expects, by concurrency and temperature."""
    return {
        (one.concurrency, one.temperature): one.high
        for one in predictions_of(plan.expect, plan.configs, plan.probe)
        if one.config == config and one.quantity == ACCEPTANCE_LENGTH and one.high is not None
    }

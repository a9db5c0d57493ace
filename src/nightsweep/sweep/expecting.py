"""Expectations on their way into the store, before anything of their cells is measured."""

from __future__ import annotations

import contextlib
from decimal import Decimal

from nightsweep.analysis.bandwidth import bandwidth_of, estimates
from nightsweep.errors import StoreUnavailable
from nightsweep.plan.expect import ACCEPTANCE_LENGTH, Prediction, Resident, predictions_of
from nightsweep.plan.model import EngineConfig, SweepPlan
from nightsweep.ports import BoxFacts, Lease
from nightsweep.sweep.boot import Running
from nightsweep.sweep.tools import Tools


def write_expected(tools: Tools, lease: Lease, plan: SweepPlan, *, box: BoxFacts) -> None:
    """Keep what the sweep file expects, and the bandwidth estimates of configs whose weights an earlier boot here told.

    Called at each start, for a file may say more than before.
    """
    found = list(predictions_of(plan.expect, plan.configs, plan.probe))
    if _bandwidth(plan, box) is not None:
        past = tools.store.past_residents(lease.box_id)
        for config in plan.configs:
            if config.fingerprint in past:
                found += _estimated(plan, config, past[config.fingerprint], box=box)
    if found:
        tools.store.predict(lease, found, at=tools.clock.now())


def write_estimates(tools: Tools, lease: Lease, plan: SweepPlan, running: Running, *, box: BoxFacts) -> None:
    """Keep the bandwidth estimate of a config whose weights its boot has just told; one that is kept already stays."""
    facts = running.facts
    if not facts.weights:
        return
    resident = Resident(facts.weights, facts.kv_cache, facts.kv_tokens)
    found = _estimated(plan, running.config, resident, box=box)
    if found:
        with contextlib.suppress(StoreUnavailable):  # an estimate that is lost is no reason to lose the boot
            tools.store.predict(lease, found, at=tools.clock.now())


def _estimated(plan: SweepPlan, config: EngineConfig, resident: Resident, *, box: BoxFacts) -> tuple[Prediction, ...]:
    bandwidth = _bandwidth(plan, box)
    if bandwidth is None:
        return ()
    acceptance = _acceptance(plan, config.fingerprint)
    return estimates(config, plan.probe, resident, bandwidth=bandwidth, acceptance=acceptance)


def _bandwidth(plan: SweepPlan, box: BoxFacts) -> float | None:
    real = {} if box.simulated else box.facts  # this machine's accelerator says nothing of a simulated one
    return bandwidth_of(real, written=plan.memory_bandwidth)


def _acceptance(plan: SweepPlan, config: str) -> dict[tuple[int, Decimal], float]:
    """Return the highest acceptance length that the file expects, by concurrency and temperature."""
    return {
        (one.concurrency, one.temperature): one.high
        for one in predictions_of(plan.expect, plan.configs, plan.probe)
        if one.config == config and one.quantity == ACCEPTANCE_LENGTH and one.high is not None
    }

"""Engines that a killed holder left running on the box: stopped before anything else is begun."""

from __future__ import annotations

from nightsweep.errors import BoxBusy
from nightsweep.plan.model import SweepPlan
from nightsweep.sweep.signals import signals_deferred
from nightsweep.sweep.tools import Tools


def stop_leftovers(tools: Tools, plan: SweepPlan, *, box: str, sweep_id: int) -> None:
    """Stop engines of ours that a killed holder left running: we hold the box, so nobody else needs them.

    Raises:
        BoxBusy: An engine's holder lives: a sweep of another home, with a database of its own, on this very machine.
    """
    for kind in sorted({"process", *(config.engine.host for config in plan.configs)}):
        host = tools.host(kind)
        for handle in host.owned():
            holder = handle.facts.get("holder")
            if holder and holder != tools.owner and tools.lives(str(holder)):
                raise BoxBusy(box=box, owner=str(holder), engine=handle.boot_key)
            said = f"engine {handle.boot_key} of an earlier run was stopped"
            tools.store.event("leftover_stopped", said, level="warning", sweep_id=sweep_id)
            with signals_deferred():
                host.stop(handle, grace=plan.configs[0].engine.stop_grace)

"""Tables that somebody wrote down, entered through the real store: each number is one window, labelled as entered by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from nightsweep.engine.values import Applied, ServedIdentity
from nightsweep.plan.expand import with_prompts_hash
from nightsweep.plan.model import Cell, Repeat
from nightsweep.plan.sweepfile import load
from nightsweep.ports import BoxFacts, Store
from nightsweep.sweep.conditions import known_conditions
from nightsweep.units import Ratio
from tests.storekit.builders import EVENING, TTL, a_handle, a_ready, a_window, begin, stopped

BY_HAND = "entered by hand from a published table"

Table = Mapping[str, Mapping[int, Sequence[float]]]
"""Config name -> streams -> decode rates in tokens / second, all streams."""


def enter(
    store: Store,
    file_text: str,
    table: Table,
    *,
    box: BoxFacts,
    prompts_hash: str,
    version: str = "0.28.0",
    digest: str = "sha256:028",
    temperature: str = "0.7",
    at: datetime = EVENING,
    acceptance: Mapping[str, float] | None = None,
    base: str | None = None,
) -> int:
    """Store a sweep of this file with these numbers, one boot for each config; return its id."""
    plan = replace(with_prompts_hash(load(file_text), prompts_hash), base=base)
    box_id = store.box_id(box)
    sweep_id = store.open_sweep(plan, box_id=box_id, file_text=file_text)
    lease = store.claim(sweep_id, owner=f"by-hand:1:1:{sweep_id}", ttl=TTL)
    for config in plan.configs:
        if config.name not in table:
            continue
        key = f"by-hand-{sweep_id}-{config.name}"
        boot = begin(store, lease, config, key=key, at=at)
        store.boot_started(lease, boot, a_handle(key, digest=digest, refs=(str(config.engine.image),)))
        identity = ServedIdentity(served_names=(config.engine.served_name,), version=version)
        ready = replace(a_ready(), applied=Applied(notes=(BY_HAND,)), identity=identity)
        facts = replace(ready.facts, engine_version=version)
        store.boot_ready(lease, boot, replace(ready, facts=facts), at=at)
        known = known_conditions(plan, config, box_fingerprint=box.fingerprint, software="by hand")
        told: dict[str, Any] = {"engine_version": version, "image_digest": digest, "simulated": False}
        told |= {"not_applied": [], "entered": BY_HAND}
        for streams, rates in table[config.name].items():
            cell = Cell(config.fingerprint, streams, Decimal(temperature))
            for index, rate in enumerate(rates):
                window = replace(a_window(rate, concurrency=streams, started=at), notes=(BY_HAND,))
                if acceptance is not None and window.numbers is not None:
                    length = Ratio(acceptance[config.name])
                    window = replace(window, numbers=replace(window.numbers, acceptance_length=length))
                repeat = Repeat(cell=cell, index=index, boot_round=0)
                store.add_window(lease, boot, repeat, window, attempt=1, conditions={**known, **told}, at=at)
        store.end_boot(lease, boot, replace(stopped(), facts=facts), at=at)
    store.release(lease, state="done", note=BY_HAND)
    return sweep_id

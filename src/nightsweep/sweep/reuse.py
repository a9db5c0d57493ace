"""Taking over what earlier sweeps on this box measured under equal conditions (`--reuse`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nightsweep.plan.fingerprint import canonical_json
from nightsweep.plan.model import EngineConfig, SweepPlan
from nightsweep.plan.reuse import PREFILL, open_slots, taken_over
from nightsweep.ports import Lease
from nightsweep.sweep.boot import Running
from nightsweep.sweep.conditions import TOLD_BY_BOOT, known_conditions, of_single_batch, told_conditions
from nightsweep.sweep.tools import Tools


def take_over(tools: Tools, lease: Lease, plan: SweepPlan, *, box_fingerprint: str) -> int:
    """Link stored clean measurements of equal conditions into the sweep's open places; return how many.

    Equal is what can be told before a boot: everything of the plan, box and software, and the digest of the image that is on the
    box now. An image that is not here has none, and nothing of its configs is taken over. See `withdraw_other` for the rest.
    """
    stored = tools.store.stored(lease.sweep_id)
    found = tools.store.reusable(lease.sweep_id)
    configs = {config.fingerprint: config for config in plan.configs}
    digests = _digests(tools, plan)
    usable = {
        fingerprint
        for fingerprint, document in found.conditions.items()
        if (config := configs.get(document.get("config", ""))) is not None
        and _equal(document, _expected(tools, plan, config, document, box_fingerprint=box_fingerprint))
        and document.get("image_digest") == digests[config.engine.image]
    }
    slots = open_slots(plan, windows=stored.windows, prefills=stored.prefills, single_batches=stored.single_batches)
    links = taken_over(slots, found.rows, own=lease.sweep_id, usable=usable, linked=found.linked)
    tools.store.reuse(lease, links)
    for sweep_id, count in sorted(Counter(link.from_sweep for link in links).items()):
        prefills = sum(link.kind == PREFILL for link in links if link.from_sweep == sweep_id)
        what = f"{count - prefills} windows" + (f" and {prefills} prefills" if prefills else "")
        told = f"{what} of sweep {sweep_id} are reused: measured on this box under equal conditions"
        tools.store.event("reused", told, sweep_id=lease.sweep_id)
    return len(links)


def withdraw_other(tools: Tools, lease: Lease, running: Running) -> None:
    """Give back what was taken over for a config and turns out, now that it runs, to be of other conditions.

    A process has no digest, so that only its boot tells the engine's version. What was given back is measured again.
    """
    now = told_conditions(running)
    other: dict[str, list[str]] = {}
    for fingerprint, document in tools.store.reused_conditions(lease.sweep_id, running.config.fingerprint).items():
        changed = [name for name in TOLD_BY_BOOT if _text(document.get(name)) != _text(now[name])]
        if changed:
            other[fingerprint] = [f"{name} {document.get(name)} then, {now[name]} now" for name in changed]
    if not other:
        return
    count = tools.store.withdraw_reused(lease, running.config.fingerprint, conditions=frozenset(other))
    why = "; ".join(dict.fromkeys(line for lines in other.values() for line in lines))
    told = f"{running.config.name}: {count} reused measurements are made again: {why}"
    tools.store.event("reuse_withdrawn", told, level="warning", sweep_id=lease.sweep_id, boot_id=running.boot_id)


def _digests(tools: Tools, plan: SweepPlan) -> dict[str | None, str | None]:
    """Return the digest of each image that is here; "" for one that is not, which is nobody's digest."""
    found: dict[str | None, str | None] = {None: None}
    for config in plan.configs:
        image = config.engine.image
        if image is not None and image not in found:
            found[image] = tools.host(config.engine.host).image_digest(image) or ""
    return found


def _expected(
    tools: Tools, plan: SweepPlan, config: EngineConfig, document: Mapping[str, Any], *, box_fingerprint: str
) -> Mapping[str, Any]:
    known = known_conditions(plan, config, box_fingerprint=box_fingerprint, software=tools.software)
    single = plan.probe.single_batch
    return known if document.get("probe") != "single_batch" or single is None else of_single_batch(known, single)


def _equal(document: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    stored = {name: value for name, value in document.items() if name not in TOLD_BY_BOOT}
    return _text(stored) == _text(expected)


def _text(value: Any) -> str:
    return canonical_json({"value": value})

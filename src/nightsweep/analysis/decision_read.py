"""A sweep's decision from rows that were read, for lists, summaries and people who come back later.

The rule is imported where there is a decision: most sweeps have none, and lists start fast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nightsweep.analysis.text import plural, printable
from nightsweep.analysis.values import BootRow, WindowRow
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.remaining import temperature_key
from nightsweep.plan.words import DECODE

if TYPE_CHECKING:
    from nightsweep.analysis.blocks import Block
    from nightsweep.analysis.rounds import Decision
    from nightsweep.analysis.sides import Documents


def repeats_said(plan: SweepPlan) -> str:
    """Return how often a plan measures, as words."""
    probe = plan.probe
    if plan.decide is not None:
        return f"repeats where the decision between {plural(len(plan.decide.between), 'config')} is open"
    return f"{plural(probe.repeats, 'repeat')} of each cell, over {plural(probe.boots, 'boot')} of each config"


def decision_blocks(
    plan: SweepPlan | None,
    *,
    windows: Sequence[WindowRow],
    boots: Sequence[BootRow],
    simulated: bool,
    told: Sequence[str] = (),
    documents: Documents | None = None,
) -> Iterator[Block]:
    """Yield a section on a sweep's decision; nothing where it has none.

    Args:
        told: What was said of it while it went, oldest first.
        documents: What the windows' fingerprints stand for, to name the conditions that differ; None where they were not read.
    """
    found = None if plan is None else decision_in(plan, windows=windows, boots=boots, documents=documents)
    if plan is None or found is None:
        return
    from nightsweep.analysis.blocks import Bullets, Heading, Paragraph
    from nightsweep.analysis.decision_said import decision_said, decision_table, weighed_said

    yield Heading(2, "Decision")
    yield Paragraph(printable(decision_said(found)))
    yield Paragraph(printable(f"Ranked by: {weighed_said(found, plan)}"))
    standings = decision_table(found, simulated=simulated)
    if standings is not None:
        yield standings
    if told:
        yield Bullets(tuple(told))


def decision_in(
    plan: SweepPlan, *, windows: Sequence[WindowRow], boots: Sequence[BootRow], documents: Documents | None = None
) -> Decision | None:
    """Return how a sweep's decision stands; None where it has none. Rows are those of the sweep, flagged windows too.

    What is left of prefills and single-batch runs is not in it.
    """
    if plan.decide is None:
        return None
    from nightsweep.analysis.rounds import Held, decision_of

    tries: dict[tuple[str, int, str, int], tuple[bool, int]] = {}
    drawn = []
    for row in windows:
        if row.kind != DECODE:
            continue
        place = (row.config_fingerprint, row.concurrency, temperature_key(row.temperature), row.repeat)
        clean, attempts = tries.get(place, (False, 0))
        tries[place] = (clean or not row.flags, attempts + (row.reused_from is None))
        if not row.flags and row.decode_rate is not None and row.reused_from is None:
            drawn.append(
                Drawn(place, row.boot_id, row.decode_rate, row.acceptance_length, row.conditions, row.not_applied)
            )
    failed: dict[tuple[str, int], tuple[str, ...]] = defaultdict(tuple)
    for boot in boots:
        if boot.state == "failed":
            failed[boot.config_fingerprint, boot.boot_round] += (boot.retry or "same",)
    bare = replace(plan, probe=replace(plan.probe, prefill=None, single_batch=None))
    conditions = {} if documents is None else documents.conditions
    return decision_of(bare, plan.decide, Held(drawn, tries, dict(failed), conditions=conditions))

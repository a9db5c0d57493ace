"""A decision in words: what is open, who leads by how much known to what, and what is out for another reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nightsweep.analysis.racing import CONFIDENCE, Standing
from nightsweep.analysis.rounds import DECIDED, MOST, NOBODY, OPENING, Decision
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.text import plural, printable


def decision_said(decision: Decision) -> str:
    """Return how a decision stands, as one line."""
    return "; ".join((_state_said(decision), *(f"{name} is out: {why}" for name, why in decision.dropped.items())))


def _state_said(decision: Decision) -> str:
    found = decision.standings
    if decision.state == OPENING:
        windows = sum(len(task.repeats) for task in decision.left)
        return f"undecided: {plural(windows, 'window')} of the opening are left"
    if decision.state == NOBODY or not found:
        return "undecided: no contender could be measured"
    if len(found) == 1:
        return f"decided: {found[0].config} is the only contender left"
    lead = lead_said(found)
    if decision.state == DECIDED:
        return f"decided after {plural(decision.number, 'round')}: {lead}"
    open_ones = sum(one.open for one in found)
    may = f"{open_ones} of {len(found)} may still be the best" if open_ones > 1 else "the winner is not confirmed"
    if decision.state == MOST:
        return f"undecided with all the windows that may be spent (`max`): {may}, {lead}"
    return f"undecided in round {decision.number}: {may}, {lead}"


def lead_said(found: Sequence[Standing]) -> str:
    """Return who leads whom by how much; of the configs that are open the one next to the leader, else the next one."""
    leader = found[0]
    second = next((one for one in found[1:] if one.open), found[1])
    ahead, within = 100 * math.expm1(second.behind), second.within(CONFIDENCE)
    known = f"known to ±{100 * within:.1f}%" if math.isfinite(within) else "and nothing tells yet how far that is luck"
    boots = plural(leader.boots, "boot")
    return f"{leader.config} leads {second.config} by {ahead:.1f}%, {known} ({plural(leader.windows, 'window')} in {boots})"


def decision_table(decision: Decision, *, simulated: bool) -> Table | None:
    """Return the standings as a table; None before the opening is over.

    Units:
        Percent by which the objective is behind the leader's.
    """
    if not decision.standings:
        return None
    columns = (
        Column("config", right=False),
        Column("behind %"),
        Column("± %"),
        Column("may be better"),
        Column("windows"),
        Column("boots"),
        Column("", right=False),
    )
    rows = [_row(one, leads=place == 0, decision=decision) for place, one in enumerate(decision.standings)]
    rows += [
        Row((printable(name), "", "", "", "", "", f"out: {printable(why)}"), mark="failed")
        for name, why in decision.dropped.items()
    ]
    notes = (
        "behind: of the objective, a weighted geometric mean of decode rates; ± is its 95% interval; "
        "may be better: the chance to be better than the leader by more than 1%",
        *decision.caveats,
    )
    return Table("Decision", columns, (Group("", tuple(rows)),), notes=notes, simulated=simulated)


def _row(one: Standing, *, leads: bool, decision: Decision) -> Row:
    within = one.within(CONFIDENCE)
    best = "the best" if decision.state == DECIDED else "leads"
    return Row(
        (
            printable(one.config),
            "" if leads else f"{100 * -math.expm1(-one.behind):.1f}",
            "" if leads else f"{100 * within:.1f}" if math.isfinite(within) else "?",
            "" if leads else f"{one.possible:.3f}",
            str(one.windows),
            str(one.boots),
            best if leads else "open" if one.open else "behind",
        ),
        mark="done" if leads and decision.state == DECIDED else "",
    )


def decision_document(decision: Decision) -> Mapping[str, Any]:
    """Return a decision as JSON knows it.

    Units:
        Ratios: `behind` and `within` are of the leader's objective; None where nothing tells how far it scatters.
    """
    return {
        "state": decision.state,
        "round": decision.number,
        "why": decision.why,
        "said": decision_said(decision),
        "left": {
            task.config.name: [[r.cell.concurrency, float(r.cell.temperature), r.index] for r in task.repeats]
            for task in decision.left
        },
        "standings": [_standing_document(one) for one in decision.standings],
        "dropped": dict(decision.dropped),
        "caveats": list(decision.caveats),
    }


def _standing_document(one: Standing) -> Mapping[str, Any]:
    within = one.within(CONFIDENCE)
    return {
        "config": one.config,
        "behind": -math.expm1(-one.behind),
        "within": within if math.isfinite(within) else None,
        "may_be_better": one.possible,
        "open": one.open,
        "windows": one.windows,
        "boots": one.boots,
    }

"""A decision in words: what is open, who leads by how much known to what, and what is out for another reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from nightsweep.analysis.racing import CONFIDENCE, INDIFFERENT, Standing
from nightsweep.analysis.rounds import DECIDED, MOST, NOBODY, OPENING, Decision
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.text import plural, printable, several, temperature
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.words import CONTROL_ROUND


def decision_said(decision: Decision) -> str:
    """Return how a decision stands, as one line."""
    return "; ".join((_state_said(decision), *(f"{name} is out: {why}" for name, why in decision.dropped.items())))


def _state_said(decision: Decision) -> str:
    found = decision.standings
    if decision.state == OPENING:
        windows = sum(len(task.repeats) for task in decision.left if task.boot_round < CONTROL_ROUND)
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
        return f"undecided, with `max` windows spent where they tell most (a higher `max` goes on): {may}, {lead}"
    return f"undecided in round {decision.number}: {may}, {lead}"


def lead_said(found: Sequence[Standing]) -> str:
    """Return who leads whom by how much; of the configs that are open the one next to the leader, else the next one."""
    leader = found[0]
    second = next((one for one in found[1:] if one.open), found[1])
    span = second.lead_span(CONFIDENCE)
    runs = f"{plural(leader.windows, 'window')} in {plural(leader.boots, 'boot')}"
    led = f"{leader.config} leads {second.config} by {second.lead_said(CONFIDENCE, on=runs)}"
    if span is None:
        return f"{led}, and nothing tells yet how far that is luck"
    return f"{led}: {_put_out(second)}" if span[0] <= 0 and not second.open else led


def _put_out(second: Standing) -> str:
    """Return why a lead stands whose interval holds 0: the rule asks less than that the two are told apart."""
    chance = f"{100 * second.possible:.1f}%"
    better = f"better by more than {100 * INDIFFERENT:g}%"
    return f"the chance that {second.config} is {better} is {chance}, and below {100 * (1 - CONFIDENCE):.0f}% it is out"


def decision_table(decision: Decision, *, simulated: bool) -> Table | None:
    """Return the standings as a table; None before the opening is over.

    Units:
        Percent by which the leader's objective is more than the config's own.
    """
    if not decision.standings:
        return None
    columns = (
        Column("config", right=False),
        Column("leader ahead %"),
        Column("95% interval"),
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
        "leader ahead: by its objective, a weighted geometric mean of decode rates, in percent of the config's own; "
        f"may be better: the chance to be better than the leader by more than {100 * INDIFFERENT:g}%, out of it below "
        f"{100 * (1 - CONFIDENCE):.0f}%, also where the interval holds 0",
        *decision.caveats,
    )
    return Table("Decision", columns, (Group("", tuple(rows)),), notes=notes, simulated=simulated)


def _row(one: Standing, *, leads: bool, decision: Decision) -> Row:
    span = one.lead_span(CONFIDENCE)
    best = "the best" if decision.state == DECIDED else "leads"
    return Row(
        (
            printable(one.config),
            "" if leads else f"{100 * one.lead:.1f}",
            "" if leads else "?" if span is None else f"{100 * span[0]:.1f} to {100 * span[1]:.1f}",
            "" if leads else f"{one.possible:.3f}",
            str(one.windows),
            str(one.boots),
            best if leads else "open" if one.open else "behind",
        ),
        mark="done" if leads and decision.state == DECIDED else "",
    )


def objective_said(plan: SweepPlan) -> str:
    """Return what a sweep's decision is about: the weighted geometric mean of which rates."""
    weights = () if plan.decide is None else plan.decide.weights
    total = math.fsum(weight for _, _, weight in weights)
    if len({weight for _, _, weight in weights}) == 1:
        streams = ", ".join(str(one) for one in sorted({place[0] for place in weights}))
        degrees = ", ".join(temperature(one) for one in sorted({place[1] for place in weights}))
        return f"geometric mean of decode rates at {streams} streams and T={degrees}, all alike"
    shares = ", ".join(f"c={c} T={temperature(t)} {100 * weight / total:.1f}%" for c, t, weight in weights)
    return f"weighted geometric mean of decode rates: {shares}"


def weighed_said(decision: Decision, plan: SweepPlan) -> str:
    """Return what the lead is a lead in, with the places of it that nobody measured."""
    untold = not_measured_said(decision.not_measured)
    return objective_said(plan) + (f"; {untold}" if untold else "")


def not_measured_said(places: Sequence[tuple[int, Decimal]]) -> str | None:
    """Return which places (streams, temperature) an objective weighs without a window; None for none."""
    listed = several([f"c={streams} T={temperature(degree)}" for streams, degree in places])
    return f"not measured, told by pooled acceptance: {listed}" if places else None


def ruling(decision: Decision, plan: SweepPlan) -> dict[str, Any]:
    """Return how a sweep's own rule decided, as it is kept with a person's decision; configs by name and fingerprint.

    Units:
        As `decision_document`, which has `not_measured`, too; `weights` are [streams, temperature, weight] of each place. They
        are the plan's own, not scaled: only their ratios count.
    """
    fingerprints = {config.name: config.fingerprint for config in plan.configs}
    standings = [
        {"fingerprint": fingerprints[one.config], **_standing_document(one)}
        for one in decision.standings
        if one.config in fingerprints
    ]
    return {
        "state": decision.state,
        "round": decision.number,
        "said": decision_said(decision),
        "objective": objective_said(plan),
        "weights": _weights_document(plan),
        "not_measured": _places_document(decision),
        "leader": standings[0]["fingerprint"] if standings else None,
        "standings": standings,
        "dropped": dict(decision.dropped),
        "caveats": list(decision.caveats),
    }


def _weights_document(plan: SweepPlan) -> list[list[float]]:
    return [[c, float(t), weight] for c, t, weight in (() if plan.decide is None else plan.decide.weights)]


def _places_document(decision: Decision) -> list[list[float]]:
    return [[streams, float(degree)] for streams, degree in decision.not_measured]


def weighed_document(decision: Decision, plan: SweepPlan) -> Mapping[str, Any]:
    """Return `decision_document` with what is decided: `objective` in words, and `weights` as `ruling` has them."""
    return {**decision_document(decision), "objective": objective_said(plan), "weights": _weights_document(plan)}


def decision_document(decision: Decision) -> Mapping[str, Any]:
    """Return a decision as JSON knows it.

    Units:
        Ratios: `behind` is of the leader's objective, `lead` with its interval of the config's own, `within` half the width of
        the interval of the logarithm of either; None where nothing tells how far it scatters. `not_measured` are [streams,
        temperature] of places that are weighed without a window.
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
        "not_measured": _places_document(decision),
        "dropped": dict(decision.dropped),
        "caveats": list(decision.caveats),
    }


def _standing_document(one: Standing) -> Mapping[str, Any]:
    within, span = one.within(CONFIDENCE), one.lead_span(CONFIDENCE)
    return {
        "config": one.config,
        "behind": -math.expm1(-one.behind),
        "lead": one.lead,
        "lead_low": span and span[0],
        "lead_high": span and span[1],
        "within": within if math.isfinite(within) else None,
        "may_be_better": one.possible,
        "open": one.open,
        "windows": one.windows,
        "boots": one.boots,
    }

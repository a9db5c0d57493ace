"""A decision as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.premises import (
    QUESTIONED,
    RETIRED,
    CellEvidence,
    Change,
    Decision,
    shown,
    state_of,
)
from nightsweep.analysis.sides import brief
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.traffic import counted_said
from nightsweep.cli.deciding import Judged
from nightsweep.cli.render import Line
from nightsweep.plan.words import DECODE, SINGLE_BATCH, WHOLE_RUN

QUESTION = 60
"""Characters of a question in the list; `decisions show` has it whole."""

RATES = {
    DECODE: "decode rate",
    SINGLE_BATCH: "decode rate of one request alone (single-batch runs)",
    WHOLE_RUN: "rate over a whole run",
}

MARKS = {QUESTIONED: "flagged", RETIRED: "", "standing": "done"}


def decisions_table(judged: Sequence[Judged]) -> Table:
    """Return the list of decisions, newest first."""
    headings = ("id", "state", "decided", "box", "chosen", "fallback", "question", "what changed")
    rows = tuple(_row(one) for one in judged)
    columns = tuple(Column(heading, right=heading == "id") for heading in headings)
    notes = list(_skipped(judged))
    if any(state_of(one.decision, one.changes) == QUESTIONED for one in judged):
        notes.append("questioned: `nightsweep decisions show ID --reask -o FILE` writes the sweep that asks again")
    simulated = any(one.decision.simulated for one in judged)
    return Table("Decisions", columns, (Group("", rows),), notes=tuple(notes), simulated=simulated)


def _skipped(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield what could not be looked at, each once, with the decisions that it is of."""
    of: dict[str, list[str]] = {}
    for one in judged:
        for skipped in one.now.skipped:
            of.setdefault(skipped, []).append(str(one.decision.decision_id))
    for skipped, ids in of.items():
        yield f"decision{'' if len(ids) == 1 else 's'} {', '.join(sorted(ids, key=int))}: {skipped}"


def _row(one: Judged) -> Row:
    decision, state = one.decision, state_of(one.decision, one.changes)
    open_ones = [change.words for change in one.changes if change.accepted is None]
    why = decision.retired_why if state == RETIRED else "; ".join(open_ones)
    values = (
        str(decision.decision_id),
        state,
        text.moment(decision.decided),
        decision.box,
        decision.chosen_name,
        decision.fallback_name,
        text.shortened(decision.question, limit=QUESTION),
        why or text.ABSENT,
    )
    return Row(tuple(text.printable(value) for value in values), mark=MARKS[state])


def decision_lines(
    decision: Decision, *, state: str, changes: Sequence[Change], skipped: Sequence[str]
) -> Iterator[Line]:
    """Yield a decision whole: question, choice, warnings, evidence, premises, and what changed; whatever a name holds."""
    for line in _decision_lines(decision, state=state, changes=changes, skipped=skipped):
        indent = len(line.text) - len(line.text.lstrip(" "))
        yield line._replace(text=" " * indent + text.printable(line.text))


def _decision_lines(
    decision: Decision, *, state: str, changes: Sequence[Change], skipped: Sequence[str]
) -> Iterator[Line]:
    loud = f" [{text.SIMULATED}]" if decision.simulated else ""
    yield Line(f"decision {decision.decision_id}: {state}{loud}", style="title")
    yield Line(f"question:  {decision.question}")
    yield Line(f"chosen:    {decision.chosen_name} ({decision.chosen[:12]})")
    yield Line(f"fallback:  {decision.fallback_name} ({decision.fallback[:12]})")
    yield Line(f"decided:   {text.moment(decision.decided)} UTC on sweep {decision.sweep_id} {decision.sweep_name}")
    if decision.retired_why is not None:
        yield Line(f"retired:   {text.moment(decision.retired)} UTC: {decision.retired_why}")
    for warning in (*decision.evidence.warnings, *decision.evidence.of_runner_up):
        yield Line(f"WARNING: {warning}", style="failed")
    yield from _changed(changes)
    yield from _ruled(decision.evidence.rule)
    yield Line(f"evidence, {RATES[decision.evidence.kind]} in tokens/s, all streams", style="title")
    yield from (Line(f"  {_cell(cell)}") for cell in decision.evidence.cells)
    if decision.evidence.rule is not None and decision.evidence.verdicts:
        yield Line("  each cell by itself, which the rule above does not go by: it ranks over all its places together")
    yield from (Line(f"  {verdict}") for verdict in decision.evidence.verdicts)
    yield from (Line(f"  {note}", style="note") for note in decision.evidence.notes)
    yield from _apart(decision)
    for name, values in decision.evidence.not_fixed.items():
        yield Line(f"  not held fixed over these windows: {name}: {', '.join(values)}", style="single")
    yield Line(f"premises ({len(decision.premises)})", style="title")
    yield from (Line(f"  {name}: {shown(value)}") for name, value in sorted(decision.premises.items()))
    if decision.evidence.traffic is not None:
        yield Line(f"  traffic is the {counted_said(decision.evidence.traffic)}", style="note")
    yield from (Line(f"  {one}", style="note") for one in skipped)


def _apart(decision: Decision) -> Iterator[Line]:
    """Yield in what choice and fallback differ besides what was decided."""
    found = decision.evidence.apart
    if found:
        things = text.plural(len(found), "thing")
        said = (
            f"choice and fallback differ in {things} besides what was decided, and their rates by all of it together:"
        )
        yield Line(f"  {said}", style="single")
    for one in found:
        yield Line(f"    {one.name}: {brief(one.chosen)} (choice), {brief(one.fallback)} (fallback)", style="single")


def _changed(changes: Sequence[Change]) -> Iterator[Line]:
    if changes:
        yield Line("what changed since", style="title")
    for change in changes:
        looked = f"; accepted: {change.accepted}" if change.accepted is not None else ""
        yield Line(f"  {change.words}{looked}", style="" if looked else "flagged")


def _ruled(rule: Mapping[str, Any] | None) -> Iterator[Line]:
    """Yield what the sweep's own rule made of it."""
    if rule is None:
        return
    from nightsweep.analysis.decision_said import not_measured_said  # lists have no use for the rule

    yield Line("the sweep's own rule (`repeats: {mode: decide}`)", style="title")
    yield Line(f"  {rule['said']}")
    yield Line(f"  objective: {rule['objective']}")
    untold = not_measured_said([(streams, Decimal(str(degree))) for streams, degree in rule.get("not_measured", ())])
    if untold is not None:
        yield Line(f"  {untold}")
    for one in rule["standings"]:
        low, high = one["lead_low"], one["lead_high"]
        known = "" if low is None else f" (95%: {100 * low:.1f} to {100 * high:.1f}%)"
        how = (
            "leads"
            if one["fingerprint"] == rule["leader"]
            else f"the leader is ahead by {100 * one['lead']:.1f}%{known}"
        )
        runs = f"{text.plural(one['windows'], 'window')} in {text.plural(one['boots'], 'boot')}"
        yield Line(f"  {one['config']}: {how}, {runs}")
    yield from (Line(f"  {caveat}", style="single") for caveat in rule["caveats"])


def _cell(cell: CellEvidence) -> str:
    at = f"{text.plural(cell.concurrency, 'stream')}, T={text.temperature(cell.temperature)}"
    span = "" if cell.low is None or cell.high is None else f", 95% {cell.low:.1f}–{cell.high:.1f}"
    ids = ", ".join(str(window) for window in cell.windows)
    boots = text.plural(cell.boots, "boot")
    if cell.n == 1 and cell.stated != 1:
        return f"{cell.name} at {at}: {cell.mean:.1f} ({text.lone(cell.spread)}{span}); windows {ids}"
    least = f"{cell.minimum:.1f}–{cell.maximum:.1f}"
    return f"{cell.name} at {at}: {cell.mean:.1f} (n={text.runs(cell.spread)}, {boots}, {least}{span}); windows {ids}"


def decision_document(one: Judged) -> dict[str, Any]:
    """Return a decision for JSON; rates in tokens / second."""
    decision = one.decision
    return {
        "id": decision.decision_id,
        "state": state_of(decision, one.changes),
        "question": decision.question,
        "factors": list(decision.factors),
        "sweep": {"id": decision.sweep_id, "name": decision.sweep_name},
        "box": decision.box,
        "simulated": decision.simulated,
        "chosen": {"config": decision.chosen_name, "fingerprint": decision.chosen},
        "fallback": {"config": decision.fallback_name, "fingerprint": decision.fallback},
        "decided": decision.decided.isoformat(),
        "retired": None if decision.retired is None else decision.retired.isoformat(),
        "retired_why": decision.retired_why,
        "evidence": [_cell_document(cell) for cell in decision.evidence.cells],
        "verdicts": list(decision.evidence.verdicts),
        "warnings": [*decision.evidence.warnings, *decision.evidence.of_runner_up],
        "notes": list(decision.evidence.notes),
        "rule": None if decision.evidence.rule is None else dict(decision.evidence.rule),
        "kind": decision.evidence.kind,
        "fallback_differs": [asdict(each) for each in decision.evidence.apart],
        "not_held_fixed": {name: list(values) for name, values in decision.evidence.not_fixed.items()},
        "premises": dict(decision.premises),
        "traffic": None if decision.evidence.traffic is None else dict(decision.evidence.traffic),
        "changes": [
            {"premise": each.name, "old": each.old, "new": each.new, "source": each.source, "accepted": each.accepted}
            for each in one.changes
        ],
        "skipped": [*decision.evidence.unknown, *one.now.skipped],
    }


def _cell_document(cell: CellEvidence) -> dict[str, Any]:
    return {
        "config": cell.name,
        "fingerprint": cell.config,
        "concurrency": cell.concurrency,
        "temperature": text.temperature_or_none(cell.temperature),
        "windows": list(cell.windows),
        "n": cell.n,
        "boots": cell.boots,
        "decode_rate_tokens_per_second": {
            "mean": cell.mean,
            "min": cell.minimum,
            "max": cell.maximum,
            "low": cell.low,
            "high": cell.high,
        },
    }

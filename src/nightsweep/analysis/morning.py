"""The morning's summary of a night: what ran, what it measured, how production fared, what to know, and how it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from nightsweep.analysis import listings, tables, text, traffic
from nightsweep.analysis.blocks import Block, Bullets, Heading, Lines, Paragraph
from nightsweep.analysis.caveats import caveats, leads, overlap
from nightsweep.analysis.decision_read import decision_blocks
from nightsweep.analysis.expected import UNKNOWN, Expected, expected_and_found, expected_table, worth_reading
from nightsweep.analysis.premises import Questioned
from nightsweep.analysis.sides import Documents
from nightsweep.analysis.summary import in_plan_order, summarise, summarise_prefills
from nightsweep.analysis.values import (
    BootRow,
    CellSummary,
    Event,
    PrefillRow,
    ProductionRow,
    SweepRow,
    WindowRow,
    down_of,
)
from nightsweep.plan.model import SweepPlan

NOON = time(12)
NOT_BACK = "NOT SERVING"
WORTH_READING = ("warning", "error", "critical")
EVENTS_SHOWN = 40
LINES_SHOWN = 4
PREMISES_SHOWN = 4


@dataclass(frozen=True)
class Span:
    """A night, from noon to noon of the local time that its sweep's schedule is in; named by the day that it begins on."""

    name: date
    begins: datetime
    ends: datetime

    def holds(self, moment: datetime | None) -> bool:
        """Return whether a moment is in it."""
        return moment is not None and self.begins <= moment < self.ends


@dataclass(frozen=True)
class Night:
    """What is stored of a sweep, and which night of it is told.

    Attributes:
        boots, windows, prefills, single_batches: All of the sweep, flagged ones too; the night is picked out here.
        events: Those of the night at least, in any order.
        left: Repeats that are still to be measured; None where the plan cannot be read any more.
        goes_on: When and how the sweep goes on, as a sentence.
        zone: Of all times that are shown.
        questioned: Decisions of this box whose premises changed, of any sweep.
        documents: What the windows' fingerprints stand for.
    """

    sweep: SweepRow
    span: Span
    zone: str
    boots: Sequence[BootRow]
    windows: Sequence[WindowRow]
    prefills: Sequence[PrefillRow]
    single_batches: Sequence[WindowRow]
    events: Sequence[Event]
    production: Sequence[ProductionRow]
    plan: SweepPlan | None
    left: int | None
    goes_on: str
    expected: Sequence[Expected] = ()
    questioned: Sequence[Questioned] = ()
    documents: Documents = UNKNOWN

    @property
    def cells(self) -> list[CellSummary]:
        """The cells of all nights so far, in the plan's order."""
        order = [config.fingerprint for config in self.plan.configs] if self.plan is not None else []
        return in_plan_order(summarise(self.windows), fingerprints=order)

    @property
    def boots_tonight(self) -> list[BootRow]:
        """The night's boots, in the order they were made."""
        return sorted((b for b in self.boots if self.span.holds(b.started)), key=lambda b: (b.started, b.boot_id))

    def local(self, moment: datetime | None) -> str:
        """Return a moment as it is shown, in the night's own zone."""
        return text.ABSENT if moment is None else f"{moment.astimezone(ZoneInfo(self.zone)):%a %H:%M}"


def night_of(moment: datetime, *, zone: str) -> Span:
    """Return the night that a moment belongs to."""
    local = moment.astimezone(ZoneInfo(zone))
    return night_named(local.date() if local.time() >= NOON else local.date() - timedelta(days=1), zone=zone)


def night_named(day: date, *, zone: str) -> Span:
    """Return the night that begins on a day."""
    noon = datetime.combine(day, NOON, tzinfo=ZoneInfo(zone))
    next_noon = datetime.combine(day + timedelta(days=1), NOON, tzinfo=ZoneInfo(zone))
    return Span(day, noon, next_noon)


def summary_blocks(night: Night) -> tuple[Block, ...]:
    """Return the summary as blocks, for Markdown and HTML alike.

    Units:
        tokens / second, milliseconds, GiB; cold start in seconds.
    """
    return (
        *_head(night),
        *_production(night),
        *_decision(night),
        *_questioned(night),
        *_best(night),
        *_boots(night),
        *_cells(night),
        *_expected(night),
        *_caveats(night),
        *_events(night),
    )


def title_of(night: Night) -> str:
    """Return the summary's title."""
    loud = f" ({text.SIMULATED})" if night.sweep.simulated else ""
    return f"Night of {night.span.name:%a %d %B %Y}: {text.printable(night.sweep.name)}{loud}"


def _head(night: Night) -> Iterator[Block]:
    sweep, tonight = night.sweep, night.boots_tonight
    yield Heading(1, title_of(night))
    for row in down_of(night.production):
        why = row.outcome or "not started yet"
        yield Paragraph(f"Production {row.container} is {NOT_BACK}: {why}. Run `nightsweep restore`.", loud=True)
    windows = [row for row in (*night.windows, *night.single_batches) if night.span.holds(row.started)]
    clean = sum(not row.flags for row in windows)
    flags = Counter(flag for row in windows for flag in row.flags)
    flagged = f"; flagged: {', '.join(f'{flag} ×{n}' for flag, n in sorted(flags.items()))}" if flags else ""
    failed = sum(boot.state == "failed" for boot in tonight)
    left = "" if night.left is None else f", {night.left:,} left"
    yield Bullets(
        (
            f"state: {sweep.state}{f' ({sweep.note})' if sweep.note else ''}",
            f"this night: {text.plural(clean, 'clean window')} of {len(windows):,} measured{flagged}",
            f"so far: {sweep.repeats_clean:,} of {sweep.repeats_planned:,} planned repeats have a clean window{left}",
            f"{text.plural(len(tonight), 'boot')}, {failed} failed; box {sweep.box}; times are of {night.zone}",
            f"goes on: {night.goes_on}",
        ),
        loud=("state: failed",),
    )


def _production(night: Night) -> Iterator[Block]:
    yield Heading(2, "Production")
    if not night.production:
        yield Paragraph("No production container was taken down in this night.")
        return
    columns = ("container", "taken down", "start began", "serves again", "was away", "due by", "checked")
    rows = tuple(_production_row(night, row) for row in night.production)
    served = [traffic.said(row.container, row.traffic, moment=night.local) for row in night.production if row.traffic]
    handed = [row.taken_over_said(night.local) for row in night.production]
    yield tables.Table(
        "What was taken down, and how it came back",
        tuple(tables.Column(heading, right=False) for heading in columns),
        (tables.Group("", rows),),
        notes=tuple(text.printable(one) for one in (*handed, *served) if one is not None),
        simulated=night.sweep.simulated,
    )


def _production_row(night: Night, row: ProductionRow) -> tables.Row:
    back = row.closed if row.fares == "serves" else None
    down = row.stopped or row.opened
    return tables.Row(
        (
            text.printable(row.container),
            night.local(down),
            night.local(row.restore_started),
            night.local(back) if back is not None else NOT_BACK if row.fares == "down" else row.said,
            text.duration((back - down).total_seconds()) if back is not None else text.ABSENT,
            night.local(row.restore_by),
            text.printable(checks_said(row)),
        ),
        mark="failed" if row.fares == "down" else "",
    )


def checks_said(row: ProductionRow) -> str:
    """Return what was checked when production came back, as words; why it did not where it did not."""
    if row.fares == "given up":
        return "nothing"
    if row.fares != "serves":
        return row.outcome or "nothing yet"
    checks = row.checks
    said = [f"ready by {checks['ready']}"] if checks.get("ready") else []
    said += ["a token was served"] if checks.get("token") == "served" else []
    differ = [str(line) for line in checks.get("differences") or ()]
    said += [f"DIFFERS from before: {'; '.join(differ)}"] if differ else []
    unchecked = [str(line) for line in checks.get("unchecked") or ()]
    said += [f"not checked: {'; '.join(unchecked)}"] if unchecked else []
    return ", ".join(said) or "it runs"


def _decision(night: Night) -> Iterator[Block]:
    """How the sweep's decision stands, and the rounds of this night with why each was measured."""
    rounds = [e for e in night.events if e.kind in ("decision_round", "decision") and night.span.holds(e.at)]
    first = {
        e.message: e for e in sorted(rounds, key=lambda event: event.at, reverse=True)
    }  # said again by a later start
    told = [f"{night.local(e.at)}: {text.printable(e.message)}" for e in sorted(first.values(), key=lambda e: e.at)]
    yield from decision_blocks(
        night.plan,
        windows=night.windows,
        boots=night.boots,
        simulated=night.sweep.simulated,
        told=told,
        documents=night.documents,
    )


def _questioned(night: Night) -> Iterator[Block]:
    """Which conclusions of this box have lost a premise: what was decided, and what is not as it was."""
    if not night.questioned:
        return
    yield Heading(2, "Decisions in question")
    yield Bullets(tuple(_question(one) for one in night.questioned))
    first = night.questioned[0].decision.decision_id
    yield Paragraph(
        f"`nightsweep decisions show {first} --reask -o FILE` writes the sweep that asks again; `nightsweep decisions` looks at "
        "production and prompts, too."
    )


def _question(one: Questioned) -> str:
    what = f"Decision {one.decision.decision_id} ({one.decision.decided:%Y-%m-%d}), {one.decision.question}"
    changed = text.several((change.words for change in one.changes), limit=PREMISES_SHOWN)
    return text.printable(f"{what}: chosen was {one.decision.chosen_name}. {changed}")


def _best(night: Night) -> Iterator[Block]:
    found = best_lines(night.cells)
    if found and (night.plan is None or night.plan.decide is None):  # a decision ranks over all its places together
        yield Heading(2, "Ahead so far")
        yield Bullets(found)


def best_lines(cells: Sequence[CellSummary]) -> tuple[str, ...]:
    """Return one sentence for each concurrency and temperature: who is ahead, on how many runs, and whether that is open."""
    return tuple(_best_line(first, second) for first, second in leads(cells))


def _best_line(first: CellSummary, second: CellSummary | None) -> str:
    at = f"{text.plural(first.concurrency, 'stream')}, T={text.temperature(first.temperature)}"
    line = f"{at}: {_rate(first)}"
    if second is None:
        return f"{line}; no other config is measured there"
    verdict = "open, their runs do not tell them apart" if overlap(first, second) else "their runs do not overlap"
    return f"{line}, before {_rate(second)}: {verdict}"


def _rate(cell: CellSummary) -> str:
    rate = cell.decode_rate
    assert rate is not None, "a lead has a number"
    digits = text.decimals([rate.mean])
    spread = f": {text.value_range(rate, digits=digits)}" if rate.n > 1 else ", one run"
    return f"{text.printable(cell.config)} {text.number(rate.mean, digits=digits)} tokens/s (n={rate.n}{spread})"


def _boots(night: Night) -> Iterator[Block]:
    tonight = night.boots_tonight
    yield Heading(2, "Boots of this night")
    if not tonight:
        yield Paragraph("No engine was booted.")
        return
    yield listings.boots_table(tonight, title="In the order they were made")
    for boot in tonight:
        if boot.failure_kind is not None:
            yield Paragraph(f"{boot.config}, boot {boot.boot_id}: {listings.outcome(boot)}.", loud=True)
            if boot.failure_lines:
                yield Lines(boot.failure_lines[:LINES_SHOWN])
            if boot.failure_remedy:
                yield Paragraph(f"Remedy: {boot.failure_remedy}")


def _cells(night: Night) -> Iterator[Block]:
    cells, prefills = night.cells, summarise_prefills(night.prefills)
    alone = summarise(night.single_batches)
    yield Heading(2, "Cells, of all nights so far")
    if not cells:
        yield Paragraph("Nothing was measured: no window is stored.")
    for temperature in sorted({cell.temperature for cell in cells}):
        these = [cell for cell in cells if cell.temperature == temperature]
        yield tables.cells_table(
            these,
            title=f"T={text.temperature(temperature)}: decode rate, all streams",
            with_boots=True,
            ruled=night.plan is not None and night.plan.decide is not None,
        )
    if alone:
        yield tables.single_batch_table(alone, title="Single batch: one request alone")
    if prefills:
        yield tables.prefills_table(prefills, title="Prefill rate on a fresh prompt")


def _expected(night: Night) -> Iterator[Block]:
    if night.expected:
        yield Heading(2, "Expected and found")
        found = worth_reading(expected_and_found(night.expected, night.windows, known=night.documents))
        title = "What was written before the run, and what all nights so far found"
        yield expected_table(found, title=title, simulated=night.sweep.simulated)


def _caveats(night: Night) -> Iterator[Block]:
    found = caveats(
        night.sweep,
        boots=night.boots,
        cells=night.cells,
        prefills=summarise_prefills(night.prefills),
        plan=night.plan,
    )
    yield Heading(2, "Caveats")
    yield Bullets(found, loud=(text.SIMULATED,)) if found else Paragraph("The data call for none.")


def _events(night: Night) -> Iterator[Block]:
    """Warnings and worse, the oldest first."""
    found = sorted(
        (event for event in night.events if event.level in WORTH_READING and night.span.holds(event.at)),
        key=lambda event: event.at,
    )
    yield Heading(2, "Warnings of this night")
    if not found:
        yield Paragraph("None.")
        return
    rows = tuple(
        tables.Row(
            (night.local(event.at), event.level, event.kind, text.printable(event.message)),
            mark="" if event.level == "warning" else "failed",
        )
        for event in found[-EVENTS_SHOWN:]
    )
    columns = tuple(tables.Column(heading, right=False) for heading in ("when", "level", "what", "said"))
    more = len(found) - len(rows)
    notes = (
        (f"and {more:,} earlier ones: `nightsweep status {night.sweep.sweep_id} --limit {len(found)}`",) if more else ()
    )
    yield tables.Table(f"{text.plural(len(found), 'event')}", columns, (tables.Group("", rows),), notes=notes)

"""A sweep's report as blocks: the same rows give the same document, as Markdown or HTML, with plots or without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from nightsweep.analysis import listings, markdown, tables, text
from nightsweep.analysis.blocks import Block, Bullets, Details, Heading, Lines, Paragraph, without_plots
from nightsweep.analysis.caveats import caveats
from nightsweep.analysis.confounded import all_confounders, single_batch_caveats, whole_run_caveats
from nightsweep.analysis.control import control_table
from nightsweep.analysis.decision_read import decision_blocks
from nightsweep.analysis.expected import UNKNOWN, Expected, expected_and_found, expected_table, worth_reading
from nightsweep.analysis.figures import (
    Measured,
    acceptance_figure,
    acceptance_table,
    decode_rate_figure,
    spread_figure,
    spread_table,
    step_time_figure,
)
from nightsweep.analysis.runs import runs_table, single_batch_runs_table
from nightsweep.analysis.schedules import local
from nightsweep.analysis.series import known_series
from nightsweep.analysis.sides import Document, Documents
from nightsweep.analysis.summary import in_plan_order, summarise, summarise_prefills
from nightsweep.analysis.timeline import Ran, timeline_figure, timeline_table
from nightsweep.analysis.tradeoffs import kv_figure, pareto_figure, tradeoff_table
from nightsweep.analysis.values import (
    BootRow,
    CellSummary,
    Event,
    PrefillRow,
    PrefillSummary,
    ProductionRow,
    SweepRow,
    WindowRow,
)
from nightsweep.analysis.what_ran import what_ran
from nightsweep.analysis.whole_runs import whole_runs_table
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.words import NO_DATE, OF_UNKNOWN_BOOTS

FLAGGED_SHOWN = 60
"""Flagged windows listed at most; the report says how many more there are."""


@dataclass(frozen=True)
class Reported:
    """What is stored of a sweep.

    Attributes:
        windows, prefills, single_batches: All of the sweep, flagged ones too.
        plan: None is not known.
        documents: Of the windows' conditions, configs and boxes; None where they were not read.
    """

    sweep: SweepRow
    boots: Sequence[BootRow]
    windows: Sequence[WindowRow]
    prefills: Sequence[PrefillRow]
    plan: SweepPlan | None
    software_version: str
    single_batches: Sequence[WindowRow] = ()
    whole_runs: Sequence[WindowRow] = ()
    expected: Sequence[Expected] = ()
    production: Sequence[ProductionRow] = ()
    events: Sequence[Event] = ()
    documents: Documents | None = None

    @property
    def order(self) -> list[str]:
        """Fingerprints of the configs in the plan's order."""
        return [config.fingerprint for config in self.plan.configs] if self.plan is not None else []

    @property
    def cells(self) -> list[CellSummary]:
        """The cells in the plan's order."""
        return in_plan_order(summarise(self.windows), fingerprints=self.order)

    @property
    def in_time(self) -> list[BootRow]:
        """The boots in the order they were made."""
        return sorted(self.boots, key=lambda boot: (boot.started, boot.boot_id))

    @property
    def conditions_known(self) -> list[Document]:
        """What the decode windows were measured under, each document once; empty without windows, or where it was not read."""
        known = {} if self.documents is None else self.documents.conditions
        return [known[one] for one in dict.fromkeys(row.conditions for row in self.windows) if one in known]

    @property
    def measured(self) -> Measured:
        """What the plots of cells are made of."""
        return Measured(self.windows, known_series(self.windows, fingerprints=self.order), self.sweep.simulated)

    @property
    def ran(self) -> Ran:
        """What the timeline is made of."""
        schedule = None if self.plan is None else self.plan.schedule
        return Ran(
            boots=self.in_time,
            windows=(*self.windows, *self.single_batches),
            prefills=self.prefills,
            production=self.production,
            events=self.events,
            zone="UTC" if schedule is None else schedule.timezone,
            simulated=self.sweep.simulated,
            fingerprints=self.order,
        )


def report_blocks(told: Reported) -> tuple[Block, ...]:
    """Return the report.

    Units:
        tokens / second, milliseconds, percent, GiB; cold start in seconds.
    """
    cells, prefills = told.cells, summarise_prefills(told.prefills)
    return (
        *_title(told.sweep),
        _summary(told, cells=cells),
        *what_ran(
            told.sweep,
            boots=told.in_time,
            plan=told.plan,
            known=told.conditions_known,
            software_version=told.software_version,
        ),
        *decision_blocks(
            told.plan,
            windows=told.windows,
            boots=told.boots,
            simulated=told.sweep.simulated,
            documents=told.documents,
        ),
        *_boots(told.in_time, simulated=told.sweep.simulated),
        *_cells(told, cells),
        *_single_batches(told),
        *_whole_runs(told),
        *_prefills(prefills),
        *_expected(told),
        *_control(told.windows),
        *(_timeline(told) if told.sweep.source is None else ()),
        *_flagged((*told.windows, *told.single_batches, *told.whole_runs)),
        *_caveats(told, cells=cells, prefills=prefills),
    )


def report_markdown(
    sweep: SweepRow,
    *,
    boots: Sequence[BootRow],
    windows: Sequence[WindowRow],
    prefills: Sequence[PrefillRow],
    plan: SweepPlan | None,
    software_version: str,
    single_batches: Sequence[WindowRow] = (),
    expected: Sequence[Expected] = (),
) -> str:
    """Return the report as Markdown without plots, where no picture can stand beside it. Arguments as of `Reported`."""
    told = Reported(
        sweep,
        boots=boots,
        windows=windows,
        prefills=prefills,
        plan=plan,
        software_version=software_version,
        single_batches=single_batches,
        expected=expected,
    )
    return markdown.document(without_plots(report_blocks(told)))


def title_of(sweep: SweepRow) -> str:
    """Return the report's title."""
    loud = f" ({text.SIMULATED})" if sweep.simulated else ""
    return f"Sweep report: {text.printable(sweep.name)}{loud}"


def _title(sweep: SweepRow) -> Iterator[Block]:
    yield Heading(1, title_of(sweep))
    if sweep.simulated:
        yield Paragraph(
            f"{text.SIMULATED}. Every number here was measured on a simulated engine. "
            "None of them says anything about a real engine, model or box.",
            loud=True,
        )


def _summary(told: Reported, *, cells: Sequence[CellSummary]) -> Block:
    sweep, boots = told.sweep, told.in_time
    measured = sum(cell.decode_rate is not None for cell in cells)
    failed = sum(boot.state == "failed" for boot in boots)
    flagged = text.plural(sweep.windows_flagged, "flagged window")
    reused = sorted(sweep.reused.items())
    kinds = (("single-batch cell", told.single_batches), ("cell of whole runs", told.whole_runs))
    others = [text.plural(len(found), kind, _several(kind)) for kind, rows in kinds if (found := summarise(rows))]
    counted = [text.plural(measured, "cell")] if measured or not others else []
    return Bullets(
        (
            _state(told),
            f"{', '.join((*counted, *others))} with numbers; {flagged} left out",
            *(f"reused from sweep {origin}: {text.plural(count, 'measurement')}" for origin, count in reused),
            f"{_boots_counted(boots)} of {text.plural(sweep.configs, 'config')}, {failed} failed",
            ran_said(told),
        ),
        loud=("state: failed",),
    )


def _several(kind: str) -> str:
    return kind.replace("cell", "cells", 1)


def _state(told: Reported) -> str:
    sweep = told.sweep
    if sweep.source is not None:
        rows = len(told.windows) + len(told.single_batches) + len(told.whole_runs)
        return f"state: {sweep.note or sweep.source}; {text.plural(rows, 'row')}"
    note = f" ({sweep.note})" if sweep.note else ""
    clean = f"{sweep.repeats_clean:,} of {sweep.repeats_planned:,} planned repeats have a clean window"
    return f"state: {sweep.state}{note}; {clean}"


def _boots_counted(boots: Sequence[BootRow]) -> str:
    """Return how many boots there were; an import that names none has one for each config, which says nothing."""
    known = [boot for boot in boots if OF_UNKNOWN_BOOTS not in boot.notes]
    if len(known) == len(boots):
        return text.plural(len(boots), "boot")
    return (
        f"{text.plural(len(known), 'boot')} and an unknown number of others" if known else "an unknown number of boots"
    )


def ran_said(told: Reported) -> str:
    """Return from when to when a sweep ran; of imported rows as far as their files say it."""
    sweep = told.sweep
    if sweep.source is None:
        return f"ran from {text.moment(sweep.started)} to {text.moment(sweep.ended)} UTC"
    rows = (*told.windows, *told.single_batches, *told.whole_runs)
    dated = [row.started for row in rows if NO_DATE not in row.notes]
    unknown = len(rows) - len(dated)
    left_out = f"{text.plural(unknown, 'row')} without a date" if unknown else ""
    said = (
        f"measured from {text.moment(min(dated))} to {text.moment(max(dated))} UTC, as the files state" if dated else ""
    )
    return "; ".join(filter(None, (said, left_out))) or "no row is left"


def _boots(boots: Sequence[BootRow], *, simulated: bool) -> Iterator[Block]:
    yield Heading(2, "Boots")
    if not boots:
        yield Paragraph("No boot is stored.")
        return
    yield listings.boots_table(boots, title="Boots in the order they were made")
    failures = [boot for boot in boots if boot.failure_kind is not None]
    if failures:
        yield Heading(3, f"Failures{f' ({text.SIMULATED})' if simulated else ''}")
        for boot in failures:
            yield from _failure(boot)


def _failure(boot: BootRow) -> Iterator[Block]:
    ended = [f"exit code {boot.exit_code}"] if boot.exit_code is not None else []
    ended += ["killed for memory"] if boot.oom_killed else []
    facts = ", ".join([listings.outcome(boot), *ended])
    yield Paragraph(f"{boot.config}, boot {boot.boot_id}: {facts}.", loud=True)
    if boot.failure_lines:
        yield Paragraph("Deciding lines:")
        yield Lines(boot.failure_lines)
    if boot.failure_remedy:
        yield Paragraph(f"Remedy: {boot.failure_remedy}")


def _cells(told: Reported, cells: Sequence[CellSummary]) -> Iterator[Block]:
    yield Heading(2, "Cells")
    if not cells:
        whole = "No decode window: another client's whole runs stand below."
        yield Paragraph(whole if told.whole_runs else "Nothing was measured: no window is stored.")
        return
    yield Paragraph(
        "Decode rate is tokens per second after prefill, all streams together. In the overview each field is "
        "mean (n: least–most), and the highest mean of a column is bold; whether it is ahead is in the caveats."
    )
    measured = told.measured
    for temperature in sorted({cell.temperature for cell in cells}):
        here = [cell for cell in cells if cell.temperature == temperature]
        yield from _cells_at(temperature, here, measured=measured, told=told)
    yield Heading(3, "Spread")
    yield spread_figure(measured)
    yield from _there(spread_table(measured))
    runs = runs_table(told.windows, measured.known, simulated=told.sweep.simulated)
    if runs is not None:
        yield Details("Every run by itself", (runs,))


def _cells_at(
    temperature: Decimal, cells: Sequence[CellSummary], *, measured: Measured, told: Reported
) -> Iterator[Block]:
    at, boots = text.temperature(temperature), told.boots
    ruled = told.plan is not None and told.plan.decide is not None
    yield Heading(3, f"Temperature {at}")
    yield decode_rate_figure(measured, temperature=temperature)
    yield tables.pivot_table(cells, title=f"Decode rate at T={at}, tokens/s: mean (n: least–most)")
    yield step_time_figure(measured, temperature=temperature)
    yield tables.cells_table(cells, title=f"Cells at T={at}", client_side=True, with_boots=True, ruled=ruled)
    yield acceptance_figure(measured, temperature=temperature)
    yield from _there(acceptance_table(measured, temperature=temperature))
    yield pareto_figure(measured, temperature=temperature)
    yield kv_figure(measured, boots=boots, temperature=temperature)
    yield from _there(tradeoff_table(measured, boots=boots, temperature=temperature))


def _there(table: tables.Table | None) -> tuple[Block, ...]:
    return () if table is None else (table,)


def _single_batches(told: Reported) -> Iterator[Block]:
    cells = in_plan_order(summarise(told.single_batches), fingerprints=told.order)
    if not cells:
        return
    simulated = told.sweep.simulated
    known = known_series(told.single_batches, fingerprints=told.order)
    yield Heading(2, "Single batch")
    yield tables.single_batch_table(cells, title="Single batch: one request alone, never pooled with decode windows")
    yield from _there(single_batch_runs_table(told.single_batches, boots=told.boots, known=known, simulated=simulated))


def _whole_runs(told: Reported) -> Iterator[Block]:
    cells = in_plan_order(summarise(told.whole_runs), fingerprints=told.order)
    if not cells:
        return
    known = known_series(told.whole_runs, fingerprints=told.order)
    measured = Measured(told.whole_runs, known, told.sweep.simulated, whole=True)
    yield Heading(2, "Whole runs")
    yield whole_runs_table(cells, title="Whole runs of another client, never pooled with decode windows")
    for temperature in sorted({cell.temperature for cell in cells}):
        yield decode_rate_figure(measured, temperature=temperature)
        yield acceptance_figure(measured, temperature=temperature)
        yield from _there(acceptance_table(measured, temperature=temperature))
        yield pareto_figure(measured, temperature=temperature)
    yield spread_figure(measured)
    yield from _there(spread_table(measured))


def _prefills(prefills: Sequence[PrefillSummary]) -> Iterator[Block]:
    if prefills:
        title = "Prefill rate: prompt tokens per second on a prompt that no cache has seen"
        yield Heading(2, "Prefill")
        yield tables.prefills_table(prefills, title=title)


def _expected(told: Reported) -> Iterator[Block]:
    if told.expected:
        found = worth_reading(expected_and_found(told.expected, told.windows, known=told.documents or UNKNOWN))
        title = "What was written before the run, and what was found"
        yield Heading(2, "Expected and found")
        yield expected_table(found, title=title, simulated=told.sweep.simulated)


def _control(windows: Sequence[WindowRow]) -> Iterator[Block]:
    """The control through the night, where there is one."""
    table = control_table(windows, title="The control's clean windows in the order of the night")
    if table is not None:
        yield Heading(2, "Control")
        yield Paragraph(
            "The control is booted again through the night, to show how far the box drifts. Its extra windows start at the "
            "same prompt each time, and enter no mean."
        )
        yield table


def _timeline(told: Reported) -> Iterator[Block]:
    ran = told.ran
    table = timeline_table(ran)
    if table is not None:
        yield Heading(2, "Timeline")
        yield timeline_figure(ran)
        yield table
    taken = [row.taken_over_said(lambda moment: _local(moment, zone=ran.zone)) for row in told.production]
    if any(taken):
        yield Bullets(tuple(f"production {text.printable(one)}" for one in taken if one is not None))


def _local(moment: datetime | None, *, zone: str) -> str:
    return text.ABSENT if moment is None else local(moment, zone=zone)


def _flagged(windows: Sequence[WindowRow]) -> Iterator[Block]:
    flagged = sorted((row for row in windows if row.flags), key=lambda row: row.window_id)
    if not flagged:
        return
    yield Heading(2, "Flagged windows")
    yield listings.flagged_table(flagged[:FLAGGED_SHOWN], title="Flagged windows: stored, and left out of every mean")
    more = len(flagged) - FLAGGED_SHOWN
    if more > 0:
        yield Paragraph(f"And {more:,} more: `nightsweep cells --sweep {flagged[0].sweep_id} --flagged`.")


def _caveats(told: Reported, *, cells: Sequence[CellSummary], prefills: Sequence[PrefillSummary]) -> Iterator[Block]:
    found = caveats(told.sweep, boots=told.in_time, cells=cells, prefills=prefills, plan=told.plan)
    alone, whole = summarise(told.single_batches), summarise(told.whole_runs)
    found += single_batch_caveats(told.sweep, alone, said=found)
    found += whole_run_caveats(told.sweep, whole, boots=told.in_time, said=found)
    if told.documents is not None:
        found += all_confounders((cells, alone, whole), told.documents)
    yield Heading(2, "Caveats")
    yield Bullets(found, loud=(text.SIMULATED,)) if found else Paragraph("The data call for none.")

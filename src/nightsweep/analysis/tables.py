"""What stands in a table, for terminal, plain text and Markdown alike. No layout here."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeVar

from nightsweep.analysis import text
from nightsweep.analysis.leading import ONE_RUN_NOTE, cell_notes
from nightsweep.analysis.values import CellSummary, PrefillSummary, Spread
from nightsweep.plan.words import MEASURED

T = TypeVar("T")

SINGLE_BATCH_NOTE = (
    "one request alone, random token ids: decode rate is (tokens - 1) / (E2E - TTFT); "
    "SGLang's report counts the first token too"
)
NOT_APPLIED = "not applied"


class Column(NamedTuple):
    """A column's heading; the unit stands under it or in brackets."""

    heading: str
    unit: str = ""
    right: bool = True

    @property
    def one_line(self) -> str:
        """Heading and unit in one line."""
        return f"{self.heading} ({self.unit})" if self.unit else self.heading


class Row(NamedTuple):
    """One row.

    Attributes:
        mark: "" | "single" (one run) | "flagged" | "failed" | "running" | "done".
        strong: Which values stand out, by index.
    """

    values: tuple[str, ...]
    mark: str = ""
    strong: tuple[int, ...] = ()


class Group(NamedTuple):
    """Rows under one heading; in plain text the heading stands in each row's first column."""

    heading: str
    rows: tuple[Row, ...]


class Table(NamedTuple):
    """A table. `label` is the column heading of the groups' headings; empty where groups have none."""

    title: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    label: str = ""
    notes: tuple[str, ...] = ()
    simulated: bool = False

    @property
    def caption(self) -> str:
        """The title, with the loud word when anything in it is simulated."""
        said = not self.simulated or text.SIMULATED in self.title
        return self.title if said else f"{self.title} [{text.SIMULATED}]"


def cells_table(
    summaries: Sequence[CellSummary],
    *,
    title: str,
    client_side: bool = False,
    with_boots: bool = False,
    ruled: bool = False,
) -> Table:
    """Return the table of cells, one group per config; with TTFT and TPOT when `client_side`.

    The number of boots stands in it when there are several of any cell, or `with_boots`. Of a sweep that decides by a rule over
    all its places (`ruled`), no cell is said to be ahead.

    Units:
        tokens / second for rates; milliseconds for times.
    """
    digits = _CellDigits.of(summaries)
    names = names_apart((cell.config, cell.config_fingerprint) for cell in summaries)
    apart = needs_conditions(summaries)
    boots = with_boots or text.several_boots(cell.decode_rate for cell in summaries)
    columns = [
        Column("streams"),
        Column("T"),
        Column("decode rate", "tokens/s"),
        Column("n"),
        *([Column("boots")] if boots else []),
        Column("range", "tokens/s"),
        Column("CV"),
        Column("per stream", "tokens/s"),
        Column("acceptance length"),
        Column("step time", "ms"),
    ]
    columns += [Column("TTFT p50", "ms"), Column("TPOT p50", "ms")] if client_side else []
    columns += [Column("flagged", right=False)]
    columns += [Column("conditions", right=False)] if apart else []
    warned = any(_as_asked(cell) != "yes" for cell in summaries)
    columns += [Column("as asked", right=False)] if warned else []
    imported = any(cell.source is not None for cell in summaries)
    columns += [Column("source", right=False)] if imported else []

    def row_of(cell: CellSummary) -> Row:
        values = _cell_values(cell, digits=digits, boots=boots, client_side=client_side)
        condition = (condition_said(cell, several_boxes=apart == "box"),) if apart else ()
        asked = (_as_asked(cell),) if warned else ()
        source = (cell.source or MEASURED,) if imported else ()
        return Row((*values, *condition, *asked, *source), mark=cell_mark(cell))

    return Table(
        title=title,
        label="config",
        columns=tuple(columns),
        groups=grouped(summaries, heading=lambda cell: names[cell.config_fingerprint], row_of=row_of),
        notes=(*cell_notes(summaries, ruled=ruled), *applied_notes(summaries)),
        simulated=any(cell.simulated for cell in summaries),
    )


def pivot_table(summaries: Sequence[CellSummary], *, title: str) -> Table:
    """Return configs x concurrency for cells of one temperature: "mean (n: least–most)" in each field, tokens / second.

    The highest mean of a column is strong; one of a config that was not applied as asked never is. A config that was
    measured under several conditions has one row for each.
    """
    digits = _CellDigits.of(summaries).rate
    streams = sorted({cell.concurrency for cell in summaries})
    best = {at: _highest([cell for cell in summaries if cell.concurrency == at]) for at in streams}
    names = names_apart((cell.config, cell.config_fingerprint) for cell in summaries)
    rows: dict[tuple[str, str, str], dict[int, CellSummary]] = {}
    for cell in summaries:
        rows.setdefault((cell.config_fingerprint, cell.conditions, cell.box), {})[cell.concurrency] = cell
    several = Counter(fingerprint for fingerprint, _, _ in rows)
    lines = []
    for (fingerprint, conditions, _), by_streams in rows.items():
        name = names[fingerprint]
        if several[fingerprint] > 1:
            name = f"{name} (conditions {text.short(conditions)})"
        sources = {cell.source for cell in by_streams.values() if cell.source is not None}
        name = f"{name} [{', '.join(sorted(sources))}]" if sources else name
        if any(cell.not_applied for cell in by_streams.values()):
            name = f"{name} [{NOT_APPLIED}]"
        fields = tuple(_pivot_field(by_streams.get(at), digits=digits) for at in streams)
        highest = (i for i, at in enumerate(streams, start=1) if at in by_streams and by_streams[at] is best[at])
        lines.append(Row((name, *fields), strong=tuple(highest)))
    columns = (Column("config", right=False), *(Column(text.plural(at, "stream")) for at in streams))
    return Table(title, columns, (Group("", tuple(lines)),), simulated=any(cell.simulated for cell in summaries))


def prefills_table(summaries: Sequence[PrefillSummary], *, title: str) -> Table:
    """Return the table of prefill rates; with the streams beside the prompt where there were any.

    Units:
        tokens / second, milliseconds; the slowdown of those streams is a factor.
    """
    loaded = any(cell.under_load for cell in summaries)
    digits = text.decimals(cell.rate.mean for cell in summaries if cell.rate is not None)
    boots = text.several_boots(cell.rate for cell in summaries)
    names = names_apart((cell.config, cell.config_fingerprint) for cell in summaries)

    def row_of(cell: PrefillSummary) -> Row:
        return Row(
            (
                text.count(cell.prompt_tokens),
                *((str(cell.under_load) if cell.under_load else "idle",) if loaded else ()),
                text.number(cell.rate.mean if cell.rate else None, digits=digits),
                text.runs(cell.rate),
                *((text.boots(cell.rate),) if boots else ()),
                text.value_range(cell.rate, digits=digits),
                text.cv(cell.rate),
                text.with_range(cell.ttft, digits=0, factor=1000.0, of=cell.rate),
                *((text.with_range(cell.slowdown, digits=2, of=cell.rate),) if loaded else ()),
                flagged_words(cell.flagged, cell.flags),
            ),
            mark="flagged" if cell.rate is None else "single" if cell.rate.n == 1 else "",
        )

    columns = (
        Column("prompt", "tokens"),
        *((Column("streams beside it"),) if loaded else ()),
        Column("prefill rate", "tokens/s"),
        Column("n"),
        *((Column("boots"),) if boots else ()),
        Column("range", "tokens/s"),
        Column("CV"),
        Column("TTFT", "ms"),
        *((Column("decode slowdown", "factor"),) if loaded else ()),
        Column("flagged", right=False),
    )
    single = any(cell.rate is not None and cell.rate.n == 1 for cell in summaries)
    return Table(
        title=title,
        label="config",
        columns=columns,
        groups=grouped(summaries, heading=lambda cell: names[cell.config_fingerprint], row_of=row_of),
        notes=(ONE_RUN_NOTE,) if single else (),
        simulated=any(cell.simulated for cell in summaries),
    )


def single_batch_table(summaries: Sequence[CellSummary], *, title: str) -> Table:
    """Return the table of single-batch cells: the decode rate, and beside it the rate as SGLang's report states it.

    Units:
        tokens / second; milliseconds.
    """
    digits = _CellDigits.of(summaries)
    apart = needs_conditions(summaries)
    boots = text.several_boots(cell.decode_rate for cell in summaries)
    names = names_apart((cell.config, cell.config_fingerprint) for cell in summaries)

    def row_of(cell: CellSummary) -> Row:
        report = cell.report_rate
        return Row(
            (
                text.temperature(cell.temperature),
                text.number(cell.decode_rate.mean if cell.decode_rate else None, digits=digits.rate),
                text.runs(cell.decode_rate),
                *((text.boots(cell.decode_rate),) if boots else ()),
                text.value_range(cell.decode_rate, digits=digits.rate),
                text.cv(cell.decode_rate),
                text.number(report.mean if report else None, digits=digits.rate),
                text.with_range(cell.acceptance_length, digits=2, of=cell.decode_rate),
                text.with_range(cell.ttft_p50, digits=0, factor=1000.0, of=cell.decode_rate),
                flagged_words(cell.flagged, cell.flags),
                *((condition_said(cell, several_boxes=apart == "box"),) if apart else ()),
            ),
            mark=cell_mark(cell),
        )

    columns = (
        Column("T"),
        Column("decode rate", "tokens/s"),
        Column("n"),
        *((Column("boots"),) if boots else ()),
        Column("range", "tokens/s"),
        Column("CV"),
        Column("SGLang report's rate", "tokens/s"),
        Column("acceptance length"),
        Column("TTFT", "ms"),
        Column("flagged", right=False),
        *((Column("conditions", right=False),) if apart else ()),
    )
    return Table(
        title=title,
        label="config",
        columns=columns,
        groups=grouped(summaries, heading=lambda cell: names[cell.config_fingerprint], row_of=row_of),
        notes=(SINGLE_BATCH_NOTE, *cell_notes(summaries), *applied_notes(summaries)),
        simulated=any(cell.simulated for cell in summaries),
    )


def names_apart(configs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a name to show by fingerprint, from (name, fingerprint) pairs; equal names get the fingerprint too."""
    names = {fingerprint: text.printable(name) for name, fingerprint in configs}
    times = Counter(names.values())
    return {
        fingerprint: name if times[name] == 1 else f"{name} [{text.short(fingerprint)}]"
        for fingerprint, name in names.items()
    }


@dataclass(frozen=True)
class _CellDigits:
    rate: int
    stream: int
    step: int

    @classmethod
    def of(cls, summaries: Sequence[CellSummary]) -> _CellDigits:
        rates = [cell.decode_rate.mean for cell in summaries if cell.decode_rate is not None]
        streams = [cell.per_stream.mean for cell in summaries if cell.per_stream is not None]
        steps = [cell.step_time.mean * 1000 for cell in summaries if cell.step_time is not None]
        return cls(text.decimals(rates), text.decimals(streams), text.decimals(steps))


def _cell_values(cell: CellSummary, *, digits: _CellDigits, boots: bool, client_side: bool) -> tuple[str, ...]:
    told = functools.partial(text.with_range, of=cell.decode_rate)
    client = (
        (told(cell.ttft_p50, digits=0, factor=1e3), told(cell.tpot_p50, digits=1, factor=1e3)) if client_side else ()
    )
    return (
        str(cell.concurrency),
        text.temperature(cell.temperature),
        _mean(cell.decode_rate, digits=digits.rate),
        text.runs(cell.decode_rate),
        *((text.boots(cell.decode_rate),) if boots else ()),
        text.value_range(cell.decode_rate, digits=digits.rate),
        text.cv(cell.decode_rate),
        _mean(cell.per_stream, digits=digits.stream),
        told(cell.acceptance_length, digits=2),
        told(cell.step_time, digits=digits.step, factor=1000.0),
        *client,
        flagged_words(
            cell.flagged, [f"{flag} ×{times}" if times > 1 else flag for flag, times in cell.flag_counts.items()]
        ),
    )


def applied_notes(summaries: Sequence[CellSummary]) -> tuple[str, ...]:
    """Return what was not applied as asked, and what else is to be known, one line each with the configs that it is of."""
    said: dict[str, dict[str, None]] = {}
    for prefix, lines_of in ((f"{NOT_APPLIED}: ", _not_applied_of), ("note: ", _notes_of)):
        for cell in summaries:
            for line in lines_of(cell):
                said.setdefault(text.printable(prefix + line), {})[text.printable(cell.config)] = None
    return tuple(f"{line} ({text.several(configs)})" for line, configs in said.items())


def _not_applied_of(cell: CellSummary) -> tuple[str, ...]:
    return cell.not_applied


def _notes_of(cell: CellSummary) -> tuple[str, ...]:
    return cell.notes


def _as_asked(cell: CellSummary) -> str:
    if cell.not_applied:
        return NOT_APPLIED
    if any(note.startswith("dead drafter") for note in cell.notes):
        return "dead drafter"
    return "yes"  # other notes stand below the table: a column that says "see note" on half its rows says nothing


def _mean(spread: Spread | None, *, digits: int) -> str:
    return text.number(None if spread is None else spread.mean, digits=digits)


def flagged_words(amount: int, flags: Iterable[str]) -> str:
    """Return how many windows are flagged, and by what; nothing for none."""
    return f"{amount}: {', '.join(flags)}" if amount else ""


def cell_mark(cell: CellSummary) -> str:
    """Return how a cell's row looks: without a number, of one run, or as usual."""
    return "flagged" if cell.decode_rate is None else "single" if cell.single else ""


def needs_conditions(summaries: Sequence[CellSummary]) -> str:
    """Return "box" or "conditions" when a cell is there more than once: each row then says which it is of. Else nothing."""
    cells = Counter((cell.config_fingerprint, cell.concurrency, cell.temperature) for cell in summaries)
    if all(times == 1 for times in cells.values()):
        return ""
    return "box" if len({cell.box for cell in summaries}) > 1 else "conditions"


def condition_said(cell: CellSummary, *, several_boxes: bool) -> str:
    """Return what tells a cell's row from another one's of the same cell."""
    conditions = text.short(cell.conditions)
    return f"{text.printable(cell.box)} {conditions}" if several_boxes else conditions


def _highest(cells: Sequence[CellSummary]) -> CellSummary | None:
    measured = [cell for cell in cells if cell.decode_rate is not None and not cell.not_applied]
    if len({cell.config_fingerprint for cell in measured}) < 2:
        return None
    return max(measured, key=lambda cell: cell.decode_rate.mean if cell.decode_rate else 0.0)


def _pivot_field(cell: CellSummary | None, *, digits: int) -> str:
    if cell is None:
        return text.ABSENT
    rate = cell.decode_rate
    if rate is None:
        return f"{text.ABSENT} ({cell.flagged} flagged)"
    mean = text.number(rate.mean, digits=digits)
    if rate.runs == 1:
        return f"{mean} (1: {text.ONE_RUN})"
    return (
        f"{mean} ({text.lone(rate)})"
        if rate.n == 1
        else f"{mean} ({text.runs(rate)}: {text.value_range(rate, digits=digits)})"
    )


def grouped(rows: Sequence[T], *, heading: Callable[[T], str], row_of: Callable[[T], Row]) -> tuple[Group, ...]:
    """Return the rows in the order given, consecutive ones of one heading together."""
    return tuple(Group(name, tuple(row_of(row) for row in members)) for name, members in groupby(rows, key=heading))

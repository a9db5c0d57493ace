"""Boots, sweeps and flagged windows as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from nightsweep.analysis import text
from nightsweep.analysis.tables import NOT_APPLIED, Column, Group, Row, Table, grouped
from nightsweep.analysis.values import BootRow, PrefillRow, SweepRow, WindowRow
from nightsweep.plan.words import DECODE

_Listed = TypeVar("_Listed", WindowRow, PrefillRow)

NOW_AT_MOST = 34
"""Characters of what a sweep does in the table of sweeps; `status SWEEP` says it whole."""


def boots_table(rows: Sequence[BootRow], *, title: str) -> Table:
    """Return the table of boots in the order given. Units: seconds, GiB, tokens."""
    drafts = any(boot.draft_weights is not None for boot in rows)
    return Table(
        title=title,
        label="config",
        columns=(
            Column("boot"),
            Column("outcome", right=False),
            Column("cold start", "s"),
            Column("weights", "GiB"),
            *((Column("draft weights", "GiB"),) if drafts else ()),
            Column("KV cache", "tokens"),
            Column("max concurrency", right=False),
            Column("engine", right=False),
            Column("windows"),
        ),
        groups=grouped(
            rows, heading=lambda boot: text.printable(boot.config), row_of=partial(_boot_row, drafts=drafts)
        ),
        notes=tuple(line for boot in rows for line in boot_notes(boot)),
        simulated=any(boot.simulated for boot in rows),
    )


def boot_notes(boot: BootRow) -> tuple[str, ...]:
    """Return what a boot did not apply as asked, and its other notes, as lines that name the boot."""
    head = f"boot {boot.boot_id} ({text.printable(boot.config)})"
    lines = [f"{head}: {NOT_APPLIED}: {text.printable(line)}" for line in boot.not_applied]
    return (*lines, *(f"{head}: {text.printable(note)}" for note in boot.notes))


def kv_tokens(boot: BootRow) -> str:
    """Return the KV cache tokens of the boot log; where it states none, another source's, which is named."""
    if boot.kv_tokens is not None:
        return text.count(boot.kv_tokens)
    for source, budget in boot.kv_second.items():
        if budget.get("tokens") is not None:
            return f"{text.count(budget['tokens'])} ({text.printable(source)})"
    return text.ABSENT


def flagged_table(rows: Sequence[WindowRow], *, title: str) -> Table:
    """Return flagged windows with the reason of each flag, in the order given; what is no decode window says its kind."""
    kinds = any(row.kind != DECODE for row in rows)

    def row_of(row: WindowRow) -> Row:
        reasons = (f"{flag}: {row.flag_details[flag]}" if flag in row.flag_details else flag for flag in row.flags)
        repeat = f"{row.repeat + 1}, attempt {row.attempt}"
        values = (
            str(row.window_id),
            *((row.kind,) if kinds else ()),
            str(row.concurrency),
            text.temperature(row.temperature),
            repeat,
            text.moment(row.started),
            text.printable("; ".join(reasons)),
        )
        return Row(values, mark="flagged")

    columns = (
        Column("window"),
        *((Column("kind", right=False),) if kinds else ()),
        Column("streams"),
        Column("T"),
        Column("repeat", right=False),
        Column("started", "UTC", right=False),
        Column("flags and reasons", right=False),
    )
    return _by_config(rows, title=title, columns=columns, row_of=row_of)


def _prefill_said(row: PrefillRow) -> str:
    """Return the flags with the reason, each once; of a clean one its note."""
    if not row.flags:
        return f"note: {row.detail}" if row.detail else ""
    if row.detail and any(row.detail.startswith(f"{flag}:") for flag in row.flags):
        return row.detail
    return ", ".join(row.flags) + (f": {row.detail}" if row.detail else "")


def prefill_rows_table(rows: Sequence[PrefillRow], *, title: str) -> Table:
    """Return prefills one by one, in the order given, flagged ones with the reason. Units: tokens / second, milliseconds."""

    def row_of(row: PrefillRow) -> Row:
        values = (
            str(row.prefill_id),
            str(row.boot_id),
            text.count(row.tokens),
            str(row.under_load) if row.under_load else "idle",
            f"{row.repeat + 1}, attempt {row.attempt}",
            text.moment(row.started),
            text.number(row.rate, digits=0),
            text.number(None if row.ttft is None else row.ttft * 1e3, digits=1),
            text.printable(_prefill_said(row)),
        )
        return Row(values, mark="flagged" if row.flags else "")

    columns = (
        Column("prefill"),
        Column("boot"),
        Column("prompt", "tokens"),
        Column("streams beside it"),
        Column("repeat", right=False),
        Column("started", "UTC", right=False),
        Column("prefill rate", "tokens/s"),
        Column("TTFT", "ms"),
        Column("flags and reason", right=False),
    )
    return _by_config(rows, title=title, columns=columns, row_of=row_of)


def _by_config(
    rows: Sequence[_Listed], *, title: str, columns: tuple[Column, ...], row_of: Callable[[_Listed], Row]
) -> Table:
    return Table(
        title=title,
        label="config",
        columns=columns,
        groups=grouped(rows, heading=lambda row: text.printable(row.config), row_of=row_of),
        simulated=any(row.simulated for row in rows),
    )


def sweeps_table(rows: Sequence[SweepRow], *, title: str) -> Table:
    """Return the table of sweeps in the order given."""

    def row_of(sweep: SweepRow) -> Row:
        return Row(
            (
                str(sweep.sweep_id),
                text.printable(sweep.name),
                sweep.state,
                _box(sweep),
                f"{text.bar(sweep.repeats_clean, sweep.repeats_planned)} {sweep.repeats_clean:,}/{sweep.repeats_planned:,}",
                str(sweep.windows_flagged),
                str(sweep.boots_failed),
                text.moment(sweep.started or sweep.created),
                _now(sweep),
            ),
            mark={"running": "running", "done": "done", "failed": "failed"}.get(sweep.state, ""),
        )

    columns = (
        Column("id"),
        Column("sweep", right=False),
        Column("state", right=False),
        Column("box", right=False),
        Column("repeats"),
        Column("flagged"),
        Column("failed boots"),
        Column("started", "UTC", right=False),
        Column("now", right=False),
    )
    return Table(title, columns, (Group("", tuple(row_of(sweep) for sweep in rows)),))


def _box(sweep: SweepRow) -> str:
    """Return the box, labelled as simulated once: its name may say so already."""
    name = text.printable(sweep.box)
    return name if not sweep.simulated or "simulated" in name.lower() else f"{name} ({text.SIMULATED})"


def _now(sweep: SweepRow) -> str:
    """Return what a sweep does, or why it stopped, short enough for a table; one that is done says so by its state."""
    if sweep.state == "done":
        return sweep.source or ""
    said = text.printable(sweep.phase or sweep.note or "" if sweep.state == "running" else sweep.note or "")
    return said if len(said) <= NOW_AT_MOST else said[: NOW_AT_MOST - 1].rstrip() + "…"


def max_concurrency(boot: BootRow) -> str:
    """Return "3.20 at 262,144 tokens"; the number alone where its context length is not known."""
    if boot.max_concurrency is None:
        return text.ABSENT
    requests = text.number(boot.max_concurrency, digits=2)
    at = boot.max_concurrency_tokens
    return requests if at is None else f"{requests} at {text.count(at)}"


def engine_name(boot: BootRow) -> str:
    """Return engine and version as one word group."""
    return " ".join(part for part in (boot.engine, boot.engine_version) if part) or text.ABSENT


def outcome(boot: BootRow) -> str:
    """Return how a boot ended, in house words; a failure with its class and stage, a config that was not applied with that."""
    if boot.source is not None:
        return boot.source
    if boot.failure_kind is None:
        return f"{boot.state}, {NOT_APPLIED}" if boot.not_applied else boot.state
    stage = f" ({boot.failure_stage})" if boot.failure_stage else ""
    return f"{boot.state}: {boot.failure_kind}{stage}"


def _boot_row(boot: BootRow, *, drafts: bool) -> Row:
    return Row(
        (
            str(boot.boot_id),
            outcome(boot),
            text.number(boot.cold_start, digits=1),
            text.number(boot.weights, digits=2),
            *((text.number(boot.draft_weights, digits=2),) if drafts else ()),
            kv_tokens(boot),
            max_concurrency(boot),
            engine_name(boot),
            str(boot.windows),
        ),
        mark="failed" if boot.state in ("failed", "lost") else "running" if boot.state in ("starting", "ready") else "",
    )

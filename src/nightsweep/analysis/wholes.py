"""Configs, and one window, boot or cell whole, as documents and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.documents import Document, boot_document, prefill_row_document, window_document
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import WindowRow
from nightsweep.analysis.whole import ConfigRow, WholeBoot, WholeWindow, derived_again
from nightsweep.measurement.values import RawWindow, Reading, RequestTiming
from nightsweep.plan.words import DECODE, WHOLE_RUN

CONFIG_FIELDS = (
    "config_fingerprint",
    "names",
    "method",
    "image",
    "sweeps",
    "boots",
    "boots_failed",
    "windows_clean",
    "windows_flagged",
    "whole_runs_clean",
    "first_planned",
    "last_planned",
)
"""Columns of the CSV of configs."""

WHOLE_RUN_RATE = "whole_run_rate"
NOT_SHOWN = (
    "id",
    "content_hash",
    "cell_id",
    "boot_id",
    "conditions_id",
    "fence",
    "flags",
    "flag_details",
    "notes",
    "box",
)
"""Columns of a window that stand elsewhere in its document."""


def config_row_document(row: ConfigRow) -> Document:
    """Return a config with its whole document."""
    return {
        "config_fingerprint": row.config_fingerprint,
        "names": list(row.names),
        "method": row.method,
        "image": row.document.get("image"),
        "sweeps": row.sweeps,
        "boots": row.boots,
        "boots_failed": row.boots_failed,
        "windows_clean": row.windows_clean,
        "windows_flagged": row.windows_flagged,
        "whole_runs_clean": row.whole_runs_clean,
        "first_planned": row.first_planned.isoformat(),
        "last_planned": row.last_planned.isoformat(),
        "config": dict(row.document),
    }


def configs_table(rows: Sequence[ConfigRow], *, title: str) -> Table:
    """Return the table of configs in the order given; with whole runs where there are any."""
    whole = any(row.whole_runs_clean for row in rows)
    columns = (
        Column("fingerprint", right=False),
        Column("method", right=False),
        Column("sweeps"),
        Column("boots"),
        Column("failed boots"),
        Column("clean windows"),
        *((Column("clean whole runs"),) if whole else ()),
        Column("flagged"),
        Column("last planned", "UTC", right=False),
        Column("called", right=False),
    )
    lines = tuple(
        Row(
            (
                text.short(row.config_fingerprint),
                row.method or text.ABSENT,
                str(row.sweeps),
                str(row.boots),
                str(row.boots_failed or ""),
                str(row.windows_clean),
                *((str(row.whole_runs_clean),) if whole else ()),
                str(row.windows_flagged or ""),
                text.moment(row.last_planned),
                text.several((text.printable(name) for name in row.names), limit=3),
            )
        )
        for row in rows
    )
    return Table(title, columns, (Group("", lines),))


def whole_window_document(window: WholeWindow) -> Document:
    """Return a window with both readings, every counter's movement, requests, box samples, conditions and config.

    The readings' pages are text; times are seconds on the client's monotonic clock. Raw data that is not there (of an imported
    window, or taken out) is null, as is `equal` where nothing can be derived.
    """
    again = derived_again(window)
    names = ("name", "before", "after", "change")
    counters = [dict(zip(names, each, strict=True)) for each in moved(window.raw)]
    requests = [request_document(request) for request in window.raw.requests]
    samples = [dataclasses.asdict(sample) for sample in window.raw.samples]
    return {
        **window_document(window.row),
        "cell_id": window.cell_id,
        "stored": stored_shown(window),
        "derived_again": {
            "equal": again.equal if again.problem is None else None,
            "said": again.said,
            "differing": dict(again.differing),
        },
        "before": _reading(window.raw.before),
        "after": _reading(window.raw.after),
        "counters": counters if window.has_readings else None,
        "requests": requests if window.has_requests else None,
        "occupancy_samples": samples if window.has_requests else None,
        "box_state": window.row.box_state,
        "box_samples": [dataclasses.asdict(sample) for sample in window.box_samples],
        "conditions_document": dict(window.conditions),
        "config_document": dict(window.config_document),
        "boot": boot_document(window.boot),
    }


def stored_shown(window: WholeWindow) -> Document:
    """Return a window's columns but for those that stand elsewhere; the rate of a whole run under a name of its own."""
    shown = {name: value for name, value in window.stored.items() if name not in NOT_SHOWN}
    if window.row.kind != WHOLE_RUN:
        return shown
    sources = shown.get("sources") or {}
    return _of_whole_run({**shown, "sources": _of_whole_run(sources)} if sources else shown)


def _of_whole_run(named: Mapping[str, Any]) -> Document:
    return {WHOLE_RUN_RATE if name == "decode_rate" else name: value for name, value in named.items()}


def whole_boot_document(boot: WholeBoot) -> Document:
    """Return a boot with its facts and their lines, what was applied, its config, its windows and its prefills."""
    kept = ("first_token_s", "draft_weights_gib", "cache_state", "identity", "applied", "host_facts", "engine_id")
    return {
        **boot_document(boot.row),
        **{name: boot.stored.get(name) for name in kept},
        "config_document": dict(boot.config_document),
        "measured": [window_document(row) for row in boot.windows],
        "prefills": [prefill_row_document(row) for row in boot.prefills],
    }


def moved(raw: RawWindow) -> Iterator[tuple[str, float | None, float | None, float | None]]:
    """Yield (canonical name, before, after, change) of every counter that either reading has; absent is None."""
    before = raw.before.values if raw.before is not None else {}
    after = raw.after.values if raw.after is not None else {}
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        yield name, was, now, None if was is None or now is None else now - was


def request_document(request: RequestTiming) -> Document:
    """Return one request with its times in seconds and its counts in tokens; absent is null."""
    first, ended, tokens = request.first_token, request.ended, request.completion_tokens
    e2e = None if ended is None else ended - request.sent
    ttft = None if first is None else first - request.sent
    tpot = None if e2e is None or ttft is None or tokens is None or tokens < 2 else (e2e - ttft) / (tokens - 1)
    return {
        "stream": request.stream,
        "prompt_index": request.prompt_index,
        "sent_s": request.sent,
        "ttft_s": ttft,
        "e2e_s": e2e,
        "tpot_s": tpot,
        "prompt_tokens": request.prompt_tokens,
        "completion_tokens": tokens,
        "chunks": len(request.chunk_at),
        "cancelled": request.cancelled,
    }


def facts_table(facts: Mapping[str, Any], *, title: str) -> Table:
    """Return names and values, one a row; absent ones are left out."""
    rows = tuple(
        Row((name, text.printable(_said(value)))) for name, value in facts.items() if value not in (None, "", {}, [])
    )
    return Table(title, (Column("", right=False), Column("", right=False)), (Group("", rows),))


def counters_table(raw: RawWindow) -> Table:
    """Return every counter before and after, and how it moved."""
    rows = tuple(
        Row((name, *(text.ABSENT if value is None else f"{value:,.10g}" for value in values)))
        for name, *values in moved(raw)
    )
    columns = (Column("counter", right=False), Column("before"), Column("after"), Column("change"))
    return Table("Counters", columns, (Group("", rows),))


def requests_table(requests: Sequence[RequestTiming], *, opened: float | None) -> Table:
    """Return requests in the order that they were sent in; times in seconds, `sent` since the first reading if there is one."""
    start = opened if opened is not None else min((request.sent for request in requests), default=0.0)

    def row_of(request: RequestTiming) -> Row:
        document = request_document(request)
        times = (text.number(document[name], digits=3) for name in ("ttft_s", "e2e_s", "tpot_s"))
        return Row(
            (
                str(request.stream),
                str(request.prompt_index),
                f"{request.sent - start:+.3f}",
                *times,
                text.count(request.prompt_tokens),
                text.count(request.completion_tokens),
                str(len(request.chunk_at)),
                "cut off" if request.cancelled else "",
            )
        )

    columns = (
        Column("stream"),
        Column("prompt"),
        Column("sent", "s"),
        Column("TTFT", "s"),
        Column("E2E", "s"),
        Column("TPOT", "s"),
        Column("prompt", "tokens"),
        Column("output", "tokens"),
        Column("chunks"),
        Column("", right=False),
    )
    rows = tuple(row_of(request) for request in sorted(requests, key=lambda request: request.sent))
    return Table("Requests", columns, (Group("", rows),))


def statements_table(facts: Mapping[str, Any]) -> Table:
    """Return what a boot's log stated: each with the line that it came from."""
    rows = tuple(
        Row((str(fact["name"]), text.printable(_said(fact["value"])), text.printable(str(fact["line"]))))
        for fact in facts.get("facts", ())
    )
    columns = (Column("fact", right=False), Column("value", right=False), Column("line of the log", right=False))
    return Table("Facts, with the line each came from", columns, (Group("", rows),))


def windows_table(rows: Sequence[WindowRow], *, title: str) -> Table:
    """Return windows one by one, in the order given. Units: tokens / second, milliseconds."""
    kinds = any(row.kind != DECODE for row in rows)
    columns = (
        Column("window"),
        Column("boot"),
        *((Column("kind", right=False),) if kinds else ()),
        Column("streams"),
        Column("T"),
        Column("repeat", right=False),
        Column("started", "UTC", right=False),
        Column("rate" if kinds else "decode rate", "tokens/s"),
        Column("acceptance length"),
        Column("step time", "ms"),
        Column("flags", right=False),
    )
    lines = tuple(
        Row(
            (
                str(row.window_id),
                str(row.boot_id),
                *((row.kind,) if kinds else ()),
                str(row.concurrency),
                text.temperature(row.temperature),
                f"{row.repeat + 1}, attempt {row.attempt}",
                text.moment(row.started),
                text.number(row.decode_rate, digits=2),
                text.number(row.acceptance_length, digits=3),
                text.number(None if row.step_time is None else row.step_time * 1e3, digits=2),
                "; ".join(row.flags),
            ),
            mark="flagged" if row.flags else "",
        )
        for row in rows
    )
    return Table(title, columns, (Group("", lines),), simulated=any(row.simulated for row in rows))


def _reading(reading: Reading | None) -> Document | None:
    if reading is None:
        return None
    return {
        "at_monotonic_s": reading.at,
        "uncertainty_s": reading.uncertainty,
        "wall": reading.wall.isoformat(),
        "values": dict(reading.values),
        "page": reading.raw.decode("utf-8", "replace"),
    }


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={_said(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_said(item) for item in value)
    return str(value)

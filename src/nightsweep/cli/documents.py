"""What stands behind windows: the documents of their fingerprints, the nights that they are of, and windows of another kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import click

from nightsweep.analysis import text
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli.reading import Queries
from nightsweep.errors import NotFound
from nightsweep.plan.words import DECODE, SINGLE_BATCH, WHOLE_RUN
from nightsweep.service.documents import documents_of as documents_of

FAMILY_SWEEPS = 4
"""Newest sweeps of the asked windows whose other windows tell how values scatter."""
FAMILY_WINDOWS = 2000
"""Windows of each of those sweeps: more would not make the noise better known, and a sweep may have tens of thousands."""

CALLED = {DECODE: "decode window", SINGLE_BATCH: "single-batch run", WHOLE_RUN: "whole run"}
SOUGHT = {**CALLED, DECODE: "window"}
OPTIONS = {SINGLE_BATCH: "--single-batch", WHOLE_RUN: "--whole-runs"}
"""Of the commands that take windows of any kind, one at a time."""
LISTED = {SINGLE_BATCH: "", WHOLE_RUN: " --whole-runs"}


def one_kind(*, single_batch: bool, whole_runs: bool) -> str:
    """Return the kind of windows that the options ask for (raises UsageError for two)."""
    if single_batch and whole_runs:
        raise click.UsageError("--single-batch and --whole-runs: one kind of rate is taken at a time")
    return SINGLE_BATCH if single_batch else WHOLE_RUN if whole_runs else DECODE


def family_of(queries: Queries, rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return windows of the rows' kind, of the newest sweeps that they are of."""
    newest = sorted({row.sweep_id for row in rows}, reverse=True)[:FAMILY_SWEEPS]
    kind = rows[0].kind if rows else DECODE
    asked = (Filters(sweep=sweep, with_flagged="no", kind=kind) for sweep in newest)
    return [row for one in asked for row in queries.windows(one, limit=FAMILY_WINDOWS)]


def raise_for_kind(
    queries: Queries,
    asked: Filters,
    *,
    of: str,
    options: bool = True,
    hint: str = "`nightsweep cells` lists what was measured",
) -> NoReturn:
    """Raise NotFound for windows of a kind that are not there, with where to look: those of another kind may be.

    Args:
        of: What they were looked for in, in words.
        options: Whether the command has options for the other kinds; else it takes decode windows only.
        hint: What to do where there are none of any kind.
    """
    counts = {
        kind: sum(pool.windows for pool in queries.pools(replace(asked, with_flagged="no", kind=kind)))
        for kind in CALLED
        if kind != asked.kind
    }
    given = OPTIONS.get(asked.kind, "")
    there = [_there(kind, count, options=options, given=given) for kind, count in counts.items() if count]
    raise NotFound(what=f"a clean {SOUGHT[asked.kind]} of {of}", hint="; ".join(there) or hint)


def _there(kind: str, count: int, *, options: bool, given: str) -> str:
    """Return how many windows of a kind are there, and what takes them."""
    more = " of another client" if kind == WHOLE_RUN else ""
    verb, them = ("is", "it") if count == 1 else ("are", "them")
    told = f"{text.plural(count, CALLED[kind])}{more} {verb} there: "
    if kind == DECODE:
        return f"{told}leave {given} out"
    if options:
        return f"{told}{OPTIONS[kind]} takes {them}"
    return (
        f"{told}this command takes decode windows only; `nightsweep cells{LISTED[kind]}` lists {them}, "
        f"`nightsweep compare {OPTIONS[kind]}` compares {them}"
    )

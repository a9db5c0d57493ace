"""Windows summed up to cells: only clean windows of equal conditions are pooled, and a mean never comes alone."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.values import CellSummary, PrefillRow, PrefillSummary, Spread, WindowRow
from nightsweep.measurement.flagged import FLAGS

Row = TypeVar("Row", WindowRow, PrefillRow)
_PLACES = {flag: place for place, flag in enumerate(FLAGS)}


def spread_of(values: Sequence[float], *, boots: Iterable[int], stated: int | None = 1) -> Spread | None:
    """Return run count, mean, range and sample standard deviation of the values; None for none.

    Sums are exact (`math.fsum`) and the deviation is taken around the mean: large values with a small spread keep it.
    `boots` are the boots that the values come from, in any order and number; `stated` as of `Spread`.

    Raises:
        ValueError: A value is not finite: that is no measurement.
    """
    if not values:
        return None
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"not a number that was measured: {list(values)}")
    n = len(values)
    low, high = min(values), max(values)
    mean = min(max(math.fsum(values) / n, low), high)  # rounding must not put a mean outside its range
    sd = None if n == 1 else math.sqrt(math.fsum((value - mean) * (value - mean) for value in values) / (n - 1))
    return Spread(n=n, boots=len(set(boots)), mean=mean, minimum=low, maximum=high, sd=sd, stated=stated)


def summarise(rows: Sequence[WindowRow]) -> list[CellSummary]:
    """Return one summary per cell and conditions; configs in the order they were first measured in.

    A cell whose windows are all flagged is there, without numbers. Windows of other conditions, of another box or of a
    simulated box make a row of their own. A control's extra windows are in none: see `nightsweep.analysis.control`.
    """
    rows = [row for row in rows if not row.control]
    groups = _grouped(rows, key=_cell_key)
    order = _config_order(rows, started=lambda row: row.window_id)
    summaries = [_summary(group) for group in groups.values()]
    summaries.sort(key=lambda cell: (order[cell.config_fingerprint], cell.temperature, cell.concurrency, cell.box))
    return summaries


def summarise_prefills(rows: Sequence[PrefillRow]) -> list[PrefillSummary]:
    """Return one prefill summary per config, prompt length, load and conditions; the same rules as `summarise`."""
    groups = _grouped(rows, key=_prefill_key)
    order = _config_order(rows, started=lambda row: row.prefill_id)
    summaries = [_prefill_summary(group) for group in groups.values()]
    summaries.sort(key=lambda one: (order[one.config_fingerprint], one.under_load, one.prompt_tokens or 0, one.box))
    return summaries


def in_plan_order(cells: Sequence[CellSummary], *, fingerprints: Sequence[str]) -> list[CellSummary]:
    """Return the cells with configs in the order of the plan; configs that the plan does not name come last."""
    place = {fingerprint: index for index, fingerprint in enumerate(fingerprints)}
    return sorted(cells, key=lambda cell: place.get(cell.config_fingerprint, len(place)))


def _cell_key(row: WindowRow) -> Hashable:
    return (row.config_fingerprint, row.concurrency, row.temperature, row.conditions, row.box, row.simulated)


def _prefill_key(row: PrefillRow) -> Hashable:
    return (row.config_fingerprint, _length(row), row.under_load, row.conditions, row.box, row.simulated)


def _length(row: PrefillRow) -> int | None:
    """Return the prompt's length: as asked, for one that failed counted nothing."""
    return row.prompt_tokens if row.tokens is None else row.tokens


def _grouped(rows: Sequence[Row], *, key: Callable[[Row], Hashable]) -> Mapping[Hashable, list[Row]]:
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _config_order(rows: Sequence[Row], *, started: Callable[[Row], int]) -> dict[str, int]:
    first: dict[str, int] = {}
    for row in rows:
        first[row.config_fingerprint] = min(first.get(row.config_fingerprint, started(row)), started(row))
    return first


def _summary(group: Sequence[WindowRow]) -> CellSummary:
    clean = [row for row in group if not row.flags]
    newest = max(group, key=lambda row: row.window_id)
    counts = _flag_counts(group)
    spread = functools.partial(_spread, clean, stated=stated_of(row.notes for row in clean))
    return CellSummary(
        config=newest.config,
        config_fingerprint=newest.config_fingerprint,
        concurrency=newest.concurrency,
        temperature=newest.temperature,
        conditions=newest.conditions,
        box=newest.box,
        simulated=newest.simulated,
        source=newest.source,
        decode_rate=spread(lambda row: row.decode_rate),
        acceptance_length=spread(lambda row: row.acceptance_length),
        acceptance_rate=spread(lambda row: row.acceptance_rate),
        report_rate=spread(lambda row: row.report_rate),
        occupancy=spread(lambda row: row.occupancy),
        streams_per_step=spread(lambda row: row.streams_per_step),
        step_time=spread(lambda row: row.step_time),
        tokens_per_step_and_stream=spread(lambda row: row.tokens_per_step_and_stream),
        ttft_p50=spread(lambda row: row.ttft_p50),
        tpot_p50=spread(lambda row: row.tpot_p50),
        flagged=len(group) - len(clean),
        flags=tuple(counts),
        flag_counts=counts,
        engine_versions=tuple(sorted({row.engine_version for row in clean if row.engine_version is not None})),
        not_applied=tuple(dict.fromkeys(line for row in group for line in row.not_applied)),
        notes=tuple(dict.fromkeys(line for row in group for line in row.notes)),
    )


def _prefill_summary(group: Sequence[PrefillRow]) -> PrefillSummary:
    clean = [row for row in group if not row.flags]
    newest = max(group, key=lambda row: row.prefill_id)
    return PrefillSummary(
        config=newest.config,
        config_fingerprint=newest.config_fingerprint,
        prompt_tokens=newest.prompt_tokens if newest.tokens is None else newest.tokens,
        under_load=newest.under_load,
        slowdown=_spread(clean, lambda row: row.slowdown),
        rate=_spread(clean, lambda row: row.rate),
        ttft=_spread(clean, lambda row: row.ttft),
        flagged=len(group) - len(clean),
        box=newest.box,
        simulated=newest.simulated,
        conditions=newest.conditions,
        flags=tuple(_flag_counts(group)),
    )


def _spread(rows: Sequence[Row], value_of: Callable[[Row], float | None], *, stated: int | None = 1) -> Spread | None:
    measured = [(value, row.boot_id) for row in rows if (value := value_of(row)) is not None]
    return spread_of([value for value, _ in measured], boots=(boot for _, boot in measured), stated=stated)


def _flag_counts(rows: Sequence[Row]) -> dict[str, int]:
    return in_flag_order(Counter(flag for row in rows for flag in row.flags))


def in_flag_order(counts: Mapping[str, int]) -> dict[str, int]:
    """Return windows by flag, in the order of the contract's list; flags that it does not know come last, by name."""
    if not counts:
        return {}
    return {flag: counts[flag] for flag in sorted(counts, key=lambda flag: (_PLACES.get(flag, len(_PLACES)), flag))}

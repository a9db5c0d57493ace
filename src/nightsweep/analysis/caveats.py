"""What a reader of a sweep's numbers must know, written from the data and only when the data call for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal

from nightsweep.analysis import text
from nightsweep.analysis.leading import leads as leads
from nightsweep.analysis.leading import lone_leads
from nightsweep.analysis.values import BootRow, CellSummary, PrefillSummary, SweepRow
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.order import cells_of
from nightsweep.plan.words import OF_UNKNOWN_BOOTS

WIDE_RANGE = 0.10
"""A range beyond this share of the mean is named: differences of that size between configs are then open."""

UNEQUAL_STEPS = 0.02
"""Share by which tokens per step and acceptance length may differ before it is said that not every step drafts."""


def caveats(
    sweep: SweepRow,
    *,
    boots: Sequence[BootRow],
    cells: Sequence[CellSummary],
    prefills: Sequence[PrefillSummary] = (),
    plan: SweepPlan | None = None,
) -> tuple[str, ...]:
    """Return the caveats as plain sentences, the gravest first.

    Where windows went where a decision was open, single cells rank nothing: the section on the decision does.
    """
    decide = None if plan is None else plan.decide
    rules: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: _simulated(sweep),
        lambda: _unfinished(sweep),
        lambda: _reused(sweep),
        lambda: _not_applied(boots),
        lambda: _dead_drafters(cells),
        lambda: _failed(boots, cells),
        lambda: _unmeasured(cells, plan),
        lambda: _only_flagged(cells, prefills),
        lambda: _imported(cells),
        lambda: _lone_leads(cells) if decide is None else (),
        lambda: _single_runs(cells) if decide is None else _single_runs_by_rule(cells),
        lambda: _means(cells),
        lambda: _open_leads(cells) if decide is None else (),
        lambda: _wide(cells),
        lambda: _single_boots(boots, cells),
        lambda: _conditions(cells, boots),
        lambda: _not_every_step(cells),
        lambda: _through(plan),
    )
    return tuple(sentence for rule in rules for sentence in rule())


def cell_name(cell: CellSummary) -> str:
    """Return "config at 8 streams, T=0.7"."""
    return f"{cell.config} at {text.plural(cell.concurrency, 'stream')}, T={text.temperature(cell.temperature)}"


def _simulated(sweep: SweepRow) -> Iterator[str]:
    if sweep.simulated:
        yield (
            f"{text.SIMULATED}: all numbers come from a simulated engine. They show how the product works "
            "and say nothing about any real engine, model or box."
        )


def _unfinished(sweep: SweepRow) -> Iterator[str]:
    left = sweep.repeats_planned - sweep.repeats_clean
    if sweep.state == "done" and left <= 0:
        return
    note = f" ({sweep.note})" if sweep.note else ""
    if left > 0:
        yield (
            f"The sweep is {sweep.state}{note}: {sweep.repeats_clean:,} of {sweep.repeats_planned:,} planned repeats "
            "have a clean window."
        )
    else:
        yield f"The sweep is {sweep.state}{note}."


def _reused(sweep: SweepRow) -> Iterator[str]:
    if sweep.reused:
        named = text.several(f"sweep {origin} ({count})" for origin, count in sorted(sweep.reused.items()))
        yield (
            "Reused, not measured in this sweep: measurements of equal conditions from other nights on this box, by sweep: "
            f"{named}. Their boots are listed there."
        )


def _not_applied(boots: Sequence[BootRow]) -> Iterator[str]:
    """Yield what was asked for and not applied: the numbers stand under a name that promises something else."""
    said: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for boot in boots:
        for line in boot.not_applied:
            said[line][boot.config] = None
    for line, configs in said.items():
        yield f"Not applied as asked: {line}. Its numbers are of another config than its name says: {text.several(configs)}."


def _dead_drafters(cells: Sequence[CellSummary]) -> Iterator[str]:
    dead = [cell_name(cell) for cell in cells if any(note.startswith("dead drafter") for note in cell.notes)]
    if dead:
        yield (
            "Dead drafter: not one draft token was accepted in a whole window, so the draft does not fit the target; the "
            f"rate is what drafting in vain leaves: {text.several(dead)}."
        )


def _failed(boots: Sequence[BootRow], cells: Sequence[CellSummary]) -> Iterator[str]:
    measured = {cell.config_fingerprint for cell in cells if cell.decode_rate is not None}
    failures: defaultdict[str, list[BootRow]] = defaultdict(list)
    for boot in boots:
        if boot.state == "failed":
            failures[boot.config_fingerprint].append(boot)
    absent = [rows[-1] for fingerprint, rows in failures.items() if fingerprint not in measured]
    if absent:
        named = text.several(f"{boot.config} ({boot.failure_kind or 'unknown'})" for boot in absent)
        yield f"Without any number because the engine did not come up or did not stay up: {named}."
    present = [rows[-1].config for fingerprint, rows in failures.items() if fingerprint in measured]
    if present:
        yield f"Measured, but also with failed boots: {text.several(present)}."
    lost = sum(boot.state == "lost" for boot in boots)
    if lost:
        verb = "was" if lost == 1 else "were"
        yield f"{text.plural(lost, 'boot')} {verb} lost: the service ended without recording how the engine did."


def _unmeasured(cells: Sequence[CellSummary], plan: SweepPlan | None) -> Iterator[str]:
    if plan is None:
        return
    seen = {(cell.config_fingerprint, cell.concurrency, cell.temperature) for cell in cells}
    missing: Counter[str] = Counter()
    for config in plan.configs:
        for cell in cells_of(
            plan, config.fingerprint
        ):  # of a decision the opening: no other place is asked of every config
            missing[config.name] += (config.fingerprint, cell.concurrency, cell.temperature) not in seen
    named = [f"{name} ({amount})" for name, amount in missing.items() if amount]
    if named:
        total = sum(missing.values())
        yield f"{text.plural(total, 'planned cell')} without any window: {text.several(named)}."


def _only_flagged(cells: Sequence[CellSummary], prefills: Sequence[PrefillSummary]) -> Iterator[str]:
    flagged = [f"{cell_name(cell)} ({', '.join(cell.flags)})" for cell in cells if cell.decode_rate is None]
    if flagged:
        yield f"No clean window, so no number: {text.several(flagged)}."
    prompts = [f"{_prefill_name(cell)} ({', '.join(cell.flags)})" for cell in prefills if cell.rate is None]
    if prompts:
        yield f"No clean prefill measurement: {text.several(prompts)}."


def _prefill_name(cell: PrefillSummary) -> str:
    length = "" if cell.prompt_tokens is None else f" of {cell.prompt_tokens:,} tokens"
    load = f" under {text.plural(cell.under_load, 'stream')}" if cell.under_load else ""
    return f"{cell.config}{length}{load}"


def _imported(cells: Sequence[CellSummary]) -> Iterator[str]:
    sources = sorted({cell.source for cell in cells if cell.source is not None})
    if sources:
        count = sum(cell.source is not None for cell in cells)
        yield (
            f"Imported, not measured here ({', '.join(sources)}): {text.plural(count, 'cell')}. Nobody proved which engine "
            "answered, their conditions are what the files state, and they are never pooled with measured windows."
        )


def _lone_leads(cells: Sequence[CellSummary]) -> Iterator[str]:
    lone = [f"{cell_name(cell)} ({cell.decode_rate.mean:,.1f})" for cell in lone_leads(cells) if cell.decode_rate]
    if lone:
        yield f"A lone run is ahead: measure it again before it decides anything: {text.several(lone)}."


def _single_runs(cells: Sequence[CellSummary]) -> Iterator[str]:
    single = [cell_name(cell) for cell in cells if cell.single]
    if single:
        yield f"n=1: one run is not a measurement. {text.plural(len(single), 'cell')}: {text.several(single)}."


def _single_runs_by_rule(cells: Sequence[CellSummary]) -> Iterator[str]:
    single = [cell for cell in cells if cell.single]
    if single:
        configs = text.plural(len({cell.config_fingerprint for cell in single}), "config")
        yield (
            f"n=1 in {len(single)} of {text.plural(len(cells), 'cell')}, of {configs}: windows went where the decision was open. "
            "It ranks configs over all its places together; a cell by itself ranks nothing, and one run is not a measurement."
        )


def _means(cells: Sequence[CellSummary]) -> Iterator[str]:
    """Name what was imported as one number: a mean of runs that are not there, or of how many nobody says."""
    lone = [(cell, cell.decode_rate) for cell in cells if cell.decode_rate is not None and cell.decode_rate.n == 1]
    means = [f"{cell_name(cell)} ({rate.stated})" for cell, rate in lone if rate.stated is not None and rate.stated > 1]
    if means:
        yield (
            "One number for several runs, as the file states them; each run, and so the spread, is not known. "
            f"{text.plural(len(means), 'cell')} (runs): {text.several(means)}."
        )
    unknown = [cell_name(cell) for cell, rate in lone if rate.stated is None]
    if unknown:
        yield (
            f"The file does not say of how many runs a number is. {text.plural(len(unknown), 'cell')}: "
            f"{text.several(unknown)}."
        )


def _open_leads(cells: Sequence[CellSummary]) -> Iterator[str]:
    """Where the highest mean is not told apart from the next one by the ranges of their runs."""
    open_leads, stated = [], ""
    for first, second in leads(cells):
        if second is not None and overlap(first, second):
            if any(one.decode_rate is not None and one.decode_rate.stated != 1 for one in (first, second)):
                stated = " or a mean whose runs are not known"
            at = f"{text.plural(first.concurrency, 'stream')}, T={text.temperature(first.temperature)}"
            open_leads.append(f"{at} ({first.config} and {second.config})")
    if open_leads:
        yield (
            "Which config is ahead is open, because the runs of the two highest means overlap or one of them is "
            f"a single run{stated}: {text.several(open_leads)}."
        )


def overlap(first: CellSummary, second: CellSummary) -> bool:
    """Return whether the runs do not tell the two apart: their ranges overlap, or one of them is one number alone."""
    a, b = first.decode_rate, second.decode_rate
    return a is not None and b is not None and (a.n == 1 or b.n == 1 or b.maximum >= a.minimum)


def _wide(cells: Sequence[CellSummary]) -> Iterator[str]:
    wide = []
    for cell in cells:
        width = cell.decode_rate.relative_range if cell.decode_rate is not None else None
        if width is not None and width > WIDE_RANGE:
            wide.append((width, f"{cell_name(cell)} ({text.percent(width)})"))
    if wide:
        wide.sort(key=lambda found: -found[0])
        yield (
            f"Runs further apart than {text.percent(WIDE_RANGE)} of their mean, the widest first: "
            f"{text.several(name for _, name in wide)}."
        )


def _single_boots(boots: Sequence[BootRow], cells: Sequence[CellSummary]) -> Iterator[str]:
    measured = {cell.config_fingerprint for cell in cells if cell.decode_rate is not None}
    here = [boot for boot in boots if boot.windows and boot.config_fingerprint in measured]
    unknown = {boot.config_fingerprint for boot in here if OF_UNKNOWN_BOOTS in boot.notes}
    rounds: defaultdict[str, set[int]] = defaultdict(set)
    for boot in here:
        rounds[boot.config_fingerprint].add(boot.boot_id)
    rounds = defaultdict(set, {config: ids for config, ids in rounds.items() if config not in unknown})
    if unknown:
        named = text.plural(len(unknown), "imported config")
        yield f"Of how many boots the runs of {named} are is not known, nor whether these ranges hold what differs between boots."
    once = sum(len(ids) == 1 for ids in rounds.values())
    if once:
        which = "Every config was" if once == len(rounds) else f"{text.plural(once, 'config')} of {len(rounds)} were"
        yield f"{which} measured in one boot only: what differs from boot to boot is not in these ranges."
    several = {config for config, ids in rounds.items() if len(ids) > 1}
    shared = {cell.config_fingerprint for cell in cells if cell.decode_rate is not None and cell.decode_rate.boots > 1}
    if apart := several - shared:
        yield (
            f"{text.plural(len(apart), 'config')} had several boots, but each cell in one of them only: what differs from "
            "boot to boot is not in these ranges."
        )


def _conditions(cells: Sequence[CellSummary], boots: Sequence[BootRow]) -> Iterator[str]:
    conditions: defaultdict[tuple[str, int, Decimal], set[str]] = defaultdict(set)
    for cell in cells:
        conditions[(cell.config_fingerprint, cell.concurrency, cell.temperature)].add(cell.conditions)
    several = sum(len(found) > 1 for found in conditions.values())
    if several:
        yield (
            f"{text.plural(several, 'cell')} measured under more than one set of conditions: the runs are not "
            "pooled and stand in rows of their own."
        )
    versions = sorted({boot.engine_version for boot in boots if boot.engine_version})
    if len(versions) > 1:
        yield f"Several engine versions: {', '.join(versions)}. Configs differ in more than their own settings."
    digests = {boot.image_digest for boot in boots if boot.image_digest}
    if len(digests) > 1 and len(versions) <= 1:
        yield f"{len(digests)} different images were used. Configs differ in more than their own settings."
    boxes = sorted({cell.box for cell in cells})
    if len(boxes) > 1:
        yield f"Several boxes: {', '.join(boxes)}."


def _not_every_step(cells: Sequence[CellSummary]) -> Iterator[str]:
    unequal: dict[str, None] = {}
    for cell in cells:
        length, per_step = cell.acceptance_length, cell.tokens_per_step_and_stream
        if length is not None and per_step is not None and abs(per_step.mean / length.mean - 1) > UNEQUAL_STEPS:
            unequal[cell.config] = None
    if unequal:
        yield (
            "Tokens per step and stream differ from the acceptance length, so not every step drafts: "
            f"{text.several(unequal)}."
        )


def _through(plan: SweepPlan | None) -> Iterator[str]:
    if plan is not None and plan.probe.through is not None:
        yield "Load went through a proxy: TTFT and TPOT include it; decode rates come from the engine's own counters."

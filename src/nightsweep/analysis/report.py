"""A sweep's report as Markdown: the same rows give the same text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal

from nightsweep.analysis import listings, markdown, tables, text
from nightsweep.analysis.caveats import caveats
from nightsweep.analysis.control import control_table
from nightsweep.analysis.expected import Expected, expected_and_found, expected_table, worth_reading
from nightsweep.analysis.markdown import bullets, code, escape, inline_code
from nightsweep.analysis.summary import in_plan_order, summarise, summarise_prefills
from nightsweep.analysis.values import BootRow, CellSummary, PrefillRow, PrefillSummary, SweepRow, WindowRow
from nightsweep.plan.model import SweepPlan

FLAGGED_SHOWN = 60
"""Flagged windows listed at most; the report says how many more there are."""


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
    """Return the report. `windows`, `prefills` and `single_batches` are all of the sweep, flagged ones too.

    `plan` None is not known.

    Units:
        tokens / second, milliseconds, percent, GiB; cold start in seconds.
    """
    order = [config.fingerprint for config in plan.configs] if plan is not None else []
    cells = in_plan_order(summarise(windows), fingerprints=order)
    prefill_cells = summarise_prefills(prefills)
    alone = in_plan_order(summarise(single_batches), fingerprints=order)
    in_time = sorted(boots, key=lambda boot: (boot.started, boot.boot_id))
    sections = [
        _title(sweep),
        _summary(sweep, cells=cells, boots=in_time),
        _what_ran(sweep, boots=in_time, plan=plan, software_version=software_version),
        _boots(in_time, simulated=sweep.simulated),
        _cells(cells),
        _single_batches(alone),
        _prefills(prefill_cells),
        _expected(expected, windows, simulated=sweep.simulated),
        _control(windows),
        _flagged((*windows, *single_batches)),
        _caveats(sweep, boots=in_time, cells=cells, prefills=prefill_cells, plan=plan),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _title(sweep: SweepRow) -> str:
    loud = f" ({text.SIMULATED})" if sweep.simulated else ""
    title = f"# Sweep report: {escape(sweep.name)}{loud}"
    if not sweep.simulated:
        return title
    return (
        f"{title}\n\n> **{text.SIMULATED}.** Every number here was measured on a simulated engine. "
        "None of them says anything about a real engine, model or box."
    )


def _summary(sweep: SweepRow, *, cells: Sequence[CellSummary], boots: Sequence[BootRow]) -> str:
    measured = sum(cell.decode_rate is not None for cell in cells)
    failed = sum(boot.state == "failed" for boot in boots)
    flagged = text.plural(sweep.windows_flagged, "flagged window")
    note = f" ({escape(sweep.note)})" if sweep.note else ""
    reused = sorted(sweep.reused.items())
    return bullets(
        (
            f"state: **{sweep.state}**{note}; {sweep.repeats_clean:,} of {sweep.repeats_planned:,} planned repeats "
            "have a clean window",
            f"{text.plural(measured, 'cell')} with numbers; {flagged} left out",
            *(f"reused from sweep {origin}: {text.plural(count, 'measurement')}" for origin, count in reused),
            f"{text.plural(len(boots), 'boot')} of {text.plural(sweep.configs, 'config')}, {failed} failed",
            f"ran from {text.moment(sweep.started)} to {text.moment(sweep.ended)} UTC",
        )
    )


def _what_ran(sweep: SweepRow, *, boots: Sequence[BootRow], plan: SweepPlan | None, software_version: str) -> str:
    simulated = f" (**{text.SIMULATED}**)" if sweep.simulated else ""
    items = [f"box: {escape(sweep.box)}{simulated}"]
    items += [
        f"engine: {escape(name)}" for name in dict.fromkeys(map(listings.engine_name, boots)) if name != text.ABSENT
    ]
    images = dict.fromkeys((boot.image, boot.image_digest) for boot in boots if boot.image or boot.image_digest)
    items += [f"image: {_image(image, digest)}" for image, digest in images]
    items += (
        list(_probe_items(plan)) if plan is not None else ["sweep file: not readable; conditions are with each window"]
    )
    items.append(f"report written by nightsweep {escape(software_version)}")
    return "\n\n".join(
        part for part in ("## What ran", bullets(items), _configs(boots, plan=plan, simulated=sweep.simulated)) if part
    )


def _image(image: str | None, digest: str | None) -> str:
    return " ".join(inline_code(part) for part in (image, digest) if part)


def _probe_items(plan: SweepPlan) -> Iterator[str]:
    probe = plan.probe
    streams = ", ".join(str(at) for at in probe.concurrency)
    temperatures = ", ".join(text.temperature(value) for value in probe.temperature)
    yield f"model: {', '.join(dict.fromkeys(inline_code(config.engine.model) for config in plan.configs))}"
    yield f"streams: {streams}; temperature: {temperatures}"
    yield (
        f"window: {text.duration(probe.window)}; {text.plural(probe.repeats, 'repeat')} of each cell, over "
        f"{text.plural(probe.boots, 'boot')} of each config; warm-up up to {text.duration(probe.warmup)}"
    )
    hashed = f" ({text.short(probe.prompts_hash)})" if probe.prompts_hash else ""
    through = f"through {inline_code(probe.through)}" if probe.through else "straight to the engine"
    yield f"prompts: {escape(probe.prompts)}{hashed}, order seed {probe.prompt_seed}"
    yield f"load: {escape(probe.api)} requests, {through}"
    sent = (f"{key} {value}" for key, value in asdict(probe.sampling).items() if value is not None)
    yield f"sampling sent with every request: {escape(', '.join(sent))}"
    if probe.prefill is not None:
        repeats = text.plural(probe.prefill.repeats, "run")
        lengths = ", ".join(text.count(length) for length in probe.prefill.lengths)
        streams = text.plural(probe.prefill.under_load, "decoding stream")
        beside = f", idle and beside {streams}" if probe.prefill.under_load else ""
        yield f"prefill: {lengths} fresh tokens, {repeats} per boot{beside}"
    if probe.single_batch is not None:
        single = probe.single_batch
        yield (
            f"single batch: {text.count(single.input)} random token ids in, {text.count(single.output)} tokens out, "
            f"{text.plural(single.runs, 'cold run')} of each config"
        )


def _configs(boots: Sequence[BootRow], *, plan: SweepPlan | None, simulated: bool) -> str:
    """Engine configs with what makes them differ, and the command each was started with."""
    commands = {boot.config_fingerprint: (boot.config, boot.command) for boot in boots if boot.command}
    parts = []
    if plan is not None:
        rows = tuple(
            tables.Row((config.name, text.short(config.fingerprint), _settings(config.speculative)))
            for config in plan.configs
        )
        columns = tuple(tables.Column(heading, right=False) for heading in ("config", "fingerprint", "speculative"))
        title = f"{text.plural(len(rows), 'engine config')}"
        parts.append(markdown.table(tables.Table(title, columns, (tables.Group("", rows),), simulated=simulated)))
    if commands:
        listed = "\n\n".join(
            f"{escape(name)}:\n\n{code([shlex.join(command)], language='sh')}" for name, command in commands.values()
        )
        parts.append(f"<details><summary>Commands that the engine was started with</summary>\n\n{listed}\n\n</details>")
    return "\n\n".join(parts)


def _settings(speculative: object) -> str:
    return "none" if not speculative else json.dumps(speculative, sort_keys=True, default=str)


def _boots(boots: Sequence[BootRow], *, simulated: bool) -> str:
    if not boots:
        return "## Boots\n\nNo boot is stored."
    parts = ["## Boots", markdown.table(listings.boots_table(boots, title="Boots in the order they were made"))]
    failures = [boot for boot in boots if boot.failure_kind is not None]
    if failures:
        loud = f" ({text.SIMULATED})" if simulated else ""
        parts.append(f"### Failures{loud}")
        parts += [_failure(boot) for boot in failures]
    return "\n\n".join(parts)


def _failure(boot: BootRow) -> str:
    ended = [f"exit code {boot.exit_code}"] if boot.exit_code is not None else []
    ended += ["killed for memory"] if boot.oom_killed else []
    facts = ", ".join([listings.outcome(boot), *ended])
    parts = [f"**{escape(boot.config)}**, boot {boot.boot_id}: {escape(facts)}."]
    if boot.failure_lines:
        parts.append("Deciding lines:\n\n" + code(boot.failure_lines))
    if boot.failure_remedy:
        parts.append(f"Remedy: {escape(boot.failure_remedy)}")
    return "\n\n".join(parts)


def _cells(cells: Sequence[CellSummary]) -> str:
    if not cells:
        return "## Cells\n\nNothing was measured: no window is stored."
    legend = (
        "Decode rate is tokens per second after prefill, all streams together. In the overview each field is "
        "mean (n: least–most), and the highest mean of a column is bold; whether it is ahead is in the caveats."
    )
    parts = ["## Cells", legend]
    for temperature in sorted({cell.temperature for cell in cells}):
        parts += _cells_at(temperature, [cell for cell in cells if cell.temperature == temperature])
    return "\n\n".join(parts)


def _cells_at(temperature: Decimal, cells: Sequence[CellSummary]) -> list[str]:
    at = text.temperature(temperature)
    overview = tables.pivot_table(cells, title=f"Decode rate at T={at}, tokens/s: mean (n: least–most)")
    details = tables.cells_table(cells, title=f"Cells at T={at}", client_side=True)
    return [f"### Temperature {at}", markdown.table(overview), markdown.table(details)]


def _single_batches(cells: Sequence[CellSummary]) -> str:
    if not cells:
        return ""
    title = "Single batch: one request alone, never pooled with decode windows"
    return f"## Single batch\n\n{markdown.table(tables.single_batch_table(cells, title=title))}"


def _prefills(prefills: Sequence[PrefillSummary]) -> str:
    if not prefills:
        return ""
    title = "Prefill rate: prompt tokens per second on a prompt that no cache has seen"
    return f"## Prefill\n\n{markdown.table(tables.prefills_table(prefills, title=title))}"


def _expected(expected: Sequence[Expected], windows: Sequence[WindowRow], *, simulated: bool) -> str:
    if not expected:
        return ""
    found = worth_reading(expected_and_found(expected, windows))
    table = expected_table(found, title="What was written before the run, and what was found", simulated=simulated)
    return f"## Expected and found\n\n{markdown.table(table)}"


def _control(windows: Sequence[WindowRow]) -> str:
    """The control through the night, where there is one."""
    table = control_table(windows, title="The control's clean windows in the order of the night")
    if table is None:
        return ""
    legend = (
        "The control is booted again through the night, to show how far the box drifts. Its extra windows start at the same "
        "prompt each time, and enter no mean."
    )
    return f"## Control\n\n{legend}\n\n{markdown.table(table)}"


def _flagged(windows: Sequence[WindowRow]) -> str:
    flagged = sorted((row for row in windows if row.flags), key=lambda row: row.window_id)
    if not flagged:
        return ""
    content = listings.flagged_table(
        flagged[:FLAGGED_SHOWN], title="Flagged windows: stored, and left out of every mean"
    )
    more = len(flagged) - FLAGGED_SHOWN
    rest = f"\n\nAnd {more:,} more: `nightsweep cells --sweep {flagged[0].sweep_id} --flagged`." if more > 0 else ""
    return f"## Flagged windows\n\n{markdown.table(content)}{rest}"


def _caveats(
    sweep: SweepRow,
    *,
    boots: Sequence[BootRow],
    cells: Sequence[CellSummary],
    prefills: Sequence[PrefillSummary],
    plan: SweepPlan | None,
) -> str:
    found = caveats(sweep, boots=boots, cells=cells, prefills=prefills, plan=plan)
    if not found:
        return "## Caveats\n\nThe data call for none."
    return "## Caveats\n\n" + bullets(escape(sentence) for sentence in found)

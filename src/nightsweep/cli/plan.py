"""`nightsweep plan`: what a sweep file would do, before anything is touched."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nightsweep.analysis.tables import Table
    from nightsweep.plan.estimate import Estimate
    from nightsweep.plan.model import BootTask, EngineConfig, SweepPlan
    from nightsweep.plan.spending import Spending
    from nightsweep.ports import Engine

CONTAINER_PORT = 8000
FEW = 3


@dataclass(frozen=True)
class Access:
    """What the command reaches; passed as the click context's object to plan in somebody else's world.

    Attributes:
        load: Text, its source's name and the directory of relative paths to a plan (raises PlanError).
        history: Cold starts of the plan's box in seconds, as `plan.estimate` takes them; empty when there are none.
    """

    read: Callable[[str], str]
    load: Callable[[str, str, Path], SweepPlan]
    engine: Callable[[str], Engine]
    history: Callable[[SweepPlan], Mapping[str, float]]


@dataclass(frozen=True)
class Planned:
    """A plan with all that is told of it."""

    plan: SweepPlan
    tasks: tuple[BootTask, ...]
    commands: Mapping[str, tuple[str, ...]]  # by config fingerprint
    warnings: tuple[str, ...]
    estimate: Estimate
    spending: Spending | None = None  # of a decision


@click.command("plan")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON document; times in seconds.")
@click.option("--no-history", is_flag=True, help="Estimate from the stated defaults; do not look into the database.")
@click.pass_context
def command(ctx: click.Context, *, file: str, as_json: bool, no_history: bool) -> None:
    """Show what a sweep FILE would do; nothing is touched ("-" reads standard input).

    Configs with their fingerprints and the exact engine command of each, boots, cells, windows, the estimated night (from this
    box's history when there is any, else from defaults that are stated), and warnings. An invalid file ends with exit code 2 and
    every mistake in it: line, key, what was found, what is allowed.

    \b
    Example:
      nightsweep plan sweep.yaml
      nightsweep plan sweep.yaml --json | jq '.configs[].command'
    """
    import gc

    gc.disable()  # one burst of values that all live until the end: looking for garbage in them is a third of the time
    ctx.call_on_close(gc.enable)
    access = ctx.find_object(Access) or _wired()
    base = Path.cwd() if file == "-" else Path(file).absolute().parent
    plan = access.load(access.read(file), file, base)
    planned = planned_of(plan, engine=access.engine, history={} if no_history else access.history(plan))
    if as_json:
        from nightsweep.cli import render

        render.print_json(document(planned))
    else:
        _show(planned)


def planned_of(plan: SweepPlan, *, engine: Callable[[str], Engine], history: Mapping[str, float]) -> Planned:
    """Return all that is told of a plan."""
    from nightsweep.plan.estimate import estimate
    from nightsweep.plan.order import boot_tasks
    from nightsweep.plan.spending import spending

    engine = cache(engine)
    tasks = boot_tasks(plan)
    return Planned(
        plan=plan,
        tasks=tasks,
        commands={config.fingerprint: engine_command(config, engine=engine) for config in plan.configs},
        warnings=(*plan.warnings, *_engine_warnings(plan.configs, engine=engine)),
        estimate=estimate(plan, tasks, history=history),
        spending=None if plan.decide is None else spending(plan, plan.decide, history=history),
    )


def engine_command(config: EngineConfig, *, engine: Callable[[str], Engine]) -> tuple[str, ...]:
    """Return the command line of a config as a boot would use it; port 0 is picked at the boot."""
    spec = config.engine
    bridged = spec.host == "docker" and spec.container.network != "host"
    port = (spec.port or CONTAINER_PORT) if bridged else spec.port
    return engine(spec.kind).command(config, listen_host="0.0.0.0" if bridged else "127.0.0.1", port=port)


def _engine_warnings(configs: Sequence[EngineConfig], *, engine: Callable[[str], Engine]) -> Iterator[str]:
    """Yield each warning once, with the configs that it is about."""
    about: dict[str, list[str]] = {}
    for config in configs:
        for warning in engine(config.engine.kind).warnings(config):
            about.setdefault(warning, []).append(config.name)
    for warning, names in about.items():
        listed = ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
        yield warning if len(names) == len(configs) else f"{listed}: {warning}"


# --- shown -------------------------------------------------------------------------------------------------------


def document(planned: Planned) -> dict[str, Any]:
    """Return the plan as one JSON document.

    Units:
        seconds.
    """
    plan, told = planned.plan, planned.estimate
    return {
        "name": plan.name,
        "fingerprint": plan.fingerprint,
        "simulated": plan.simulated,
        "configs": [_config_document(config, planned) for config in plan.configs],
        "boots": told.boots,
        "cells": _cells_per_config(plan) * len(plan.configs),
        "windows": told.windows,
        "prefills": told.prefills,
        "single_batches": sum(len(task.single_batches) for task in planned.tasks),
        "estimate": {
            "seconds": told.seconds,
            "cold_start_seconds": told.cold_starts,
            "measuring_seconds": told.measuring,
            "idle_seconds": told.idle,
            "worst_seconds": told.worst,
            "failing_round_seconds": told.failing_round,
            "night_seconds": told.night,
            "fits": told.fits,
            "nights": told.nights,
            "assumptions": list(told.assumptions),
        },
        "decision": _decision_document(planned),
        "warnings": list(planned.warnings),
    }


def _decision_document(planned: Planned) -> dict[str, Any] | None:
    plan, told = planned.plan, planned.spending
    if plan.decide is None or told is None:
        return None
    return {
        "between": [plan.config(one).name for one in plan.decide.between],
        "incumbent": None if plan.decide.incumbent is None else plan.config(plan.decide.incumbent).name,
        "weights": [[streams, float(degree), weight] for streams, degree, weight in plan.decide.weights],
        "max": plan.decide.most,
        "opening_windows": told.opening,
        "most_windows": told.most_windows,
        "least": {"boots": told.least.boots, "windows": told.least.windows, "seconds": told.least.seconds},
        "most": {"boots": told.most.boots, "windows": told.most.windows, "seconds": told.most.seconds},
    }


def _config_document(config: EngineConfig, planned: Planned) -> dict[str, Any]:
    return {
        "name": config.name,
        "fingerprint": config.fingerprint,
        "kind": config.engine.kind,
        "host": config.engine.host,
        "image": config.engine.image,
        "model": config.engine.model,
        "speculative": dict(config.speculative) if config.speculative else None,
        "draft_tokens_per_step": _drafts(config),
        "grid": dict(config.grid_values),
        "command": list(planned.commands[config.fingerprint]),
        "document": dict(config.document),
    }


def _show(planned: Planned) -> None:
    from nightsweep.cli import render

    plan = planned.plan
    render.show(_configs_table(planned))
    render.write([render.Line(""), render.Line("Engine commands", style="title")])
    render.write(render.Line(line) for config in plan.configs for line in _command_lines(config, planned))
    render.write([render.Line(""), render.Line("Estimated night", style="title")])
    render.write(render.Line(f"  {line}") for line in _estimate_lines(planned))
    if planned.warnings:
        render.write([render.Line(""), render.Line("Warnings", style="title")])
        render.write(render.Line(f"  {warning}", style="single") for warning in planned.warnings)


def _configs_table(planned: Planned) -> Table:
    from nightsweep.analysis.tables import Column, Group, Row, Table
    from nightsweep.analysis.text import count, plural, printable, short, temperature

    plan, probe = planned.plan, planned.plan.probe
    cells = _cells_per_config(plan)
    figures = (str(probe.boots), str(cells), str(cells * probe.repeats))
    prefills = str(probe.boots * probe.prefill.per_boot) if probe.prefill else "0"
    alone = (str(probe.single_batch.runs),) if probe.single_batch else ()
    rows = [
        Row((printable(config.name), short(config.fingerprint), count(_drafts(config)), *figures, prefills, *alone))
        for config in plan.configs
    ]
    columns = (
        Column("config", right=False),
        Column("fingerprint", right=False),
        Column("draft tokens"),  # a step, in one unit for all engines
        Column("boots"),
        Column("cells"),
        Column("windows"),
        Column("prefills"),
        *((Column("single-batch runs"),) if alone else ()),
    )
    each = f"{probe.repeats} repeats" if plan.decide is None else "repeats as the decision needs,"
    streams = ", ".join(str(one) for one in probe.concurrency)
    degrees = ", ".join(temperature(one) for one in probe.temperature)
    told = planned.estimate
    counts = ((len(rows), "config"), (told.boots, "boot"), (cells * len(rows), "cell"), (told.windows, "window"))
    notes = (
        ", ".join(plural(amount, noun) for amount, noun in counts),
        f"cells: concurrency {streams} x temperature {degrees}; {each} of {probe.window:g} s each",
    )
    return Table(
        f"Plan {printable(plan.name)}", columns, (Group("", tuple(rows)),), notes=notes, simulated=plan.simulated
    )


def _drafts(config: EngineConfig) -> int | None:
    """Return how many tokens a step proposes, whatever unit the engine's own setting has: vLLM's k=7 is SGLang's window of 8."""
    from nightsweep.engine.speculative import proposed_drafts

    return proposed_drafts(config.engine.kind, config.speculative)


def _command_lines(config: EngineConfig, planned: Planned) -> Iterator[str]:
    from nightsweep.analysis.text import printable

    spec = config.engine
    where = f"image {spec.image}, arguments" if spec.host == "docker" else "process"
    yield f"  {printable(config.name)} ({where}):"
    yield f"    {shlex.join(planned.commands[config.fingerprint])}"


def _estimate_lines(planned: Planned) -> Iterator[str]:
    from nightsweep.analysis.text import duration, plural
    from nightsweep.plan.remaining import MAX_FAILED_BOOTS

    told, schedule = planned.estimate, planned.plan.schedule
    yield from _decision_lines(planned)
    yield (
        f"{duration(told.seconds)}: {plural(told.boots, 'boot')} ({duration(told.cold_starts)} of cold starts), "
        f"{plural(told.windows, 'window')} and {plural(told.prefills, 'prefill')} ({duration(told.measuring)})"
        + (f", {duration(told.idle)} for an idle production" if told.idle else "")
    )
    if told.boots:
        yield (
            f"worst case {duration(told.worst)}: every engine takes its whole boot_timeout {MAX_FAILED_BOOTS} times, every "
            f"measurement is taken {planned.plan.probe.max_attempts} times; a config that never comes up costs up to "
            f"{duration(told.failing_round)} in each round of boots, one that the engine refuses only its first failed boot"
        )
    if told.night is not None and schedule is not None:
        nights = f"it takes {plural(told.nights, 'night')}" if told.nights else "not even one boot would be done"
        verdict = "fits" if told.fits else f"does not fit; {nights}, going on where it stopped"
        yield f"night of {duration(told.night)}, until {schedule.until} {schedule.timezone}: {verdict}"
    yield from (f"- {line}" for line in told.assumptions)


def _decision_lines(planned: Planned) -> Iterator[str]:
    """Yield what a decision is between, and the range of what it costs, with what that rests on."""
    from nightsweep.analysis.text import duration, plural, printable

    plan, told = planned.plan, planned.spending
    if plan.decide is None or told is None:
        return
    least, most = told.least, told.most
    serves = (
        "" if plan.decide.incumbent is None else f"; {printable(plan.config(plan.decide.incumbent).name)} serves now"
    )
    span = f"{duration(least.seconds)} to {duration(most.seconds)}"
    yield f"decision between {plural(len(plan.decide.between), 'config')}{serves}: {span}"
    weights = plan.decide.weights
    if len({weight for _, _, weight in weights}) > 1 or len(weights) < len(plan.probe.concurrency) * len(
        plan.probe.temperature
    ):
        total = sum(weight for _, _, weight in weights)
        shares = ", ".join(f"c={c} T={degree:f} {100 * weight / total:.0f}%" for c, degree, weight in weights)
        yield f"- objective: {shares}"
    yield (
        f"- least: the opening ({plural(told.opening, 'window')}) tells the winner, which a fresh boot confirms: "
        f"{plural(least.boots, 'boot')}, {plural(least.windows, 'window')}"
    )
    yield (
        f"- most: no contender falls behind before `max` ({plan.decide.most}): {plural(most.boots, 'boot')}, "
        f"{plural(most.windows, 'window')}; {told.most_windows:,} windows if every concurrency must be told by itself"
    )
    if told.least.night is not None:
        fits = "fits" if least.fits else "does not fit"
        yield f"- the least {fits} into the night; what a night leaves open, the next one goes on with"
    yield "the opening alone:"


def _cells_per_config(plan: SweepPlan) -> int:
    from nightsweep.plan.order import cells_of

    return len(cells_of(plan, ""))


# --- this machine ------------------------------------------------------------------------------------------------


def _wired() -> Access:
    from nightsweep import wiring

    return Access(
        read=wiring.read_text,
        load=lambda text, source, base: wiring.load_plan(text, source=source, base=base)[0],
        engine=wiring.engine,
        history=_history,
    )


def _history(plan: SweepPlan) -> Mapping[str, float]:
    """Return the cold starts of the plan's box. A database that is not there, or does not answer, is no history, no failure."""
    from nightsweep import wiring
    from nightsweep.errors import StoreError

    chosen = wiring.settings()
    if chosen.database_url is None and not (chosen.home / "postgres").exists():
        return {}
    from nightsweep.analysis.values import Filters

    try:
        with wiring.open_queries(chosen) as queries:
            rows = queries.boots(Filters(box=plan.box_name(chosen.box)))
    except StoreError as error:
        click.echo(f"note: estimated without history: {error}", err=True)
        return {}
    return cold_starts([(row.config_fingerprint, row.cold_start) for row in rows if row.simulated == plan.simulated])


def cold_starts(rows: Sequence[tuple[str, float | None]]) -> dict[str, float]:
    """Return the median cold start by config fingerprint, and under "*" over all.

    Units:
        seconds.
    """
    by_config: dict[str, list[float]] = {}
    for fingerprint, seconds in rows:
        if seconds is not None:
            by_config.setdefault(fingerprint, []).append(seconds)
    found = {fingerprint: median(known) for fingerprint, known in by_config.items()}
    every = [seconds for known in by_config.values() for seconds in known]
    return {**found, "*": median(every)} if every else {}

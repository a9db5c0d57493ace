"""`nightsweep decide`: keep what was chosen, with what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from nightsweep.analysis import sides, text
from nightsweep.analysis.decision_apart import apart
from nightsweep.analysis.decision_read import decision_in
from nightsweep.analysis.evidence import Choice, Material, decide
from nightsweep.analysis.premises import Apart, Decision, asked_the_same, state_of
from nightsweep.analysis.values import Filters, SweepRow, WindowRow
from nightsweep.cli import places, render
from nightsweep.cli.decided import decision_lines
from nightsweep.cli.deciding import Decisions, Reach, judge, production_settings, production_traffic, reach
from nightsweep.cli.documents import documents_of, family_of, one_kind, raise_for_kind
from nightsweep.cli.reading import Queries, find_sweep
from nightsweep.cli.which_configs import Called, among, named
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.words import DECODE


@click.command("decide")
@click.argument("sweep")
@click.option("--choose", "chosen", required=True, metavar="CONFIG", help="The config that is shipped.")
@click.option("--fallback", required=True, metavar="CONFIG", help="The config to go back to.")
@click.option("--question", metavar="TEXT", help="What was decided, in words; without it, the settings that differ.")
@places.at_option
@click.option(
    "--among",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Configs that the question is among; without it, of one method.",
)
@click.option("--single-batch", is_flag=True, help="Decide on single-batch runs instead of decode windows.")
@click.option("--whole-runs", is_flag=True, help="Decide on imported rates over whole runs instead of decode windows.")
@click.option("--production", "container", metavar="NAME", help="The production container; else the sweep file's.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    sweep: str,
    chosen: str,
    fallback: str,
    question: str | None,
    at: Sequence[places.Place],
    patterns: tuple[str, ...],
    single_batch: bool,
    whole_runs: bool,
    container: str | None,
) -> None:
    """Decide for a config: the question, its evidence and every condition that was held fixed are kept with the choice.

    SWEEP is a name (the newest of that name) or an id; a config is a name, a pattern that fits one, or the beginning of its
    fingerprint. `nightsweep decisions` says later whether a premise has changed. A choice that rests on one run is said so, and
    one that is shown to be worse is said first. Only windows that answer one question are held against each other, as
    `nightsweep compare` does it; the rest is left out, and said.

    \b
    Example:
      nightsweep decide dflash2-depth --choose 'dflash2 k=5' --fallback 'mtp k=3' --at c=1,T=0.7
    """
    reached = reach(ctx)
    with reached.queries() as queries, reached.decisions() as store:
        found = find_sweep(queries, sweep)
        plan = queries.written_plan(found.sweep_id)
        kind = one_kind(single_batch=single_batch, whole_runs=whole_runs)
        asked = Filters(sweep=found.sweep_id, with_flagged="yes", kind=kind)
        everything = queries.windows(asked)
        if not sides.measured(everything):
            raise_for_kind(queries, asked, of=f"sweep {found.name!r}")
        windows = _at(everything, at)
        known = _configs(plan, everything, windows, queries)
        choice = Choice(
            chosen=named(chosen, known, option="--choose"),
            fallback=named(fallback, known, option="--fallback"),
            question=question,
            among=frozenset(among(patterns, known, option="--among")),
        )
        material = _material(reached, queries, found, plan, _of(choice, windows), container=container)
        material = _with_traffic(material, store, plan, container=container)
        material = replace(material, rule=_rule(plan, everything, material) if kind == DECODE else None)
        decision = decide(choice, material, at=reached.now())
        decision = replace(decision, evidence=replace(decision.evidence, apart=_apart(decision, material, known)))
        again = [one.decision_id for one in store.all() if one.retired_why is None and asked_the_same(decision, one)]
        judged = judge(store.get(store.add(decision)), store, queries, reached)
    skipped = (*decision.evidence.unknown, *judged.now.skipped)
    state = state_of(judged.decision, judged.changes)  # a newer sweep may question it from the start
    render.write(decision_lines(judged.decision, state=state, changes=judged.changes, skipped=skipped))
    for other in again:
        render.write([render.Line(f"decision {other} asked the same: `nightsweep decisions retire {other} --why ...`")])


def _configs(
    plan: SweepPlan | None, everything: Sequence[WindowRow], windows: Sequence[WindowRow], queries: Queries
) -> dict[str, Called]:
    """Return the sweep's configs by fingerprint: measured ones, and those of its file."""
    planned = {} if plan is None else {config.fingerprint: config for config in plan.configs}
    names = {key: config.name for key, config in planned.items()} | {
        row.config_fingerprint: row.config for row in everything
    }
    documents = {key: config.document for key, config in planned.items()}
    documents |= queries.config_documents(names.keys() - planned.keys())
    counts = Counter(row.config_fingerprint for row in sides.measured(windows))
    return {key: Called(name, counts[key], documents.get(key, {})) for key, name in names.items()}


def _at(everything: Sequence[WindowRow], at: Sequence[places.Place]) -> list[WindowRow]:
    """Return the windows in these cells (raises BadParameter for a place that no window is of)."""
    for place in at:
        if not any(place.holds(row) for row in everything):
            there = sorted({(row.temperature, row.concurrency) for row in everything})
            cells = text.several([places.Place(streams, degree).said for degree, streams in there], limit=12)
            raise click.BadParameter(
                f"no window of this sweep is at {place.said}. There are: {cells}", param_hint="--at"
            )
    return [row for row in everything if places.wanted(row, at)]


def _of(choice: Choice, windows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return the windows of the configs that the question is among, and of choice and fallback."""
    if not choice.among:
        return list(windows)
    wanted = {choice.chosen, choice.fallback, *choice.among}
    return [row for row in windows if row.config_fingerprint in wanted]


def _material(
    reached: Reach,
    queries: Queries,
    sweep: SweepRow,
    plan: SweepPlan | None,
    windows: Sequence[WindowRow],
    *,
    container: str | None,
) -> Material:
    container = _container(plan, container)
    production, why = production_settings(reached, container)
    unknown = [f"{why}: what it runs is no premise"] if why else []
    return Material(
        sweep=sweep,
        windows=windows,
        boots=queries.boots(Filters(sweep=sweep.sweep_id)),
        documents=documents_of(queries, sides.measured(windows)),
        family=family_of(queries, windows),
        production=production,
        container=container if production else None,
        unknown=tuple(unknown),
    )


def _with_traffic(of: Material, store: Decisions, plan: SweepPlan | None, *, container: str | None) -> Material:
    """Return the material with production's traffic, or with why it is no premise."""
    recorded, why = production_traffic(store, of.sweep.sweep_id, _container(plan, container))
    said = [f"traffic: production's is not known, so it is no premise ({why})"] if why else []
    return replace(of, traffic=recorded, unknown=(*of.unknown, *said))


def _container(plan: SweepPlan | None, named: str | None) -> str | None:
    """Return the production container: the one that was named, else the sweep file's."""
    return plan.production.container if named is None and plan is not None and plan.production is not None else named


def _apart(decision: Decision, of: Material, known: Mapping[str, Called]) -> tuple[Apart, ...]:
    """Return in what choice and fallback differ besides what was decided; a fallback that was not measured, by its settings."""
    configs = {key: one.document for key, one in known.items()}
    return apart(decision, of.windows, replace(of.documents, configs={**configs, **of.documents.configs}))


def _rule(plan: SweepPlan | None, windows: Sequence[WindowRow], of: Material) -> Mapping[str, Any] | None:
    """Return how the sweep's own rule stands; None where it has none (`repeats: {mode: decide}`)."""
    found = None if plan is None else decision_in(plan, windows=windows, boots=of.boots, documents=of.documents)
    if plan is None or found is None:
        return None
    from nightsweep.analysis.decision_said import ruling

    return ruling(found, plan)

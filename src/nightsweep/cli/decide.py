"""`nightsweep decide`: keep what was chosen, with what it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import click

from nightsweep.analysis import sides
from nightsweep.analysis.decision_read import decision_in
from nightsweep.analysis.evidence import Choice, Material, decide
from nightsweep.analysis.premises import Decision, state_of
from nightsweep.analysis.values import Filters, SweepRow, WindowRow
from nightsweep.cli import places, render
from nightsweep.cli.decided import decision_lines
from nightsweep.cli.deciding import Decisions, Reach, judge, production_settings, production_traffic, reach
from nightsweep.cli.documents import documents_of, family_of, one_kind, raise_for_kind
from nightsweep.cli.reading import Queries, find_sweep
from nightsweep.plan.mistakes import nearest
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.words import DECODE


@click.command("decide")
@click.argument("sweep")
@click.option("--choose", "chosen", required=True, metavar="CONFIG", help="The config that is shipped.")
@click.option("--fallback", required=True, metavar="CONFIG", help="The config to go back to.")
@click.option("--question", metavar="TEXT", help="What was decided, in words; without it, the settings that differ.")
@places.at_option
@click.option(
    "--among", multiple=True, metavar="PATTERN", help="Configs that the question is among; without it, of one method."
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
    among: tuple[str, ...],
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
        windows = [row for row in everything if places.wanted(row, at)]
        names = _names(plan, everything)
        choice = Choice(
            chosen=named(chosen, names, option="--choose"),
            fallback=named(fallback, names, option="--fallback"),
            question=question,
        )
        material = _material(reached, queries, found, plan, _among(windows, among, choice), container=container)
        material = _with_traffic(material, store, plan, container=container)
        material = replace(material, rule=_rule(plan, everything, material) if kind == DECODE else None)
        decision = decide(choice, material, at=reached.now())
        again = _same_question(decision, store)
        judged = judge(store.get(store.add(decision)), store, queries, reached)
    skipped = (*decision.evidence.unknown, *judged.now.skipped)
    state = state_of(judged.decision, judged.changes)  # a newer sweep may question it from the start
    render.write(decision_lines(judged.decision, state=state, changes=judged.changes, skipped=skipped))
    for other in again:
        render.write([render.Line(f"decision {other} asked the same: `nightsweep decisions retire {other} --why ...`")])


def named(wanted: str, names: Mapping[str, str], *, option: str) -> str:
    """Return the fingerprint of the one config that is meant: by its name, a pattern, or its fingerprint's beginning."""
    for fits in (
        [key for key, name in names.items() if name == wanted],
        [key for key, name in names.items() if fnmatchcase(name, wanted)],
        [key for key in names if len(wanted) >= 4 and key.startswith(wanted.lower())],
    ):
        if len(fits) == 1:
            return fits[0]
        if fits:
            listed = ", ".join(repr(names[key]) for key in fits[:8])
            raise click.BadParameter(f"{wanted!r} fits {len(fits)} configs: {listed}", param_hint=option)
    hint = nearest(wanted, names.values()) or f"There are: {', '.join(repr(name) for name in list(names.values())[:8])}"
    raise click.BadParameter(f"{wanted!r} is no config of this sweep. {hint}", param_hint=option)


def _names(plan: SweepPlan | None, windows: Sequence[WindowRow]) -> dict[str, str]:
    """Return the sweep's configs by fingerprint: measured ones, and those of its file."""
    planned = {} if plan is None else {config.fingerprint: config.name for config in plan.configs}
    return planned | {row.config_fingerprint: row.config for row in windows}


def _among(windows: Sequence[WindowRow], patterns: Sequence[str], choice: Choice) -> list[WindowRow]:
    """Return the windows of the configs that the question is among, and of those that were named."""
    return [
        row
        for row in windows
        if not patterns
        or row.config_fingerprint in (choice.chosen, choice.fallback)
        or any(fnmatchcase(row.config, pattern) for pattern in patterns)
    ]


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


def _rule(plan: SweepPlan | None, windows: Sequence[WindowRow], of: Material) -> Mapping[str, Any] | None:
    """Return how the sweep's own rule stands; None where it has none (`repeats: {mode: decide}`)."""
    found = None if plan is None else decision_in(plan, windows=windows, boots=of.boots, documents=of.documents)
    if plan is None or found is None:
        return None
    from nightsweep.analysis.decision_said import ruling

    return ruling(found, plan)


def _same_question(decision: Decision, store: Decisions) -> list[int]:
    """Return the decisions in force that are about the same settings on the same box."""
    return [
        other.decision_id
        for other in store.all()
        if (other.box, other.simulated, other.factors) == (decision.box, decision.simulated, decision.factors)
        and other.retired_why is None
    ]

"""`nightsweep decisions`: which stand, which are questioned and by what, and the sweep file that asks again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep.analysis.premises import Accepted, state_of
from nightsweep.cli import render
from nightsweep.cli.decided import decision_document, decision_lines, decisions_table
from nightsweep.cli.deciding import Decisions, Judged, Reach, judge, reach
from nightsweep.cli.outputs import echo, output_option, write_output
from nightsweep.cli.reading import Queries
from nightsweep.errors import InvalidPlan, NotFound
from nightsweep.plan.model import SweepPlan

if TYPE_CHECKING:
    from nightsweep.analysis.shipping import Shipped

_ID = click.argument("decision_id", metavar="ID", type=click.IntRange(min=1, max=2**63 - 1))


def _said(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse a reason that says nothing: it is all that a later reader has."""
    if not value.strip():
        raise click.BadParameter("it is empty: say why in a few words", ctx=ctx, param=param)
    return value


@click.group("decisions", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document, with evidence and premises.")
@click.option("--all", "with_retired", is_flag=True, help="List retired ones, too.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool, with_retired: bool) -> None:
    """List decisions, and mark those questioned whose premises have changed: by what, from which value to which.

    Compared with today are: the box's facts, engine version, image and weights of newer boots and imports, the drafting rule
    of newer sweeps, the prompt set, what production runs, and its traffic. What cannot be looked at is said.

    \b
    Example:
      nightsweep decisions
      nightsweep decisions show 3 --reask -o again.yaml
      nightsweep decisions export 3 --as compose
    """
    if ctx.invoked_subcommand is not None:
        if as_json or with_retired:
            said = f"{'--json' if as_json else '--all'} before {ctx.invoked_subcommand} is of the list, and would do nothing"
            raise click.UsageError(f"{said}: an option of {ctx.invoked_subcommand} stands after it", ctx=ctx)
        return
    reached = reach(ctx)
    with reached.queries() as queries, reached.decisions() as store:
        kept = [one for one in store.all() if with_retired or as_json or one.retired_why is None]
        judged = [judge(one, store, queries, reached) for one in kept]
    if as_json:
        render.print_json({"decisions": [decision_document(one) for one in judged]})
    elif judged:
        render.show(decisions_table(judged))
    else:
        hint = "`nightsweep decide SWEEP --choose CONFIG --fallback CONFIG` keeps one"
        render.write([render.Line(f"no decision is in force: {hint}")])


@contextmanager
def _opened(reached: Reach, decision_id: int) -> Iterator[tuple[Judged, Decisions, Queries]]:
    with reached.queries() as queries, reached.decisions() as store:
        yield judge(store.get(decision_id), store, queries, reached), store, queries


@command.command("show")
@_ID
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--reask", is_flag=True, help="Write the sweep file that asks again, with the fewest cells.")
@output_option
@click.pass_context
def show(ctx: click.Context, *, decision_id: int, as_json: bool, reask: bool, output: Path | None) -> None:
    """Show a decision whole: evidence with its windows, premises, what changed; or the sweep file that asks it again.

    \b
    Example:
      nightsweep decisions show 3
      nightsweep decisions show 3 --reask -o again.yaml && nightsweep plan again.yaml
    """
    if reask and as_json:
        raise click.UsageError(
            "--reask writes a sweep file, which is YAML: leave --json out, or ask once more", ctx=ctx
        )
    with _opened(reach(ctx), decision_id) as (judged, _, queries):
        content = _reasked(judged, queries) if reask else None
    if content is None and as_json:
        content = render.json_text(decision_document(judged)) + "\n"
    if content is not None:
        write_output(output, content)
        return
    state = state_of(judged.decision, judged.changes)
    skipped = (*judged.decision.evidence.unknown, *judged.now.skipped)
    lines = list(decision_lines(judged.decision, state=state, changes=judged.changes, skipped=skipped))
    if output is None:
        render.write(lines)
    else:
        write_output(output, "".join(f"{render.plain_text(line)}\n" for line in lines))


def _reasked(judged: Judged, queries: Queries) -> str:
    from nightsweep.analysis.reask import reask

    decision = judged.decision
    text = queries.plan_of(decision.sweep_id)[0]
    return reask(decision, judged.changes, judged.now, plan=_plan(judged, queries), file_text=text)


def _plan(judged: Judged, queries: Queries) -> SweepPlan:
    plan = queries.written_plan(judged.decision.sweep_id)
    if plan is None:
        what = f"a file of sweep {judged.decision.sweep_name} that can be read"
        raise NotFound(what=what, hint=f"{_why_unread(judged, queries)}; write one by hand")
    return plan


def _why_unread(judged: Judged, queries: Queries) -> str:
    """Return the first mistake that a sweep's file has by now; of an import, whose files may use another engine's words, too."""
    from nightsweep.plan.sweepfile import load

    try:
        load(queries.plan_of(judged.decision.sweep_id)[0], source="its file")
    except InvalidPlan as error:
        return str(error.facts["problems"][0]).rstrip(".")
    return "this version reads it no more"


@command.command("accept")
@_ID
@click.option("--reason", required=True, callback=_said, metavar="TEXT", help="Why the decision stands all the same.")
@click.option("--premise", "premises", multiple=True, metavar="NAME", help="Only this change; without it, all of them.")
@click.pass_context
def accept(ctx: click.Context, *, decision_id: int, reason: str, premises: tuple[str, ...]) -> None:
    """Say that changes were looked at and the decision stands; another value later questions it again.

    \b
    Example:
      nightsweep decisions accept 3 --premise box.driver --reason "two cells measured again on the new driver: the same"
    """
    reached = reach(ctx)
    with _opened(reached, decision_id) as (judged, store, _):
        if judged.decision.retired_why is not None:
            why = f"decision {decision_id} is retired ({judged.decision.retired_why}), and nothing of it is in force"
            raise click.UsageError(f"{why}: `nightsweep decide` keeps the choice as a new one", ctx=ctx)
        open_ones = {change.name: change for change in judged.changes if change.accepted is None}
        unknown = [name for name in premises if name not in open_ones]
        if not open_ones:
            raise click.UsageError(f"decision {decision_id} is not questioned: there is no change to accept", ctx=ctx)
        if unknown:
            said = f"{', '.join(unknown)} does not question it; what does is {', '.join(open_ones)}"
            raise click.BadParameter(said, ctx=ctx, param_hint="--premise")
        at = reached.now()
        looked_at = {name: Accepted(open_ones[name].new, reason, at) for name in premises or tuple(open_ones)}
        store.accept(decision_id, looked_at)
    echo(f"decision {decision_id}: accepted {', '.join(looked_at)}")


@command.command("retire")
@_ID
@click.option("--why", required=True, callback=_said, metavar="TEXT", help="Why it is in force no more.")
@click.pass_context
def retire(ctx: click.Context, *, decision_id: int, why: str) -> None:
    """Take a decision out of force; it stays on record, with its evidence.

    \b
    Example:
      nightsweep decisions retire 3 --why "decision 5 asked again under the new drafting rule"
    """
    reached = reach(ctx)
    with reached.decisions() as store:
        changed = store.retire(decision_id, why=why, at=reached.now())
    echo(f"decision {decision_id} is retired" if changed else f"decision {decision_id} was retired already")


@command.command("export")
@_ID
@click.option(
    "--as",
    "form",
    type=click.Choice(["args", "compose", "yaml"]),
    default="args",
    show_default=True,
    help="Arguments for a shell, keys of a Compose service, or an entry of a sweep file.",
)
@output_option
@click.pass_context
def export(ctx: click.Context, *, decision_id: int, form: str, output: Path | None) -> None:
    """Write the chosen config's engine arguments and environment, with the fallback beside them as a comment.

    Of a secret only the name of the variable that has it is written.

    \b
    Example:
      nightsweep decisions export 3 --as compose
    """
    from nightsweep.analysis.shipping import exported

    with _opened(reach(ctx), decision_id) as (judged, _, queries):
        plan, file_text = _plan(judged, queries), queries.plan_of(judged.decision.sweep_id)[0]
    decision = judged.decision
    state = state_of(decision, judged.changes)
    chosen, fallback = (_shipped(plan, name, file_text=file_text) for name in (decision.chosen, decision.fallback))
    write_output(output, exported(decision, chosen, fallback, form=form, state=state))


def _shipped(plan: SweepPlan, fingerprint: str, *, file_text: str) -> Shipped:
    from nightsweep import wiring
    from nightsweep.analysis.reask import entry_of
    from nightsweep.analysis.shipping import Shipped

    try:
        config = plan.config(fingerprint)
    except KeyError:
        hint = "its file was changed since; `nightsweep boots` has the command that it was started with"
        raise NotFound(what=f"config {fingerprint[:12]} in the file of sweep {plan.name}", hint=hint) from None
    inside = "0.0.0.0" if config.engine.host == "docker" else "127.0.0.1"
    port = config.engine.port or 8000
    command = wiring.engine(config.engine.kind).command(config, listen_host=inside, port=port)
    entry = entry_of(config, file_text=file_text)
    return Shipped(config.name, config.engine.image, command, config.engine.env, entry)

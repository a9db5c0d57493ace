"""`nightsweep status`: where sweeps are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from nightsweep.analysis import documents, listings, text
from nightsweep.analysis.decision_read import decision_in
from nightsweep.analysis.progress import ConfigProgress, progress_of, time_left
from nightsweep.analysis.spool import SpoolFacts, spool_said
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import Event, Filters, SweepRow
from nightsweep.cli import render
from nightsweep.cli.reading import Access, Queries, access, find_sweep
from nightsweep.cli.render import Line
from nightsweep.errors import holder_said

if TYPE_CHECKING:
    from nightsweep.analysis.rounds import Decision
    from nightsweep.plan.model import SweepPlan
    from nightsweep.plan.queue import Scheduled

REFRESH = 2.0
"""Seconds between two looks of `--watch`."""

WISHES = {
    "finish": "to stop after what it measures now (`nightsweep cancel`)",
    "drop": "to stop at once (`nightsweep cancel --drop`)",
    "pause": "to pause after what it measures now (`nightsweep pause`)",
}
MOVING = ("planned", "running")
DIED = "died"
"""What a sweep is called here whose process was killed; the database does not know that yet."""


@click.command("status")
@click.argument("sweep", required=False)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1), help="Sweeps, or events, at most.")
@click.option("--watch", is_flag=True, help="Look again every two seconds until nothing moves any more.")
@render.output_options
@click.pass_context
def command(ctx: click.Context, *, sweep: str | None, limit: int, watch: bool, form: str) -> None:
    """Show where sweeps are; with SWEEP (a name or an id), how far it is, what is left and what happened last.

    \b
    Example:
      nightsweep status
      nightsweep status dflash2-depth --watch
    """
    reach = access(ctx)
    if watch and form != "table":
        raise click.UsageError("--watch is for people: leave out --json and --csv")
    with reach.queries() as queries:
        if form != "table":
            _for_programs(queries, sweep, limit=limit, form=form, reach=reach)
            return
        if watch:
            _watch(lambda: _look(queries, sweep, limit=limit, reach=reach), reach=reach)
        else:
            render.write(_look(queries, sweep, limit=limit, reach=reach)[0])
        if sweep is None:
            render.write(_schedule_lines(reach.schedules(), now=reach.now()))
        render.write(_spool_lines(reach.spool()))


def _schedule_lines(rows: Sequence[Scheduled], *, now: datetime) -> list[Line]:
    if not rows:
        return []
    from nightsweep.analysis.schedules import schedules_table  # of one sweep nothing of them is said

    return [Line(""), *_lines(schedules_table(rows, title="Schedules, in the order that they get the box", now=now))]


def _spool_lines(facts: SpoolFacts) -> list[Line]:
    said = spool_said(facts)
    return [Line(f"spool: {said}", style="single")] if said else []


def _as_it_is(row: SweepRow, reach: Access) -> SweepRow:
    """Return the sweep as it is: the database calls one running whose process was killed, until the next one finds out."""
    if row.state == "running" and reach.dead(row.owner):
        return row._replace(state=DIED, phase=None)
    return row


def _look(queries: Queries, sweep: str | None, *, limit: int, reach: Access) -> tuple[list[Line], bool]:
    """Return what to show, and whether it may still change."""
    if sweep is None:
        rows = [_as_it_is(row, reach) for row in queries.sweeps(limit=limit)]
        return _list_lines(rows), any(row.state in MOVING for row in rows)
    found = _as_it_is(find_sweep(queries, sweep), reach)
    return list(_detail_lines(queries, found, limit=limit, now=reach.now())), found.state in MOVING


def _list_lines(rows: Sequence[SweepRow]) -> list[Line]:
    if not rows:
        return [Line("no sweep is stored yet: `nightsweep demo` shows one, `nightsweep run FILE` makes one")]
    return _lines(listings.sweeps_table(rows, title="Sweeps, newest first"))


def _lines(table: Table) -> list[Line]:
    target = render.terminal()
    return render.table_lines(table, width=None if target is None else target.width, grouped=target is not None)


def _detail_lines(queries: Queries, sweep: SweepRow, *, limit: int, now: datetime) -> Iterator[Line]:
    yield _headline(sweep)
    plan = queries.sweep_plan(sweep.sweep_id)
    of_sweep = Filters(sweep=sweep.sweep_id, with_flagged="yes")
    boots = queries.boots(of_sweep)
    progress: tuple[ConfigProgress, ...] = ()
    seconds, decision = None, None
    if plan is not None:
        windows = queries.windows(of_sweep)
        progress = progress_of(plan, windows=windows, prefills=queries.prefills(of_sweep), boots=boots)
        seconds = time_left(plan, progress, boots=boots)
        decision = decision_in(plan, windows=windows, boots=boots)
    facts = [*_facts(sweep, progress, seconds=seconds, now=now), *_production(queries, sweep)]
    facts += [] if decision is None or plan is None else _decided(decision, plan)
    for label, value in facts:
        yield Line(f"  {label:<9}{value}", spans=((2, 2 + len(label), "heading"),))
    if decision is not None:
        yield from _standings(decision, simulated=sweep.simulated)
    if progress:
        yield Line("")
        yield from _lines(_progress_table(progress, simulated=sweep.simulated))
    events = sorted(queries.events(sweep.sweep_id, limit=limit), key=lambda event: event.at)
    if events:
        yield Line("")
        yield Line("Newest events, UTC", style="title")
        width = max(len(event.kind) for event in events)
        yield from (_event_line(event, width=width) for event in events)


def _decided(decision: Decision, plan: SweepPlan) -> list[tuple[str, str]]:
    """Return how the decision stands, in what, and why the windows that are left are next."""
    from nightsweep.analysis.decision_said import decision_said, weighed_said

    following = [] if decision.over else [("next", f"round {decision.number}: {text.printable(decision.why)}")]
    ranked = ("ranks by", text.printable(weighed_said(decision, plan)))
    return [("decision", text.printable(decision_said(decision))), ranked, *following]


def _standings(decision: Decision, *, simulated: bool) -> Iterator[Line]:
    from nightsweep.analysis.decision_said import decision_table

    table = decision_table(decision, simulated=simulated)
    if table is not None:
        yield Line("")
        yield from _lines(table)


def _headline(sweep: SweepRow) -> Line:
    line = f"{text.printable(sweep.name)}  (sweep {sweep.sweep_id} on {text.printable(sweep.box)})"
    if not sweep.simulated:
        return Line(line, style="title")
    loud = f"[{text.SIMULATED}]"
    return Line(f"{line} {loud}", style="title", spans=((len(line) + 1, len(line) + 1 + len(loud), "loud"),))


def _facts(
    sweep: SweepRow, progress: Sequence[ConfigProgress], *, seconds: float | None, now: datetime
) -> Iterator[tuple[str, str]]:
    started = sweep.started
    lasted = None if started is None else ((sweep.ended or now) - started).total_seconds()
    since = "" if started is None else f" since {text.moment(started)} UTC ({text.duration(lasted)})"
    if sweep.ended is not None and started is not None:
        since = f"; ran {text.moment(started)} to {text.moment(sweep.ended)} UTC ({text.duration(lasted)})"
    gone = f"; its process is gone: `nightsweep resume {sweep.sweep_id}` goes on" if sweep.state == DIED else ""
    yield "state", sweep.state + since + gone
    if sweep.state == "running" and sweep.phase:
        yield "now", text.printable(sweep.phase)
    if sweep.stop_wish is not None:
        yield "asked", WISHES.get(sweep.stop_wish, sweep.stop_wish)
    done, planned = sweep.repeats_clean, sweep.repeats_planned
    share = f" ({text.percent(done / planned)})" if planned else ""
    flagged = f", {text.plural(sweep.windows_flagged, 'flagged window')}" if sweep.windows_flagged else ""
    yield "repeats", f"{text.bar(done, planned, width=24)} {done:,} of {planned:,} clean{share}{flagged}"
    if sweep.reused:
        listed = ", ".join(f"{count} of sweep {origin}" for origin, count in sorted(sweep.reused.items()))
        yield "reused", f"{listed}: measured there under equal conditions"
    yield "boots", f"{text.plural(sweep.configs, 'config')}; {text.plural(sweep.boots_failed, 'boot')} failed"
    yield from _left(progress, seconds=seconds)
    if sweep.note:
        yield "note", text.printable(sweep.note)
    if sweep.owner and sweep.state == "running":
        yield "owner", text.printable(holder_said(sweep.owner))
    if sweep.prefect_run:
        yield "prefect", f"flow run {sweep.prefect_run}"


def _production(queries: Queries, sweep: SweepRow) -> Iterator[tuple[str, str]]:
    """Yield what is down for the sweep now, and what brings it back; and what a later sweep has taken over from it."""
    for one in queries.productions(sweep.sweep_id):
        taken = one.taken_over_said(lambda moment: f"{text.moment(moment)} UTC")
        if taken is not None:
            yield "taken", text.printable(taken)
        if one.closed is not None or taken is not None:
            continue
        by = "" if one.restore_by is None else f", to serve by {text.moment(one.restore_by)} UTC"
        told = by if sweep.state == "running" else ": `nightsweep restore` brings it back"
        yield "down", f"{text.printable(one.container)} since {text.moment(one.opened)} UTC{told}"


def _left(progress: Sequence[ConfigProgress], *, seconds: float | None) -> Iterator[tuple[str, str]]:
    if not progress:
        return
    repeats, boots = sum(config.left for config in progress), sum(config.boots_left for config in progress)
    if not repeats and not boots:
        given_up = sum(config.given_up for config in progress)
        yield "left", f"nothing; {given_up} repeats stayed flagged" if given_up else "nothing"
        return
    estimate = "" if seconds is None else f"; about {text.duration(seconds)} (from this sweep's own cold starts)"
    yield "left", f"{text.plural(repeats, 'repeat')} in {text.plural(boots, 'boot')}{estimate}"


def _progress_table(progress: Sequence[ConfigProgress], *, simulated: bool) -> Table:
    columns = (
        Column("config", right=False),
        Column("repeats", right=False),
        Column("prefill"),
        Column("failed boots"),
        Column("left", right=False),
    )
    return Table("Configs", columns, (Group("", tuple(map(_progress_row, progress))),), simulated=simulated)


def _progress_row(config: ConfigProgress) -> Row:
    unmeasured = config.planned - config.clean - config.given_up - config.left
    left = [f"{config.left} to measure"] if config.left else []
    left += [f"{config.given_up} stayed flagged"] if config.given_up else []
    left += [f"{unmeasured} cannot be measured: the engine does not come up"] if unmeasured > 0 else []
    done = config.clean >= config.planned
    return Row(
        (
            text.printable(config.config),
            f"{text.bar(config.clean, config.planned)} {config.clean}/{config.planned}",
            f"{config.prefills_clean}/{config.prefills_planned}" if config.prefills_planned else text.ABSENT,
            str(config.boots_failed),
            ", ".join(left) or ("done" if done else ""),
        ),
        mark="done" if done else "failed" if unmeasured > 0 else "flagged" if config.given_up else "",
    )


def _event_line(event: Event, *, width: int) -> Line:
    style = {"error": "failed", "warning": "single", "critical": "failed"}.get(event.level, "")
    return Line(
        f"  {event.at:%m-%d %H:%M:%S}  {event.level:<8}{event.kind:<{width}} {text.printable(event.message)}",
        style=style,
    )


def _watch(look: Callable[[], tuple[list[Line], bool]], *, reach: Access) -> None:
    """Show again and again; on a terminal in place, elsewhere only what changed. Ctrl-C ends it without fault."""
    console = render.terminal()
    try:
        if console is None:
            _watch_plain(look, reach=reach)
        else:
            _watch_terminal(look, console=console, reach=reach)
    except KeyboardInterrupt:
        return


def _watch_terminal(look: Callable[[], tuple[list[Line], bool]], *, console: Any, reach: Access) -> None:
    from rich.console import Group as Lines
    from rich.live import Live

    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:
        moving = True
        while moving:
            lines, moving = look()
            live.update(Lines(*(render.styled(line) for line in lines)), refresh=True)
            if moving:
                reach.sleep(REFRESH)


def _watch_plain(look: Callable[[], tuple[list[Line], bool]], *, reach: Access) -> None:
    shown: list[Line] | None = None
    moving = True
    while moving:
        lines, moving = look()
        fresh = lines if shown is None else [line for line in lines if line not in shown]
        render.write(fresh)
        shown = lines
        if moving:
            reach.sleep(REFRESH)


def _for_programs(queries: Queries, sweep: str | None, *, limit: int, form: str, reach: Access) -> None:
    found = queries.sweeps(limit=limit) if sweep is None else [find_sweep(queries, sweep)]
    rows = [_as_it_is(row, reach) for row in found]
    if form == "csv":
        render.print_csv(map(documents.sweep_document, rows), fields=documents.SWEEP_FIELDS)
    elif sweep is None:
        from nightsweep.analysis.schedules import in_turn, schedule_document

        scheduled = [schedule_document(row, now=reach.now()) for row in in_turn(reach.schedules(), now=reach.now())]
        render.print_json({"sweeps": [documents.sweep_document(row) for row in rows], "schedules": scheduled})
    else:
        render.print_json(_sweep_document(queries, rows[0], limit=limit))


def _sweep_document(queries: Queries, sweep: SweepRow, *, limit: int) -> documents.Document:
    plan = queries.sweep_plan(sweep.sweep_id)
    of_sweep = Filters(sweep=sweep.sweep_id, with_flagged="yes")
    boots = queries.boots(of_sweep)
    document: documents.Document = {"sweep": documents.sweep_document(sweep), "configs": None, "left_seconds": None}
    if plan is not None:
        windows = queries.windows(of_sweep)
        progress = progress_of(plan, windows=windows, prefills=queries.prefills(of_sweep), boots=boots)
        decision = decision_in(plan, windows=windows, boots=boots)
        if decision is not None:
            from nightsweep.analysis.decision_said import weighed_document

            document["decision"] = weighed_document(decision, plan)
        document["configs"] = [documents.progress_document(config) for config in progress]
        document["left_seconds"] = time_left(plan, progress, boots=boots)
    document["events"] = [documents.event_document(event) for event in queries.events(sweep.sweep_id, limit=limit)]
    return document

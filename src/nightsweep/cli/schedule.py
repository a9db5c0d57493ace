"""`nightsweep schedule`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep import wiring
from nightsweep.cli.outputs import echo
from nightsweep.cli.schedule_options import Given, merged, one_of, refuse_together
from nightsweep.errors import NotFound, PlanError, SweepPaused
from nightsweep.plan.quantities import MOST_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nightsweep.analysis.schedules import Left
    from nightsweep.analysis.values import SweepRow
    from nightsweep.plan.model import SweepPlan
    from nightsweep.plan.queue import Scheduled
    from nightsweep.settings import Settings
    from nightsweep.store.queries import Queries
    from nightsweep.store.schedules import Schedules

SWEEPS_SEARCHED = 200
"""Newest sweeps among which a schedule's own is looked for."""


class NoStart(PlanError):
    """A sweep file that says no start, scheduled without one."""

    summary = (
        'nothing says when {name} starts: add `schedule: {{cron: "30 22 * * *", until: "07:00"}}` to {source}, '
        'give --cron "30 22 * * *", or give --now to start it once, at once'
    )


class StillPaused(PlanError):
    """A start by hand of a schedule that is paused."""

    summary = "schedule {name!r} is paused, and --now would start nothing: `nightsweep schedule --resume {name}` first"


@click.command(name="schedule")
@click.argument("target", metavar="[FILE|NAME]", required=False)
@click.option("--cron", metavar="CRON", help='When it starts: five fields, such as "30 22 * * *".')
@click.option(
    "--timezone", metavar="ZONE", help="Whose clock cron and --until mean, such as Europe/Amsterdam; else UTC."
)
@click.option("--until", metavar="HH:MM|never", help="When production must serve again, every night.")
@click.option(
    "--priority",
    type=click.IntRange(-MOST_PRIORITY, MOST_PRIORITY),
    help="Of several that are due the highest runs first; 0 by default.",
)
@click.option("--name", metavar="NAME", help="What the schedule is called; else the sweep's own name.")
@click.option("--now", "now", is_flag=True, help="Start it once, as soon as the box is free; with the options above.")
@click.option("--pause", "pause", is_flag=True, help="Start it no more; what runs goes on.")
@click.option("--resume", "resume", is_flag=True, help="Start it again; at once while its night lasts.")
@click.option("--remove", "remove", is_flag=True, help="Take the schedule away; what it measured stays.")
@click.option("--list", "listing", is_flag=True, help="Show all schedules of this box: the same as naming none.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(
    target: str | None,
    cron: str | None,
    timezone: str | None,
    until: str | None,
    priority: int | None,
    name: str | None,
    now: bool,
    pause: bool,
    resume: bool,
    remove: bool,
    listing: bool,
    as_json: bool,
) -> None:
    """Have the service start a sweep FILE by itself, night after night until nothing is left; or change the schedule NAME.

    What is not given is taken from the file's section `schedule`, else it stays as it is. Nothing starts without
    `nightsweep serve` running on the box.

    \b
    Example:
      nightsweep schedule sweep.yaml --cron "30 22 * * *" --timezone Europe/Amsterdam --until 07:00
      nightsweep schedule --now sweep.yaml
      nightsweep schedule --pause dflash2-depth
      nightsweep schedule --list
    """
    given = Given(cron=cron, timezone=timezone, until=until, priority=priority, name=name)
    action = one_of({"now": now, "pause": pause, "resume": resume, "remove": remove, "list": listing})
    refuse_together(target, action, given, as_json=as_json)
    chosen = wiring.settings()
    with wiring.open_schedules(chosen) as schedules:
        if target is None or action == "list":
            _list(chosen, schedules, as_json=as_json)
        elif action is None and not _is_file(target):
            _change(chosen, schedules, target, given)
        elif action is None or (action == "now" and _is_file(target)):
            _put(chosen, schedules, target, given, now=action == "now")
        else:
            _act(chosen, schedules, target, action, given)


def _is_file(target: str) -> bool:
    return target == "-" or Path(target).is_file()


def _change(chosen: Settings, schedules: Schedules, name: str, given: Given) -> None:
    """Change what is stored under a name: cron, zone, end or priority; the sweep file stays as it is.

    Raises:
        NotFound: It is neither a schedule's name nor a file.
    """
    rows = schedules.all(chosen.box)
    row = next((each for each in rows if each.name == name), None)
    if row is None:
        there = f", and no schedule of that name (there are {', '.join(each.name for each in rows)})" if rows else ""
        raise NotFound(
            what=f"file {name!r}", hint=f"there is no such file{there}; `nightsweep schedule FILE` makes one"
        )
    if not given.names():
        _tell(chosen, row, given, done="unchanged")
        return
    _tell(chosen, _changed(chosen, schedules, row, given, once_at=None), given, done="changed")


def _changed(
    chosen: Settings, schedules: Schedules, row: Scheduled, given: Given, *, once_at: datetime | None
) -> Scheduled:
    """Store what was given for a schedule that is there; return it as it is then."""
    if given.name is not None:
        raise click.UsageError("--name is for a FILE: a schedule keeps its name")
    schedules.put(
        merged(given, None, row.when),
        box=chosen.box,
        name=row.name,
        file_text=row.file_text,
        source=row.source,
        base=row.base,
        at=datetime.now(UTC),
        once_at=once_at,
    )
    return _find(schedules.all(chosen.box), row.name, box=chosen.box)


def _act(chosen: Settings, schedules: Schedules, target: str, action: str, given: Given) -> None:
    row = _find(schedules.all(chosen.box), target, box=chosen.box)
    if action == "remove":
        schedules.remove(row.id)
        goes_on = "; its run goes on (`nightsweep cancel` ends it)" if row.under_way and not row.lost else ""
        echo(f"schedule {row.name} is removed{goes_on}; what it measured stays")
    elif action == "now":
        _start_once(chosen, schedules, row, given)
    else:
        schedules.set_paused(row.id, paused=action == "pause")
        _tell(chosen, _find(schedules.all(chosen.box), row.name, box=chosen.box), given, done=f"{action}d")


def _start_once(chosen: Settings, schedules: Schedules, row: Scheduled, given: Given) -> None:
    if row.paused:
        raise StillPaused(name=row.name)
    _refuse_paused_sweep(chosen, _plan_of(row))
    if row.under_way:
        if given.names():
            _tell(chosen, _changed(chosen, schedules, row, given, once_at=None), given, done="changed")
        over = "has a run that is over: `nightsweep serve` sees to it, and starts it again while its night lasts"
        runs = "runs already: `nightsweep status` shows how far it is"
        echo(f"schedule {row.name} {over if row.lost else runs}")
        return
    started = _changed(chosen, schedules, row, given, once_at=datetime.now(UTC))
    _tell(chosen, started, given, done="to be started once")


def _plan_of(row: Scheduled) -> SweepPlan:
    """Return the plan of a schedule's stored file (raises PlanError for one that cannot be read any more)."""
    return wiring.load_plan(row.file_text, source=row.source, base=Path(row.base) if row.base else None)[0]


def _refuse_paused_sweep(chosen: Settings, plan: SweepPlan) -> None:
    """Refuse to start a sweep that a person has paused: the service would skip it, and say so to nobody (raises SweepPaused)."""
    with wiring.open_queries(chosen) as queries:
        for each in _sweeps_of(queries, plan):
            if each.state == "paused":
                raise SweepPaused(sweep=each.sweep_id, name=each.name)


def _find(rows: Sequence[Scheduled], target: str, *, box: str) -> Scheduled:
    """Return the schedule of a name, or of the sweep file at a path.

    Raises:
        NotFound: There is none; the hint lists those there are.
    """
    from nightsweep.analysis.schedules import listed

    name = target
    if all(row.name != target for row in rows) and _is_file(target):
        path = Path(target).absolute()
        name = wiring.load_plan(wiring.read_text(path), source=target, base=path.parent)[0].name
    found = next((row for row in rows if row.name == name), None)
    if found is None:
        there = f"there are {listed(row.name for row in rows)}" if rows else "there is none yet"
        if target.endswith((".yaml", ".yml")):
            there = f"there is no file {target} either; {there}"
        raise NotFound(what=f"schedule {name!r} of box {box}", hint=f"{there}; `nightsweep schedule FILE` makes one")
    return found


def _put(chosen: Settings, schedules: Schedules, file: str, given: Given, *, now: bool) -> None:
    text = wiring.read_text(file)
    base = Path.cwd() if file == "-" else Path(file).absolute().parent
    plan, _ = wiring.load_plan(text, source=file, base=base)  # a mistake is told now, not at night
    name = given.name or plan.name
    known = next((row for row in schedules.all(chosen.box) if row.name == name), None)
    when = merged(given, plan.schedule, None if known is None else known.when)
    if when.cron is None and not now:
        raise NoStart(name=name, source=file)
    if now and known is not None and known.paused:
        raise StillPaused(name=name)
    if now:
        _refuse_paused_sweep(chosen, plan)
    at = datetime.now(UTC)
    once = at if now and not (known is not None and known.under_way) else None
    source = "standard input" if file == "-" else str(Path(file).absolute())
    row = schedules.put(
        when, box=chosen.box, name=name, file_text=text, source=source, base=str(base), at=at, once_at=once
    )
    _tell(chosen, row, given, done="changed" if known is not None else "made")


def _tell(chosen: Settings, row: Scheduled, given: Given, *, done: str) -> None:
    """Say what a schedule is now, when it starts next, and whether anything is there to start it."""
    from nightsweep.analysis.schedules import next_said
    from nightsweep.cli.schedule_said import doubts, night_at_hand, schedule_said

    now = datetime.now(UTC)
    echo(f"schedule {row.name} is {done}: {schedule_said(row.when)}")
    echo(f"next start: {next_said(row, now=now)}")
    if done == "changed":
        for line in night_at_hand(row, now=now):
            echo(line)
    for line in doubts(row, now=now, zone_given=given.timezone is not None):
        click.echo(line, err=True)
    if not _served(chosen):
        click.echo(
            f"nothing serves box {chosen.box} now, and nothing starts before it does: run `nightsweep serve` "
            "(deploy/nightsweep.service keeps it up under systemd, docker-compose.yml in containers)",
            err=True,
        )


def _served(chosen: Settings) -> bool:
    from nightsweep.service.only import is_served
    from nightsweep.service.prefect_api import PrefectApi
    from nightsweep.service.prefect_server import PrefectUnavailable

    if chosen.prefect_api_url is None:
        return is_served(chosen.home)
    try:
        return PrefectApi(chosen.prefect_api_url).deployment_id(chosen.box) is not None
    except PrefectUnavailable:
        return False


def _list(chosen: Settings, schedules: Schedules, *, as_json: bool) -> None:
    from nightsweep.analysis.schedules import in_turn, schedule_document, schedules_table
    from nightsweep.cli import render

    now = datetime.now(UTC)
    rows = in_turn(schedules.all(chosen.box), now=now)
    left = _left_of(chosen, rows)
    if as_json:
        listed = [
            {
                **schedule_document(row, now=now),
                "left_repeats": None if one is None else one.left,
                "planned_repeats": None if one is None else one.planned,
            }
            for row, one in zip(rows, left, strict=True)
        ]
        render.print_json({"schedules": listed})
    elif rows:
        render.show(schedules_table(rows, title=f"Schedules of box {chosen.box}", now=now, left=left))
    else:
        echo(f"no schedule on box {chosen.box}: `nightsweep schedule FILE` makes one")


def _left_of(chosen: Settings, rows: Sequence[Scheduled]) -> list[Left | None]:
    if not rows:
        return []
    with wiring.open_queries(chosen) as queries:
        return [_left(queries, row) for row in rows]


def _left(queries: Queries, row: Scheduled) -> Left | None:
    """Return what is left of a schedule's sweep; None for a file that cannot be read any more."""
    from nightsweep.analysis.progress import progress_of
    from nightsweep.analysis.schedules import Left
    from nightsweep.analysis.values import Filters

    try:
        plan = _plan_of(row)
    except PlanError:
        return None
    sweep_id = next((each.sweep_id for each in _sweeps_of(queries, plan)), None)
    if sweep_id is None:
        progress = progress_of(plan, windows=(), prefills=(), boots=())
    else:
        of_sweep = Filters(sweep=sweep_id, with_flagged="yes")
        progress = progress_of(
            plan,
            windows=queries.windows(of_sweep),
            prefills=queries.prefills(of_sweep),
            boots=queries.boots(of_sweep),
        )
    left = sum(config.left for config in progress)
    return Left(left=left, planned=sum(config.planned for config in progress))


def _sweeps_of(queries: Queries, plan: SweepPlan) -> Iterator[SweepRow]:
    """Yield the sweeps of a plan, newest first."""
    for each in queries.sweeps(limit=SWEEPS_SEARCHED):
        if each.name == plan.name:
            stored = queries.sweep_plan(each.sweep_id)
            if stored is not None and stored.fingerprint == plan.fingerprint:
                yield each

"""What `run`, `resume` and `demo` share: the loop called in this process, progress shown, the table at the end."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep import wiring
from nightsweep.cli import EXIT_FAILED, EXIT_WORK_LEFT
from nightsweep.cli.outputs import echo
from nightsweep.errors import BoxBusy, StoreError, SweepError

if TYPE_CHECKING:
    from nightsweep.ports import Progress
    from nightsweep.settings import Settings
    from nightsweep.sweep.tools import Limits, Outcome, PlainSteps


def run_and_finish(
    chosen: Settings,
    file_text: str,
    *,
    source: str,
    base: Path | None,
    until: str | None = None,
    reuse: bool = False,
    as_json: bool = False,
) -> int:
    """Run the sweep in this process, print its tables, return the exit code.

    SIGTERM and Ctrl-C end the engine and bring production back; then this says so, and what is left is the next run's.
    """
    from nightsweep.sweep.signals import Terminated, interrupt_behind, raise_on_sigterm

    raise_on_sigterm(_say_heard)
    view = ProgressView()
    try:
        outcome, simulated = run_here(chosen, file_text, source=source, base=base, until=until, reuse=reuse, view=view)
        return finish(chosen, outcome, simulated=simulated, as_json=as_json)
    except SweepError:
        raise
    except (Exception, KeyboardInterrupt, Terminated) as error:
        interrupt = interrupt_behind(error)
        if interrupt is None:
            raise
        return stopped(chosen, view, interrupt, as_json=as_json)


def _say_heard(name: str) -> None:
    """Say at once that an interrupt was heard: who sees nothing happen presses on, or kills what brings production back."""
    word = "Ctrl-C" if name == "SIGINT" else name
    said = f"\n{word}: the engine is stopped and production started again; please wait, another one changes nothing\n"
    os.write(2, said.encode())


def _production_said(chosen: Settings, sweep_id: int) -> str:
    """Return how production fares after a sweep, for the last line; "" where none was taken down."""
    from nightsweep.analysis.values import newest_of_each

    said = ""
    with contextlib.suppress(StoreError), wiring.open_queries(chosen) as queries:
        for row in newest_of_each(queries.productions(sweep_id)):
            said += f"; production {row.container} {row.said}" + (
                " (`nightsweep restore`)" if row.fares == "down" else ""
            )
    return said


def stopped(chosen: Settings, view: ProgressView, interrupt: BaseException, *, as_json: bool = False) -> int:
    """Print what an interrupted sweep has, and say how far it came; return the exit code."""
    why = "Ctrl-C" if isinstance(interrupt, KeyboardInterrupt) else str(interrupt)
    last = view.last
    if last is not None and last.windows_done:
        from nightsweep.analysis.values import Filters

        with contextlib.suppress(StoreError), wiring.open_queries(chosen) as queries:  # its end may be why we stop
            simulated = any(row.simulated for row in queries.sweeps(limit=50) if row.sweep_id == last.sweep_id)
            filters = Filters(sweep=last.sweep_id, with_flagged="yes")
            print_result(queries, filters, simulated=simulated, as_json=as_json)
    if last is None:
        click.echo(f"stopped ({why}) before anything was begun", err=True)
    else:
        click.echo(
            f"stopped ({why}): sweep {last.sweep_id} has {last.windows_done} of {last.windows_planned} windows, and no engine "
            f"runs{_production_said(chosen, last.sweep_id)}; go on with `nightsweep resume {last.sweep_id}`",
            err=True,
        )
    return EXIT_WORK_LEFT


def run_here(
    chosen: Settings,
    file_text: str,
    *,
    source: str,
    base: Path | None,
    until: str | None,
    reuse: bool,
    view: ProgressView,
) -> tuple[Outcome, bool]:
    """Run the sweep in this process; return how it ended and whether a simulator was measured."""
    from nightsweep.sweep.loop import run_sweep
    from nightsweep.tell import log_events, teller

    log_events()
    plan, prompts = wiring.load_plan(file_text, source=source, base=base)
    for warning in plan.warnings:
        click.echo(f"warning: {warning}", err=True)
    with (
        teller(chosen).night(plan.name, by_hand=True) as ended,
        view,
        wiring.open_store(chosen) as store,
        wiring.open_tools(chosen, store, prompts) as tools,
    ):
        with wiring.open_queries(chosen) as queries:
            view.namesakes = {row.sweep_id for row in queries.sweeps(limit=200) if row.name == plan.name}
        view.reuses = reuse
        limits = limits_of(plan.schedule, until)
        try:
            outcome = run_sweep(plan, tools, file_text=file_text, steps=view.steps(), limits=limits, reuse=reuse)
        except BoxBusy:
            stays = "its sweep stays in `nightsweep status` as it is, and the same call goes on with it when the box is free"
            click.echo(f"nothing of {plan.name} was begun; {stays}", err=True)
            raise
        ended.append(outcome)
    return outcome, plan.simulated


def limits_of(schedule: object, until: str | None) -> Limits:
    """Return the sweep's end, and say it: `--until` when given ("never" lifts it), else the file's schedule.

    `--until` is told on the clock of the file's zone; of a file that names none, on this machine's (raises BadParameter where
    nothing says which that is).
    """
    from nightsweep.analysis.schedules import on_clocks
    from nightsweep.plan.model import Schedule
    from nightsweep.plan.nights import long_night, night_end
    from nightsweep.service.zone import wall_zone
    from nightsweep.sweep.tools import Limits

    if until == "never":
        return Limits()
    planned = schedule if isinstance(schedule, Schedule) else None
    now = datetime.now(UTC)
    here = wall_zone(now)
    if until is not None:
        zone = planned.timezone if planned is not None and planned.names_zone else here
        if zone is None:
            remedy = "say it with TZ=Europe/Amsterdam before the command, or in the file's `schedule.timezone`"
            raise click.BadParameter(f"this machine's time zone has no name: {remedy}", param_hint="--until")
        planned = Schedule(timezone=zone, until=until)
    end = night_end(planned, start=now)
    if planned is not None and end is not None:
        click.echo(f"the box is free by {on_clocks(end, planned.timezone, here, 'UTC')}", err=True)
    long = None if planned is None else long_night(now, end, zone=planned.timezone)
    if long is not None:
        click.echo(f"a long night: {long}; Ctrl-C or `nightsweep cancel` ends it sooner", err=True)
    return Limits(until=end)


LASTING = ("decision_round", "decision")
"""Phases whose message stays on a terminal, above the bar: what is open in a decision, and how it ended."""


class ProgressView:
    """A bar on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()
        self._bar: object | None = None
        self._task: object | None = None
        self._said: tuple[str, int] | None = None
        self.last: Progress | None = None
        self.namesakes: set[int] = set()
        self.reuses = False

    def __enter__(self) -> ProgressView:
        if self._tty:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=None)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()  # type: ignore[attr-defined]

    def steps(self) -> PlainSteps:
        """Return the loop's steps, reporting here."""
        from nightsweep.sweep.tools import PlainSteps

        return PlainSteps(self.show)

    def show(self, progress: Progress) -> None:
        """Show where the sweep is; in plain lines, what was said already is not said again."""
        if self.last is None and self.namesakes and progress.sweep_id not in self.namesakes:
            click.echo(
                f"configs or probe differ from what sweep {max(self.namesakes)} of this name measured: this is a new sweep "
                f"({progress.sweep_id}); `nightsweep cells` lists both"
                + ("" if self.reuses else "; `run --reuse` takes over what was measured under equal conditions"),
                err=True,
            )
        self.last = progress
        if self._bar is not None:
            if progress.phase in LASTING:
                self._bar.console.print(progress.message, markup=False, highlight=False)  # type: ignore[attr-defined]
            self._bar.update(  # type: ignore[attr-defined]
                self._task,
                completed=progress.windows_done,
                total=progress.windows_planned,
                description=progress.message,
            )
            return
        tenth = 10 * progress.windows_done // max(progress.windows_planned, 1)
        news = (progress.message, tenth)
        if news != self._said:
            self._said = news
            click.echo(f"[{progress.windows_done}/{progress.windows_planned}] {progress.message}", err=True)


def finish(chosen: Settings, outcome: Outcome, *, simulated: bool, as_json: bool = False) -> int:
    """Print boots, cells and how the sweep ended; return the exit code."""
    from nightsweep.analysis.values import Filters

    with wiring.open_queries(chosen) as queries:
        filters = Filters(sweep=outcome.sweep_id, with_flagged="yes")
        print_result(queries, filters, simulated=simulated, as_json=as_json)
    for problem in outcome.problems:
        click.echo(f"problem: {problem}", err=True)
    click.echo(
        f"sweep {outcome.sweep_id}: {outcome.state}, {outcome.windows_done} of {outcome.windows_planned} windows; {outcome.note}",
        err=True,
    )
    return exit_code(outcome)


def print_result(queries: object, filters: object, *, simulated: bool, as_json: bool = False) -> None:
    """Print the boot table and the cell table: mean, n, range, acceptance length, step time."""
    from nightsweep.analysis.summary import summarise
    from nightsweep.cli.render import print_boots, print_cells

    label = " (SIMULATED: not a real engine's numbers)" if simulated else ""
    cells = summarise(queries.windows(filters))  # type: ignore[attr-defined]
    if as_json:
        from nightsweep.cli.render import cells_json

        echo(cells_json(cells))
        return
    click.echo()
    print_boots(queries.boots(filters), title=f"Boots{label}")  # type: ignore[attr-defined]
    click.echo()
    plan = queries.written_plan(filters.sweep)  # type: ignore[attr-defined]
    print_cells(cells, title=f"Cells{label}", ruled=plan is not None and plan.decide is not None)
    print_others(queries, filters, label=label)
    click.echo()


def print_others(queries: object, filters: object, *, label: str) -> None:
    """Print what is no decode window, where there is any: single-batch runs and prefills."""
    from dataclasses import replace

    from nightsweep.analysis.summary import summarise, summarise_prefills
    from nightsweep.analysis.tables import prefills_table
    from nightsweep.cli.render import print_cells, show

    single = summarise(queries.windows(replace(filters, kind="single_batch")))  # type: ignore[attr-defined, type-var]
    if single:
        click.echo()
        print_cells(single, title=f"Single batch{label}")
    prefills = summarise_prefills(queries.prefills(filters))  # type: ignore[attr-defined]
    if prefills:
        click.echo()
        show(prefills_table(prefills, title=f"Prefill{label}"))


def exit_code(outcome: Outcome) -> int:
    """0 done, 1 failed, a config failed or has no clean window, or nothing measured, 3 stopped with work left."""
    missing = outcome.state == "done" and (outcome.failed or outcome.unmeasured)
    if outcome.state == "failed" or outcome.windows_done == 0 or missing:
        return EXIT_FAILED
    return 0 if outcome.state == "done" else EXIT_WORK_LEFT

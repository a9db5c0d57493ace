"""What `cancel` and `pause` share: the wish is put into the database, and the sweep is watched until production serves again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from nightsweep import wiring
from nightsweep.cli import EXIT_FAILED
from nightsweep.cli.outputs import echo
from nightsweep.errors import NotFound

if TYPE_CHECKING:
    from nightsweep.analysis.values import Event, SweepRow
    from nightsweep.settings import Settings
    from nightsweep.store.queries import Queries

POLL = 0.5
EVENTS_READ = 50
"""Newest events that are looked through for new ones each time; more do not happen in one `POLL`."""

HOW = {
    "finish": "will stop after its current window",
    "drop": "will stop at once, and drop what it measures now",
    "pause": "will pause after its current window",
}

BECOMES = {"finish": "cancelled", "drop": "cancelled", "pause": "paused"}
"""What a sweep is that stopped as it was asked to: asking for it again changes nothing, and is no fault."""
KEEPS_OFF = "; `nightsweep pause {sweep}` keeps a schedule from starting it again"


def ask_to_stop(sweep: str, *, wish: str, wait: bool) -> int:
    """Ask a sweep to stop and say what comes of it; return the exit code."""
    chosen = wiring.settings()
    with wiring.open_queries(chosen) as queries:
        row = _find(chosen, queries, sweep)
        if row.state != "running":
            return _not_running(chosen, row, wish=wish)
        if wiring.is_dead(row.owner):
            return _killed(chosen, row, wish=wish)
        known = set(queries.events(row.sweep_id, limit=EVENTS_READ))
        with wiring.open_store(chosen) as store:
            store.wish_stop(row.sweep_id, wish=wish)
        down = any(one.closed is None for one in queries.productions(row.sweep_id))
        restored = " and production restored" if down else ""
        echo(f"{_named(row)} {HOW[wish]}; then its engine is stopped{restored}")
        if not wait:
            click.echo(f"`nightsweep status {row.sweep_id}` shows when; --wait would wait for it", err=True)
            return 0
        return _watch(queries, row.sweep_id, known=known)


def _find(chosen: Settings, queries: Queries, sweep: str) -> SweepRow:
    """Return the sweep (raises NotFound); one that waits in the queue has not begun, and is kept off by its schedule."""
    try:
        return queries.sweep_of(sweep)
    except NotFound as error:
        if any(row.name == sweep for row in wiring.scheduled(chosen)):
            hint = f"it has not begun: `nightsweep schedule --pause {sweep}` keeps it off, --remove takes it away"
            raise NotFound(what=f"sweep {sweep!r}", hint=hint) from error
        raise


def _named(row: SweepRow) -> str:
    return f"sweep {row.sweep_id} ({row.name})"


def _not_running(chosen: Settings, row: SweepRow, *, wish: str) -> int:
    """Say of a sweep that does not run what it is: fine where that is what was asked for, else an error."""
    if wish == "pause":
        with wiring.open_store(chosen) as store:
            paused = store.pause_idle(row.sweep_id)
        if paused:
            until = f"no schedule starts it until `nightsweep resume {row.sweep_id}`"
            echo(f"{_named(row)} did not run; it is paused now: {until}")
            return 0
    if row.state == BECOMES[wish]:
        echo(f"{_named(row)} is {row.state} already")
        return 0
    keeps_off = "" if row.state in ("done", "paused", "cancelled") else KEEPS_OFF.format(sweep=row.sweep_id)
    click.echo(f"{_named(row)} is not running: it is {row.state}{keeps_off}", err=True)
    return EXIT_FAILED


def _killed(chosen: Settings, row: SweepRow, *, wish: str) -> int:
    said = f"{_named(row)} does not run any more, its process was killed: nothing is left to stop"
    if wish != "pause":
        resume = (
            f"`nightsweep resume {row.sweep_id}` goes on with it, `nightsweep restore` brings back what it took down"
        )
        click.echo(f"{said}; {resume}", err=True)
        return EXIT_FAILED
    with wiring.open_store(
        chosen
    ) as store:  # outlives the dead holder: whoever takes the sweep up next pauses it at once
        store.wish_stop(row.sweep_id, wish=wish)
    echo(f"{said}; the next start pauses it at once")
    return 0


def _watch(queries: Queries, sweep_id: int, *, known: set[Event]) -> int:
    """Show events as they come until the sweep has given the box back; that is after production serves again."""
    seen = set(known)
    fresh: list[Event] = []
    try:
        while True:
            row = queries.sweep_of(str(sweep_id))
            for event in reversed(queries.events(sweep_id, limit=EVENTS_READ)):
                if event not in seen:
                    seen.add(event)
                    fresh.append(event)
                    echo(f"  {event.at:%H:%M:%S}  {event.message}")
            if row.state != "running" or wiring.is_dead(row.owner):
                return _ended(row, fresh)
            time.sleep(POLL)
    except KeyboardInterrupt:
        click.echo("the sweep stops all the same; nobody watches it any more", err=True)
        return 0


def _ended(row: SweepRow, fresh: list[Event]) -> int:
    if row.state in ("running", "interrupted"):
        click.echo(
            f"{_named(row)} was killed before it had stopped: `nightsweep restore` brings production back", err=True
        )
        return EXIT_FAILED
    note = f"; {row.note}" if row.note else ""
    echo(f"{_named(row)}: {row.state}, {row.repeats_clean:,} of {row.repeats_planned:,} windows{note}")
    if any(event.kind == "production_not_restored" for event in fresh):
        click.echo("production DOES NOT SERVE: run `nightsweep restore`", err=True)
        return EXIT_FAILED
    return EXIT_FAILED if row.state == "failed" else 0

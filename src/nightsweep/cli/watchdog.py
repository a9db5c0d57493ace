"""`nightsweep watchdog`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from nightsweep.cli import EXIT_FAILED
from nightsweep.cli.outputs import echo

if TYPE_CHECKING:
    from nightsweep.service.restoring import Restored
    from nightsweep.settings import Settings
    from nightsweep.units import Seconds


def _duration(ctx: click.Context, param: click.Parameter, value: Any) -> Seconds:
    from nightsweep.plan.mistakes import Refused
    from nightsweep.plan.quantities import duration

    try:
        read: Seconds = duration(zero=param.name != "every")(value)
        return read
    except Refused as refused:
        raise click.BadParameter(f"{value!r} is not {refused.allowed}") from None


@click.command(name="watchdog")
@click.option("--once", is_flag=True, help="Look once and end: for a timer.")
@click.option("--every", default="60s", callback=_duration, help="Time between two looks.", show_default=True)
@click.option(
    "--grace",
    default="2m",
    callback=_duration,
    show_default=True,
    help="How long after a sweep's `until` production of a dead sweep is brought back.",
)
@click.option(
    "--hung-after",
    default="10m",
    callback=_duration,
    show_default=True,
    help="How long after its `until` a living sweep that has not begun to end counts as hung.",
)
def command(once: bool, every: Seconds, grace: Seconds, hung_after: Seconds) -> None:
    """Bring production back when its sweep is dead or hung and its time is over.

    Looks at the file beside the database, and at the database when it answers. Works with PostgreSQL and Prefect dead. A sweep
    that is before its `until` is never disturbed. Exit code 1 with --once when production does not serve.

    \b
    Example:
      nightsweep watchdog --once
      nightsweep watchdog --every 30s
    """
    from nightsweep import wiring
    from nightsweep.service.watchdog import Rules
    from nightsweep.sweep.signals import Terminated, raise_on_sigterm

    raise_on_sigterm()
    rules = Rules(grace=grace, hung_after=hung_after)

    def say(text: str) -> None:
        click.echo(text, err=True)

    chosen = wiring.settings_for_rescue(say)
    try:
        if once:
            results = _look(chosen, rules, say=say)
            if not results:
                click.echo("nothing had to be brought back")
            if not all(result.serving for result in results):
                sys.exit(EXIT_FAILED)
            return
        _watch(chosen, rules, every=every)
    except (KeyboardInterrupt, Terminated):
        click.echo("stopped")


def _look(chosen: Settings, rules: Any, *, say: Any) -> tuple[Restored, ...]:
    from nightsweep import rescue

    results = rescue.watch(chosen, rules, say=say)
    for result in results:
        word = "serves" if result.serving else "DOES NOT SERVE"
        echo(f"{result.container} {word}: {result.detail}")
    return results


def _watch(chosen: Settings, rules: Any, *, every: Seconds) -> None:
    """Look for ever; what is said twice in a row is said once. Each look is seen by the age of `watchdog.beat` in the home."""
    import contextlib
    import time

    from nightsweep.errors import SweepError

    echo(f"watching every {every:g} s")
    before: list[str] = []
    while True:
        said: list[str] = []

        def say(text: str, said: list[str] = said, before: list[str] = before) -> None:
            said.append(text)
            if text not in before:
                click.echo(text, err=True)

        try:
            _look(chosen, rules, say=say)
        except SweepError as error:
            say(str(error))
        before = said
        with contextlib.suppress(OSError):
            (chosen.home / "watchdog.beat").touch()
        time.sleep(every)

"""`nightsweep notify`."""

from __future__ import annotations

import sys

import click

from nightsweep import wiring
from nightsweep.cli import EXIT_FAILED
from nightsweep.cli.outputs import echo


@click.command(name="notify")
@click.option("--test", "trial", is_flag=True, help="Send a message that says that messages arrive.")
def command(*, trial: bool) -> None:
    """Show where people are told how a night ended, and with --test send them a message.

    NIGHTSWEEP_NOTIFY holds addresses, parted by white space or commas: those of Apprise (ntfys://ntfy.sh/topic,
    mailto://..., json://host/path), and prefect://TYPE/NAME for a notification block kept in Prefect. NIGHTSWEEP_NOTIFY_ON
    chooses among done, failed, night_over, cancelled and production_not_restored; all of them by default.

    \b
    Example:
      NIGHTSWEEP_NOTIFY=ntfys://ntfy.sh/my-box nightsweep notify --test
    """
    from nightsweep.analysis.telling import trial_notice
    from nightsweep.service.notify import shown_all
    from nightsweep.tell import teller

    chosen = wiring.settings()
    if not chosen.notify:
        raise click.UsageError(
            "NIGHTSWEEP_NOTIFY is not set: nobody is told anything. Its form is in `nightsweep notify --help`"
        )
    for address in shown_all(chosen.notify):
        echo(address)
    echo(f"told: {', '.join(chosen.notify_on)}")
    if not trial:
        return
    failures = teller(chosen).notifier.tell(trial_notice(chosen.box))
    for failure in failures:
        click.echo(f"not sent: {failure}", err=True)
    echo(f"sent to {len(chosen.notify) - len(failures)} of {len(chosen.notify)}")
    if failures:
        sys.exit(EXIT_FAILED)

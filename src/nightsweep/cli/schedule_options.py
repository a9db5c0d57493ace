"""What is given to `nightsweep schedule`: which options go together, and what they make of a schedule."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightsweep.plan.model import Schedule


@dataclass(frozen=True)
class Given:
    """What was given on the command line; None takes the file's, else the stored schedule's own."""

    cron: str | None
    timezone: str | None
    until: str | None
    priority: int | None
    name: str | None

    def names(self) -> tuple[str, ...]:
        """Return the options that were given, such as `--cron`."""
        return tuple(f"--{each.name}" for each in fields(self) if getattr(self, each.name) is not None)


def one_of(actions: dict[str, bool]) -> str | None:
    """Return what is to be done (raises UsageError where two things are asked for at once)."""
    asked = [name for name, wanted in actions.items() if wanted]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(f'--{name}' for name in sorted(asked))} are two wishes: give one")
    return asked[0] if asked else None


def refuse_together(target: str | None, action: str | None, given: Given, *, as_json: bool) -> None:
    """Refuse what would be dropped without a word (raises UsageError).

    Args:
        target: The file or name that was given.
        action: What is to be done; None makes or changes a schedule, or without a target lists them.
    """
    lists = action == "list" or (action is None and target is None)
    if as_json and not lists:
        raise click.UsageError("--json is for the list: `nightsweep schedule --list --json`")
    if action == "list" and target is not None:
        raise click.UsageError(
            f"--list shows all schedules, and takes no name: `nightsweep schedule --list` without {target}"
        )
    said = " and ".join(given.names())
    if lists and said:
        raise click.UsageError(
            f"{said} needs a FILE or a schedule's NAME: `nightsweep schedule --list` shows those there are"
        )
    if target is None and not lists:
        raise click.UsageError(f"--{action} needs a schedule's name: `nightsweep schedule --list` shows them")
    if action in ("pause", "resume", "remove") and said:
        raise click.UsageError(
            f"--{action} and {said} cannot go together: --cron, --timezone, --until and --priority change a schedule by "
            f"themselves (`nightsweep schedule {target} --until 07:00`), or go with --now"
        )


def merged(given: Given, of_file: Schedule | None, stored: Schedule | None) -> Schedule:
    """Return what is scheduled: as given, else as the file's section says, else as it was."""
    from nightsweep.plan.model import Schedule
    from nightsweep.plan.quantities import clock_time, cron, zone

    file, kept = of_file or Schedule(), stored or Schedule()
    own_zone = file.cron is not None or file.names_zone
    until = file.until or kept.until
    if given.until is not None:
        until = None if given.until == "never" else read(clock_time, given.until, option="--until")
    return Schedule(
        cron=read(cron, given.cron, option="--cron") if given.cron is not None else file.cron or kept.cron,
        timezone=read(zone, given.timezone, option="--timezone")
        if given.timezone is not None
        else (file if own_zone else kept).timezone,
        until=until,
        priority=given.priority if given.priority is not None else file.priority or kept.priority,
    )


def read(reader: Callable[[object], str], value: str, *, option: str) -> str:
    """Return an option's value as a sweep file's reader has it (raises BadParameter for one that it refuses)."""
    from nightsweep.plan.mistakes import Refused

    try:
        return reader(value)
    except Refused as refused:
        said = ". ".join(filter(None, (f"found {value!r}; give {refused.allowed}", refused.remedy)))
        raise click.BadParameter(said, param_hint=option) from None

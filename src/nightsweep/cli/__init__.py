"""The command line: translate, call, translate back.

Every command lives in a module of its own and is imported when it is called, so that `nightsweep --help` answers at once.
A command module holds a click command named `command`.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import sys
import traceback
from typing import NoReturn

import click

from nightsweep import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("nightsweep.cli.demo", "Run a whole sweep on a simulated engine, with everything embedded."),
    "new": ("nightsweep.cli.new", "Write a sweep file from a running container."),
    "plan": (
        "nightsweep.cli.plan",
        "Show configs, engine commands, boots, cells and the estimated night of a sweep file.",
    ),
    "run": ("nightsweep.cli.run", "Run a sweep file now, or go on with it: the same call."),
    "resume": ("nightsweep.cli.resume", "Go on with a stored sweep."),
    "status": ("nightsweep.cli.status", "Show where sweeps are."),
    "cancel": ("nightsweep.cli.cancel", "Ask a running sweep to stop after its current window, or at once."),
    "pause": ("nightsweep.cli.pause", "Pause a sweep until `resume`: no schedule starts it meanwhile."),
    "restore": ("nightsweep.cli.restore", "Bring production back by hand."),
    "watchdog": ("nightsweep.cli.watchdog", "Bring production back when the service is dead past its time."),
    "schedule": (
        "nightsweep.cli.schedule",
        "Have the service start a sweep by itself; list, pause, start now.",
    ),
    "serve": ("nightsweep.cli.serve", "Run the long-lived service: Prefect server, schedules, sweeps."),
    "cells": ("nightsweep.cli.cells", "List measured cells: mean, run count, range and conditions."),
    "boots": ("nightsweep.cli.boots", "List boots: cold start, weights, KV cache tokens, failures."),
    "sweeps": ("nightsweep.cli.sweeps", "List sweeps: state, repeats done, flagged windows, failed boots."),
    "configs": ("nightsweep.cli.configs", "List engine configs by content, with what was measured of them."),
    "show": ("nightsweep.cli.show", "Show a window, boot or cell with its raw data; derive its numbers again."),
    "history": ("nightsweep.cli.history", "Show one config over time, and where its level changed."),
    "compare": (
        "nightsweep.cli.compare",
        "Hold one config against another: ratio, interval, verdict, and what else differs.",
    ),
    "effects": ("nightsweep.cli.effects", "Show what each setting of a grid does, alone and together with others."),
    "expectations": (
        "nightsweep.cli.expectations",
        "Show what was expected of a sweep, beside what was found.",
    ),
    "decide": ("nightsweep.cli.decide", "Decide for a config: evidence and premises are kept with the choice."),
    "decisions": (
        "nightsweep.cli.decisions",
        "List decisions, question those whose premises changed, ask again, export.",
    ),
    "import": (
        "nightsweep.cli.importing",
        "Take over results of `vllm bench serve`, `vllm bench sweep`, or a plain CSV.",
    ),
    "report": ("nightsweep.cli.report", "Write a sweep's report as one HTML page or Markdown, with plots."),
    "summary": ("nightsweep.cli.summary", "Write a night's summary as Markdown or HTML."),
    "notify": ("nightsweep.cli.notify", "Show who is told how a night ended; send a trial message."),
    "parse-log": ("nightsweep.cli.parse_log", "Read facts and a verdict from any engine log."),
    "doctor": (
        "nightsweep.cli.doctor",
        "Check Docker, GPU, database, Prefect, disk and leftovers; say how to mend each.",
    ),
    "db": ("nightsweep.cli.db", "Look after the database."),
}

COLLECT_AFTER = 1_000_000
"""Objects after which garbage is looked for: with Python's own 700, a fifth of a command's start goes into looking, with 100,000
a twentieth of the whole matrix' time; what is listed is no garbage."""
LASTING = frozenset({"cancel", "demo", "pause", "restore", "resume", "run", "schedule", "serve", "status", "watchdog"})
"""Commands that may live for a night: once they are loaded, garbage is looked for as often as Python itself does. A connection
that is garbage holds far more memory than its few objects tell."""
READING = frozenset(
    {
        "boots",
        "cells",
        "compare",
        "configs",
        "decisions",
        "effects",
        "expectations",
        "history",
        "show",
        "status",
        "sweeps",
    }
)
"""Commands that leave nothing running and nothing half written: what they said is flushed, and the process ends there. Taking 500
modules apart first, as the interpreter does, takes a twentieth of such a command's time."""
USUAL = gc.get_threshold()
WRITERS = frozenset({"click.utils", "nightsweep.cli", "nightsweep.cli.render", "rich.console"})
"""Modules that write to standard output."""
KEPT_IS_IN = {"decide": "`nightsweep decisions`", "import": "`nightsweep sweeps`"}
"""What shows the work of commands that store something and then say so."""
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_WORK_LEFT = 3


class ClosedOutput(io.TextIOBase):
    """Standard output that who called has closed (`>&-`): nothing can be written. Commands of a night have other things to do."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self) -> None:
        self._number = os.open(os.devnull, os.O_WRONLY)  # keeps the number 1 from whatever is opened next

    def write(self, text: str) -> int:
        """Raise OSError, but of a command that may live for a night."""
        if _asked_for() in LASTING - READING:
            return len(text)
        raise OSError(errno.EBADF, "it is closed")


class LazyGroup(click.Group):
    """A group that knows its commands' names and help lines without importing them.

    Attributes:
        loaded: The command that was asked for last; None before one was.
    """

    loaded: str | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        loaded = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(loaded, click.Command)
        self.loaded = cmd_name
        if cmd_name in LASTING:
            gc.set_threshold(*USUAL)
        return loaded

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="nightsweep")
def root() -> None:
    """Sweep engine configs at night, keep every number with its conditions, have production back by morning.

    \b
    Example:
      nightsweep plan sweep.yaml
      nightsweep run sweep.yaml
    """


def _is_of_output(error: OSError) -> bool:
    """Return whether an error is of standard output: no file is named in it, and what writes output met it."""
    *_, (last, _) = traceback.walk_tb(error.__traceback__)
    return error.filename is None and last.f_globals.get("__name__") in WRITERS


def _asked_for() -> str | None:
    """Return the command that was asked for; None before one was."""
    return root.loaded if isinstance(root, LazyGroup) else None


def _tell_of_output(error: OSError) -> NoReturn:
    """End with one message: what is left to write goes nowhere."""
    with contextlib.suppress(OSError):  # a closed one has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    kept = f"; {KEPT_IS_IN[name]} tells whether it is kept" if (name := _asked_for()) in KEPT_IS_IN else ""
    click.echo(f"error: the output could not be written: {error.strerror or error}{kept}", err=True)
    sys.exit(EXIT_FAILED)


def _tell_of_home(error: OSError) -> None:
    """End with one message when the home cannot be written, or is full."""
    from nightsweep import wiring
    from nightsweep.service.home import trouble_of

    told = trouble_of(wiring.settings_for_rescue(lambda text: None).home, error)
    if told is not None:
        click.echo(f"error: {told}", err=True)
        sys.exit(EXIT_FAILED)


def main() -> None:
    """Run the command line; our own errors become one message and an exit code, never a traceback."""
    gc.set_threshold(COLLECT_AFTER)
    if sys.stdout is None:
        sys.stdout = ClosedOutput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the end)
    try:
        _run()
    except SystemExit as ended:
        if _asked_for() in READING and isinstance(ended.code, int | None):
            _end_at_once(ended.code or 0)
        raise
    finally:
        gc.freeze()  # the interpreter looks for garbage once more before it ends: there is nothing it must look through


def _end_at_once(code: int) -> None:
    """End the process when all it said is written; return when it cannot be, for the interpreter to say so."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def _run() -> None:
    from nightsweep.errors import PlanError, StoreUnavailable, SweepError

    try:
        root(prog_name="nightsweep")
    except PlanError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except SweepError as error:
        looked = type(error) is not StoreUnavailable or _asked_for() == "doctor"
        click.echo(f"error: {error}{'' if looked else '; `nightsweep doctor` looks for what is wrong'}", err=True)
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:  # `nightsweep cells | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        if _is_of_output(error):
            _tell_of_output(error)
        _tell_of_home(error)
        raise

"""`nightsweep run`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nightsweep import wiring

UNTIL_HELP = (
    "Have production back by this time of day instead of the file's `schedule.until`: on the clock of the file's "
    "`schedule.timezone`, else of this machine."
)


@click.command(name="run")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--until", metavar="HH:MM|never", help=UNTIL_HELP)
@click.option(
    "--reuse", is_flag=True, help="Take over what earlier sweeps on this box measured under equal conditions."
)
@click.option("--on-service", is_flag=True, help="Let the running `nightsweep serve` do it, and watch.")
@click.option("--json", "as_json", is_flag=True, help="Print the cells as JSON.")
def command(file: str, until: str | None, reuse: bool, on_service: bool, as_json: bool) -> None:
    """Run a sweep FILE now, in this process, or go on with it: what is stored is not measured again.

    Ends with the table of cells. Exit code 0: done; 1: the sweep failed, or a config did (its engine does not come up) or has
    no clean window, or nothing was measured; 2: the file is invalid; 3: stopped with work left. A config that fails is a
    result: the sweep goes on to the others, and ends as `done` with those named.

    A file with other configs, or another probe, makes a new sweep. With --reuse it takes over the clean windows, prefills and
    single-batch runs of earlier sweeps on this box whose conditions are equal (config, image, model, probe, box, software), and
    measures what is missing. More repeats, or boots, in a file go on with the same sweep.

    \b
    Example:
      nightsweep run examples/process-vllm.yaml
      nightsweep run sweep.yaml --until 06:30
      nightsweep run sweep-with-two-more-configs.yaml --reuse
    """
    from nightsweep.cli.running import run_and_finish

    until = read_until(until)
    chosen = wiring.settings()
    text = wiring.read_text(file)
    base = Path.cwd() if file == "-" else Path(file).absolute().parent
    if on_service:
        from nightsweep.cli.following import run_on_service

        sys.exit(run_on_service(chosen, text, source=file, base=base, until=until, reuse=reuse, as_json=as_json))
    sys.exit(run_and_finish(chosen, text, source=file, base=base, until=until, reuse=reuse, as_json=as_json))


def read_until(until: str | None) -> str | None:
    """Return a time of day as a sweep file has it, "never" or None (raises BadParameter for what is none of them)."""
    from nightsweep.cli.schedule_options import read
    from nightsweep.plan.quantities import clock_time

    return until if until in (None, "never") else read(clock_time, until, option="--until")

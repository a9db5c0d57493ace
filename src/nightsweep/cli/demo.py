"""`nightsweep demo`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep import wiring
from nightsweep.cli import EXIT_FAILED

if TYPE_CHECKING:
    from nightsweep.analysis.values import CellSummary
    from nightsweep.settings import Settings

DEMO = "demo.yaml"


@click.command(name="demo")
@click.option(
    "--home", type=click.Path(path_type=Path), help="Where the demo keeps its database [default: <home>/demo]."
)
@click.option("--keep", is_flag=True, help="Keep the embedded database running afterwards.")
def command(home: Path | None, keep: bool) -> None:
    """Run a whole sweep on a simulated engine: embedded PostgreSQL, Prefect, boots, windows, the tables at the end.

    Needs no Docker, no GPU, no root. What it measures is the simulator, and says so; the means are compared with the
    truth that was set.

    \b
    Example:
      nightsweep demo
    """
    from nightsweep.sweep.signals import Terminated, raise_on_sigterm

    chosen = wiring.settings()
    home = (home or chosen.home / "demo").absolute()
    chosen = replace(chosen, home=home, database_url=None, prefect_api_url=None, box="demo")
    raise_on_sigterm()
    try:
        sys.exit(_demo(chosen, keep=keep))
    except (KeyboardInterrupt, Terminated):
        click.echo("stopped", err=True)
        sys.exit(EXIT_FAILED)


def _demo(chosen: Settings, *, keep: bool) -> int:
    started = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - started:5.1f} s] {text}", err=True)

    text, base = demo_file()
    _fresh(chosen)
    say(f"starting embedded PostgreSQL in {chosen.home}")
    try:
        with wiring.open_queries(chosen) as queries:
            code = _sweep(chosen, text, base=base, queries=queries, say=say)
    finally:
        if not keep:
            wiring.cluster(chosen).stop()
    say("done")
    click.echo(
        f"look again:  NIGHTSWEEP_HOME={chosen.home} nightsweep cells   (or: boots, status, report demo)", err=True
    )
    return code


def _sweep(chosen: Settings, text: str, *, base: Path, queries: object, say: Callable[[str], None]) -> int:
    from nightsweep.cli.following import follow
    from nightsweep.service.stack import stack
    from nightsweep.sweep.signals import Terminated, ignore_interrupts

    say("starting Prefect: its server on a database of its own, and our flow served")
    environ = {**os.environ, "NIGHTSWEEP_HOME": str(chosen.home), "NIGHTSWEEP_BOX": chosen.box}
    environ.pop("NIGHTSWEEP_DATABASE_URL", None)
    with stack(
        home=chosen.home,
        box=chosen.box,
        port=wiring.free_port(),
        database_url=wiring.prefect_database_url(chosen),
        api_url=None,
        environ=environ,
    ) as up:
        run = up.api.start(up.deployment_id, {"file_text": text, "name": "demo", "base": str(base)}, tags=("demo",))
        say(f"sweep started; see it in Prefect: {up.api.ui_url(run.id)}")
        began = time.monotonic()
        try:
            ended, row = follow(up.api, run.id, queries=queries, name="demo")
        except (KeyboardInterrupt, Terminated):
            ignore_interrupts()
            raise
        say(f"sweep ended after {time.monotonic() - began:.0f} s: Prefect says {ended.state_name}, {ended.message}")
    if row is None:
        click.echo(f"error: the sweep left no trace; see {chosen.home / 'logs'}", err=True)
        return EXIT_FAILED
    return _tables(queries, row.sweep_id, ok=ended.state_type == "COMPLETED")


def _tables(queries: object, sweep_id: int, *, ok: bool) -> int:
    from nightsweep.analysis.summary import summarise
    from nightsweep.analysis.values import Filters
    from nightsweep.cli.running import print_result
    from nightsweep.cli.truth import compare_with_truth

    filters = Filters(sweep=sweep_id, with_flagged="yes")
    print_result(queries, filters, simulated=True)
    cells: list[CellSummary] = summarise(queries.windows(filters))  # type: ignore[attr-defined]
    file_text, _ = queries.plan_of(sweep_id)  # type: ignore[attr-defined]
    agrees = compare_with_truth(cells, file_text)
    return 0 if ok and agrees else EXIT_FAILED


def demo_file() -> tuple[str, Path]:
    """Return the demo's sweep file: of the checkout, else of the installed package."""
    checkout = Path(__file__).parents[3] / "examples" / DEMO
    if checkout.exists():
        return checkout.read_text(encoding="utf-8"), checkout.parent
    packaged = resources.files("nightsweep").joinpath("_examples", DEMO)
    return packaged.read_text(encoding="utf-8"), Path.cwd()


def _fresh(chosen: Settings) -> None:
    """Begin with an empty home, so that the demo measures each time; only a directory that a demo made is emptied."""
    mark = chosen.home / ".nightsweep-demo"
    if chosen.home.exists() and any(chosen.home.iterdir()):
        if not mark.exists():
            raise click.ClickException(f"{chosen.home} is not empty and not a demo's: give another --home")
        wiring.cluster(chosen).stop()
        shutil.rmtree(chosen.home)
    chosen.home.mkdir(parents=True, exist_ok=True)
    mark.touch()

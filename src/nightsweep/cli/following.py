"""Watching a sweep that runs elsewhere: our database says how far it is, Prefect whether its run has ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep.cli import EXIT_FAILED, EXIT_WORK_LEFT
from nightsweep.cli.running import ProgressView, print_result
from nightsweep.errors import HostError
from nightsweep.ports import Progress

if TYPE_CHECKING:
    from nightsweep.analysis.values import SweepRow
    from nightsweep.service.prefect_api import FlowRun, PrefectApi
    from nightsweep.settings import Settings

POLL = 1.0


class NotServed(HostError):
    """No service takes sweeps for this box."""

    summary = (
        "no service serves box {box}: start one with `nightsweep serve`, or run the file here without --on-service"
    )


def follow(api: PrefectApi, run_id: str, *, queries: object, name: str, after: int) -> tuple[FlowRun, SweepRow | None]:
    """Show progress until Prefect's run has ended; return the run and our sweep.

    Args:
        after: Highest sweep id that was there before the run was asked for and had ended by then; 0 when there was none.
    """
    with ProgressView() as view:
        while True:
            run = api.flow_run(run_id)
            row = newest(queries, name, after=after)
            view.show(_progress(run, row))
            if run.ended:
                return run, row
            time.sleep(POLL)


def run_on_service(chosen: Settings, text: str, *, source: str, base: Path, as_json: bool) -> int:
    """Hand a sweep to the running service, watch it, print its tables; return the exit code."""
    from nightsweep import wiring
    from nightsweep.analysis.values import Filters
    from nightsweep.service.prefect_api import PrefectApi

    plan, _ = wiring.load_plan(text, source=source, base=base)  # a mistake is told here, not in a log of the service
    api = PrefectApi(chosen.prefect_api_url or f"http://127.0.0.1:{chosen.prefect_port}/api")
    deployment = api.deployment_id(chosen.box)
    if deployment is None:
        raise NotServed(box=chosen.box)
    with wiring.open_queries(chosen) as queries:
        run = api.start(deployment, {"file_text": text, "name": plan.name, "base": str(base)})
        click.echo(f"handed to the service; see it in Prefect: {api.ui_url(run.id)}", err=True)
        ended, row = follow(api, run.id, queries=queries, name=plan.name, after=0)
        click.echo(f"Prefect: {ended.state_name}, {ended.message}", err=True)
        if row is None:
            return EXIT_FAILED
        print_result(
            queries, Filters(sweep=row.sweep_id, with_flagged="yes"), simulated=plan.simulated, as_json=as_json
        )
    if row.state == "done" and row.repeats_clean:
        return 0
    return EXIT_FAILED if row.state == "failed" or not row.repeats_clean else EXIT_WORK_LEFT


def newest(queries: object, name: str, *, after: int) -> SweepRow | None:
    """Return the newest sweep of that name that is not older than asked for."""
    rows: list[SweepRow] = queries.sweeps(limit=20)  # type: ignore[attr-defined]
    found = [row for row in rows if row.name == name and row.sweep_id > after]
    return max(found, key=lambda row: row.sweep_id, default=None)


def _progress(run: FlowRun, row: SweepRow | None) -> Progress:
    if row is None:
        return Progress(
            sweep_id=0, phase="waiting", message=f"Prefect: {run.state_name}", windows_done=0, windows_planned=0
        )
    return Progress(
        sweep_id=row.sweep_id,
        phase=row.state,
        message=row.phase or row.state,
        windows_done=row.repeats_clean,
        windows_planned=row.repeats_planned,
    )

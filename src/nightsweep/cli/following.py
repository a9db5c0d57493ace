"""Watching a sweep that runs elsewhere: our database says how far it is, Prefect whether its run has ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep.cli import EXIT_FAILED, EXIT_WORK_LEFT
from nightsweep.cli.running import ProgressView, limits_of, print_result
from nightsweep.errors import HostError
from nightsweep.ports import Progress
from nightsweep.service.prefect_server import PrefectUnavailable

if TYPE_CHECKING:
    from nightsweep.analysis.values import SweepRow
    from nightsweep.plan.model import SweepPlan
    from nightsweep.service.prefect_api import FlowRun, PrefectApi
    from nightsweep.settings import Settings

POLL = 1.0
PATIENCE = 60.0
"""Seconds that Prefect's server may be away while somebody watches."""


class NotServed(HostError):
    """No service takes sweeps for this box."""

    summary = "no service serves box {box} at {api}: start one with `nightsweep serve`, or run the file here without --on-service"


def follow(api: PrefectApi, run_id: str, *, queries: object, name: str) -> tuple[FlowRun, SweepRow | None]:
    """Show progress until Prefect's run has ended; return the run and our sweep, None when it never came to one.

    Raises:
        PrefectUnavailable: Prefect's server did not answer for `PATIENCE` seconds; the sweep itself goes on.
    """
    heard = time.monotonic()
    with ProgressView() as view:
        while True:
            try:
                run = api.flow_run(run_id)
                heard = time.monotonic()
            except PrefectUnavailable:
                if time.monotonic() - heard > PATIENCE:
                    raise
                time.sleep(POLL)
                continue
            row = sweep_of_run(queries, run_id, name=name)
            view.show(_progress(run, row))
            if run.ended:
                return run, row
            time.sleep(POLL)


def run_on_service(
    chosen: Settings, text: str, *, source: str, base: Path, until: str | None, reuse: bool, as_json: bool
) -> int:
    """Hand a sweep to the running service, watch it, print its tables; return the exit code."""
    from nightsweep import wiring
    from nightsweep.analysis.values import Filters
    from nightsweep.service.prefect_api import PrefectApi
    from nightsweep.sweep.left import configs_failed, configs_unmeasured

    plan, _ = wiring.load_plan(text, source=source, base=base)  # a mistake is told here, not in a log of the service
    api = PrefectApi(chosen.prefect_api_url or f"http://127.0.0.1:{chosen.prefect_port}/api")
    try:
        deployment = api.deployment_id(chosen.box)
    except PrefectUnavailable as error:
        raise NotServed(box=chosen.box, api=api.api_url) from error
    if deployment is None:
        raise NotServed(box=chosen.box, api=api.api_url)
    with wiring.open_queries(chosen) as queries:
        asked = {"file_text": text, "name": plan.name, "base": str(base), "reuse": reuse}
        run = api.start(deployment, asked | ({} if until is None else {"until": _moment(plan, until)}))
        click.echo(f"handed to the service; see it in Prefect: {api.ui_url(run.id)}", err=True)
        try:
            ended, row = follow(api, run.id, queries=queries, name=plan.name)
        except KeyboardInterrupt:
            click.echo(f"the sweep goes on on the service; `nightsweep cancel {plan.name}` ends it", err=True)
            return EXIT_WORK_LEFT
        click.echo(f"Prefect: {', '.join(filter(None, (ended.state_name, ended.message)))}", err=True)
        if row is None:
            return EXIT_FAILED
        print_result(
            queries, Filters(sweep=row.sweep_id, with_flagged="yes"), simulated=plan.simulated, as_json=as_json
        )
    if row.state == "done" and row.repeats_clean:
        with wiring.open_store(chosen) as store:
            stored = store.stored(row.sweep_id)
        return EXIT_FAILED if configs_failed(plan, stored) or configs_unmeasured(plan, stored, failed=()) else 0
    return EXIT_FAILED if row.state == "failed" or not row.repeats_clean else EXIT_WORK_LEFT


def _moment(plan: SweepPlan, until: str) -> str:
    """Return `--until` as the flow takes it: a moment, or "never"."""
    end = limits_of(plan.schedule, until).until
    return "never" if end is None else end.isoformat()


def sweep_of_run(queries: object, run_id: str, *, name: str) -> SweepRow | None:
    """Return the sweep of that name that Prefect's run carries out, once it does."""
    rows: list[SweepRow] = queries.sweeps(limit=20)  # type: ignore[attr-defined]
    return next((row for row in rows if row.name == name and row.prefect_run == run_id), None)


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

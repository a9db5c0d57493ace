"""Everything that a sweep through Prefect needs, up for a block: Prefect's server, and our flow served."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nightsweep.errors import HostError
from nightsweep.service.prefect_api import PrefectApi
from nightsweep.service.prefect_server import prefect_server, runner, tail
from nightsweep.units import Seconds

SERVER_TIMEOUT = Seconds(240.0)
RUNNER_TIMEOUT = Seconds(120.0)


class RunnerFailed(HostError):
    """Our flow could not be served."""

    summary = "the service cannot take sweeps: {reason}"


@dataclass(frozen=True)
class Stack:
    """What is up: Prefect's API and the deployment that takes sweeps."""

    api: PrefectApi
    deployment_id: str
    logs: Path
    children: Mapping[str, subprocess.Popen[bytes]]

    def check(self) -> None:
        """Raise when something that we brought up has ended by itself.

        Raises:
            RunnerFailed: With what it was.
        """
        for name, process in self.children.items():
            code = process.poll()
            if code is not None:
                raise RunnerFailed(reason=f"{name} ended with code {code}; its log is in {self.logs}")


@contextlib.contextmanager
def stack(
    *,
    home: Path,
    box: str,
    port: int,
    database_url: str | None,
    api_url: str | None,
    environ: Mapping[str, str],
) -> Iterator[Stack]:
    """Bring up what is not there and yield it; what was brought up is stopped when the block ends.

    Args:
        database_url: Prefect's own database, for a server of ours; not used when `api_url` names somebody else's.
        api_url: A Prefect server that is there already.
    """
    children: dict[str, subprocess.Popen[bytes]] = {}
    logs = home / "logs"
    with contextlib.ExitStack() as up:
        if api_url is None:
            if database_url is None:
                raise RunnerFailed(
                    reason="set NIGHTSWEEP_PREFECT_API_URL: with your own PostgreSQL bring your own Prefect server"
                )
            api_url, children["Prefect's server"] = up.enter_context(
                prefect_server(
                    port=port,
                    home=home / "prefect",
                    database_url=database_url,
                    environ=environ,
                    log=logs / "prefect-server.log",
                    timeout=SERVER_TIMEOUT,
                )
            )
        log = logs / "runner.log"
        process = up.enter_context(runner(home=home / "prefect", api_url=api_url, environ=environ, log=log))
        children["the flow's runner"] = process
        api = PrefectApi(api_url)
        started = time.monotonic()
        while (deployment := api.deployment_id(box)) is None:
            if process.poll() is not None:
                raise RunnerFailed(reason=f"the flow's runner ended with code {process.returncode}: {tail(log)}")
            if time.monotonic() - started > RUNNER_TIMEOUT:
                raise RunnerFailed(reason=f"the flow is not served after {RUNNER_TIMEOUT:.0f} s: {tail(log)}")
            time.sleep(0.25)
        yield Stack(api=api, deployment_id=deployment, logs=logs, children=children)

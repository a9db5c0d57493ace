"""`nightsweep serve` under a supervisor: what a service manager would start again is started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
import psutil

from nightsweep.service.prefect_api import FlowRun, PrefectApi
from nightsweep.service.prefect_server import PrefectUnavailable
from nightsweep.store.postmaster import postmaster_of

RESTART_AFTER = 1.0
"""Seconds; the unit that is shipped waits 10."""
SERVES_WITHIN = 180.0


class NotServing(Exception):
    """The service does not come up again."""


@dataclass
class Supervised:
    """The service of one home.

    Attributes:
        starts: How often it was started.
    """

    home: Path
    environ: Mapping[str, str]
    port: int
    box: str
    log: IO[bytes]
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None
    _ended_at: float | None = field(default=None)

    @property
    def api(self) -> PrefectApi:
        """Prefect's API, as `nightsweep run --on-service` asks it."""
        return PrefectApi(f"http://127.0.0.1:{self.port}/api")

    def tend(self) -> None:
        """Start the service again when it has ended, `RESTART_AFTER` seconds later."""
        if self.process is not None and self.process.poll() is None:
            return
        now = time.monotonic()
        if self.process is not None:
            self._ended_at = self._ended_at or now
            if now - self._ended_at < RESTART_AFTER:
                return
        self._ended_at = None
        self.starts += 1
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nightsweep.cli", "serve"],
            env=dict(self.environ),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_serving(self) -> None:
        """Wait until the flow is served, with as many starts as that takes."""
        end = time.monotonic() + SERVES_WITHIN
        while not self._serves():
            if time.monotonic() > end:
                raise NotServing(f"the service does not serve {SERVES_WITHIN:.0f} s after it was killed")
            self.tend()
            time.sleep(0.2)

    def _serves(self) -> bool:
        if self.process is None or self.process.poll() is not None or self.runner() is None:
            return False
        with contextlib.suppress(PrefectUnavailable):
            return self.api.deployment_id(self.box) is not None
        return False

    def submit(self, text: str, name: str) -> FlowRun | None:
        """Hand a sweep to the service; None when it does not take it now."""
        with contextlib.suppress(PrefectUnavailable):
            deployment = self.api.deployment_id(self.box)
            if deployment is not None:
                return self.api.start(deployment, {"file_text": text, "name": name})
        return None

    def schedule(self, text: str, name: str) -> bool:
        """Have the sweep started by a schedule, once; return whether the command took it."""
        file = self.home / f"{name}.yaml"
        file.write_text(text)
        command = [sys.executable, "-m", "nightsweep.cli", "schedule", "--now", str(file)]
        done = subprocess.run(
            command, env=dict(self.environ), cwd=self.home, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        return done.returncode == 0

    def state_of(self, run: FlowRun) -> str:
        """Return what Prefect says of a run: "RUNNING" and so on, "ENDED", or "UNKNOWN" when it does not answer."""
        with contextlib.suppress(PrefectUnavailable):
            now = self.api.flow_run(run.id)
            return "ENDED" if now.ended else str(now.state_type)
        return "UNKNOWN"

    def open_runs(self) -> list[str]:
        """Return the states of runs that Prefect does not hold for ended; wait for its server, which may be coming back.

        Raises:
            NotServing: It does not answer.
        """
        states = {"type": {"any_": ["RUNNING", "PENDING", "SCHEDULED", "CANCELLING"]}}
        asked = {"json": {"flow_runs": {"state": states}}, "timeout": 20.0}
        end = time.monotonic() + SERVES_WITHIN
        while True:
            self.tend()
            try:
                answer = httpx.post(f"{self.api.api_url}/flow_runs/filter", **asked).raise_for_status()  # type: ignore[arg-type]
            except httpx.HTTPError as error:
                if time.monotonic() > end:
                    raise NotServing(
                        f"Prefect's server does not answer {SERVES_WITHIN:.0f} s after the last kill"
                    ) from error
                time.sleep(0.5)
                continue
            return [str(run["state_name"]) for run in answer.json()]

    # --- its processes

    def prefect_server(self) -> psutil.Process | None:
        """Return Prefect's server."""
        return self._child("prefect server start")

    def runner(self) -> psutil.Process | None:
        """Return the flow's runner."""
        return self._child("flows.sweep")

    def _child(self, words: str) -> psutil.Process | None:
        with contextlib.suppress(psutil.Error):
            if self.process is not None:
                for child in psutil.Process(self.process.pid).children():
                    if words in " ".join(child.cmdline()) and child.status() != psutil.STATUS_ZOMBIE:
                        return child
        return None

    def group(self, data: Path) -> list[int]:
        """Return what a service manager would hold for the service's own: whatever it or its children have started."""
        found = [process.pid for process in self.living()]
        postmaster = postmaster_of(data)
        return found if postmaster is None else [*found, postmaster]

    def living(self) -> Iterator[psutil.Process]:
        """Yield the processes that live for this home."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = process.environ().get("NIGHTSWEEP_HOME") == str(self.home)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def stop(self) -> tuple[int | None, float]:
        """Stop the service with SIGTERM; return its exit code (None: it had to be killed) and the seconds that it took."""
        began = time.monotonic()
        if self.process is None or self.process.poll() is not None:
            return None, 0.0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(75.0), time.monotonic() - began
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10.0)
            return None, time.monotonic() - began

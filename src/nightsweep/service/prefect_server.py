"""Prefect's server and our runner as child processes: started when nobody else provides them, and stopped by a `with`.

Prefect schedules, supervises and shows; our own database decides. Nothing here imports Prefect: its start takes seconds and
every command of ours would pay for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import psutil

from nightsweep.errors import HostError
from nightsweep.units import Seconds

_libc = ctypes.CDLL(None)  # loaded before any fork: nothing may be imported in one
POLL = 0.2
STOP_PATIENCE = 50.0
"""Seconds for a child that was asked to end while it carries out a flow, of the 60 s that a service has."""
ALONE_PATIENCE = 15.0
"""Seconds for one that carries nothing out: the runner tries for a minute to tell a server that has ended already."""


class PrefectUnavailable(HostError):
    """Prefect's server does not answer, or could not be started."""

    summary = "Prefect's server at {url} does not answer: {reason}"


def prefect_environment(*, home: Path, api_url: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of every Prefect process of ours.

    Telemetry off; run records written in batches (the default drops rows under load); leases of concurrency limits on
    disk (in memory a restart of the server kills a healthy run); events bounded, so that a lost server does not hold up exits.
    """
    return {
        **environ,
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": api_url,
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_RUNNER_POLL_FREQUENCY": "2",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "200",
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P3D",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_EVENTS_WORKER_MAX_QUEUE_SIZE": "200",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "nightsweep",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",  # hooks and reconciling log outside of any run
        "PREFECT_CLI_PROMPT": "false",
    }


def server_url(port: int) -> str:
    """Return the API URL of a server of ours."""
    return f"http://127.0.0.1:{port}/api"


@contextlib.contextmanager
def prefect_server(
    *, port: int, home: Path, database_url: str, environ: Mapping[str, str], log: Path, timeout: Seconds
) -> Iterator[subprocess.Popen[bytes]]:
    """Run Prefect's server for the block; yield its process once it answers.

    Args:
        database_url: Prefect's own database (asyncpg); never the one our tables are in.

    Raises:
        PrefectUnavailable: With the end of its log.
    """
    url = server_url(port)
    if not _free(port):
        raise PrefectUnavailable(
            url=url, reason=f"port {port} is taken: stop what listens there, or set NIGHTSWEEP_PREFECT_PORT"
        )
    env = prefect_environment(home=home, api_url=url, environ=environ)
    env["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database_url
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with child(command, env=env, log=log) as process:
        _wait(process, url=url + "/health", log=log, timeout=timeout)
        yield process


@contextlib.contextmanager
def runner(*, home: Path, api_url: str, environ: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Serve our flow as a child process for the block.

    When we are killed it is killed too, and a flow that it carries out ends in order by itself (it watches its runner). Were
    the runner only asked to end, it would first wait for a server that has ended at the same moment.
    """
    env = prefect_environment(home=home, api_url=api_url, environ=environ)
    command = [sys.executable, "-m", "flows.sweep"]
    with child(command, env=env, log=log, on_our_death=signal.SIGKILL) as process:
        yield process


def _free(port: int) -> bool:
    """Return whether nobody listens: a stranger's answer on the health path would be taken for our server's."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def child(
    command: list[str], *, env: Mapping[str, str], log: Path, on_our_death: signal.Signals = signal.SIGTERM
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child in a session of its own, so that a Ctrl-C reaches us alone; it is asked to end, then made to.

    Args:
        on_our_death: The signal that it gets when we are killed: what went on alone would be nobody's to stop.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=functools.partial(_signal_on_death, on_our_death) if sys.platform == "linux" else None,
        )
        try:
            yield process
        finally:
            _end(process)


def _signal_on_death(signum: int) -> None:
    """Have the kernel send this child a signal when its parent dies (prctl PR_SET_PDEATHSIG)."""
    _libc.prctl(1, int(signum), 0, 0, 0)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the child alone first (the group would get the signal twice, and a second one cuts a flow's cleanup short)."""
    if process.poll() is None:
        process.terminate()
        _wait_end(process)
    else:
        _let_end(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a child that was asked to end, as long as what it carries out may take; less when that is nothing."""
    asked = busy = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if not carries_nothing_out(process):
            busy = now
        if now - asked > STOP_PATIENCE or now - busy > ALONE_PATIENCE:
            return
        time.sleep(POLL)


def carries_nothing_out(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a child has no child but Python's own helper."""
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(process.pid).children()
        return all("resource_tracker" in " ".join(child.cmdline()) for child in children)
    return False


def _let_end(group: int) -> None:
    """Let what a child that ended by itself has left behind end as well: a flow notices, and brings production back."""
    end = time.monotonic() + STOP_PATIENCE
    while time.monotonic() < end and any(_lives_in(group, process) for process in psutil.process_iter()):
        time.sleep(POLL)


def _lives_in(group: int, process: psutil.Process) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False


def _wait(process: subprocess.Popen[bytes], *, url: str, log: Path, timeout: Seconds) -> None:
    started = time.monotonic()
    while True:
        if process.poll() is not None:
            raise PrefectUnavailable(url=url, reason=f"it ended with code {process.returncode}: {tail(log)}")
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, timeout=2.0, verify=certificates()).status_code == 200:
                return
        if time.monotonic() - started > timeout:
            raise PrefectUnavailable(url=url, reason=f"not ready after {timeout:.0f} s: {tail(log)}")
        time.sleep(POLL)


@functools.cache
def certificates() -> ssl.SSLContext:
    """Whom to trust, read once: httpx reads all certificates anew for each request, which takes thirty times the request."""
    return httpx.create_ssl_context()


def tail(log: Path, *, characters: int = 800) -> str:
    """Return the end of a log file, for an error message."""
    with contextlib.suppress(OSError):
        return log.read_text(errors="replace")[-characters:].strip()
    return ""

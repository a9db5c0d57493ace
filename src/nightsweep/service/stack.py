"""Everything that a sweep through Prefect needs, up for a block: Prefect's server, and our flow served.

A part that ends by itself is started again, beside the others: a sweep that runs needs no Prefect server, and must not be
ended because there is none for a while.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from nightsweep.errors import HostError
from nightsweep.service.prefect_api import PrefectApi
from nightsweep.service.prefect_server import carries_nothing_out, prefect_server, runner, server_url, tail
from nightsweep.units import Seconds

SERVER_TIMEOUT = Seconds(240.0)
RUNNER_TIMEOUT = Seconds(120.0)


class RunnerFailed(HostError):
    """Our flow could not be served."""

    summary = "the service cannot take sweeps: {reason}"


class Part:
    """A child process that is started again when it ends by itself. Use it in a `with`.

    Args:
        start: Starts it for a block, and yields its process once it is up.
    """

    def __init__(self, name: str, start: Callable[[], AbstractContextManager[subprocess.Popen[bytes]]]) -> None:
        self.name = name
        self._start = start
        self._up = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Part:
        self._process = self._up.enter_context(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._process = None
        self._up.close()

    @property
    def ended(self) -> int | None:
        """The code with which it ended by itself; None while it lives."""
        return 0 if self._process is None else self._process.poll()

    def restart(self) -> None:
        """Start it again, once what may be left of it is gone. Raises what its start raises."""
        self._process = None
        self._up.close()
        self.__enter__()

    def kill(self) -> None:
        """Kill it; the next look starts it again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def idle(self) -> bool:
        """Return whether it carries nothing out."""
        return self._process is not None and carries_nothing_out(self._process)


@dataclass
class Stack:
    """What is up: Prefect's API and the deployment that takes sweeps.

    Attributes:
        server: Prefect's server, when it is ours.
        deaf: The runner has lived through a server's death: it does not hear of cancelled runs any more.
    """

    api: PrefectApi
    deployment_id: str
    logs: Path
    server: Part | None
    runner: Part
    say: Callable[[str], None]
    deaf: bool = False

    def check(self) -> None:
        """Start again what has ended by itself. May take as long as a start takes.

        Prefect's runner goes on over a short absence of its server, but its watch for cancelled runs does not: it is
        replaced as soon as it carries out no flow.

        Raises:
            HostError: It does not come up again.
        """
        if self.server is not None and self.server.ended is not None:
            self._again(self.server)
            self.deaf = True
        if self.deaf and self.runner.ended is None and self.runner.idle():
            self.runner.kill()
        if self.runner.ended is not None:
            self._again(self.runner)
            self.deaf = False

    def _again(self, part: Part) -> None:
        self.say(f"{part.name} ended with code {part.ended}: it is started again; its log is in {self.logs}")
        part.restart()


@contextlib.contextmanager
def stack(
    *,
    home: Path,
    box: str,
    port: int,
    database_url: str | None,
    api_url: str | None,
    environ: Mapping[str, str],
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Stack]:
    """Bring up what is not there and yield it; what was brought up is stopped when the block ends.

    Args:
        database_url: Prefect's own database, for a server of ours; not used when `api_url` names somebody else's.
        api_url: A Prefect server that is there already.
        say: Told what was started again, in a line.
    """
    logs, log = home / "logs", home / "logs" / "runner.log"
    with contextlib.ExitStack() as up:
        server: Part | None = None
        if api_url is None:
            if database_url is None:
                raise RunnerFailed(
                    reason="set NIGHTSWEEP_PREFECT_API_URL: with your own PostgreSQL bring your own Prefect server"
                )
            serve = functools.partial(
                prefect_server,
                port=port,
                home=home / "prefect",
                database_url=database_url,
                environ=environ,
                log=logs / "prefect-server.log",
                timeout=SERVER_TIMEOUT,
            )
            server = up.enter_context(Part("Prefect's server", serve))
            api_url = server_url(port)
        api = PrefectApi(api_url)
        run = functools.partial(runner, home=home / "prefect", api_url=api_url, environ=environ, log=log)
        part = up.enter_context(Part("the flow's runner", run))
        deployment = _served(api, box, part, log=log)
        yield Stack(api=api, deployment_id=deployment, logs=logs, server=server, runner=part, say=say)


def _served(api: PrefectApi, box: str, part: Part, *, log: Path) -> str:
    """Wait until the flow is served; return its deployment's id (raises RunnerFailed)."""
    started = time.monotonic()
    while (deployment := api.deployment_id(box)) is None:
        if part.ended is not None:
            raise RunnerFailed(reason=f"the flow's runner ended with code {part.ended}: {tail(log)}")
        if time.monotonic() - started > RUNNER_TIMEOUT:
            raise RunnerFailed(reason=f"the flow is not served after {RUNNER_TIMEOUT:.0f} s: {tail(log)}")
        time.sleep(0.25)
    return deployment

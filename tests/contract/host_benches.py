"""The places on which the suite of `ports.Host` runs: in memory, as processes, in containers. All start the tiny engine."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import docker
import docker.errors
import psutil

from nightsweep.errors import LaunchRefused
from nightsweep.host import listeners, process_tree
from nightsweep.host.docker_host import DockerHost
from nightsweep.host.process_host import ProcessHost
from nightsweep.plan.model import ContainerSpec
from nightsweep.ports import EngineHandle, Host, Launch
from nightsweep.wiring import SystemClock
from tests import dockerkit
from tests.data import tiny_engine
from tests.fakes.host import FakeHost, Script

TINY_ENGINE = Path(tiny_engine.__file__).resolve()


@dataclass
class FakeBench:
    """Engines in memory, that behave as the tiny engine would with the same arguments."""

    name: str = "fake"
    host: FakeHost = field(init=False)

    def __post_init__(self) -> None:
        self.host = FakeHost(clock=SystemClock(), script=_script)

    def launch(self, *arguments: str, env: Mapping[str, str] | None = None, program: str | None = None) -> Launch:
        return _launch((program or "python", "tiny", *arguments), env=env)

    def kill(self, handle: EngineHandle) -> None:
        self.host.kill(handle, host_fault=True)

    def later_service(self) -> Host:
        return self.host

    def left(self) -> list[str]:
        return [handle.id for handle in self.host.owned()]

    def hold(self, port: int) -> None:
        self.host.busy_ports[port] = "somebody else"

    def let_go(self, port: int) -> None:
        self.host.busy_ports.pop(port, None)

    def close(self) -> None:
        pass


def _script(launch: Launch) -> Script:
    if launch.command[0] != "python":
        return Script(refused=LaunchRefused(reason=f"{launch.command[0]} does not exist"))
    asked = tiny_engine.parser().parse_args(launch.command[2:])
    lines = [(0.0, f"{asked.show_env}={launch.env.get(asked.show_env)}")] if asked.show_env else []
    lines += [(0.0, text) for text in tiny_engine.NOISE_LINES] if asked.noise else []
    lines += [(number * asked.every, f"line {number}".ljust(asked.width, ".")) for number in range(asked.lines)]
    talked = asked.lines * asked.every
    return Script(
        lines=lines,
        exits_at=None if asked.exit_after is None else talked + asked.exit_after,
        exit_code=asked.exit_code,
        swallows_term=asked.ignore_term,
        last_words=None if asked.ignore_term else tiny_engine.LAST_WORDS,
        term_exit_code=0,
        port_problem="nobody listens" if asked.silent_listener or not asked.port else None,
    )


class ProcessBench:
    """Engines as processes of this machine."""

    name = "process"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = f"token-{uuid.uuid4().hex}"
        self.host = ProcessHost(state_dir=folder, clock=SystemClock())

    def launch(self, *arguments: str, env: Mapping[str, str] | None = None, program: str | None = None) -> Launch:
        return _launch((program or sys.executable, str(TINY_ENGINE), "--token", self.token, *arguments), env=env)

    def kill(self, handle: EngineHandle) -> None:
        os.kill(int(handle.id.partition(":")[0]), signal.SIGKILL)

    def later_service(self) -> Host:
        return ProcessHost(state_dir=self.folder, clock=SystemClock())

    def left(self) -> list[str]:
        """Living processes with this bench's token on their command line: independent of how the host finds them."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            mine = self.token in (process.info["cmdline"] or ())
            if mine and process.info["status"] != psutil.STATUS_ZOMBIE and process.pid != os.getpid():
                found.append(f"pid {process.pid}")
        return found + [str(path) for path in self.folder.glob("*")]

    def close(self) -> None:
        for handle in self.host.owned():
            self.host.stop(handle, grace=0.0)


class DockerBench:
    """Engines in containers of the skeleton image, with a published port, or on the host's network where there is no bridge."""

    name = "docker"

    def __init__(self, factory: Callable[[], docker.DockerClient], *, image: str, bridge: bool) -> None:
        self.factory = factory
        self.client = factory()
        self.image = image
        self.bridge = bridge
        self.owner = f"test-{uuid.uuid4().hex[:12]}"
        self.hosts: list[DockerHost] = []
        self.host = self.later_service()

    def launch(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        program: str | None = None,
        container: ContainerSpec | None = None,
    ) -> Launch:
        python = str(Path(sys.executable).resolve())
        launch = _launch((program or python, "-u", str(TINY_ENGINE), *arguments), env=env)
        spec = container or self.spec()
        published = spec.network != "host"
        if published and "--port" in arguments:
            where = launch.command.index("--port") + 1
            command = (*launch.command[:where], "8000", *launch.command[where + 1 :], "--bind", "0.0.0.0")
        else:
            command = launch.command
        container_port = 8000 if published else launch.port
        if program is not None:  # with an init, the init starts and then fails: an engine that exits with 127
            spec = replace(spec, init=False)
        return Launch(
            boot_key=launch.boot_key,
            command=command,
            env=launch.env,
            port=launch.port,
            container_port=container_port,
            image=self.image,
            container=spec,
            labels={"com.example.test": "1"},
        )

    def spec(self, **more: object) -> ContainerSpec:
        """The skeleton with this Python in it."""
        given = {"volumes": dockerkit.python_volumes(TINY_ENGINE.parent), "network": None if self.bridge else "host"}
        return ContainerSpec(**{**given, **more})  # type: ignore[arg-type]

    def kill(self, handle: EngineHandle) -> None:
        """Kill from the kernel's side, as the system's OOM killer would; the init of the container goes with its child."""
        pid = self.client.api.inspect_container(handle.id)["State"]["Pid"]
        process_tree.send([pid], signal.SIGKILL)

    def later_service(self) -> DockerHost:
        host = DockerHost(client_factory=self.factory, clock=SystemClock(), owner=self.owner)
        self.hosts.append(host)
        return host

    def left(self) -> list[str]:
        listed = self.client.api.containers(all=True, filters={"label": f"nightsweep.owned={self.owner}"})
        return [summary["Id"] for summary in listed]

    def close(self) -> None:
        for container_id in self.left():
            self.client.api.remove_container(container_id, v=True, force=True)
        for host in self.hosts:
            host.close()
        self.client.close()


def _launch(command: tuple[str, ...], *, env: Mapping[str, str] | None) -> Launch:
    port = int(command[command.index("--port") + 1]) if "--port" in command else listeners.free_port()
    return Launch(
        boot_key=f"test sweep/{uuid.uuid4().hex[:12]}/0", command=command, env=env or {}, port=port, container_port=port
    )

"""A Docker Engine of our own, production on it, and containers that nobody may touch."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import httpx
import requests.exceptions

from tests import dockerkit
from tests.chaos.checker import Container
from tests.chaos.sweepfiles import SOURCE
from tests.component.sweep.kit import free_port
from tests.dockerkit import OwnDaemon

PRODUCTION = "chaos-production"
RUNNING = "chaos-foreign-running"
ENDED = "chaos-foreign-ended"
DAEMON_FLAGS = ("--iptables=false", "--ip6tables=false", "--live-restore")
"""Containers live on while their Engine is dead, so that what is touched was touched by somebody else than the Engine.

They are on the machine's network: an Engine of 20.10 that was killed gives a bridge's address out again while a dead
container's interface still has it, and production would be deaf through no fault of ours.
"""

AWAY = (docker.errors.DockerException, requests.exceptions.RequestException, OSError)


def docker_possible() -> bool:
    """Return whether a Docker Engine of our own can be started: it needs root."""
    return os.geteuid() == 0 and shutil.which("dockerd") is not None


@dataclass
class Dock:
    """A Docker Engine with production and foreign containers.

    Attributes:
        image: For engines in containers.
        port: Where production serves.
    """

    daemon: OwnDaemon
    image: str
    port: int

    @property
    def url(self) -> str:
        """Where production is asked."""
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> docker.DockerClient:
        """Return a new client; the caller closes it."""
        return docker.DockerClient(base_url=self.daemon.url, timeout=30)

    def seen(self, name: str, *, with_life: bool) -> Container | None:
        """Return a container as it is now; None when there is none."""
        with contextlib.closing(self.client()) as client:
            try:
                return _seen(client.api.inspect_container(name), with_life=with_life)
            except docker.errors.NotFound:
                return None

    def production_runs(self) -> bool | None:
        """Return whether production's container runs; None when Docker does not answer."""
        try:
            found = self.seen(PRODUCTION, with_life=False)
        except AWAY:
            return None
        return found is not None and found.running

    def production_serves(self) -> bool:
        """Ask production for one token."""
        body = {"model": "production", "prompt": "One word:", "max_tokens": 1}
        try:
            answer = httpx.post(f"{self.url}/v1/completions", json=body, timeout=5.0)
            return answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 1
        except (httpx.HTTPError, ValueError, KeyError):
            return False

    def own_engines(self) -> dict[str, int]:
        """Return the running containers that carry the product's label, with the pid of each."""
        with contextlib.closing(self.client()) as client:
            listed = client.api.containers(all=True, filters={"label": "nightsweep.owned"}, quiet=True)
            states = {one["Id"]: _state(client, one["Id"]) for one in listed}
        return {name: int(state.get("Pid", 0)) for name, state in states.items() if state}

    def kill_daemon(self, *, away: float) -> None:
        """Kill the Engine, and have it again after so many seconds, as its supervisor would."""
        self.daemon.call("kill")
        time.sleep(away)
        self.daemon.call("start")


def _state(client: docker.DockerClient, container_id: str) -> Mapping[str, Any]:
    with contextlib.suppress(docker.errors.NotFound):
        found: Mapping[str, Any] = client.api.inspect_container(container_id)["State"]
        return found
    return {}


def _seen(attrs: Mapping[str, Any], *, with_life: bool) -> Container:
    config, host, state = attrs["Config"], attrs["HostConfig"], attrs["State"]
    made = {key: config.get(key) for key in ("Image", "Cmd", "Entrypoint", "Env", "Labels", "WorkingDir")}
    made |= {key: host.get(key) for key in ("Binds", "PortBindings", "RestartPolicy", "NetworkMode")}
    made |= {"ImageId": attrs["Image"], "Created": attrs["Created"], "Args": attrs["Args"]}
    life = (str(state["StartedAt"]), int(attrs["RestartCount"])) if with_life else None
    return Container(
        name=attrs["Name"].lstrip("/"), id=attrs["Id"], running=bool(state["Running"]), life=life, made=made
    )


@contextlib.contextmanager
def dock() -> Iterator[Dock]:
    """Have a Docker Engine with production serving on it, for the block; nothing of it is left."""
    folder = Path(tempfile.mkdtemp(prefix="nsd", dir="/tmp"))  # short: the path of its socket is limited
    os.environ["NIGHTSWEEP_DOCKERD_NETWORK"] = "machine"
    daemon = OwnDaemon(folder, *DAEMON_FLAGS)
    try:
        with daemon, contextlib.closing(docker.DockerClient(base_url=daemon.url)) as client:
            client.api.import_image_from_data(dockerkit.skeleton_tar(), repository=dockerkit.REPOSITORY, tag="chaos")
            made = Dock(daemon=daemon, image=f"{dockerkit.REPOSITORY}:chaos", port=free_port())
            try:
                _start_containers(client, made)
                _wait_serving(made)
                yield made
            finally:
                _remove_all(made)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start_containers(client: docker.DockerClient, made: Dock) -> None:
    common: dict[str, Any] = {
        "image": made.image,
        "detach": True,
        "environment": {"PYTHONPATH": str(SOURCE)},
        "volumes": list(dockerkit.python_volumes(SOURCE)),
    }
    words = [sys.executable, "-m", "nightsweep.simulator", "production/model", "--served-model-name", "production"]
    words += ["--host", "127.0.0.1", "--port", str(made.port), "--sim-boot-speed", "200", "--sim-speed", "20"]
    client.containers.run(
        command=words,
        name=PRODUCTION,
        network_mode="host",
        restart_policy={"Name": "unless-stopped"},
        **common,
    )
    client.containers.run(command=["/bin/sleep", "infinity"], name=RUNNING, init=True, network_mode="none", **common)
    client.containers.run(command=["/bin/true"], name=ENDED, network_mode="none", **common).wait(timeout=30)


def _wait_serving(made: Dock) -> None:
    end = time.monotonic() + 60.0
    while not made.production_serves():
        if time.monotonic() > end:
            raise SystemExit("the production container of this test does not serve")
        time.sleep(0.2)


def _remove_all(made: Dock) -> None:
    with contextlib.suppress(*AWAY, subprocess.SubprocessError), contextlib.closing(made.client()) as client:
        for one in client.api.containers(all=True, quiet=True):
            with contextlib.suppress(*AWAY):
                client.api.remove_container(one["Id"], v=True, force=True)

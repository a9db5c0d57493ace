"""The simulator as a container: the same module, in an image that holds nothing."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

import nightsweep
from nightsweep.engine.registry import engine_for
from nightsweep.host.docker_host import DockerHost
from nightsweep.host.listeners import free_port
from nightsweep.plan.model import ContainerSpec
from nightsweep.ports import EngineHandle, Launch, Target
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock
from tests import dockerkit

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
]
SOURCE = Path(nightsweep.__file__).resolve().parent.parent


@pytest.fixture
def engine() -> Iterator[tuple[DockerHost, EngineHandle]]:
    client = docker.from_env()
    bridge = dockerkit.bridge_works(client)
    port = free_port()
    owner = f"simulator-{uuid.uuid4().hex[:8]}"
    with dockerkit.skeleton_image(client) as image, DockerHost(clock=SystemClock(), owner=owner) as host:
        launch = Launch(
            boot_key=owner,
            command=(
                *("-m", "nightsweep.simulator", "m/x", "--served-model-name", "m", "--sim-boot-speed", "2000"),
                *("--host", "0.0.0.0" if bridge else "127.0.0.1", "--port", "8000" if bridge else str(port)),
            ),
            env={"PYTHONPATH": str(SOURCE)},
            port=port,
            container_port=8000 if bridge else port,
            image=image,
            container=ContainerSpec(
                entrypoint=(sys.executable,),
                volumes=dockerkit.python_volumes(SOURCE),
                network=None if bridge else "host",
            ),
        )
        handle = host.start(launch)
        try:
            yield host, handle
        finally:
            host.stop(handle, grace=Seconds(5.0))
    client.close()


def test_the_simulator_boots_in_a_container_and_serves(engine: tuple[DockerHost, EngineHandle]) -> None:
    host, handle = engine
    knowledge = engine_for("vllm")
    with HttpProbe(clock=SystemClock()) as probe:
        begun = time.monotonic()
        while not probe.healthy(handle.base_url + knowledge.readiness().path, timeout=Seconds(2.0)):
            assert host.state(handle).running
            assert time.monotonic() - begun < 60.0
            time.sleep(0.1)
        answers = probe.ask(handle.base_url, knowledge.identity_paths(), timeout=Seconds(5.0))
        identity = knowledge.identity(answers)
        target = Target(handle.base_url, handle.base_url, "m", knowledge.dialect(identity.version))
        assert probe.served_token(target, timeout=Seconds(10.0)) is None
        assert probe.read(target).values["generation_tokens"] >= 1
    assert identity.simulated
    assert host.owns_port(handle) is None

"""Production whose Docker Engine restarts in the night."""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from nightsweep.host.docker_host import DockerHost
from nightsweep.plan.model import Production
from nightsweep.sweep.guard import Guard
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock
from tests import dockerkit
from tests.dockerkit import OwnDaemon
from tests.unit.sweep.builders import World, a_plan

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
    # The SDK forgets to close the socket with which it could not connect.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def daemon() -> Iterator[OwnDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="ns-", dir="/tmp"))
    try:
        with OwnDaemon(folder) as own:
            yield own
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        gc.collect()


def a_guard(world: World, host: DockerHost) -> Guard:
    """Return the guard of a sweep that has just begun on this Docker Engine."""
    plan = a_plan(production=Production("prod"))
    sweep = world.store.open_sweep(plan, box_id=world.store.box_id(world.host.box()), file_text="")
    lease = world.store.claim(sweep, owner="me:1:1:1", ttl=Seconds(60.0))
    return Guard(replace(world.tools(), host=lambda kind: host), lease)


def running(client: docker.DockerClient) -> bool:
    return bool(client.api.inspect_container("prod")["State"]["Running"])


def test_production_of_policy_always_that_came_up_with_its_daemon_is_stopped_again_and_serves_in_the_end(
    daemon: OwnDaemon,
) -> None:
    client = daemon.factory()
    client.api.import_image_from_data(dockerkit.skeleton_tar(), repository=dockerkit.REPOSITORY, tag="own")
    container = client.containers.create(
        f"{dockerkit.REPOSITORY}:own",
        [sys.executable, "-c", "import time; time.sleep(600)"],
        name="prod",
        volumes=list(dockerkit.python_volumes()),
        network_mode="host",
        init=True,
        restart_policy={"Name": "always"},
    )
    container.start()
    world = World()
    world.probe.healthy_when = lambda: True
    production = Production("prod", idle_for=Seconds(0.0))
    with DockerHost(clock=SystemClock(), client_factory=daemon.factory) as host:
        guard = a_guard(world, host)
        with guard.down(production, restore_by=None, check=lambda: None):
            assert not running(client)
            assert not guard.keep_down()
            daemon.call("restart")
            client = daemon.factory()
            begun = time.monotonic()
            while not running(client):
                assert time.monotonic() - begun < 30.0, "Docker did not start it by itself"
                time.sleep(0.05)
            assert guard.keep_down()
            assert not running(client)
        assert running(client)
        policy = client.api.inspect_container("prod")["HostConfig"]["RestartPolicy"]["Name"]
    client.close()
    assert policy == "always"
    warned = [event.kind for event in world.store.events if event.level == "warning"]
    assert warned[:1] == ["production_came_up"]
    assert [intent.outcome for intent in world.store.intents.values()] == ["restored"]

"""Production in a real container: the simulator, as somebody else would run it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

import nightsweep
from nightsweep.host.listeners import free_port
from nightsweep.store.queries import Queries
from tests import dockerkit
from tests.component.sweep.kit import Bench, engines_of

SOURCE = Path(nightsweep.__file__).resolve().parent.parent
SERVES = ("-m", "nightsweep.simulator", "org/model", "--served-model-name", "day", "--sim-boot-speed", "4000")


@dataclass
class Yard:
    """A Docker Engine with an image that runs the simulator; what is made here is removed afterwards."""

    client: docker.DockerClient
    image: str
    made: list[Container] = field(default_factory=list)

    def production(self, *more: str, command: Sequence[str] = SERVES, name: str | None = None, **how: Any) -> Container:
        """Return a container that serves on a port of its own, on the host's network."""
        port = free_port()
        container = self.client.containers.create(
            self.image,
            [*command, *more, "--host", "127.0.0.1", "--port", str(port)],
            entrypoint=[sys.executable],
            name=name or f"test-prod-{uuid.uuid4().hex[:8]}",
            environment={"PYTHONPATH": str(SOURCE), "HF_TOKEN": "hf_of_production"},
            volumes=list(dockerkit.python_volumes(SOURCE)),
            network_mode="host",
            init=True,
            **how,
        )
        self.made.append(container)
        container.start()
        return container

    def running(self, container: Container) -> bool:
        return bool(self.client.api.inspect_container(container.name)["State"]["Running"])


@pytest.fixture(scope="session")
def skeleton() -> Iterator[str]:
    client = docker.from_env()
    with dockerkit.skeleton_image(client, tag=f"production-{uuid.uuid4().hex[:6]}") as image:
        yield image
    client.close()


@pytest.fixture
def yard(skeleton: str) -> Iterator[Yard]:
    client = docker.from_env()
    made = Yard(client, skeleton)
    try:
        yield made
    finally:
        for container in made.made:
            try:
                container.remove(force=True, v=True)
            except docker.errors.NotFound:
                continue
        client.close()


@pytest.fixture
def bench(tmp_path: Path, database_url: str, queries: Queries) -> Iterator[Bench]:
    yield Bench(home=tmp_path, database_url=database_url, queries=queries)
    for engine in engines_of(tmp_path):
        engine.kill()

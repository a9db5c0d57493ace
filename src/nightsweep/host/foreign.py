"""Containers of other people: looked at, stopped and started; never removed, never changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import docker.errors

from nightsweep.errors import ContainerMissing, EngineNotGone, NotForeign, ProductionNotRestored
from nightsweep.host import container_spec, images, inspected
from nightsweep.host.docker_client import Daemon, explanation
from nightsweep.ports import ForeignContainer
from nightsweep.units import Seconds


class ForeignContainers:
    """The containers that are not ours on one Docker Engine."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def get(self, name: str) -> ForeignContainer:
        """Return a container by name or id.

        Raises:
            ContainerMissing: There is none.
            NotForeign: It is one of ours.
            DockerUnavailable: No answer.
        """
        attrs = self._inspect(name)
        return container_spec.foreign_container(attrs, image_digest=self._digest(attrs["Image"]))

    def stop(self, name: str, *, grace: Seconds) -> None:
        """Stop it, as `docker stop` does: its restart policy stays, and Docker does not apply it to a stopped one.

        Raises:
            EngineNotGone: It still runs.
        """
        attrs = self._inspect(name)
        with self._daemon.patient() as client:
            try:
                client.api.stop(attrs["Id"], timeout=math.ceil(grace))
            except docker.errors.APIError as fault:
                raise EngineNotGone(handle=name, waited=float(grace), reason=explanation(fault)) from fault
        if self._inspect(name)["State"]["Running"]:
            raise EngineNotGone(handle=name, waited=float(grace), reason="Docker says that it still runs")

    def start(self, name: str) -> None:
        """Start it again; one that runs is left alone.

        Raises:
            ProductionNotRestored: Docker refused, or it ended at once.
        """
        attrs = self._inspect(name)
        if attrs["State"]["Running"]:
            return
        with self._daemon.patient() as client:
            try:
                client.api.start(attrs["Id"])
            except docker.errors.APIError as fault:
                raise ProductionNotRestored(name=name, reason=explanation(fault)) from fault
        state = self._inspect(name)["State"]
        if not state["Running"] and not state.get("Restarting"):
            raise ProductionNotRestored(name=name, reason=f"it ended at once with code {state['ExitCode']}")

    def _inspect(self, name: str) -> Mapping[str, Any]:
        try:
            attrs = self._daemon.inspect(name)
        except docker.errors.NotFound as fault:
            raise ContainerMissing(name=name) from fault
        if inspected.is_owned(attrs):
            raise NotForeign(name=name)
        return attrs

    def _digest(self, image_id: str) -> str | None:
        try:
            with self._daemon.patient() as client:
                return images.identity(client.images.get(image_id).attrs)
        except docker.errors.APIError:  # the image was removed under a container that still runs
            return None

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
        image = self._image(attrs["Image"])
        return container_spec.foreign_container(
            attrs,
            image_digest=None if image is None else images.identity(image),
            image_env=() if image is None else (image.get("Config") or {}).get("Env") or (),
        )

    def stop(self, name: str, *, grace: Seconds) -> None:
        """Stop it, as `docker stop` does: its restart policy stays, and Docker does not apply it to a stopped one.

        A paused one goes on first: it could not hear the signal, and would be killed after the grace.

        Raises:
            EngineNotGone: It still runs.
        """
        attrs = self._inspect(name)
        with self._daemon.patient() as client:
            try:
                if attrs["State"].get("Paused"):
                    client.api.unpause(attrs["Id"])
                client.api.stop(attrs["Id"], timeout=math.ceil(grace))
            except docker.errors.APIError as fault:
                raise EngineNotGone(handle=name, waited=float(grace), reason=explanation(fault)) from fault
        if self._inspect(name)["State"]["Running"]:
            raise EngineNotGone(handle=name, waited=float(grace), reason="Docker says that it still runs")

    def start(self, name: str) -> None:
        """Start it again, or let it go on where somebody paused it; one that runs is left alone.

        Raises:
            ProductionNotRestored: Docker refused, or it ended at once.
        """
        attrs = self._inspect(name)
        paused = attrs["State"].get("Paused")
        if attrs["State"]["Running"] and not paused:
            return
        with self._daemon.patient() as client:
            try:
                client.api.unpause(attrs["Id"]) if paused else client.api.start(attrs["Id"])
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

    def _image(self, image_id: str) -> Mapping[str, Any] | None:
        try:
            with self._daemon.patient() as client:
                found: Mapping[str, Any] = client.images.get(image_id).attrs
                return found
        except docker.errors.APIError:  # the image was removed under a container that still runs
            return None

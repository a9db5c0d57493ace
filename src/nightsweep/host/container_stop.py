"""The end of a container of ours: asked, killed, removed, and proven."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import docker.errors

from nightsweep.errors import DockerUnavailable, EngineNotGone, NotOurs
from nightsweep.host import inspected
from nightsweep.host.docker_client import PAUSE, Daemon, explanation
from nightsweep.ports import Clock, EngineHandle, EngineState
from nightsweep.units import Seconds

SLACK = Seconds(60.0)
"""Beyond the grace: how long a daemon may be away or slow before stopping it has failed."""


class ContainerStop:
    """Ends one container.

    Args:
        judge: Returns the engine's state from an inspection.
        note: Is told the id as soon as the end is our doing.
    """

    def __init__(
        self,
        daemon: Daemon,
        handle: EngineHandle,
        *,
        clock: Clock,
        owner: str,
        judge: Callable[[Mapping[str, Any]], EngineState],
        note: Callable[[str], None],
    ) -> None:
        self._daemon = daemon
        self._handle = handle
        self._clock = clock
        self._owner = owner
        self._judge = judge
        self._note = note
        self._begun = clock.monotonic()
        self._problem = ""

    def halt(self, *, grace: Seconds) -> EngineState:
        """Return how the engine ended: by itself before, by SIGTERM, or by SIGKILL after `grace`.

        Raises:
            EngineNotGone, DockerUnavailable: It could not be ended.
            NotOurs: The container does not carry our label.
        """
        asked = False
        while True:
            try:
                attrs = self._daemon.inspect(self._handle.id)
                if not inspected.is_owned(attrs, owner=self._owner):
                    raise NotOurs(name=attrs["Name"].lstrip("/"))
                if not attrs["State"]["Running"]:
                    return self._judge(attrs)
                self._note(self._handle.id)
                self._signal(grace=grace, kill=asked)
                asked = True
            except docker.errors.NotFound:
                return EngineState(running=False, detail="its container was gone already")
            except DockerUnavailable as fault:
                self._out_of_time(grace, fault)
            except docker.errors.APIError as fault:
                asked = True
                self._problem = explanation(fault)
                self._out_of_time(grace, None)

    def remove(self) -> None:
        """Remove the container with its own volumes, and see that Docker does not know it any more.

        Raises:
            EngineNotGone, DockerUnavailable: It is still there.
        """
        self._begun = self._clock.monotonic()
        while True:
            try:
                with self._daemon.patient() as client:
                    client.api.remove_container(self._handle.id, v=True, force=True)
                self._daemon.inspect(self._handle.id)
                self._problem = "Docker still lists it"
                self._out_of_time(Seconds(0.0), None)
            except docker.errors.NotFound:
                return
            except DockerUnavailable as fault:
                self._out_of_time(Seconds(0.0), fault)
            except docker.errors.APIError as fault:  # 409: a removal is under way
                self._problem = explanation(fault)
                self._out_of_time(Seconds(0.0), None)

    def _signal(self, *, grace: Seconds, kill: bool) -> None:
        """Send SIGTERM and, after the grace, SIGKILL (Docker does both); or SIGKILL at once, at the second try."""
        with self._daemon.patient() as client:
            if kill:
                client.api.kill(self._handle.id)
                self._clock.sleep(PAUSE)
            else:
                client.api.stop(self._handle.id, timeout=math.ceil(grace))

    def _out_of_time(self, grace: Seconds, fault: DockerUnavailable | None) -> None:
        waited = self._clock.monotonic() - self._begun
        if waited >= grace + SLACK:
            if fault is not None:
                raise fault
            raise EngineNotGone(handle=self._handle.id, waited=waited, reason=self._problem)
        self._clock.sleep(PAUSE)

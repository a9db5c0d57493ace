"""Engines in Docker containers, through the Docker SDK."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import docker
import docker.errors

from nightsweep.engine.values import LogLine
from nightsweep.errors import DockerUnavailable, GpuRuntimeMissing, ImageMissing, LaunchRefused, PortBusy
from nightsweep.host import box, container_spec, images, inspected, listeners, process_tree
from nightsweep.host.container_stop import ContainerStop
from nightsweep.host.docker_client import ClientFactory, Daemon, explanation
from nightsweep.host.docker_log import DockerLog
from nightsweep.host.followers import Followers
from nightsweep.host.foreign import ForeignContainers
from nightsweep.host.freeing import Freeing
from nightsweep.host.pulling import Pull
from nightsweep.ports import BoxFacts, Clock, EngineHandle, EngineState, ForeignContainer, Launch
from nightsweep.units import Seconds

AWAY_FOR = Seconds(30.0)
"""How long a Docker Engine may take to come back while an engine's identity is asked for."""
NO_GPU_WORDS = ("could not select device driver", "unknown or invalid runtime name: nvidia", "unresolvable CDI devices")
"""What Docker says at start when it has no way to pass a GPU on (20.10 to 28)."""


class DockerHost:
    """The `Host` of engines in containers. Use it in a `with`, or `close` it.

    Args:
        client_factory: Makes a Docker client; called again after a daemon was away.
        box_name: What people call this box; None is the machine's node name.
        owner: Value of the label `nightsweep.owned`. Two installations on one daemon keep apart by it.
    """

    kind = "docker"

    def __init__(
        self,
        *,
        client_factory: ClientFactory = docker.from_env,
        box_name: str | None = None,
        clock: Clock,
        owner: str = "1",
    ) -> None:
        self._factory = client_factory
        self._clock = clock
        self._box_name = box_name
        self._owner = owner
        self._daemon = Daemon(client_factory)
        self._foreign = ForeignContainers(self._daemon)
        self._freeing = Freeing(clock)
        self._followers = Followers()
        self._ended_by_us: set[str] = set()
        self._away: set[str] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> DockerHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back; the host may be used again."""
        self._daemon.close()

    # --- before and at the start ---

    def image_digest(self, image: str) -> str | None:
        """Return the content identity of an image that is here; None when it is not. Nothing is pulled."""
        with self._daemon.quick() as client:
            return images.digest_here(client, image)

    def check(self, launch: Launch) -> None:
        """Raise DockerUnavailable, GpuRuntimeMissing or PortBusy, when no engine like this can be started here."""
        info = self._info()
        if launch.container.gpus is not None and gpu_way(info) is None:
            listed = ", ".join(sorted(info.get("Runtimes") or {}))
            raise GpuRuntimeMissing(reason=f"its runtimes are {listed}, and it knows no NVIDIA device by CDI")
        if listeners.is_held(launch.port):
            raise PortBusy(port=launch.port, holder=listeners.holder(launch.port, self._published()))

    def fetch(self, image: str, *, check: Callable[[], None]) -> Seconds | None:
        """Pull an image unless it is here; return how long that took.

        Raises:
            ImageMissing: Neither here nor to be pulled.
            DockerUnavailable: No answer.
        """
        with self._daemon.quick() as client:
            if images.known(client, image) is not None:
                return None
        begun = self._clock.monotonic()
        with self._daemon.own() as client:
            Pull(client, image).wait(check)
        return Seconds(self._clock.monotonic() - begun)

    def start(self, launch: Launch) -> EngineHandle:
        """Start a container for the engine, labelled as ours, restart policy "no".

        Raises:
            ImageMissing: It is not here: `fetch` it first.
            LaunchRefused: Docker refused it; nothing of it is left.
            GpuRuntimeMissing: Docker cannot pass a GPU on.
            DockerUnavailable: No answer.
        """
        if launch.image is None:
            raise LaunchRefused(reason="no image is named: set engine.image, or engine.host to `process`")
        with self._daemon.patient() as client:
            image = images.known(client, launch.image)
            if image is None:
                raise ImageMissing(image=launch.image, reason="it was removed after it had been looked for")
            facts = self._freeing.note()
            created = self._create(client, launch)
            try:
                client.api.start(created)
            except docker.errors.APIError as fault:
                self._remove_created(client, created)
                raise _refusal(fault, launch) from fault
        return inspected.handle(
            self._daemon.inspect(created),
            image_digest=images.identity(image),
            image_refs=images.references(image) or (launch.image,),
            facts=facts,
        )

    def _create(self, client: docker.DockerClient, launch: Launch) -> str:
        name = container_spec.container_name(launch.boot_key)
        way = gpu_way(self._info()) or "request" if launch.container.gpus is not None else "request"
        asked = container_spec.create_arguments(launch, name=name, owner=self._owner, gpu_way=way)
        for attempt in range(3):
            try:
                return str(client.containers.create(**asked).id)
            except docker.errors.APIError as fault:
                if fault.status_code != 409 or attempt == 2:
                    raise _refusal(fault, launch) from fault
                asked["name"] = self._after_conflict(client, launch, name)
            except (docker.errors.InvalidArgument, ValueError, TypeError) as fault:
                raise LaunchRefused(reason=str(fault)) from fault
        raise AssertionError("unreachable")

    def _after_conflict(self, client: docker.DockerClient, launch: Launch, name: str) -> str:
        """Return the name to try next: the same when it was a dead leftover of this boot, which is removed."""
        try:
            attrs = client.api.inspect_container(name)
        except docker.errors.NotFound:
            return name
        ours = inspected.is_owned(attrs, owner=self._owner)
        if ours and inspected.labels(attrs).get(container_spec.BOOT) == launch.boot_key:
            if attrs["State"]["Running"]:
                raise LaunchRefused(reason=f"an engine of boot {launch.boot_key} runs already")
            client.api.remove_container(attrs["Id"], v=True, force=True)
            return name
        # The name is somebody else's. Names are for people only, so another one does as well.
        return f"{name}-{attrs['Id'][:6]}"

    def _remove_created(self, client: docker.DockerClient, container_id: str) -> None:
        try:
            client.api.remove_container(container_id, v=True, force=True)
        except docker.errors.NotFound:
            return

    # --- while it runs ---

    def state(self, handle: EngineHandle) -> EngineState:
        """Return whether the engine lives. A daemon that does not answer is no death: the engine counts as running."""
        try:
            attrs = self._daemon.inspect(handle.id)
        except docker.errors.NotFound:
            by_us = handle.id in self._ended_by_us
            gone = "its container does not exist any more"
            return EngineState(running=False, host_fault=not by_us, detail=gone, taken_away=not by_us)
        except (DockerUnavailable, docker.errors.APIError) as fault:
            self._away.add(handle.id)
            return EngineState(running=True, detail=f"daemon away: {fault}")
        return self._judge(attrs)

    def _judge(self, attrs: Mapping[str, Any]) -> EngineState:
        container_id = attrs["Id"]
        return inspected.engine_state(
            attrs, ended_by_us=container_id in self._ended_by_us, daemon_was_away=container_id in self._away
        )

    def follow_log(self, handle: EngineHandle, *, stop: Callable[[], bool]) -> Iterator[LogLine]:
        """Yield log lines with Docker's own stamps, from the container's first one, over daemon restarts."""
        log = DockerLog(handle.id, client_factory=self._factory, stop=stop, clock=self._clock)
        with self._followers.following(handle.id):
            yield from log.lines()

    def owns_port(self, handle: EngineHandle) -> str | None:
        """Return None when this container is what listens on the port; else why that is doubtful.

        A published port is Docker's word. On the host's network the listener must be a process of the container; who may
        not see other users' sockets (not root) is content with a listener of the container's user.

        Raises:
            DockerUnavailable: No answer for half a minute. That says nothing of the engine.
        """
        try:
            attrs = self._daemon.inspect_patiently(handle.id, clock=self._clock, within=AWAY_FOR)
        except docker.errors.NotFound:
            return "its container does not exist any more"
        if attrs["HostConfig"].get("NetworkMode") != "host":
            container_port = int(inspected.labels(attrs).get(container_spec.CONTAINER_PORT, handle.port))
            return inspected.port_problem(attrs, port=handle.port, container_port=container_port)
        if not attrs["State"]["Running"]:
            return "its container is not running"
        return _host_network_problem(int(attrs["State"]["Pid"]), handle.port)

    # --- the end ---

    def stop(self, handle: EngineHandle, *, grace: Seconds) -> EngineState:
        """Stop and remove the container, proven by Docker not knowing it any more. Idempotent.

        Raises:
            EngineNotGone: It is still there.
            DockerUnavailable: No answer for a minute beyond the grace.
        """
        stopping = ContainerStop(
            self._daemon, handle, clock=self._clock, owner=self._owner, judge=self._judge, note=self._ended_by_us.add
        )
        last = stopping.halt(grace=grace)
        # What the engine said last is gone with the container: let whoever reads its log finish.
        self._followers.wait(handle.id, timeout=Seconds(3.0))
        stopping.remove()
        return last

    def wait_free(self, *, port: int, timeout: Seconds) -> None:
        """Wait until nobody listens on the port and accelerator memory is back at what it was before the last start.

        Raises:
            PortBusy, GpuBusy: Not free in time.
        """
        self._freeing.wait(port=port, timeout=timeout, published=self._published)

    def owned(self) -> tuple[EngineHandle, ...]:
        """Return our engines on this daemon, running or not, also those of services that are dead."""
        with self._daemon.patient() as client:
            summaries = client.api.containers(
                all=True, filters={"label": f"{container_spec.OWNED}={self._owner}"}, quiet=True
            )
        handles = []
        for summary in summaries:
            try:
                attrs = self._daemon.inspect(summary["Id"])
            except docker.errors.NotFound:
                continue
            refs = (str(attrs["Config"]["Image"]),)
            handles.append(inspected.handle(attrs, image_digest=None, image_refs=refs, facts={}))
        return tuple(handles)

    # --- the box and its other containers ---

    def box(self) -> BoxFacts:
        """Return the facts of this machine, with Docker's version."""
        return box.facts(name=self._box_name, docker_version=str(self._info().get("ServerVersion")))

    def foreign(self, name: str) -> ForeignContainer:
        """Return a container that is not ours (raises ContainerMissing, NotForeign)."""
        return self._foreign.get(name)

    def stop_foreign(self, name: str, *, grace: Seconds) -> None:
        """Stop a container that is not ours (raises EngineNotGone when it still runs)."""
        self._foreign.stop(name, grace=grace)

    def start_foreign(self, name: str) -> None:
        """Start it again; idempotent (raises ProductionNotRestored)."""
        self._foreign.start(name)

    # --- inside ---

    def _info(self) -> Mapping[str, Any]:
        with self._daemon.quick() as client:
            try:
                info: Mapping[str, Any] = client.info()
            except docker.errors.APIError as fault:
                raise DockerUnavailable(reason=explanation(fault)) from fault
            return info

    def _published(self) -> list[tuple[int, str]]:
        with self._daemon.quick() as client:
            return [
                (int(port["PublicPort"]), summary["Names"][0].lstrip("/"))
                for summary in client.api.containers()
                for port in summary.get("Ports") or ()
                if port.get("PublicPort")
            ]


def gpu_way(info: Mapping[str, Any]) -> str | None:
    """Return how this daemon passes GPUs on: "request" (NVIDIA's runtime or hook), "cdi", or None.

    Source:
        `GET /info`: Runtimes; DiscoveredDevices (Docker 28.2 and later); CDISpecDirs (25 and later). Docker takes GPU
        requests too when NVIDIA's hook is on the daemon's PATH, without listing a runtime.
    """
    if "nvidia" in (info.get("Runtimes") or {}):
        return "request"
    if any(str(device.get("ID", "")).startswith("nvidia.com/gpu") for device in info.get("DiscoveredDevices") or ()):
        return "cdi"
    if shutil.which("nvidia-container-runtime-hook"):
        return "request"
    specs = [path for folder in info.get("CDISpecDirs") or () for path in Path(folder).glob("*nvidia*")]
    return "cdi" if specs else None


def _host_network_problem(pid: int, port: int) -> str | None:
    container = {pid, *process_tree.descendants(pid)}
    listening, hidden = listeners.listening_pids(port)
    strangers = listening - container
    if strangers:
        return f"port {port} is held by {listeners.holder(port)}"
    if listening:
        return None
    if not hidden:
        return f"nobody listens on port {port}"
    if listeners.listening_users(port) <= process_tree.user_ids(pid):
        return None
    return f"port {port} is held by a process of a user that is not the container's"


def _refusal(fault: docker.errors.APIError, launch: Launch) -> GpuRuntimeMissing | LaunchRefused:
    text = explanation(fault, launch.env)
    if any(words in text for words in NO_GPU_WORDS):
        return GpuRuntimeMissing(reason=text)
    return LaunchRefused(reason=text)

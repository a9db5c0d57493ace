"""Containers in Docker's words, both ways: from a launch to what is asked, from `inspect` to our values. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from nightsweep.errors import LaunchRefused
from nightsweep.host.loglines import nanoseconds
from nightsweep.host.redact import looks_secret, masked_command
from nightsweep.plan.model import ContainerSpec
from nightsweep.ports import ForeignContainer, Launch, Secret

BOOT = "nightsweep.boot"
OWNED = "nightsweep.owned"
PORT = "nightsweep.port"
HOLDER = "nightsweep.holder"
"""Label: who started the engine, as in a lease. Two sweeps on one machine must not stop each other's engines."""
CONTAINER_PORT = "nightsweep.container-port"

NEVER = "0001-"
"""How Docker's time begins of what has not happened yet."""

DOCKER_SHM_SIZE = 64 * 1024 * 1024
"""Bytes of /dev/shm that a container gets when nobody asks."""

COUNT = re.compile(r"[1-9]\d{0,2}")

ENGINE_LOG = LogConfig(
    type=LogConfig.types.JSON, config={"max-size": "20g", "max-file": "1", "mode": "blocking", "compress": "false"}
)
"""A box may rotate or drop its containers' logs by default; a boot log is raw data and is kept whole until it is read."""


def create_arguments(launch: Launch, *, name: str, owner: str, gpu_way: str) -> dict[str, Any]:
    """Return the arguments of `containers.create` for an engine.

    Args:
        owner: Value of the label that makes the container ours.
        gpu_way: "request" (NVIDIA's runtime or hook) or "cdi".

    Raises:
        LaunchRefused: Something in the container spec cannot be understood.
    """
    spec = launch.container
    mounts, binds = volumes(spec.volumes)
    asked: dict[str, Any] = {
        "image": launch.image,
        "command": list(launch.command),
        "name": name,
        "labels": {**launch.labels, **own_labels(launch, owner=owner)},
        "environment": dict(launch.env),
        "detach": True,
        "tty": False,
        "init": spec.init,
        "restart_policy": {"Name": "no"},
        "log_config": ENGINE_LOG,
        "mounts": mounts,
        "volumes": binds,
        "device_requests": gpu_requests(spec.gpus, way=gpu_way),
        "devices": list(spec.devices),
        "ipc_mode": spec.ipc,
        "shm_size": spec.shm_size,
        "mem_limit": spec.memory,
        "entrypoint": None if spec.entrypoint is None else list(spec.entrypoint),
        "user": spec.user,
        "cap_add": list(spec.cap_add),
        "security_opt": list(spec.security_opt),
        "ulimits": [ulimit(text) for text in spec.ulimits],
        "extra_hosts": extra_hosts(spec.extra_hosts),
        "runtime": spec.runtime,
        "working_dir": spec.workdir,
        **network(launch),
    }
    return {key: value for key, value in asked.items() if value is not None and value != [] and value != {}}


def own_labels(launch: Launch, *, owner: str) -> dict[str, str]:
    """Return the labels by which an engine is found again."""
    return {BOOT: launch.boot_key, OWNED: owner, PORT: str(launch.port), CONTAINER_PORT: str(launch.container_port)}


def container_name(boot_key: str) -> str:
    """Return a name that Docker accepts, for people to see; nothing is ever found by it."""
    return "nightsweep-" + re.sub(r"[^a-zA-Z0-9_.-]+", "-", boot_key)[:180]


def network(launch: Launch) -> dict[str, Any]:
    """Return the network's arguments: the host's own, or a port published on the loopback address only."""
    if launch.container.network == "host":
        return {"network_mode": "host"}
    published = {"ports": {f"{launch.container_port}/tcp": ("127.0.0.1", launch.port)}}
    if launch.container.network is None:
        return published
    return {**published, "network": launch.container.network}


def gpu_requests(gpus: str | None, *, way: str) -> list[DeviceRequest]:
    """Return Docker's device requests for `gpus`: "all", a count ("2"), ids ("0,1", "GPU-uuid") or "device=1" for one id."""
    if gpus is None:
        return []
    text = gpus.strip().removeprefix("device=")
    ids = [part.strip() for part in text.split(",") if part.strip()]
    if not ids:
        raise LaunchRefused(reason=f"gpus: {gpus!r} names no device")
    counted = COUNT.fullmatch(text) is not None and not gpus.strip().startswith("device=")
    if way == "cdi":
        names = [str(index) for index in range(int(text))] if counted else ids
        return [DeviceRequest(driver="cdi", device_ids=[f"nvidia.com/gpu={name}" for name in names])]
    if text == "all" or counted:
        return [DeviceRequest(count=-1 if text == "all" else int(text), capabilities=[["gpu"]])]
    return [DeviceRequest(device_ids=ids, capabilities=[["gpu"]])]


def volumes(asked: Sequence[str]) -> tuple[list[Mount], list[str]]:
    """Return volumes as mounts, and the ones with options that only the older form knows as they are.

    A bind is asked as a mount because Docker then refuses a host path that does not exist; the older form makes an
    empty directory of it, and the engine downloads its model again or fails far from the cause.
    """
    mounts: list[Mount] = []
    binds: list[str] = []
    for text in asked:
        source, target, options = _volume_parts(text)
        if options - {"ro", "rw"}:
            binds.append(text)
            continue
        kind: Literal["bind", "volume"] = "bind" if source.startswith("/") else "volume"
        mounts.append(Mount(target=target, source=source, type=kind, read_only="ro" in options))
    return mounts, binds


def _volume_parts(text: str) -> tuple[str, str, set[str]]:
    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[0] or not parts[1].startswith("/"):
        raise LaunchRefused(reason=f"volume {text!r}: write it as /host/path:/container/path or with :ro at the end")
    if parts[0].startswith((".", "~")):
        raise LaunchRefused(reason=f"volume {text!r}: the host path must be absolute")
    return parts[0], parts[1], set(parts[2].split(",")) if len(parts) == 3 else set()


def ulimit(text: str) -> Ulimit:
    """Return Docker's value of "memlock=-1" or "nofile=65536:65536" (soft:hard)."""
    match = re.fullmatch(r"([a-z]+)=(-?\d+)(?::(-?\d+))?", text)
    if match is None:
        raise LaunchRefused(reason=f"ulimit {text!r}: write it as name=soft or name=soft:hard")
    name, soft, hard = match.groups()
    return Ulimit(name=name, soft=int(soft), hard=int(hard if hard is not None else soft))


def extra_hosts(asked: Sequence[str]) -> dict[str, str]:
    """Return "name:address" texts as Docker's SDK takes them."""
    hosts: dict[str, str] = {}
    for text in asked:
        name, _, address = text.replace("=", ":", 1).partition(":")
        if not name or not address:
            raise LaunchRefused(reason=f"extra_hosts {text!r}: write it as name:address")
        hosts[name] = address
    return hosts


# --- from inspect ------------------------------------------------------------------------------------------------


def foreign_container(
    attrs: Mapping[str, Any], *, image_digest: str | None, image_env: Sequence[str] = ()
) -> ForeignContainer:
    """Return a container of somebody else, so that its engine can be written down and started again.

    Args:
        image_env: What its image sets of the environment.
    """
    config, host = attrs["Config"], attrs["HostConfig"]
    env = environment(config.get("Env") or ())
    own = environment([entry for entry in config.get("Env") or () if entry not in image_env])
    return ForeignContainer(
        name=attrs["Name"].lstrip("/"),
        id=attrs["Id"],
        running=bool(attrs["State"]["Running"]),
        image=config["Image"],
        image_digest=image_digest,
        command=_words(config.get("Cmd")),
        entrypoint=_words(config.get("Entrypoint")),
        env_names=tuple(env),
        ports=published_ports(attrs),
        container=container_spec(attrs),
        restart_policy=(host.get("RestartPolicy") or {}).get("Name") or "no",
        labels=dict(config.get("Labels") or {}),
        env=env,
        paused=bool(attrs["State"].get("Paused")),
        own_env=tuple(own),
        addresses=_addresses(attrs),
        shown_entrypoint=masked_command(_words(config.get("Entrypoint")), env),
        shown_command=masked_command(_words(config.get("Cmd")), env),
        started=_started(attrs["State"]),
    )


def _started(state: Mapping[str, Any]) -> datetime | None:
    """Return when a container was started last; None for Docker's year 1, which is never, and for what is no time."""
    told = str(state.get("StartedAt"))
    try:
        return None if told.startswith(NEVER) else datetime.fromtimestamp(nanoseconds(told) / 1e9, UTC)
    except ValueError:
        return None


def _addresses(attrs: Mapping[str, Any]) -> tuple[str, ...]:
    networks = (attrs.get("NetworkSettings") or {}).get("Networks") or {}
    return tuple(str(one["IPAddress"]) for one in networks.values() if one and one.get("IPAddress"))


def environment(entries: Sequence[str]) -> dict[str, str]:
    """Return "NAME=value" entries by name; values of names that look secret are `Secret`."""
    found: dict[str, str] = {}
    for entry in entries:
        name, _, value = entry.partition("=")
        found[name] = Secret(value) if looks_secret(name) else value
    return found


def published_ports(attrs: Mapping[str, Any]) -> dict[int, int]:
    """Return host port by container port (TCP), also of a container that is stopped; the host's network has none."""
    asked = (attrs.get("HostConfig") or {}).get("PortBindings") or {}
    live = (attrs.get("NetworkSettings") or {}).get("Ports") or {}
    found: dict[int, int] = {}
    for ports in (asked, live):
        for key, bindings in ports.items():
            number, _, protocol = key.partition("/")
            taken = [int(b["HostPort"]) for b in bindings or () if b.get("HostPort")]
            if protocol in ("", "tcp") and taken and taken[0]:
                found[int(number)] = taken[0]
    return found


def container_spec(attrs: Mapping[str, Any]) -> ContainerSpec:
    """Return how a container was made; what Docker fills in by itself is None."""
    config, host = attrs["Config"], attrs["HostConfig"]
    network_mode = host.get("NetworkMode")
    return ContainerSpec(
        gpus=_gpus(host.get("DeviceRequests") or ()),
        ipc=_unless(host.get("IpcMode"), "", "private"),
        shm_size=_unless(host.get("ShmSize"), 0, DOCKER_SHM_SIZE),
        memory=_unless(host.get("Memory"), 0),
        volumes=tuple(_mounted(mount) for mount in attrs.get("Mounts") or () if mount["Type"] in ("bind", "volume")),
        devices=tuple(_device(device) for device in host.get("Devices") or ()),
        network=_unless(network_mode, "default", "bridge", ""),
        user=_unless(config.get("User"), ""),
        cap_add=tuple(host.get("CapAdd") or ()),
        security_opt=tuple(host.get("SecurityOpt") or ()),
        ulimits=tuple(f"{u['Name']}={u['Soft']}:{u['Hard']}" for u in host.get("Ulimits") or ()),
        extra_hosts=tuple(host.get("ExtraHosts") or ()),
        runtime=_unless(host.get("Runtime"), "runc", "io.containerd.runc.v2", ""),
        init=bool(host.get("Init")),
        workdir=_unless(config.get("WorkingDir"), "", "/"),
    )


def _unless(value: Any, *defaults: Any) -> Any:
    return None if value in defaults else value


def _words(value: Any) -> tuple[str, ...]:
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(value or ())


def _mounted(mount: Mapping[str, Any]) -> str:
    source = mount["Source"] if mount["Type"] == "bind" else mount["Name"]
    return f"{source}:{mount['Destination']}" + ("" if mount.get("RW", True) else ":ro")


def _device(device: Mapping[str, Any]) -> str:
    return f"{device['PathOnHost']}:{device['PathInContainer']}:{device.get('CgroupPermissions') or 'rwm'}"


def _gpus(requests: Sequence[Mapping[str, Any]]) -> str | None:
    for request in requests:
        gpu = any("gpu" in group for group in request.get("Capabilities") or ())
        if not gpu and request.get("Driver") not in ("cdi", "nvidia"):
            continue
        ids = [str(name).removeprefix("nvidia.com/gpu=") for name in request.get("DeviceIDs") or ()]
        if ids:
            single_number = len(ids) == 1 and COUNT.fullmatch(ids[0])
            return f"device={ids[0]}" if single_number else ",".join(ids)
        count = int(request.get("Count") or 0)
        return "all" if count < 0 else str(count)
    return None

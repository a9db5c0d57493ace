"""What is left on a box that could disturb a sweep or a morning, for `nightsweep doctor`. Looks only, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors

from nightsweep.errors import DockerUnavailable
from nightsweep.host import accelerator, inspected
from nightsweep.host.accelerator import AcceleratorUser
from nightsweep.host.container_spec import BOOT
from nightsweep.host.docker_client import ClientFactory, Daemon
from nightsweep.host.process_records import EngineRecords

ENGINE_WORDS = ("vllm", "sglang", "tritonserver", "text-generation-inference", "llama.cpp", "ollama", "tensorrt")
"""Parts of image names and commands by which an inference engine is recognised."""


@dataclass(frozen=True)
class OwnLeftover:
    """An engine of ours that is still here; outside a sweep it should not be."""

    host: str  # "docker" | "process"
    id: str
    name: str
    boot_key: str
    running: bool


@dataclass(frozen=True)
class ExitedEngine:
    """A container of somebody else with an inference engine, that has ended and takes up disk."""

    name: str
    id: str
    image: str
    exit_code: int
    finished_at: str


@dataclass(frozen=True)
class ComesBack:
    """A container with a restart policy and an accelerator or an engine: it may start by itself in a sweep."""

    name: str
    id: str
    image: str
    policy: str
    running: bool


@dataclass(frozen=True)
class Leftovers:
    """Everything that was found.

    Attributes:
        docker_problem: Why Docker could not be asked; None when it was.
        accelerator_users: Processes that hold accelerator memory now, as the driver names them.
        stopped_containers: Count of all containers that have ended, of whatever kind.
    """

    own: tuple[OwnLeftover, ...]
    exited_engines: tuple[ExitedEngine, ...]
    comes_back: tuple[ComesBack, ...]
    accelerator_users: tuple[AcceleratorUser, ...]
    stopped_containers: int | None
    docker_problem: str | None = None


def find_leftovers(*, client_factory: ClientFactory = docker.from_env, state_dir: Path | None = None) -> Leftovers:
    """Return what is left on this box, by Docker, by our records and by the accelerator's driver.

    Args:
        state_dir: Where `ProcessHost` keeps its records; None skips them.
    """
    containers, problem = _containers(client_factory)
    own = [_own_container(attrs) for attrs in containers if inspected.is_owned(attrs)]
    theirs = [attrs for attrs in containers if not inspected.is_owned(attrs)]
    if state_dir is not None:
        own.extend(_own_processes(state_dir))
    return Leftovers(
        own=tuple(own),
        exited_engines=tuple(_exited(attrs) for attrs in theirs if _is_exited_engine(attrs)),
        comes_back=tuple(_comes_back(attrs) for attrs in theirs if _may_come_back(attrs)),
        accelerator_users=accelerator.users(),
        stopped_containers=None if problem else sum(not attrs["State"]["Running"] for attrs in containers),
        docker_problem=problem,
    )


def _containers(client_factory: ClientFactory) -> tuple[list[Mapping[str, Any]], str | None]:
    daemon = Daemon(client_factory)
    try:
        with daemon.patient() as client:
            ids = [summary["Id"] for summary in client.api.containers(all=True, quiet=True)]
        return list(_inspected(daemon, ids)), None
    except DockerUnavailable as fault:
        return [], str(fault)
    except docker.errors.APIError as fault:
        return [], str(fault.explanation or fault)
    finally:
        daemon.close()


def _inspected(daemon: Daemon, ids: list[str]) -> Iterator[Mapping[str, Any]]:
    for container_id in ids:
        try:
            yield daemon.inspect(container_id)
        except docker.errors.NotFound:
            continue


def _own_container(attrs: Mapping[str, Any]) -> OwnLeftover:
    return OwnLeftover(
        host="docker",
        id=attrs["Id"],
        name=_name(attrs),
        boot_key=inspected.labels(attrs).get(BOOT, ""),
        running=bool(attrs["State"]["Running"]),
    )


def _own_processes(state_dir: Path) -> Iterator[OwnLeftover]:
    for record in EngineRecords(state_dir).all():
        living = record.living()
        if living:
            name = f"pid {', '.join(str(pid) for pid in sorted(living))}"
            yield OwnLeftover(host="process", id=record.id, name=name, boot_key=record.boot_key, running=True)


def _is_engine(attrs: Mapping[str, Any]) -> bool:
    config = attrs["Config"]
    words = [config["Image"], *(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    text = " ".join(str(word) for word in words).lower()
    return any(word in text for word in ENGINE_WORDS)


def _is_exited_engine(attrs: Mapping[str, Any]) -> bool:
    return attrs["State"]["Status"] in ("exited", "dead") and _is_engine(attrs)


def _exited(attrs: Mapping[str, Any]) -> ExitedEngine:
    state = attrs["State"]
    return ExitedEngine(
        name=_name(attrs),
        id=attrs["Id"],
        image=attrs["Config"]["Image"],
        exit_code=int(state["ExitCode"]),
        finished_at=state["FinishedAt"],
    )


def _may_come_back(attrs: Mapping[str, Any]) -> bool:
    host = attrs["HostConfig"]
    takes_gpu = bool(host.get("DeviceRequests")) or host.get("Runtime") == "nvidia"
    return _policy(attrs) != "no" and (takes_gpu or _is_engine(attrs))


def _comes_back(attrs: Mapping[str, Any]) -> ComesBack:
    return ComesBack(
        name=_name(attrs),
        id=attrs["Id"],
        image=attrs["Config"]["Image"],
        policy=_policy(attrs),
        running=bool(attrs["State"]["Running"]),
    )


def _policy(attrs: Mapping[str, Any]) -> str:
    return (attrs["HostConfig"].get("RestartPolicy") or {}).get("Name") or "no"


def _name(attrs: Mapping[str, Any]) -> str:
    return str(attrs["Name"]).lstrip("/")

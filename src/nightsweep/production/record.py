"""What is written down of production before it is stopped: what must come back, and what it is compared with then. Pure.

A record holds no secret. It goes into the database and into the file beside it, so that either is enough.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from nightsweep.plan.model import ContainerSpec, Production
from nightsweep.ports import ForeignContainer
from nightsweep.units import Seconds

READY_TIMEOUT = Seconds(1200.0)
COMPOSE = {
    "project": "com.docker.compose.project",
    "service": "com.docker.compose.service",
    "files": "com.docker.compose.project.config_files",
    "folder": "com.docker.compose.project.working_dir",
}


@dataclass(frozen=True)
class Record:
    """Production as it was. What an earlier version did not write down is None.

    Attributes:
        command: After the entry point; secrets are hidden in both.
        env_names: Variables that its image does not set.
        container: What Docker was asked for besides, without defaults, in the words of `ContainerSpec`.
        ports: Host port by container port.
        compose: Project, service, files and folder, where Compose made it.
        url: Where it proves that it serves; None takes its own port.
        restore_by: When it must serve again; None is no limit.
    """

    name: str
    id: str | None = None
    image: str | None = None
    image_digest: str | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    env_names: tuple[str, ...] = ()
    restart_policy: str = "no"
    container: Mapping[str, Any] = field(default_factory=dict)
    ports: Mapping[int, int] = field(default_factory=dict)
    compose: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False
    url: str | None = None
    ready_timeout: Seconds = READY_TIMEOUT
    restore_by: datetime | None = None


def recorded(found: ForeignContainer, production: Production, *, restore_by: datetime | None) -> Record:
    """Return the record of a container that is about to be stopped."""
    unset = asdict(ContainerSpec())
    return Record(
        name=found.name,
        id=found.id,
        image=found.image,
        image_digest=found.image_digest,
        entrypoint=found.shown_entrypoint,
        command=found.shown_command,
        env_names=found.own_env,
        restart_policy=found.restart_policy,
        container={key: value for key, value in asdict(found.container).items() if value != unset[key]},
        ports=found.ports,
        compose={key: found.labels[label] for key, label in COMPOSE.items() if label in found.labels},
        paused=found.paused,
        url=production.url,
        ready_timeout=production.ready_timeout,
        restore_by=restore_by,
    )


# --- as a document -----------------------------------------------------------------------------------------------


def document(record: Record) -> dict[str, Any]:
    """Return the record as JSON knows it."""
    return {
        **asdict(record),
        "ports": {str(inside): outside for inside, outside in record.ports.items()},
        "restore_by": None if record.restore_by is None else record.restore_by.isoformat(),
    }


def from_document(name: str, read: Mapping[str, Any]) -> Record:
    """Return the record of a document; of one by an earlier version, or a damaged one, what can be read of it."""
    return Record(**{**_fields(read)[0], "name": name})


def unreadable(read: Mapping[str, Any]) -> tuple[str, ...]:
    """Return which of a record's fields a document holds that cannot be read: they count as not recorded."""
    return _fields(read)[1]


def _fields(read: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    given: dict[str, Any] = {}
    lost: list[str] = []
    for key, reader in _READERS.items():
        if read.get(key) is not None:
            try:
                given[key] = reader(read[key])
            except (TypeError, ValueError, AttributeError, OverflowError):
                lost.append(key)
    return given, tuple(lost)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError
    return tuple(str(word) for word in value)


def _table(value: Any) -> dict[str, Any]:
    return {_text(key): one for key, one in value.items()}


def _texts(value: Any) -> dict[str, str]:
    return {key: _text(one) for key, one in _table(value).items()}


def _ports(value: Any) -> dict[int, int]:
    return {int(inside): int(outside) for inside, outside in value.items()}


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _patience(value: Any) -> Seconds:
    seconds = float(value)
    if not 0.0 < seconds < math.inf:
        raise ValueError
    return Seconds(seconds)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError
    return moment


_READERS: dict[str, Callable[[Any], Any]] = {
    "id": _text,
    "image": _text,
    "image_digest": _text,
    "entrypoint": _words,
    "command": _words,
    "env_names": _words,
    "restart_policy": _text,
    "container": _table,
    "ports": _ports,
    "compose": _texts,
    "paused": _flag,
    "url": _text,
    "ready_timeout": _patience,
    "restore_by": _moment,
}


# --- compared, and made again ------------------------------------------------------------------------------------


def differences(record: Record, found: ForeignContainer) -> tuple[str, ...]:
    """Return in words how the container that serves now differs from the one that was stopped; secrets are not compared."""
    compared: list[tuple[str, Any, Any]] = [
        ("image", record.image, found.image),
        ("image digest", record.image_digest, found.image_digest),
        ("entry point", record.entrypoint, found.shown_entrypoint),
        ("arguments", record.command, found.shown_command),
    ]
    said = [
        f"{what}: was {_shown(before)}, is {_shown(now)}"
        for what, before, now in compared
        if before is not None and now is not None and before != now
    ]
    if record.id is not None and record.id != found.id:
        said.insert(0, f"it is another container of that name: was {record.id[:12]}, is {found.id[:12]}")
    if record.image_digest is not None and found.image_digest is None:
        said.append(f"image digest: was {record.image_digest}, cannot be told any more: the image was removed")
    if record.paused:
        said.append("it was paused before the sweep, and runs now")
    return tuple(said)


def _shown(value: Any) -> str:
    return shlex.join(value) if isinstance(value, tuple) else str(value)


def made_again(record: Record) -> str:
    """Return how a container that was removed is made again: Compose's own command, or `docker run`.

    Values of variables and secrets are not recorded: `-e NAME` takes a value from the shell that it is typed in.
    """
    if record.image is None:
        return "the command that it was made by (what it ran is not recorded)"
    run = f"`{_docker_run(record)}`"
    if "project" not in record.compose or "service" not in record.compose:
        return run
    words = ["docker", "compose", "-p", record.compose["project"]]
    for file in filter(None, record.compose.get("files", "").split(",")):
        words += ["-f", file]
    return f"`{shlex.join([*words, 'up', '-d', record.compose['service']])}` (it was {run})"


def _docker_run(record: Record) -> str:
    words = ["docker", "run", "-d", "--name", record.name]
    if record.restart_policy != "no":
        words += ["--restart", record.restart_policy]
    words += _options(record.container)
    for inside, outside in record.ports.items():
        words += ["-p", f"{outside}:{inside}"]
    for name in record.env_names:
        words += ["-e", name]
    entrypoint = record.entrypoint or ()
    if entrypoint:
        words += ["--entrypoint", entrypoint[0]]
    image = str(record.image)
    return shlex.join([*words, image, *entrypoint[1:], *(record.command or ())])


_FLAGS = {
    "gpus": "--gpus",
    "ipc": "--ipc",
    "shm_size": "--shm-size",
    "memory": "--memory",
    "volumes": "-v",
    "devices": "--device",
    "network": "--network",
    "user": "--user",
    "cap_add": "--cap-add",
    "security_opt": "--security-opt",
    "ulimits": "--ulimit",
    "extra_hosts": "--add-host",
    "runtime": "--runtime",
    "workdir": "--workdir",
}


def _options(container: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for key, flag in _FLAGS.items():
        value = container.get(key)
        listed: Sequence[Any] = value if isinstance(value, list | tuple) else () if value is None else (value,)
        for one in listed:
            words += [flag, str(one)]
    return words

"""From facts about a machine to checks: what was found, whether it stands in a sweep's way, and how to mend it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from nightsweep.analysis import text
from nightsweep.analysis.spool import SpoolFacts, spool_said

OK = "ok"
WARNING = "warning"
PROBLEM = "problem"
NOT_HERE = "not here"

GIB = 1024**3
EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
"""A clock that shows an earlier moment lost its battery: the product is younger."""

MANY_STOPPED = 20
"""Ended containers from which it is said: the published report's box had 41 of them."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        state: "ok" | "warning" | "problem" | "not here".
        remedy: How to mend it; empty when nothing is to be mended.
    """

    name: str
    state: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class DatabaseFacts:
    """What is known of our database.

    Attributes:
        where: "embedded" or "configured"; never a URL, which may hold a password.
        running: Whether it answers now. An embedded one that does not run is started when it is needed.
        problem: Why it cannot be used; None when it can.
        schema, newest_schema: Revision of the database and of this program. None for a database without our tables.
    """

    where: str
    running: bool
    problem: str | None = None
    server_version: str | None = None
    schema: str | None = None
    newest_schema: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class PrefectFacts:
    """What is known of the Prefect server. `configured` is a server of somebody else's, by setting."""

    url: str
    configured: bool
    server_version: str | None
    client_version: str | None
    problem: str | None = None


@dataclass(frozen=True)
class DiskFacts:
    """Room where something is kept. `problem` says why it could not be looked at or written to."""

    what: str
    path: str
    free_bytes: int | None
    problem: str | None = None


@dataclass(frozen=True)
class ClockFacts:
    """What this machine holds for the time. `synchronised` None: nobody here says."""

    now: datetime
    zone: str
    utc_offset_seconds: float
    synchronised: bool | None


class Own(Protocol):
    """An engine of ours."""

    @property
    def host(self) -> str:
        """Return "docker" or "process"."""

    @property
    def name(self) -> str:
        """Return what people call it."""

    @property
    def running(self) -> bool:
        """Return whether it lives."""


class Returning(Protocol):
    """A container that Docker starts by itself."""

    @property
    def name(self) -> str:
        """Return the container's name."""

    @property
    def policy(self) -> str:
        """Return the restart policy."""

    @property
    def running(self) -> bool:
        """Return whether it lives."""


class User(Protocol):
    """A process that holds accelerator memory."""

    @property
    def pid(self) -> int:
        """Return the process id."""

    @property
    def name(self) -> str:
        """Return the program's name."""

    @property
    def memory(self) -> int | None:
        """Return bytes of accelerator memory; None where the driver does not tell."""


class Device(Protocol):
    """An accelerator."""

    @property
    def name(self) -> str:
        """Return the device's name."""

    @property
    def memory(self) -> int | None:
        """Return bytes of its own memory; None where it shares the system's."""


def docker_check(info: Mapping[str, Any] | None, *, problem: str | None, installed: bool) -> Check:
    """Judge whether the Docker Engine answers, from its own `info`. `installed`: its command or its socket is here."""
    if info is None:
        remedy = (
            "start dockerd (`systemctl start docker`) or set DOCKER_HOST; sweeps with `host: process` need no Docker"
        )
        found = f"does not answer: {problem}" if installed else "no Docker Engine"
        return Check("docker", PROBLEM if installed else NOT_HERE, found, remedy)
    containers = info.get("ContainersRunning")
    running = "" if containers is None else f", {text.plural(containers, 'container')} running"
    return Check("docker", OK, f"Docker Engine {info.get('ServerVersion', '?')}{running}")


def gpu_runtime_check(*, way: str | None, devices: int, docker: bool) -> Check:
    """Judge whether Docker can pass a GPU to a container. `way` is how it would."""
    name = "docker and GPU"
    if not docker:
        return Check(name, NOT_HERE, "Docker does not answer")
    if way is not None:
        return Check(
            name, OK, "GPUs are passed on by device request" if way == "request" else "GPUs are passed on by CDI"
        )
    if devices == 0:
        return Check(name, NOT_HERE, "no accelerator to pass on")
    remedy = "install the NVIDIA Container Toolkit, then `nvidia-ctk runtime configure` and restart dockerd"
    return Check(name, PROBLEM, "Docker has no runtime that passes the GPU to a container", remedy)


def accelerator_check(
    devices: Sequence[Device], *, versions: Mapping[str, str], driver_here: bool, library_here: bool
) -> Check:
    """Judge which accelerators are seen. `driver_here`: the kernel has NVIDIA's driver; `library_here`: NVML's Python."""
    if devices:
        named = text.several(f"{device.name} ({_memory(device.memory)})" for device in devices)
        driver = f"; driver {versions['driver']}" if "driver" in versions else ""
        return Check("accelerator", OK, f"{named}{driver}")
    if driver_here and not library_here:
        found = "an NVIDIA driver is here, but nothing to ask it with"
        return Check("accelerator", WARNING, found, "pip install 'nightsweep[gpu]'")
    if driver_here:
        remedy = "run `nvidia-smi`: driver and library may differ after an update, until a reboot"
        return Check("accelerator", PROBLEM, "an NVIDIA driver is here, but names no device", remedy)
    return Check("accelerator", NOT_HERE, "no NVIDIA driver: engines run on the CPU here")


def users_check(users: Sequence[User], *, devices: int) -> Check:
    """Judge who holds accelerator memory now."""
    if devices == 0:
        return Check("accelerator in use", NOT_HERE, "no accelerator")
    if not users:
        return Check("accelerator in use", OK, "no process holds accelerator memory")
    named = text.several(f"{user.name} (pid {user.pid}, {_memory(user.memory)})" for user in users)
    remedy = "name production as `production:` in the sweep file; stop everything else before the night"
    return Check("accelerator in use", WARNING, f"{text.plural(len(users), 'process', 'processes')}: {named}", remedy)


def database_check(facts: DatabaseFacts) -> Check:
    """Judge whether the database can be used, and whether its schema fits this program."""
    if facts.problem is not None:
        remedy = (
            "check NIGHTSWEEP_DATABASE_URL, and that the server runs"
            if facts.where == "configured"
            else "its log lies in NIGHTSWEEP_HOME; or set NIGHTSWEEP_DATABASE_URL to a PostgreSQL of your own"
        )
        return Check("database", PROBLEM, f"{facts.where}: {facts.problem}", remedy)
    if not facts.running:
        return Check("database", OK, f"{facts.where}: does not run now, is started when it is needed")
    version = f" PostgreSQL {facts.server_version}" if facts.server_version else ""
    size = f", {text.size(facts.size_bytes)}" if facts.size_bytes is not None else ""
    found = f"{facts.where}{version}, schema {facts.schema or 'none yet'}{size}"
    if facts.newest_schema is not None and facts.schema != facts.newest_schema:
        remedy = "`nightsweep db upgrade`; when the database is the newer one, upgrade nightsweep"
        return Check("database", WARNING, f"{found}; this program's is {facts.newest_schema}", remedy)
    return Check("database", OK, found)


def prefect_check(facts: PrefectFacts) -> Check:
    """Judge whether a Prefect server answers. Without one, `nightsweep run` works all the same."""
    if facts.problem is not None and not facts.configured:
        found = "no server of ours runs"
        return Check("prefect", NOT_HERE, found, "`nightsweep serve` starts one; `nightsweep run` needs none")
    if facts.problem is not None:
        remedy = "start that server, or unset NIGHTSWEEP_PREFECT_API_URL to have one started"
        return Check("prefect", PROBLEM, f"{facts.url}: {facts.problem}", remedy)
    found = f"{facts.url}, server {facts.server_version or '?'}"
    if _minor(facts.server_version) != _minor(facts.client_version):
        remedy = "use the same minor version on both sides: stopping behaves differently from one to the next"
        return Check("prefect", WARNING, f"{found}, this program has {facts.client_version or 'none'}", remedy)
    return Check("prefect", OK, found)


def disk_check(facts: DiskFacts, *, least: int, comfortable: int) -> Check:
    """Judge the room left. Below `least` bytes is a problem, below `comfortable` a warning."""
    name = f"disk: {facts.what}"
    if facts.problem is not None:
        return Check(
            name, PROBLEM, f"{facts.path}: {facts.problem}", "make it writable, or set NIGHTSWEEP_HOME elsewhere"
        )
    if facts.free_bytes is None:
        return Check(name, NOT_HERE, facts.path)
    found = f"{text.size(facts.free_bytes)} free at {facts.path}"
    if facts.free_bytes >= comfortable:
        return Check(name, OK, found)
    remedy = "`docker image prune` and `docker container prune` free disk, as do old model files"
    return Check(name, PROBLEM if facts.free_bytes < least else WARNING, found, remedy)


def own_check(own: Sequence[Own]) -> Check:
    """Judge engines of ours that are still here."""
    if not own:
        return Check("engines of ours", OK, "none is left")
    named = text.several(f"{engine.name} ({'running' if engine.running else 'ended'})" for engine in own)
    remedy = "right while a sweep runs; else the next sweep on this box removes them, or `docker rm -f NAME`"
    if all(engine.host == "process" for engine in own):
        remedy = "right while a sweep runs; else the next sweep on this box ends them, or `kill PID`"
    return Check("engines of ours", WARNING, f"{text.plural(len(own), 'engine')}: {named}", remedy)


def returning_check(containers: Sequence[Returning], *, docker: bool) -> Check:
    """Judge containers with an engine or accelerator that Docker starts by itself."""
    name = "engines that come back"
    if not docker:
        return Check(name, NOT_HERE, "Docker does not answer")
    if not containers:
        return Check(name, OK, "no engine container has a restart policy")
    named = text.several(
        f"{container.name} ({container.policy}, {'running' if container.running else 'stopped'})"
        for container in containers
    )
    remedy = (
        "one may start in the night when dockerd restarts: name it as `production:` in the sweep file, "
        "or `docker update --restart=no NAME`"
    )
    return Check(name, WARNING, named, remedy)


def stopped_check(stopped: int | None, *, exited_engines: int) -> Check:
    """Judge ended containers: they hold disk, and sandboxes pile up."""
    if stopped is None:
        return Check("ended containers", NOT_HERE, "Docker does not answer")
    engines = f", {exited_engines} with an engine" if exited_engines else ""
    found = f"{text.plural(stopped, 'container')} ended and not removed{engines}"
    if stopped < MANY_STOPPED:
        return Check("ended containers", OK, found)
    return Check("ended containers", WARNING, found, "`docker ps -a` lists them, `docker container prune` removes them")


def production_check(taken_down: Sequence[str]) -> Check:
    """Judge whether production was taken down and is not noted as back."""
    if not taken_down:
        return Check("production", OK, "nothing was taken down that is not back")
    named = ", ".join(taken_down)
    remedy = "right while a sweep runs; else `nightsweep restore` brings it back"
    return Check("production", PROBLEM, f"taken down and not noted as serving again: {named}", remedy)


def told_check(addresses: Sequence[str]) -> Check:
    """Say who is told when a night ends or production does not serve; the addresses are cut already. Nobody is no fault."""
    if not addresses:
        return Check("messages", OK, "nobody is told anything: `nightsweep notify --help` says how to be")
    return Check("messages", OK, f"{', '.join(addresses)}; `nightsweep notify --test` tries them")


def spool_check(facts: SpoolFacts) -> Check:
    """Judge whether writes wait for the database, or were refused by it."""
    if facts.waiting:
        found = spool_said(facts)
        return Check(
            "spool", WARNING, found, "the sweep that waits, or the next `nightsweep run` or `serve`, stores them"
        )
    if facts.refused:
        remedy = "`nightsweep status SWEEP` says why in its events; a file that is not wanted may be removed"
        return Check("spool", WARNING, spool_said(facts), remedy)
    return Check("spool", OK, "nothing waits for the database")


def clock_check(facts: ClockFacts) -> Check:
    """Judge the clock, by which nights begin and end."""
    hours, minutes = divmod(round(abs(facts.utc_offset_seconds) / 60), 60)
    sign = "-" if facts.utc_offset_seconds < 0 else "+"
    found = f"{text.moment(facts.now)} UTC, zone {facts.zone} (UTC{sign}{hours:02d}:{minutes:02d})"
    if facts.now < EARLIEST:
        return Check("clock", PROBLEM, found, "set the clock: `timedatectl set-ntp true`")
    if facts.synchronised is False:
        return Check("clock", WARNING, f"{found}, not synchronised", "`timedatectl set-ntp true`")
    return Check("clock", OK, found + (", synchronised" if facts.synchronised else ""))


def healthy(checks: Sequence[Check]) -> bool:
    """Return whether no check found a problem."""
    return all(check.state != PROBLEM for check in checks)


def _memory(octets: int | None) -> str:
    return "memory not told" if octets is None else text.size(octets)


def _minor(version: str | None) -> tuple[str, ...]:
    return tuple((version or "").split(".")[:2])

"""Gathers what `nightsweep doctor` judges. Looks only: starts nothing, changes nothing, and goes on when a part is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
import psutil

from nightsweep.analysis import doctor
from nightsweep.analysis.doctor import (
    Check,
    ClockFacts,
    DatabaseFacts,
    Device,
    DiskFacts,
    Own,
    PrefectFacts,
    Returning,
    User,
)
from nightsweep.analysis.spool import SpoolFacts
from nightsweep.errors import SweepError
from nightsweep.service.zone import machine_zone

AWAY = (
    SweepError,
    OSError,
    httpx.HTTPError,
    psutil.Error,
    ImportError,
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
)
"""What a look may end in when something is missing or answers strangely. It becomes a line of the report."""

QUICK = 5.0
"""Seconds that one question may take."""

HOME_LEAST, HOME_COMFORTABLE = 1 * doctor.GIB, 5 * doctor.GIB
DOCKER_LEAST, DOCKER_COMFORTABLE = 2 * doctor.GIB, 30 * doctor.GIB
"""Room for the database and its logs; room for one more engine image."""

DOCKER_SOCKET = Path("/var/run/docker.sock")
DRIVER = Path("/proc/driver/nvidia/version")


class Leftovers(Protocol):
    """What is left on the box, as the host layer tells it."""

    @property
    def own(self) -> Sequence[Own]:
        """Return engines of ours."""

    @property
    def exited_engines(self) -> Sequence[object]:
        """Return ended containers of others that hold an engine."""

    @property
    def comes_back(self) -> Sequence[Returning]:
        """Return engine containers with a restart policy."""

    @property
    def accelerator_users(self) -> Sequence[User]:
        """Return processes that hold accelerator memory."""

    @property
    def stopped_containers(self) -> int | None:
        """Return how many containers have ended; None when Docker was not asked."""


@dataclass(frozen=True)
class DoctorSources:
    """Where the facts come from. Each callable may raise what `AWAY` lists.

    Attributes:
        docker_info: The Docker Engine's own `info` (raises DockerUnavailable).
        gpu_way: How the daemon of this `info` passes GPUs on; None when it does not.
        database: Facts of our database; it must not start one.
        spool: What lies in the spool.
        told: Addresses that people are told at, as they may be shown.
        production_down: Names of production containers that were taken down and are not noted as back.
        prefect_api_url: With `/api`; the configured one, else where a server of ours would be.
    """

    docker_info: Callable[[], Mapping[str, Any]]
    gpu_way: Callable[[Mapping[str, Any]], str | None]
    leftovers: Callable[[], Leftovers]
    accelerators: Callable[[], Sequence[Device]]
    driver_versions: Callable[[], Mapping[str, str]]
    database: Callable[[], DatabaseFacts]
    production_down: Callable[[], Sequence[str]]
    prefect_api_url: str
    prefect_configured: bool
    home: Path
    now: Callable[[], datetime]
    spool: Callable[[], SpoolFacts]
    told: Sequence[str] = ()


def run_checks(sources: DoctorSources) -> tuple[Check, ...]:
    """Return all checks, in the order they are shown. Raises nothing that a missing part could cause."""
    info, docker_problem = _docker_info(sources)
    devices = _or(sources.accelerators, otherwise=())
    root = None if info is None else info.get("DockerRootDir")
    return (
        doctor.docker_check(info, problem=docker_problem, installed=_docker_installed()),
        *_guarded("docker and GPU", lambda: [_gpu_runtime(sources, info, devices=len(devices))]),
        *_guarded("accelerator", lambda: [_accelerator(sources, devices)]),
        *_guarded("leftovers", lambda: _leftover_checks(sources, devices=len(devices))),
        *_guarded("database", lambda: [doctor.database_check(sources.database())]),
        *_guarded("spool", lambda: [doctor.spool_check(sources.spool())]),
        *_guarded("prefect", lambda: [doctor.prefect_check(_prefect(sources))]),
        *_guarded("disk", lambda: _disk_checks(sources.home, docker_root=root)),
        *_guarded("production", lambda: [doctor.production_check(sources.production_down())]),
        *_guarded("messages", lambda: [doctor.told_check(sources.told)]),
        *_guarded("clock", lambda: [doctor.clock_check(_clock(sources.now()))]),
    )


def prefect_facts(url: str, *, configured: bool) -> PrefectFacts:
    """Ask a Prefect server for its health and version, without Prefect's client."""
    client = _installed("prefect")
    try:
        with httpx.Client(timeout=QUICK, trust_env=False) as http:
            http.get(f"{url}/health").raise_for_status()
            version = http.get(f"{url}/admin/version").raise_for_status().json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return PrefectFacts(url, configured, None, client, problem=str(error) or type(error).__name__)
    return PrefectFacts(url, configured, str(version), client)


def disk_facts(what: str, path: Path, *, writable: bool) -> DiskFacts:
    """Look at the room where `path` is, or would be once it is made."""
    here = next(place for place in (path, *path.parents) if place.exists())
    if writable and not os.access(here, os.W_OK | os.X_OK):
        return DiskFacts(what, str(path), None, problem="cannot be written to")
    return DiskFacts(what, str(path), shutil.disk_usage(here).free)


def _docker_info(sources: DoctorSources) -> tuple[Mapping[str, Any] | None, str | None]:
    try:
        return sources.docker_info(), None
    except AWAY as error:
        return None, str(error.facts.get("reason", error)) if isinstance(error, SweepError) else str(error)


def _docker_installed() -> bool:
    named = "DOCKER_HOST" in os.environ
    return named or shutil.which("dockerd") is not None or DOCKER_SOCKET.exists()


def _gpu_runtime(sources: DoctorSources, info: Mapping[str, Any] | None, *, devices: int) -> Check:
    way = None if info is None else sources.gpu_way(info)
    return doctor.gpu_runtime_check(way=way, devices=devices, docker=info is not None)


def _accelerator(sources: DoctorSources, devices: Sequence[Device]) -> Check:
    return doctor.accelerator_check(
        devices,
        versions=_or(sources.driver_versions, otherwise={}),
        driver_here=DRIVER.exists(),
        library_here=importlib.util.find_spec("pynvml") is not None,
    )


def _leftover_checks(sources: DoctorSources, *, devices: int) -> Iterable[Check]:
    found = sources.leftovers()
    docker = found.stopped_containers is not None
    return (
        doctor.users_check(found.accelerator_users, devices=devices),
        doctor.own_check(found.own),
        doctor.returning_check(found.comes_back, docker=docker),
        doctor.stopped_check(found.stopped_containers, exited_engines=len(found.exited_engines)),
    )


def _prefect(sources: DoctorSources) -> PrefectFacts:
    return prefect_facts(sources.prefect_api_url.rstrip("/"), configured=sources.prefect_configured)


def _disk_checks(home: Path, *, docker_root: str | None) -> Iterable[Check]:
    yield doctor.disk_check(disk_facts("home", home, writable=True), least=HOME_LEAST, comfortable=HOME_COMFORTABLE)
    if docker_root is not None and Path(docker_root).exists():  # a remote daemon's root is not on this machine
        yield doctor.disk_check(
            disk_facts("docker", Path(docker_root), writable=False), least=DOCKER_LEAST, comfortable=DOCKER_COMFORTABLE
        )


def _clock(now: datetime) -> ClockFacts:
    local = now.astimezone()
    offset = local.utcoffset()
    return ClockFacts(
        now=now,
        zone=machine_zone() or local.tzname() or "unknown",
        utc_offset_seconds=0.0 if offset is None else offset.total_seconds(),
        synchronised=_synchronised(),
    )


def _synchronised() -> bool | None:
    tool = shutil.which("timedatectl")
    if tool is None:
        return None
    asked = subprocess.run(
        [tool, "show", "--property=NTPSynchronized", "--value"],
        capture_output=True,
        text=True,
        timeout=QUICK,
        check=False,
    )
    return {"yes": True, "no": False}.get(asked.stdout.strip())


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _or(look: Callable[[], Any], *, otherwise: Any) -> Any:
    try:
        return look()
    except AWAY:
        return otherwise


def _guarded(name: str, look: Callable[[], Iterable[Check]]) -> tuple[Check, ...]:
    try:
        return tuple(look())
    except (*AWAY, subprocess.SubprocessError) as error:
        reason = str(error) or type(error).__name__
        return (Check(name, doctor.WARNING, f"could not be looked at: {reason}"),)

"""The box: what a number depends on that no sweep file says."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from nightsweep.host import accelerator
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.ports import BoxFacts
from nightsweep.units import GIB

NOT_A_CONDITION = frozenset({"docker", "memory_bytes"})
"""Facts outside the fingerprint. Docker's version: the box is the same one for engines without Docker. Memory to the byte:
a kernel reserves a little more or less at each start."""


def facts(*, name: str | None = None, docker_version: str | None = None) -> BoxFacts:
    """Return the facts of this machine and their fingerprint: the same at every call and after a restart.

    Args:
        name: What people call it; None is the node name. Not part of the fingerprint.
    """
    found = {
        "accelerators": [asdict(device) for device in accelerator.accelerators()],
        **accelerator.driver_versions(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "physical_cores": psutil.cpu_count(logical=False),
        "architecture": platform.machine(),
        "memory_bytes": psutil.virtual_memory().total,
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "kernel": platform.release(),
        "os": operating_system(),
        "machine": machine_identity(),
        "docker": docker_version,
    }
    return BoxFacts(name=name or platform.node(), fingerprint=box_fingerprint(found), facts=found)


def box_fingerprint(found: Mapping[str, Any]) -> str:
    """Return the hash over the facts that are conditions."""
    return fingerprint({key: value for key, value in found.items() if key not in NOT_A_CONDITION})


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name; an ARM Linux gives numbers of implementer and part instead of one.

    Source:
        proc(5), /proc/cpuinfo: "model name" on x86, "CPU implementer" and "CPU part" on ARM.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    pairs = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    for key, value in pairs:
        if key == "model name" and value:
            return value
    kinds = sorted({value for key, value in pairs if key == "CPU part"})
    makers = sorted({value for key, value in pairs if key == "CPU implementer"})
    if kinds:
        return f"ARM implementer {'+'.join(makers)} part {'+'.join(kinds)}"
    return platform.processor() or "unknown"


def operating_system() -> str:
    """Return the system's name and version in its own words."""
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"


def machine_identity() -> str | None:
    """Return a hash that tells this machine from an equal one; None where the system has no machine id.

    Source:
        machine-id(5): the id is confidential and must be hashed with a word of the application before it is used.
    """
    try:
        machine_id = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return hashlib.sha256(f"nightsweep:{machine_id}".encode()).hexdigest()[:16] if machine_id else None

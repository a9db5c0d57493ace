"""What `docker inspect` says of an engine of ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightsweep.host.container_spec import BOOT, CONTAINER_PORT, HOLDER, OWNED, PORT
from nightsweep.ports import EngineHandle, EngineState

KILLED = 137
ENDED_WITH_THE_DAEMON = frozenset({0, 130, 137, 143})
"""How an engine may end when its daemon stops: it gets SIGTERM and, ten seconds later, SIGKILL."""


def engine_state(attrs: Mapping[str, Any], *, ended_by_us: bool, daemon_was_away: bool) -> EngineState:
    """Return the state of an engine from an inspection.

    137 is SIGKILL. Without Docker's OOM flag and without a kill of ours it is the host's doing (a daemon stopped, the
    system's OOM killer, a person): a hint that the config may well run, not a proof.
    """
    state = attrs["State"]
    if state["Running"]:
        return EngineState(running=True, detail="paused" if state.get("Paused") else None)
    exit_code, oom = int(state["ExitCode"]), bool(state["OOMKilled"])
    suspects = ENDED_WITH_THE_DAEMON if daemon_was_away else {KILLED}
    fault = exit_code in suspects and not oom and not ended_by_us
    return EngineState(
        running=False,
        exit_code=exit_code,
        oom_killed=oom,
        host_fault=fault,
        detail=state.get("Error") or (_fault_detail(daemon_was_away) if fault else None),
    )


def _fault_detail(daemon_was_away: bool) -> str:
    if daemon_was_away:
        return "ended while the Docker daemon was away"
    return "killed (SIGKILL) from outside, and not for its container's memory limit"


def is_owned(attrs: Mapping[str, Any], *, owner: str | None = None) -> bool:
    """Return whether a container carries our label (of this owner; None is any)."""
    value = labels(attrs).get(OWNED)
    return value is not None and (owner is None or value == owner)


def labels(attrs: Mapping[str, Any]) -> Mapping[str, str]:
    """Return a container's labels; empty when it has none."""
    found: Mapping[str, str] = attrs["Config"].get("Labels") or {}
    return found


def handle(
    attrs: Mapping[str, Any], *, image_digest: str | None, image_refs: tuple[str, ...], facts: Mapping[str, Any]
) -> EngineHandle:
    """Return the handle of a container of ours."""
    found = labels(attrs)
    port = int(found.get(PORT, 0))
    state = attrs["State"]
    return EngineHandle(
        host="docker",
        id=attrs["Id"],
        boot_key=found.get(BOOT, ""),
        port=port,
        base_url=f"http://127.0.0.1:{port}",
        image_digest=image_digest,
        image_refs=image_refs,
        facts={
            "container_name": attrs["Name"].lstrip("/"),
            "container_port": int(found.get(CONTAINER_PORT, port)),
            "network": "host" if attrs["HostConfig"].get("NetworkMode") == "host" else "published",
            "created_at": attrs["Created"],
            "started_at": state["StartedAt"],
            "holder": found.get(HOLDER),
            **facts,
        },
    )


def port_problem(attrs: Mapping[str, Any], *, port: int, container_port: int) -> str | None:
    """Return why a published port is not this container's; None when Docker says that it is."""
    if not attrs["State"]["Running"]:
        return "its container is not running"
    mapped = ((attrs.get("NetworkSettings") or {}).get("Ports") or {}).get(f"{container_port}/tcp") or ()
    taken = {int(binding["HostPort"]) for binding in mapped if binding.get("HostPort")}
    if port in taken:
        return None
    return f"Docker publishes {sorted(taken) or 'nothing'} for container port {container_port}, not {port}"

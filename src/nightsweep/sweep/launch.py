"""From a config to one engine start."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from nightsweep.errors import SecretMissing
from nightsweep.plan.model import EngineConfig, SecretRef, SweepPlan
from nightsweep.ports import Engine, Launch, Secret

CONTAINER_PORT = 8000


def boot_key(sweep_id: int, config: EngineConfig, *, boot_round: int) -> str:
    """Return a name for one boot that is unique for ever and readable in `docker ps`."""
    return f"nightsweep-{sweep_id}-{config.fingerprint[:8]}-{boot_round}-{uuid.uuid4().hex[:6]}"


def launch_of(
    config: EngineConfig, *, key: str, engine: Engine, port: int, environ: Mapping[str, str], python: str, holder: str
) -> Launch:
    """Return the launch of a config, with secrets resolved.

    Args:
        holder: Who starts it, as in a lease; others leave its engine alone while it lives.

    Raises:
        SecretMissing: An environment variable that the sweep file takes a secret from is not set.
    """
    spec = config.engine
    bridged = spec.host == "docker" and spec.container.network != "host"
    inside = (spec.port or CONTAINER_PORT) if bridged else port
    resolved = tuple(word.replace("{python}", python) for word in spec.command)
    config = replace(config, engine=replace(spec, command=resolved))
    command = engine.command(config, listen_host="0.0.0.0" if bridged else "127.0.0.1", port=inside)
    return Launch(
        boot_key=key,
        command=command,
        env=environment(config, environ=environ),
        port=port,
        container_port=inside,
        image=spec.image,
        container=spec.container,
        labels={
            "nightsweep.config": config.fingerprint,
            "nightsweep.config_name": config.name,
            "nightsweep.holder": holder,
        },
    )


def environment(config: EngineConfig, *, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the engine's environment; values taken from ours are `Secret`."""
    resolved: dict[str, str] = {}
    for name, value in config.engine.env.items():
        if isinstance(value, SecretRef):
            if value.from_env not in environ:
                raise SecretMissing(variable=value.from_env, key=f"engine.env.{name}")
            resolved[name] = Secret(environ[value.from_env])
        else:
            resolved[name] = str(value)
    return resolved


def check_secrets(plan: SweepPlan, *, environ: Mapping[str, str]) -> None:
    """Raise SecretMissing for the first secret that is not there: before anything is stopped, not in the middle of a night."""
    for config in plan.configs:
        environment(config, environ=environ)
    key = plan.probe.api_key
    if key is not None and key.from_env not in environ:
        raise SecretMissing(variable=key.from_env, key="probe.api_key")

"""The sweeps that the service is given: small, with many short windows, and what each is planned to measure."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import nightsweep
from tests import dockerkit
from tests.chaos.checker import Slot

SOURCE = Path(nightsweep.__file__).resolve().parent.parent
MAX_ATTEMPTS = 3
CONFIGS: tuple[dict[str, Any], ...] = (
    {"name": "plain"},
    {"name": "mtp", "speculative": {"method": "mtp", "num_speculative_tokens": 3}},
    {"name": "mtp deep", "speculative": {"method": "mtp", "num_speculative_tokens": 5}},
)
CONCURRENCY = (1, 2)
REPEATS = 3


@dataclass(frozen=True)
class ChaosSweep:
    """A sweep file, and what it plans.

    Attributes:
        scheduled: Whether the service starts it, and goes on with it, by a schedule; else it is handed over by hand each time.
    """

    name: str
    text: str
    scheduled: bool

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What is to be measured once each; from the lists above, not from the product's own plan."""
        return tuple(
            (self.name, str(config["name"]), concurrency, repeat)
            for config in CONFIGS
            for concurrency in CONCURRENCY
            for repeat in range(REPEATS)
        )


def a_sweep(number: int, *, form: str, image: str | None, production: str | None, url: str | None = None) -> ChaosSweep:
    """Return the sweep of this number.

    Args:
        form: "process" or "docker": what engines are.
        image: Of engines in containers.
        production: Name of the container that is taken down for it; None takes none down.
        url: Where that one is asked.
    """
    name = f"chaos-{number}"
    given: dict[str, Any] = {"name": name}
    if production is not None:
        given["production"] = {"container": production, "url": url, "ready_timeout": "60s", "idle_for": "300ms"}
    given["engine"] = {
        "kind": "vllm",
        "host": form,
        "model": "unsloth/Qwen3.8-27B-NVFP4",
        "served_name": "qwen",
        "simulated": True,
        "port": "auto",
        "boot_timeout": "60s",
        "stop_grace": "2s",
        "args": {"sim-speed": 20, "sim-boot-speed": 1000, "kv-cache-memory-bytes": "36G"},
        **_started_by(form, image),
    }
    given["configs"] = [dict(config) for config in CONFIGS]
    given["probe"] = {
        "prompts": "code",
        "concurrency": list(CONCURRENCY),
        "temperature": [0.7],
        "window": "400ms",
        "repeats": REPEATS,
        "warmup": "300ms",
        "max_attempts": MAX_ATTEMPTS,
    }
    return ChaosSweep(name=name, text=yaml.safe_dump(given, sort_keys=False), scheduled=number % 2 == 1)


def _started_by(form: str, image: str | None) -> dict[str, Any]:
    if form == "process":
        return {"command": ["{python}", "-m", "nightsweep.simulator"]}
    return {
        "command": [sys.executable, "-m", "nightsweep.simulator"],
        "image": image,
        "env": {"PYTHONPATH": str(SOURCE)},
        "container": {"volumes": list(dockerkit.python_volumes(SOURCE)), "network": "host"},
    }

"""The simulated engine as the benchmarks start it: a process of its own, asked over HTTP, ended with the block."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.ports import Target
from nightsweep.simulator.configtruth import config_truth
from nightsweep.simulator.profile import load_profile
from nightsweep.units import Seconds

PROFILE = "gb10"
SERVED = "simulated"
MODEL = "unsloth/Qwen3.8-27B-NVFP4"


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def speculation(k: int) -> dict[str, Any] | None:
    """Speculative settings of depth k with a set acceptance: about half of what is drafted is kept."""
    if not k:
        return None
    return {
        "method": "dflash",
        "model": "z-lab/Qwen3.8-27B-DFlash2",
        "num_speculative_tokens": k,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": acceptance_length(k),
    }


def acceptance_length(k: int) -> float:
    """The set acceptance length of depth k."""
    return 1.0 + 0.45 * k


def step_seconds(streams: int, k: int) -> float:
    """Simulated seconds of a step of this batch."""
    return config_truth(load_profile(PROFILE), speculation(k)).step_seconds(streams)


def speed_for(rate: float, *, streams: int, k: int) -> float:
    """The `--sim-speed` at which so many streams make `rate` tokens/s."""
    return rate * step_seconds(streams, k) / (streams * acceptance_length(k))


@dataclass
class Engine:
    """One running simulator."""

    process: subprocess.Popen[bytes]
    url: str
    client: httpx.Client = field(repr=False)

    def target(self) -> Target:
        """What the probe is pointed at."""
        return Target(self.url, self.url, SERVED, vllm_dialect("0.28.0"), request_timeout=Seconds(60.0))

    def alive(self) -> bool:
        """Whether the process lives."""
        return self.process.poll() is None

    def wait_ready(self, *, seconds: float = 60.0) -> None:
        """Return when it answers."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.alive():
                raise RuntimeError(f"the simulated engine ended with {self.process.returncode}")
            try:
                if self.client.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        raise RuntimeError("the simulated engine did not come up")

    def running(self) -> int:
        """Requests that it has, running or waiting."""
        return int(self.client.get("/load").json()["server_load"])

    def fault(self, text: str) -> None:
        """Put a fault in force."""
        self.client.post("/sim/fault", json={"fault": text}).raise_for_status()

    def lift(self, name: str) -> None:
        """End a lasting fault."""
        self.client.post("/sim/fault", json={"clear": name})

    def journal(self, since: float, until: float, *, slack: float) -> Mapping[str, Any]:
        """What it really did between two moments."""
        response = self.client.get("/sim/journal", params={"since": since, "until": until, "slack": slack})
        response.raise_for_status()
        return dict(response.json())


@contextmanager
def engine(*, speed: float, k: int = 0, more: Sequence[str] = (), core: int | None = None) -> Iterator[Engine]:
    """Start a simulator that keeps a journal; it is gone when the block ends.

    Args:
        core: The one processor that it may use; None leaves that to the system.
    """
    port = free_port()
    command = [sys.executable, "-m", "nightsweep.simulator", MODEL, "--served-model-name", SERVED]
    command += [
        "--port",
        str(port),
        "--sim-profile",
        PROFILE,
        "--sim-speed",
        f"{speed:.9g}",
        "--sim-boot-speed",
        "20000",
    ]
    command += ["--sim-journal", "--sim-luck", "7", "--kv-cache-memory-bytes", "36G", *more]
    if "--max-num-seqs" not in more:
        command += ["--max-num-seqs", "512"]
    if k:
        command += ["--speculative-config", json.dumps(speculation(k))]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, timeout=30.0) as client:
        made = Engine(process, url, client)
        try:
            made.wait_ready()
            yield made
        finally:
            process.kill()
            process.wait()

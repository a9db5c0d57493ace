"""A real engine in a container of the tests' own: for what the product, which ends its engines itself, cannot lend."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

IMAGE = "local/vllm-openai-cpu:0.32.0"
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "NUMBA_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a process less, and some seconds of the boot
}
BOOT = 300.0


@dataclass(frozen=True)
class Served:
    """A running engine."""

    name: str
    url: str


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def vllm_command() -> tuple[str, ...]:
    """The vllm command in the image: its entry point without the word that serves."""
    said = _said(("docker", "image", "inspect", "-f", "{{json .Config.Entrypoint}}", IMAGE))
    return tuple(word for word in json.loads(said) if word != "serve")


@contextmanager
def engine(models: Path, *words: str) -> Iterator[Served]:
    """Serve `tiny-coder` with these further words; the container is gone when the block ends."""
    name, port = f"nslive-{uuid.uuid4().hex[:8]}", free_port()
    command = ["docker", "run", "-d", "--name", name, "--network", "host", "--shm-size", "512m"]
    command += ["-v", f"{models}:/models:ro"]
    command += [word for key, value in ENVIRONMENT.items() for word in ("-e", f"{key}={value}")]
    command += [IMAGE, "/models/tiny-coder", "--served-model-name", "tiny", "--port", str(port), "--enforce-eager"]
    subprocess.run([*command, *words], check=True, capture_output=True, text=True)
    try:
        served = Served(name=name, url=f"http://127.0.0.1:{port}")
        _until_healthy(served)
        yield served
    finally:
        subprocess.run(["docker", "rm", "-f", "-v", name], check=True, capture_output=True)


def _until_healthy(served: Served) -> None:
    end = time.monotonic() + BOOT
    while time.monotonic() < end:
        if _said(("docker", "inspect", "-f", "{{.State.Running}}", served.name)).strip() != "true":
            break
        try:
            with urllib.request.urlopen(f"{served.url}/health", timeout=5.0) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"the engine did not come up: {_said(('docker', 'logs', '--tail', '30', served.name))}")


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr

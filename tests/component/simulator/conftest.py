"""Real simulator processes on free ports, started and ended by the tests that use them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

MODEL = "unsloth/Qwen3.8-27B-NVFP4"
SHIPPED = {
    "method": "dflash",
    "model": "z-lab/Qwen3.8-27B-DFlash2",
    "num_speculative_tokens": 7,
    "draft_sample_method": "probabilistic",
    "rejection_sample_method": "block",
}


class Simulator:
    """One simulator process, its output and a client of it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
        self.process = process
        self.port = port
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, timeout=20.0)

    @property
    def stdout(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "err").read_text()

    def listening(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def wait_ready(self, seconds: float = 30.0) -> Simulator:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.stderr + self.stdout
            try:
                if self.client.get("/health").status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.02)
        raise AssertionError(f"not ready after {seconds} s: {self.stdout}")

    def chat(self, content: str = "Write a function.", **more: Any) -> httpx.Response:
        body = {"model": "qwen", "messages": [{"role": "user", "content": content}], "max_tokens": 20, **more}
        return self.client.post("/v1/chat/completions", json=body)

    def stream(self, content: str = "Write a function.", **more: Any) -> list[dict[str, Any]]:
        """Return a stream's events, less the last one, which must be [DONE]."""
        options = {"include_usage": True, "continuous_usage_stats": True}
        response = self.chat(content, stream=True, stream_options=options, **more)
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
        assert events.pop() == "[DONE]"
        return [json.loads(event) for event in events]

    def metrics(self) -> dict[str, float]:
        """Return the counters by name and, where there are, position or source."""
        found = {}
        for line in self.client.get("/metrics").text.splitlines():
            if line.startswith("vllm:") and "_bucket" not in line:
                name, value = line.rsplit(" ", 1)
                base, _, labels = name.partition("{")
                extra = [part for part in labels.split(",") if part.startswith(("position", "source", "finished"))]
                found["".join([base, *extra]).rstrip("}")] = float(value)
        return found

    def truth(self) -> dict[str, Any]:
        return self.client.get("/sim/truth").json()  # type: ignore[no-any-return]

    def fault(self, text: str) -> httpx.Response:
        return self.client.post("/sim/fault", json={"fault": text})

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.client.close()
        return self.process.wait(5)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def started(*arguments: str, speculative: dict[str, Any] | None = None, port: int = 0) -> Iterator[Simulator]:
    """Start a simulator; it is gone when the block ends."""
    port = port or free_port()
    command = [sys.executable, "-m", "nightsweep.simulator", MODEL, "--served-model-name", "qwen", "--port", str(port)]
    command += ["--sim-boot-speed", "20000", *arguments]
    if speculative is not None:
        command += ["--speculative-config", json.dumps(speculative)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
            process = subprocess.Popen(command, stdout=out, stderr=err, env=env)
        simulator = Simulator(process, port, folder)
        try:
            yield simulator
        finally:
            process.send_signal(signal.SIGCONT)
            if process.poll() is None:
                process.kill()
            simulator.client.close()
            process.wait(5)


@pytest.fixture(scope="session")
def start() -> Callable[..., Any]:
    """Return `started`, for tests that need a process of their own."""
    return started


@pytest.fixture(scope="module")
def served() -> Iterator[Simulator]:
    """A ready simulator for tests that leave it as they found it."""
    with started("--sim-speed", "40", "--sim-seed", "1", "--max-num-seqs", "64", speculative=SHIPPED) as simulator:
        yield simulator.wait_ready()
        assert simulator.process.poll() is None, simulator.stderr

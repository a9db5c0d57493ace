"""Sweeps on real parts: the simulator as a process, a real PostgreSQL, the real probe; windows are short."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from nightsweep import wiring
from nightsweep.analysis.values import BootRow, Event, Filters, SweepRow, WindowRow
from nightsweep.host.process_records import EngineRecords
from nightsweep.ports import Progress
from nightsweep.settings import Settings
from nightsweep.store.queries import Queries
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps

NO_LIMITS = Limits()
EVERYTHING = Filters(with_flagged="yes")
PLAIN = {"name": "plain"}
MTP = {"name": "mtp", "speculative": {"method": "mtp", "num_speculative_tokens": 3}}


def a_file(
    *configs: Mapping[str, Any],
    name: str = "night",
    faults: Sequence[str] = (),
    engine: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    **probe: Any,
) -> str:
    """Return a sweep file on the simulator; keywords besides are keys of `probe`."""
    given: dict[str, Any] = {
        "name": name,
        "box": "bench simulated",
        "engine": {
            "kind": "vllm",
            "host": "process",
            "command": ["{python}", "-m", "nightsweep.simulator"],
            "model": "unsloth/Qwen3.8-27B-NVFP4",
            "served_name": "qwen",
            "simulated": True,
            "port": "auto",
            "boot_timeout": "30s",
            "stop_grace": "2s",
            **(engine or {}),
            "args": {"sim-speed": 20, "sim-boot-speed": 2000, "kv-cache-memory-bytes": "36G", **(args or {})},
        },
        "configs": list(configs) or [PLAIN],
        "probe": {
            "prompts": "code",
            "concurrency": [1, 2],
            "temperature": [0.7],
            "window": "300ms",
            "repeats": 1,
            "warmup": "200ms",
            **probe,
        },
    }
    if faults:
        given["engine"]["args"]["sim-fault"] = list(faults) if len(faults) > 1 else faults[0]
    return yaml.safe_dump(given, sort_keys=False)


@dataclass
class Bench:
    """A home of its own on one database, and ways to run sweeps there: in this process, or as `nightsweep` in another."""

    home: Path
    database_url: str
    queries: Queries
    heard: list[Progress] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return Settings(
            home=self.home, database_url=self.database_url, prefect_api_url=None, box="bench", prefect_port=1
        )

    def play(
        self,
        text: str,
        *,
        limits: Limits = NO_LIMITS,
        hear: Callable[[Progress], None] = lambda progress: None,
    ) -> Outcome:
        """Run a sweep in this process."""
        plan, prompts = wiring.load_plan(text, source="test")

        def listen(progress: Progress) -> None:
            self.heard.append(progress)
            hear(progress)

        with (
            wiring.open_store(self.settings) as store,
            wiring.open_tools(self.settings, store, prompts[:20]) as tools,
        ):
            return run_sweep(plan, tools, file_text=text, steps=PlainSteps(listen), limits=limits)

    def file(self, text: str, name: str = "night.yaml") -> Path:
        path = self.home / name
        path.write_text(text)
        return path

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "NIGHTSWEEP_HOME": str(self.home),
            "NIGHTSWEEP_DATABASE_URL": self.database_url,
            "NIGHTSWEEP_BOX": "bench",
        }

    @contextlib.contextmanager
    def command(self, *words: str) -> Iterator[Command]:
        """Run `nightsweep WORDS` as a process for the block."""
        with running(*words, environ=self.environ, folder=self.home) as command:
            yield command

    # --- what is stored, and what still lives

    def windows(self) -> list[WindowRow]:
        return self.queries.windows(EVERYTHING)

    def boots(self) -> list[BootRow]:
        return self.queries.boots(EVERYTHING)

    def sweep(self) -> SweepRow:
        return self.queries.sweeps()[0]

    def events(self, kind: str | None = None) -> list[Event]:
        return [event for event in self.queries.events() if kind in (None, event.kind)]

    def engines(self) -> list[psutil.Process]:
        """Return the processes of engines that this home has started and that live."""
        return engines_of(self.home)

    def clean_counts(self) -> dict[tuple[str, int, int], int]:
        """Return how many clean windows each planned repeat has."""
        found: dict[tuple[str, int, int], int] = {}
        for row in self.windows():
            key = (row.config, row.concurrency, row.repeat)
            found[key] = found.get(key, 0) + (not row.flags)
        return found


def engines_of(home: Path) -> list[psutil.Process]:
    """Return living engine processes by the records that the host keeps of them."""
    found = []
    for record in EngineRecords(home / "engines").all():
        for pid in record.living():
            with contextlib.suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
    return found


@dataclass
class Command:
    """A `nightsweep` process and what it says."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str, *, seconds: float = 30.0) -> None:
        """Wait until it has said `text`."""
        until(lambda: text in self.said or self.process.poll() is not None, seconds=seconds)
        assert text in self.said, self.said

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)

    def end(self, *, seconds: float = 30.0) -> int:
        """Wait for its end and return its exit code."""
        code = self.process.wait(seconds)
        until(lambda: not any(thread.name == f"reads {self.process.pid}" for thread in threading.enumerate()))
        return code


@contextlib.contextmanager
def running(*words: str, environ: Mapping[str, str], folder: Path) -> Iterator[Command]:
    """Run `nightsweep WORDS` for the block, in a process group of its own; it is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nightsweep.cli", *words],
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    command = Command(process)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            command.lines.append(line)

    reader = threading.Thread(target=read, name=f"reads {process.pid}", daemon=True)
    reader.start()
    try:
        yield command
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        reader.join(10)
        assert process.stdout is not None
        process.stdout.close()


def until(true: Callable[[], bool], *, seconds: float = 20.0, every: float = 0.02) -> None:
    """Wait until it is true, and look `every` so many seconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not true after {seconds} s"
        time.sleep(every)


def kill(process: psutil.Process) -> None:
    process.send_signal(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])

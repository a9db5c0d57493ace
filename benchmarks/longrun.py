"""A long night on the simulator at real pace: does memory stay flat, and do the store's queries stay as quick as they were?

Run by hand, for as long as there is time; the service with everything embedded, a sweep on it that never ends, one look every
so many seconds. Times of statements are PostgreSQL's own, from its log, of the very transactions of the sweep.

    python -m benchmarks.longrun --minutes 600
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.common import Figure, Section, table, write
from nightsweep import wiring

MB = 1e6
SETTLED = 0.2
"""Share of the run after which memory counts: imports, pools and first pages are over."""
STATEMENTS = {
    "INSERT INTO windows": "insert of a window",
    "INSERT INTO readings": "insert of a reading",
    "INSERT INTO request_timings": "insert of timings",
    "SELECT inside.last": "place in the night",
    "SELECT configs.hash": "what is stored",
    "SELECT sweeps.stop_wish": "look for a wish to stop",
    "COMMIT": "commit",
}
LINE = re.compile(r"duration: ([\d.]+) ms\s+(?:statement|execute [^:]*): (.*)")
ROLES = (
    ("nightsweep.simulator", "engine"),
    ("multiprocessing", "sweep (flow process)"),
    ("flows.sweep", "runner"),
    ("prefect", "Prefect server"),
    ("nightsweep.cli", "service"),
)


@dataclass
class Watch:
    """What was seen: (seconds since the start, value) by name, memory in bytes and times in seconds."""

    memory: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    times: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    read_to: int = 0


def sweep_file(streams: Sequence[int], *, window: float) -> str:
    """A sweep that no night ends: two configs in turn, many boots, at real pace."""
    return yaml.safe_dump(
        {
            "name": "longrun",
            "engine": {
                "kind": "vllm",
                "host": "process",
                "command": ["{python}", "-m", "nightsweep.simulator"],
                "model": "unsloth/Qwen3.8-27B-NVFP4",
                "served_name": "qwen",
                "simulated": True,
                "port": "auto",
                "boot_timeout": "120s",
                "args": {"sim-speed": 1, "sim-boot-speed": 50, "kv-cache-memory-bytes": "36G"},
            },
            "configs": [
                {"name": "plain"},
                {"name": "mtp", "speculative": {"method": "mtp", "num_speculative_tokens": 3}},
            ],
            "probe": {
                "prompts": "code",
                "concurrency": list(streams),
                "temperature": [0.7],
                "window": f"{window:g}s",
                "repeats": 4000,
                "boots": 200,
                "warmup": "1s",
            },
        },
        sort_keys=False,
    )


@contextlib.contextmanager
def service(home: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """Have `nightsweep serve` up on a home of its own."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("NIGHTSWEEP_", "PREFECT_"))}
    environ |= {"NIGHTSWEEP_HOME": str(home), "NIGHTSWEEP_PREFECT_PORT": str(port), "NIGHTSWEEP_BOX": "longrun"}
    with (home / "serve.log").open("wb") as log:
        serve = subprocess.Popen(
            [sys.executable, "-m", "nightsweep.cli", "serve"], env=environ, stdout=log, stderr=log, cwd=home
        )
        try:
            wait_for(lambda: b"serving box" in (home / "serve.log").read_bytes() or serve.poll() is not None, 300.0)
            if serve.poll() is not None:
                raise SystemExit((home / "serve.log").read_text()[-2000:])
            yield serve, environ
        finally:
            serve.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                serve.wait(90)
            if serve.poll() is None:
                serve.kill()


def wait_for(true: Any, seconds: float) -> None:
    """Wait until it is true."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"not there after {seconds:.0f} s")
        time.sleep(0.2)


def role_of(process: psutil.Process) -> str:
    """What a process is in the service."""
    line = " ".join(process.cmdline())
    return next((role for mark, role in ROLES if mark in line), "other")


def look(watch: Watch, serve: psutil.Process, *, at: float) -> None:
    """Note the memory of each part: PSS, which counts a page shared by several processes by its parts."""
    found: dict[str, float] = defaultdict(float)
    for process in (serve, *serve.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            if not process.name().startswith("postgres"):
                found[role_of(process)] += process.memory_full_info().pss
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name().startswith("postgres") and "longrun" in process.cwd():
                found["PostgreSQL"] += process.memory_full_info().pss
    for role, held in found.items():
        watch.memory[role].append((at, held))


def read_log(watch: Watch, log: Path, *, at: float) -> None:
    """Note what statements took since the last look."""
    with log.open("rb") as file:
        file.seek(watch.read_to)
        fresh = file.read()
    end = fresh.rfind(b"\n") + 1
    watch.read_to += end
    for line in fresh[:end].decode(errors="replace").splitlines():
        match = LINE.search(line)
        if match is None:
            continue
        for start, name in STATEMENTS.items():
            if match[2].startswith(start):
                watch.times[name].append((at, float(match[1]) / 1000.0))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares, in units per hour."""
    if len(points) < 3:
        return 0.0
    found = statistics.linear_regression([at / 3600.0 for at, _ in points], [value for _, value in points])
    return found.slope


def memory_figures(watch: Watch, *, lasted: float) -> Iterator[Figure]:
    """Memory at the end of each part, with its growth after it had settled."""
    for role, points in sorted(watch.memory.items()):
        settled = [(at, held / MB) for at, held in points if at >= SETTLED * lasted]
        if not settled:
            continue
        held = [value for _, value in settled]
        note = f"grows by {slope(settled):+.1f} MB per hour; settled at {held[0]:.0f} MB"
        yield Figure(f"memory: {role}", "MB", statistics.median(held), samples=tuple(held), note=note)


def time_figures(watch: Watch, *, lasted: float) -> Iterator[Figure]:
    """Median time of each statement in the last quarter, beside the one after the run had settled."""
    for name, points in sorted(watch.times.items()):
        early = [value for at, value in points if SETTLED * lasted <= at < 0.45 * lasted]
        late = [value for at, value in points if at >= 0.75 * lasted]
        if len(early) < 5 or len(late) < 5:
            continue
        note = f"{len(points)} in all; slope {1000.0 * slope(points):+.3f} ms per hour"
        yield Figure(
            f"time: {name}",
            "s",
            statistics.median(late),
            samples=tuple(late),
            beside=statistics.median(early),
            beside_name="early in the run",
            note=note,
        )


def stored_times(chosen: Any, watch: Watch, sweep_id: int, *, at: float) -> None:
    """Time the question that each boot begins with, over the wire: what does the sweep hold?"""
    with wiring.open_store(chosen) as store:
        began = time.perf_counter()
        store.stored(sweep_id)
        watch.times["stored(), from a client"].append((at, time.perf_counter() - began))


def play(home: Path, *, minutes: float, every: float, streams: Sequence[int], window: float) -> Section:
    """Run it and return its figures."""
    watch, facts = Watch(), {"minutes_asked": minutes, "streams": list(streams), "window_s": window}
    with service(home) as (serve, environ):
        chosen = wiring.settings(environ)
        log = home / "postgres" / "log" / "server.log"
        record_statements(chosen)
        begin(home, environ, sweep_file(streams, window=window))
        with wiring.open_queries(chosen) as queries:
            wait_for(lambda: bool(queries.sweeps(limit=1)), 120.0)
            sweep_id = queries.sweeps(limit=1)[0].sweep_id
            began, process = time.monotonic(), psutil.Process(serve.pid)
            try:
                while (at := time.monotonic() - began) < minutes * 60.0 and serve.poll() is None:
                    look(watch, process, at=at)
                    read_log(watch, log_of(chosen, log), at=at)
                    stored_times(chosen, watch, sweep_id, at=at)
                    row = queries.sweeps(limit=1)[0]
                    say(at, row.repeats_clean, row.windows_flagged, watch)
                    time.sleep(every)
            except KeyboardInterrupt:
                print("ended by hand")
            lasted = time.monotonic() - began
            row = queries.sweeps(limit=1)[0]
            facts |= {"minutes": round(lasted / 60.0, 1), "clean": row.repeats_clean, "flagged": row.windows_flagged}
    figures = (*memory_figures(watch, lasted=lasted), *time_figures(watch, lasted=lasted))
    return Section("longrun", figures, facts=facts)


def log_of(chosen: Any, fallback: Path) -> Path:
    """Where the embedded server logs: not always below the home (see `store.place`)."""
    found: Path = wiring.cluster(chosen).place.logs / "server.log"
    return found if found.exists() else fallback


def record_statements(chosen: Any) -> None:
    """Have the server log how long each statement of our database took, without its values."""
    import sqlalchemy as sa

    with wiring.open_database(chosen) as engine, engine.connect() as connection:
        for setting in ("log_min_duration_statement = 0", "log_parameter_max_length = 0"):
            connection.execute(sa.text(f"ALTER DATABASE {wiring.DATABASE} SET {setting}"))
        connection.commit()


def begin(home: Path, environ: Mapping[str, str], text: str) -> None:
    """Start the sweep on the service; who follows it goes away again."""
    file = home / "longrun.yaml"
    file.write_text(text)
    with (home / "run.log").open("wb") as log:
        follow = subprocess.Popen(
            [sys.executable, "-m", "nightsweep.cli", "run", "--on-service", str(file)],
            env=dict(environ),
            stdout=log,
            stderr=log,
            cwd=home,
        )
        wait_for(lambda: b"[0/" in (home / "run.log").read_bytes() or follow.poll() is not None, 120.0)
        if follow.poll() is not None:
            raise SystemExit((home / "run.log").read_text()[-2000:])
        follow.kill()
        follow.wait()


def say(at: float, clean: int, flagged: int, watch: Watch) -> None:
    """Print one look."""
    held = {role: points[-1][1] / MB for role, points in watch.memory.items() if points[-1][0] == at}
    parts = ", ".join(f"{role} {megabytes:.0f} MB" for role, megabytes in sorted(held.items()))
    print(f"{at / 60.0:7.1f} min  {clean} clean, {flagged} flagged; {parts}", flush=True)


def main() -> None:
    """Run it, print the table, keep it in `bench-results`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--every", type=float, default=30.0, help="seconds between two looks")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--window", type=float, default=4.0, help="seconds of a window")
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="nightsweep-longrun-"))
    home.chmod(0o711)
    try:
        section = play(home, minutes=asked.minutes, every=asked.every, streams=asked.streams, window=asked.window)
    finally:
        wiring.cluster(wiring.settings({"NIGHTSWEEP_HOME": str(home)})).remove()
        shutil.rmtree(home, ignore_errors=True)
    print(f"\n{section.facts}\n\n{table([section])}\nkept in {write(section)}")


if __name__ == "__main__":
    main()

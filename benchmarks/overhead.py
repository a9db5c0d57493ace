"""What a sweep costs beyond the engine's own start and the windows' own length, per boot and per window.

A sweep on the simulated engine is run by `nightsweep run`, and its stored times are read:

* per window: from a window's begin (load starts) to the next one's begin, less the time between its two readings. The
  load's ramp, the drain, the derivation and the transaction are in it. The last window of a boot ends when it is stored.
* per boot: from the boot's begin to its first window and from its last window to the next boot's begin, less the engine's
  own start, which is timed apart: the same command, asked for /health every 5 ms.

The peer, `vllm bench sweep serve`, is run on the same simulated engine when NIGHTSWEEP_BENCH_VLLM names a vllm executable
(its environment needs pandas; NIGHTSWEEP_BENCH_VLLM_PATH may name a folder that has it). Its lines are stamped as they come:

* per run: from [BEGIN BENCHMARK] to [END BENCHMARK], less the `duration` that the run itself reports;
* per boot: from [BEGIN SERVER] to the first [BEGIN BENCHMARK] and from the last [END BENCHMARK] to [END SERVER], less
  the same engine start.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from benchmarks import memory
from benchmarks.common import Section, median_figure, table, write

SPEED, BOOT_SPEED = 20, 100
"""How many times faster than the calibrated box: a step takes 6 ms, a boot of 332 s takes 3.3 s."""
CONCURRENCY = (1, 4)
REPEATS, BOOTS = 4, 2
WINDOW = 2.0
CONFIGS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"method": "mtp", "num_speculative_tokens": 3},
    {"method": "dflash", "model": "z-lab/Qwen3.8-27B-DFlash2", "num_speculative_tokens": 5},
)
MODEL = "unsloth/Qwen3.8-27B-NVFP4"
SERVED = "simulated"
PER_BOOT_TARGET = 2.0
PER_WINDOW_TARGET = 1.0


def simulator(*, port: int) -> list[str]:
    """The simulated engine's command, as for any caller."""
    head = [sys.executable, "-m", "nightsweep.simulator", MODEL]
    head += ["--served-model-name", SERVED, "--host", "127.0.0.1", "--port", str(port)]
    return [*head, "--sim-speed", str(SPEED), "--sim-boot-speed", str(BOOT_SPEED)]


def sweep_file() -> str:
    """The sweep, as a user would write it (JSON is YAML)."""
    configs = [
        {"name": "none" if spec is None else str(spec["method"]), **({} if spec is None else {"speculative": spec})}
        for spec in CONFIGS
    ]
    document = {
        "name": "bench",
        "engine": {
            "kind": "vllm",
            "host": "process",
            "command": ["{python}", "-m", "nightsweep.simulator"],
            "model": MODEL,
            "served_name": SERVED,
            "simulated": True,
            "port": 0,
            "args": {"sim-speed": SPEED, "sim-boot-speed": BOOT_SPEED},
            "boot_timeout": "2m",
        },
        "configs": configs,
        "probe": {
            "concurrency": list(CONCURRENCY),
            "temperature": [0.7],
            "window": f"{WINDOW:g}s",
            "repeats": REPEATS,
            "boots": BOOTS,
            "warmup": 0,
        },
    }
    return json.dumps(document, indent=1)


# --- ours --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """A sweep of ours, as its stored times tell it."""

    per_boot: tuple[float, ...]
    per_window: tuple[float, ...]
    ramps: tuple[float, ...]
    memory: Section


def environment(home: Path) -> dict[str, str]:
    """Our environment with a home of the benchmark's own."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("NIGHTSWEEP_")}
    return {**ours, "NIGHTSWEEP_HOME": str(home), "NIGHTSWEEP_BOX": "bench"}


def run_ours(*, engine_start: float) -> Ours:
    """Sweep once, with memory sampled from outside, and read the stored times."""
    with tempfile.TemporaryDirectory(prefix="nsbench.") as folder:
        home = Path(folder)
        file = home / "bench.yaml"
        file.write_text(sweep_file(), encoding="utf-8")
        program = str(Path(sys.executable).parent / "nightsweep")
        process = subprocess.Popen(
            [program, "run", str(file)],
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        peak = memory.PeakMemory(process.pid)
        peak.start()
        try:
            _, said = process.communicate(timeout=600)
        finally:
            peak.stop()
        try:
            if process.returncode != 0:
                raise RuntimeError(f"nightsweep run ended with {process.returncode}: {said[-2000:]}")
            return _ours(stored_times(home), engine_start=engine_start, peak=peak)
        finally:
            _python(home, "from nightsweep import wiring; wiring.cluster(wiring.settings()).stop()")


def _python(home: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(home), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def stored_times(home: Path) -> list[dict[str, Any]]:
    """The sweep's boots in order, each with its windows in order."""
    url = _python(home, "from nightsweep import wiring; print(wiring.database_url(wiring.settings()))")
    with psycopg.connect(url.replace("+psycopg", ""), row_factory=dict_row) as connection:
        boots = connection.execute("select * from boots order by id").fetchall()
        for boot in boots:
            query = "select started_at, stored_at, seconds, ramp_s, flags from windows where boot_id = %s order by id"
            boot["windows"] = connection.execute(query, (boot["id"],)).fetchall()
    return boots


def _ours(boots: Sequence[Mapping[str, Any]], *, engine_start: float, peak: memory.PeakMemory) -> Ours:
    per_window, per_boot, ramps = [], [], []
    for boot, following in zip(boots, [*boots[1:], None], strict=True):
        windows = boot["windows"]
        for window, after in zip(windows, [*windows[1:], None], strict=True):
            end = window["stored_at"] if after is None else after["started_at"]
            if window["seconds"] is not None:
                per_window.append((end - window["started_at"]).total_seconds() - window["seconds"])
                ramps.append(window["ramp_s"])
        begun = (windows[0]["started_at"] - boot["started_at"]).total_seconds() - engine_start
        if following is not None:  # after the last boot comes the end of the sweep, not another boot
            per_boot.append(begun + (following["started_at"] - windows[-1]["stored_at"]).total_seconds())
    return Ours(
        per_boot=tuple(per_boot),
        per_window=tuple(per_window),
        ramps=tuple(ramps),
        memory=memory.section_of(peak, windows=len(per_window)),
    )


# --- the engine alone, and the peer ------------------------------------------------------------------------------


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def engine_start_seconds() -> float:
    """How long the engine itself takes from its start to its first healthy answer (no speculation, like the first boot)."""
    port = free_port()
    begin = time.perf_counter()
    process = subprocess.Popen(simulator(port=port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while time.perf_counter() - begin < 120:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                    return time.perf_counter() - begin
            except OSError:
                time.sleep(0.005)
        raise RuntimeError("the simulated engine did not come up")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@dataclass(frozen=True)
class Peer:
    """The peer's times."""

    per_boot: tuple[float, ...]
    per_run: tuple[float, ...]


def peer_missing(vllm: str | None) -> str | None:
    """Why the peer cannot be measured here, or None."""
    if not vllm:
        return "NIGHTSWEEP_BENCH_VLLM names no vllm executable"
    if not Path(vllm).exists():
        return f"{vllm} does not exist"
    python = Path(vllm).parent / "python"
    found = subprocess.run(
        [str(python), "-c", "import pandas, vllm"], env=_peer_environment(), capture_output=True, check=False
    )
    return None if found.returncode == 0 else "pandas is missing beside vllm (NIGHTSWEEP_BENCH_VLLM_PATH may give it)"


def _peer_environment() -> dict[str, str]:
    extra = os.environ.get("NIGHTSWEEP_BENCH_VLLM_PATH")
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **quiet, **({"PYTHONPATH": extra} if extra else {})}


def run_peer(vllm: str, *, engine_start: float) -> Peer:
    """Run the peer's sweep on the same engine: two boots, two concurrencies, three runs each."""
    with tempfile.TemporaryDirectory(prefix="nspeer.") as folder:
        place = Path(folder)
        prompts = place / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"Write function number {i}."}) + "\n" for i in range(32)))
        (place / "serve.json").write_text(json.dumps([{"max-num-seqs": 8}, {"max-num-seqs": 16}]))
        bench = [{"max_concurrency": c, "num_prompts": 4 * c} for c in CONCURRENCY]
        (place / "bench.json").write_text(json.dumps(bench))
        lines = _stamped(_peer_command(vllm, place, prompts), place)
        results = [place / line.partition(": ")[2] for _, line in lines if line.startswith("Output file: ")]
        durations = [float(json.loads(path.read_text())["duration"]) for path in results]
        return _peer(lines, durations, engine_start=engine_start)


def _peer_command(vllm: str, place: Path, prompts: Path) -> list[str]:
    port = free_port()
    bench = [vllm, "bench", "serve", "--backend", "openai", "--base-url", f"http://127.0.0.1:{port}"]
    bench += ["--model", SERVED, "--skip-tokenizer-init", "--dataset-name", "custom", "--dataset-path", str(prompts)]
    bench += ["--extra-body", json.dumps({"max_tokens": 256}), "--disable-tqdm"]
    files = ["--serve-params", str(place / "serve.json"), "--bench-params", str(place / "bench.json")]
    commands = ["--serve-cmd", shlex.join(simulator(port=port)), "--bench-cmd", shlex.join(bench)]
    return [
        *(vllm, "bench", "sweep", "serve", *commands, *files),
        *("--after-bench-cmd", "true", "--num-runs", "3", "-o", str(place / "results")),
    ]


def _stamped(command: list[str], place: Path) -> list[tuple[float, str]]:
    """Run a command and stamp each of its lines as it comes."""
    lines: list[tuple[float, str]] = []
    process = subprocess.Popen(
        command, env=_peer_environment(), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        lines.extend((time.perf_counter(), line.rstrip()) for line in process.stdout)
        code = process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
    if code != 0:
        raise RuntimeError("the peer failed: " + "\n".join(line for _, line in lines[-30:]))
    return lines


def _peer(lines: Sequence[tuple[float, str]], durations: Sequence[float], *, engine_start: float) -> Peer:
    def times(mark: str) -> list[float]:
        return [at for at, line in lines if line.startswith(mark)]

    begun, ended = times("[BEGIN BENCHMARK]"), times("[END BENCHMARK]")
    per_run = tuple(end - begin - took for begin, end, took in zip(begun, ended, durations, strict=True))
    per_boot = []
    for up, down in zip(times("[BEGIN SERVER]"), times("[END SERVER]"), strict=True):
        first = min(at for at in begun if at > up)
        last = max(at for at in ended if at < down)
        per_boot.append(first - up - engine_start + down - last)
    return Peer(per_boot=tuple(per_boot), per_run=per_run)


# --- all of it ---------------------------------------------------------------------------------------------------


def measure() -> tuple[Section, Section]:
    """Overhead and memory; the peer beside them where it is installed."""
    starts = [engine_start_seconds() for _ in range(3)]
    start = sorted(starts)[1]
    ours = run_ours(engine_start=start)
    vllm = os.environ.get("NIGHTSWEEP_BENCH_VLLM")
    why = peer_missing(vllm)
    peer = None if why else run_peer(str(vllm), engine_start=start)
    name = "`vllm bench sweep serve`"
    boot_beside: dict[str, Any] = (
        {} if peer is None else {"beside": median_figure("", peer.per_boot).value, "beside_name": name}
    )
    run_beside: dict[str, Any] = (
        {} if peer is None else {"beside": median_figure("", peer.per_run).value, "beside_name": name}
    )
    section = Section(
        name="overhead",
        figures=(
            median_figure("overhead per boot", ours.per_boot, target=PER_BOOT_TARGET, **boot_beside),
            median_figure("overhead per window", ours.per_window, target=PER_WINDOW_TARGET, **run_beside),
            median_figure("of it, load ramp (the engine's own prefill is in it)", ours.ramps),
            median_figure("the engine's own start, taken off", starts),
        ),
        facts={
            "speed": SPEED,
            "boot_speed": BOOT_SPEED,
            "window_s": WINDOW,
            "peer_missing": why,
            "peer_per_boot_s": None if peer is None else list(peer.per_boot),
            "peer_per_run_s": None if peer is None else list(peer.per_run),
        },
    )
    return section, ours.memory


if __name__ == "__main__":
    sections = measure()
    for each in sections:
        write(each)
    print(table(sections))

"""How fast `nightsweep parse-log` reads a log of 100 MB, and in how much memory; beside it, plain Python over the same lines.

Two logs: a server's long day (a boot, then requests and interval lines), and the worst case, a boot log again and again.
Seconds are of the processor: a neighbour on the machine is no property of the reader.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import ROOT, Figure, Section, median_figure

MEGABYTES = 100
RUNS = 3
SLOWEST = 5.0
"""Seconds for 100 MB: 20 MB/s."""

MOST_MEMORY = 60.0
"""MB that the process may grow by while it reads."""

BOOT = ROOT / "tests" / "data" / "bootlogs" / "vllm-0.26.0-cuda-eagle5pb.log"
TRAFFIC = (
    '(APIServer pid=1) INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
    "(APIServer pid=1) INFO 11-29 16:31:12 [loggers.py:259] Engine 000: Avg prompt throughput: 120.4 tokens/s, Avg generation "
    "throughput: 96.3 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.7%, Prefix cache hit rate: 96.2%\n",
    "(APIServer pid=1) INFO 11-29 16:31:12 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 3.79, Accepted "
    "throughput: 71.10 tokens/s, Drafted throughput: 127.40 tokens/s, Accepted: 711 tokens, Drafted: 1274 tokens, "
    "Per-position acceptance rate: 0.783, 0.636, 0.552, 0.431, 0.388, Avg Draft acceptance rate: 55.8%\n",
)


def measure() -> Section:
    """Time both logs, three runs each in a process of its own, and the reference beside them."""
    with tempfile.TemporaryDirectory() as folder:
        figures: list[Figure] = []
        for name, lines in (("a day of traffic", _day()), ("boots only", _boots())):
            path = Path(folder) / "big.log"
            _fill(path, lines)
            figures += _figures(name, path)
    return Section(name="parse_log", figures=tuple(figures), facts={"megabytes": MEGABYTES})


def _figures(name: str, path: Path) -> list[Figure]:
    runs = [_run("parse", path) for _ in range(RUNS)]
    plain = [_run("plain", path) for _ in range(RUNS)]
    seconds = [run["seconds"] for run in runs]
    reference = sorted(run["seconds"] for run in plain)[RUNS // 2]
    rate = MEGABYTES / sorted(seconds)[RUNS // 2]
    return [
        median_figure(
            f"parse-log of 100 MB, {name}",
            seconds,
            target=SLOWEST,
            beside=reference,
            beside_name="lines and str.replace",
            note=f"{rate:.0f} MB/s; the reference reads {MEGABYTES / reference:.0f} MB/s",
        ),
        Figure(
            name=f"memory that parse-log adds, {name} (peak)",
            unit="MB",
            value=max(run["grown_mb"] for run in runs),
            samples=tuple(run["grown_mb"] for run in runs),
            target=MOST_MEMORY,
        ),
    ]


def _day() -> Iterator[str]:
    yield from _boot_lines()
    while True:
        yield from TRAFFIC


def _boots() -> Iterator[str]:
    lines = _boot_lines()
    while True:
        yield from lines


def _boot_lines() -> list[str]:
    return BOOT.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)


def _fill(path: Path, lines: Iterator[str]) -> None:
    left = MEGABYTES * 1_000_000
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line)
            left -= len(line)
            if left <= 0:
                return


def _run(what: str, path: Path) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.parse_log", what, str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _main(what: str, path: str) -> None:
    """Read a log in this process and print seconds and memory; `plain` does what any reader must at least do."""
    import resource

    from nightsweep.cli import parse_log

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    if what == "plain":
        with open(path, "rb") as stream:
            for line in stream:
                line.decode("utf-8", errors="replace").replace("\x1b", "")
    else:
        report = parse_log.read_log(parse_log._lines(path), engine=None)
        assert report.facts.facts, "the log states some, also where its last boot is cut"
    seconds = time.process_time() - begin
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"seconds": seconds, "grown_mb": grown / 1024}))


if __name__ == "__main__":
    _main(*sys.argv[1:])

"""How long a person waits for `nightsweep --help`, beside Python's own start and an import of what the product stands on.

Interleaved, so that a busy moment hits all alike. The target is 0.5 s.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import Section, median_figure, table, write

RUNS = 15


def _seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return seconds


def measure(*, runs: int = RUNS) -> Section:
    """Time the commands in turns; the first turn only fills the page cache."""
    nightsweep = str(Path(sys.executable).parent / "nightsweep")
    commands = {
        "nightsweep --help": [nightsweep, "--help"],
        "python -c pass": [sys.executable, "-c", "pass"],
        "import prefect": [sys.executable, "-c", "import prefect"],
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            if name == "import prefect" and turn > 3:  # slow, and only there to compare with
                continue
            seconds = _seconds(command)
            if turn:
                samples[name].append(seconds)
    bare = median_figure("python -c pass", samples["python -c pass"])
    return Section(
        name="startup",
        figures=(
            median_figure(
                "`nightsweep --help`",
                samples["nightsweep --help"],
                target=0.5,
                beside=bare.value,
                beside_name="`python -c pass`",
            ),
            median_figure(
                "`import prefect` (what --help must not do)",
                samples["import prefect"],
                beside=bare.value,
                beside_name="`python -c pass`",
            ),
        ),
    )


if __name__ == "__main__":
    section = measure()
    write(section)
    print(table([section]))

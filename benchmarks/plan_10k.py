"""A sweep file of 10,000 cells: read, expanded, ordered and compared with what is stored, beside the YAML parser alone.

Two shapes: a grid of 1,000 configs with 10 cells each, and the worst one, 10,000 configs listed one by one with a single cell.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.common import Figure, Section, median_figure, table, write
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.order import boot_tasks
from nightsweep.plan.remaining import remaining, temperature_key
from nightsweep.plan.sweepfile import load

RUNS = 5
CELLS = 10_000
TARGET = 2.0
RESUME_TARGET = 0.2
_ENGINE = "name: big\nengine: {kind: vllm, host: process, model: org/target, args: {max-model-len: 8192}}\n"


def grid_file() -> str:
    """1,000 configs from one grid, 5 concurrencies x 2 temperatures."""
    return _ENGINE + (
        "configs:\n"
        '  - name: "k={num_speculative_tokens} {args.max-num-batched-tokens}"\n'
        "    speculative: {method: mtp}\n"
        f"    grid: {{num_speculative_tokens: {list(range(1, 26))}, args.max-num-batched-tokens: {list(range(40))}}}\n"
        "probe: {concurrency: [1, 2, 4, 8, 16], temperature: [0.7, 1.0], repeats: 3}\n"
    )


def listed_file() -> str:
    """10,000 configs, each written out, one cell each."""
    listed = "".join(
        f"  - name: c{each}\n    speculative: {{method: mtp, num_speculative_tokens: {each + 1}}}\n"
        for each in range(CELLS)
    )
    return f"{_ENGINE}configs:\n{listed}probe: {{concurrency: [1], temperature: [0.7], repeats: 3}}\n"


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _half_stored(plan: SweepPlan) -> dict[tuple[str, int, str, int], tuple[bool, int]]:
    repeats = [repeat for task in boot_tasks(plan) for repeat in task.repeats]
    return {
        (r.cell.config, r.cell.concurrency, temperature_key(r.cell.temperature), r.index): (True, 1)
        for r in repeats[: len(repeats) // 2]
    }


def _command_line(text: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.yaml"
        file.write_text(text, encoding="utf-8")
        command = [str(Path(sys.executable).parent / "nightsweep"), "plan", str(file), "--no-history"]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return time.perf_counter() - begin


def _shape(name: str, text: str, *, runs: int) -> list[Figure]:
    samples: dict[str, list[float]] = {key: [] for key in ("yaml", "load", "order", "remaining", "plan", "command")}
    for _ in range(runs):  # in turns, so that a busy moment hits all alike
        plan = load(text)
        stored = _half_stored(plan)
        samples["yaml"].append(_seconds(lambda: yaml.load(text, Loader=yaml.CSafeLoader)))
        samples["load"].append(_seconds(lambda: load(text)))
        samples["order"].append(_seconds(lambda plan=plan: boot_tasks(plan)))  # type: ignore[misc]
        left = _seconds(lambda p=plan, s=stored: remaining(p, windows=s, prefills={}, failed_boots={}))  # type: ignore[misc]
        samples["remaining"].append(left)
        samples["plan"].append(samples["load"][-1] + left)
        samples["command"].append(_command_line(text))
    parsed = median_figure(f"{name}: YAML parser alone", samples["yaml"])
    beside = {"beside": parsed.value, "beside_name": "YAML parser alone"}
    return [
        parsed,
        median_figure(f"{name}: read and expand", samples["load"], **beside),
        median_figure(f"{name}: order of all boots", samples["order"], **beside),
        median_figure(f"{name}: what is left, half stored", samples["remaining"], target=RESUME_TARGET, **beside),
        median_figure(f"{name}: read, expand, order, what is left", samples["plan"], **beside),
        median_figure(f"{name}: `nightsweep plan`, whole process", samples["command"], target=TARGET, **beside),
    ]


def measure(*, runs: int = RUNS) -> Section:
    """Time both shapes."""
    figures = [
        *_shape("1,000 configs x 10 cells", grid_file(), runs=runs),
        *_shape("10,000 configs listed", listed_file(), runs=runs),
    ]
    return Section(name="plan_10k", figures=tuple(figures), facts={"cells": CELLS, "repeats": 3})


def main() -> int:
    """Print the table; exit code 1 when a target is missed."""
    section = measure()
    write(section)
    print(table([section]))
    return 1 if any(figure.met is False for figure in section.figures) else 0


if __name__ == "__main__":
    sys.exit(main())

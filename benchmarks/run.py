"""All benchmarks: `make bench`. Results go to bench-results/, the table to the terminal and to bench-results/bench.md.

Exit code 1 when a figure misses its target.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks import (
    calibration,
    cost,
    deciding,
    disturbance,
    history_size,
    nights,
    overhead,
    parse_log,
    resume,
    startup,
    truth,
)
from benchmarks.common import RESULTS, Section, machine, table, write


def _planning() -> Sequence[Section]:
    if importlib.util.find_spec("benchmarks.plan_10k") is None:
        return (Section(name="plan_10k", skipped="benchmarks/plan_10k.py is not here"),)
    return (importlib.import_module("benchmarks.plan_10k").measure(),)


PARTS: tuple[tuple[str, Callable[[], Sequence[Section]]], ...] = (
    ("startup", lambda: (startup.measure(),)),
    ("plan_10k", _planning),
    ("simulated nights", nights.measure),
    ("resume", lambda: (resume.measure(),)),
    ("parse_log", lambda: (parse_log.measure(),)),
    ("overhead and memory", overhead.measure),
    ("cost of watching", cost.measure),
    ("truth, a quarter of the campaign", lambda: truth.measure(windows=1, fault_windows=2, clean=40, share=0.25)),
    ("calibration of intervals, verdicts and pooled rates", lambda: (calibration.measure(),)),
    ("decisions against the fixed grid", lambda: (deciding.measure(),)),
    ("questions on a million windows", lambda: (history_size.measured(),)),
    ("disturbance", lambda: (disturbance.measure(),)),
)


def main() -> int:
    """Run all parts; one that breaks does not hide the others."""
    sections: list[Section] = []
    broken = 0
    for name, part in PARTS:
        print(f"== {name}", flush=True)
        begin = time.perf_counter()
        try:
            found = list(part())
        except Exception as error:  # noqa: BLE001 - a benchmark run reports what broke and goes on
            broken += 1
            found = [Section(name=name.replace(" ", "_"), skipped=f"broke: {type(error).__name__}: {error}")]
        for section in found:  # at once: a run that is cut short keeps what it has
            write(section)
        sections += found
        print(f"   {time.perf_counter() - begin:.0f} s", flush=True)
    facts = machine()
    head = f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}, {facts['at']}"
    page = f"# Benchmarks\n\n{head}\n\n{table(sections)}"
    (RESULTS / "bench.md").write_text(page, encoding="utf-8")
    print(f"\n{page}")
    missed = [figure.name for section in sections for figure in section.figures if figure.met is False]
    for name in missed:
        print(f"target missed: {name}")
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())

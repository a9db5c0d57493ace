"""What the benchmarks share: where results go, the machine they came from, a figure with its spread and its target."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench-results"


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        samples: All of them, in order, in `unit`.
        value: What is judged: the median, unless the name says it is a peak.
        target: What it must stay under; None is no target.
        beside: The peer's or the baseline's value measured in the same run, in `unit`; the ratio is value / beside.
        beside_name: What that was.
    """

    name: str
    unit: str
    value: float
    samples: tuple[float, ...] = ()
    target: float | None = None
    beside: float | None = None
    beside_name: str | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        return None if self.target is None else self.value < self.target

    @property
    def ratio(self) -> float | None:
        """The figure over what was measured beside it."""
        return self.value / self.beside if self.beside else None


@dataclass(frozen=True)
class Section:
    """One benchmark's figures; `skipped` says why there are none."""

    name: str
    figures: tuple[Figure, ...] = ()
    skipped: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def median_figure(name: str, samples: Sequence[float], *, unit: str = "s", **more: Any) -> Figure:
    """A figure judged by its median."""
    return Figure(name=name, unit=unit, value=statistics.median(samples), samples=tuple(samples), **more)


def machine() -> dict[str, Any]:
    """The machine, as far as figures depend on it."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
        "kernel": platform.release(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write(section: Section, *, folder: Path = RESULTS) -> Path:
    """Keep a section as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{section.name}.json"
    path.write_text(json.dumps({**asdict(section), "machine": machine()}, indent=1) + "\n", encoding="utf-8")
    return path


def _cell(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    return f"{value:,.3g}{' ' + unit if unit else ''}"


def table(sections: Sequence[Section]) -> str:
    """All figures as a Markdown table; a skipped section is a row that says why."""
    lines = [
        "| what | figure | n | min to max | target | met | beside it, same run | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for section in sections:
        if section.skipped is not None:
            lines.append(f"| {section.name} | skipped: {section.skipped} | | | | | | |")
        for figure in section.figures:
            spread = f"{_cell(min(figure.samples))} to {_cell(max(figure.samples))}" if figure.samples else ""
            met = {None: "", True: "yes", False: "**no**"}[figure.met]
            beside = f"{figure.beside_name}: {_cell(figure.beside, figure.unit)}" if figure.beside is not None else ""
            target = f"< {_cell(figure.target, figure.unit)}" if figure.target is not None else ""
            lines.append(
                f"| {figure.name} | {_cell(figure.value, figure.unit)} | {len(figure.samples) or ''} | {spread} | {target} "
                f"| {met} | {beside} | {_cell(figure.ratio)} |"
            )
    notes = [f"- {figure.name}: {figure.note}" for section in sections for figure in section.figures if figure.note]
    return "\n".join([*lines, "", *notes]) + "\n"

"""What a chaos run prints: the moments with what came of them, and the totals."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from tests.chaos.checker import Tally
from tests.chaos.game import Entry

HEADER = f"{'#':>4}  {'sweep':<9} {'killed':<36} {'in phase':<22} {'went on after':>13}  {'production':<16} outcome"


def row(entry: Entry, *, production: bool) -> str:
    """Return one kill as a line."""
    went_on = "next kill first" if entry.went_on is None else f"{entry.went_on:.1f} s"
    served = "none here" if not production else "owed" if entry.served is None else f"served, {entry.served:.1f} s"
    outcome = "went on by itself" if not entry.handed_over else f"handed over again x{entry.handed_over}"
    return f"{entry.number:>4}  {entry.sweep:<9} {entry.victim:<36} {entry.phase:<22} {went_on:>13}  {served:<16} {outcome}"


def totals(entries: Sequence[Entry], windows: Tally, *, production: bool) -> tuple[str, ...]:
    """Return the totals as lines."""
    times = sorted(entry.went_on for entry in entries if entry.went_on is not None)
    victims = Counter(entry.victim.split(" (")[0] for entry in entries)
    phases = Counter(entry.phase for entry in entries)
    lines = [
        f"kills: {len(entries)}; " + ", ".join(f"{name} {count}" for name, count in victims.most_common()),
        "phases: " + ", ".join(f"{name} {count}" for name, count in phases.most_common()),
    ]
    if times:
        lines.append(
            f"the sweep went on after: median {statistics.median(times):.1f} s, longest {times[-1]:.1f} s (n={len(times)})"
        )
    if production:
        served = sum(entry.served is not None for entry in entries)
        lines.append(f"production serves in {served} of {len(entries)}")
    lines.append(
        f"windows stored exactly once: {windows.once} of {windows.planned} ({windows.clean} clean, {windows.exhausted} flagged "
        "as often as the plan allows)"
    )
    return tuple(lines)

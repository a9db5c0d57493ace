"""Nights on a fake clock, with the real loop: is production ready again before `until`, whatever the starts take?

Starts of engines and of production are drawn within 30% of their middle; on the last box some are odd and take up to two and a
half times as long. The box remembers its starts from night to night, as the store does, and begins without any.
A night in which production is late is an exception only when its start was longer than every one before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from benchmarks.common import Figure, Section, table, write
from tests.fakes.nights import NightResult, Nights

NIGHTS = 50
SEED = 20261129


@dataclass(frozen=True)
class Box:
    """A box to be swept. Many repeats in a boot use a night to its very end; few end it where no boot fits any more."""

    name: str
    slug: str
    repeats: int
    odd: float = 0.0


BOXES = (
    Box("starts within 30%, short boots", "nights", repeats=3),
    Box("starts within 30%, long boots", "nights_long", repeats=25),
    Box("4% of the starts odd, long boots", "nights_odd", repeats=25, odd=0.04),
)


def exceptional(night: NightResult) -> bool:
    """Whether production's start was longer than every one before, and than what had been kept for it."""
    start, before = night.production_start, night.longest_before
    return start is not None and (before is None or start > before)


def late(nights: Sequence[NightResult]) -> list[NightResult]:
    """The nights in which production was not ready by `until`."""
    return [night for night in nights if night.slack < 0]


def unexplained(nights: Sequence[NightResult]) -> list[NightResult]:
    """Late nights that no start beyond every past one explains, or that the sweep's own note keeps silent about."""
    return [one for one in late(nights) if not exceptional(one) or "after until" not in one.outcome.note]


def figures(name: str, nights: Sequence[NightResult]) -> tuple[Figure, ...]:
    """What is judged: no late night without its reason."""
    slack = [night.slack for night in nights if night.outcome.state != "done"]
    dropped = sum("start was dropped" in night.ended for night in nights)
    said = f"{len(nights) - len(late(nights))} of {len(nights)} in time; {dropped} boots dropped at a night's end"
    return (
        Figure(f"{name}: late nights", "nights", float(len(late(nights))), note=said),
        Figure(
            f"{name}: late without a start beyond every past one", "nights", float(len(unexplained(nights))), target=1.0
        ),
        Figure(f"{name}: ready before until by, least", "s", min(slack), samples=tuple(slack)),
    )


def rows(nights: Sequence[NightResult]) -> Iterator[str]:
    """The table of nights, in Markdown."""
    heads = (
        "night",
        "start",
        "boots",
        "windows",
        "kept free, s",
        "production's start, s",
        "longest before, s",
        "ready",
    )
    yield f"| {' | '.join((*heads, 'before until, s', 'ended because'))} |"
    yield f"|{'---|' * (len(heads) + 2)}"
    for number, night in enumerate(nights, start=1):
        why = night.ended + ("; **late**" if night.slack < 0 else "")
        starts = f"{_seconds(night.production_start)} | {_seconds(night.longest_before)}"
        yield (
            f"| {number} | {night.start:%H:%M} | {night.boots} | {night.windows} | {night.kept:.0f} | {starts} "
            f"| {night.ready:%H:%M:%S} | {night.slack:.0f} | {why} |"
        )


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def simulate(box: Box, *, nights: int = NIGHTS, seed: int = SEED) -> list[NightResult]:
    """Sweep a box for so many nights."""
    swept = Nights(seed=seed, odd=box.odd, repeats=box.repeats, configs=180 // box.repeats)
    return [swept.night() for _ in range(nights)]


def measure(*, nights: int = NIGHTS, shown: bool = False) -> tuple[Section, ...]:
    """Sweep all boxes."""
    found = []
    for box in BOXES:
        results = simulate(box, nights=nights)
        if shown:
            print("\n".join([f"\n{box.name}, seed {SEED}:", "", *rows(results)]))
            print("\n".join(f"\nlate: {night.outcome.note}" for night in late(results)))
        told = [
            {**asdict(night), "start": str(night.start), "until": str(night.until), "ready": str(night.ready)}
            for night in results
        ]
        found.append(Section(box.slug, figures(box.name, results), facts={"seed": SEED, "nights": told}))
    return tuple(found)


def main() -> int:
    """Print the tables; exit code 1 when a night was late without its reason."""
    sections = measure(shown=True)
    for section in sections:
        write(section)
    print(f"\n{table(sections)}")
    return 1 if any(figure.met is False for section in sections for figure in section.figures) else 0


if __name__ == "__main__":
    sys.exit(main())

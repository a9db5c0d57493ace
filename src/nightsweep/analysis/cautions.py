"""What a reader of a decision must not miss, the gravest first, and what else is to be known of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.comparing import BOOTS_UNKNOWN, UNDECIDED, WORSE, Comparison
from nightsweep.analysis.one_question import LeftOut
from nightsweep.analysis.premises import CellEvidence
from nightsweep.analysis.values import BootRow, WindowRow

RULED = "decided"
"""State of a sweep's own rule that stands (`rounds.DECIDED`)."""


Place = tuple[int, float]
"""Streams, temperature."""


def decided_for(config: str, rule: Mapping[str, Any] | None) -> bool:
    """Return whether a sweep's own rule stands, and leads with this config."""
    return rule is not None and rule["state"] == RULED and bool(rule["leader"] == config)


@dataclass(frozen=True)
class Held:
    """The chosen config against another one in one cell."""

    other: str
    found: Comparison


@dataclass(frozen=True)
class Story:
    """A choice and all that was found of it; configs by fingerprint.

    Attributes:
        names: Of all configs with a clean window in the cells.
        held: Against the runner-up, the strongest other of each cell, and the fallback.
        strongest: The other config of highest mean by cell; empty where the sweep's own rule decided for the choice.
        rule: See `grounds.Material`.
    """

    chosen: str
    fallback: str
    runner_up: str | None
    names: Mapping[str, str]
    cells: Sequence[CellEvidence]
    held: Sequence[Held]
    left_out: Mapping[str, LeftOut]
    boots: Sequence[BootRow]
    rule: Mapping[str, Any] | None
    strongest: Mapping[Place, str] = field(default_factory=dict)

    @property
    def concerned(self) -> dict[str, str]:
        """Return what the choice hangs on, with its part in it."""
        parts = {self.chosen: "the choice", self.fallback: "the fallback"}
        return parts if self.runner_up is None else {self.runner_up: "the runner-up", **parts}

    @property
    def shipped(self) -> set[str]:
        """Return the choice and the fallback."""
        return {self.chosen, self.fallback}

    @property
    def ruled(self) -> bool:
        """Whether the sweep's own rule decided for the chosen config."""
        return decided_for(self.chosen, self.rule)


def cautions(story: Story, rows: Sequence[WindowRow]) -> Iterator[str]:
    """Yield what must not be missed of the choice and the fallback, which is what is shipped.

    Args:
        rows: The windows that it rests on.
    """
    yield from _worse(story)
    yield from _against_the_rule(story)
    yield from _fallback(story)
    yield from _boots(story)
    yield from _of_these_boots(story)
    yield from _imported(rows)
    yield from (_out(story, name) for name in story.left_out if name in story.shipped)
    yield from _not_shown(story)
    yield from _lone(story, story.shipped)


def of_runner_up(story: Story) -> Iterator[str]:
    """Yield what must not be missed of the runner-up's own evidence."""
    rival = {name for name in story.concerned if name not in story.shipped}
    yield from (_out(story, name) for name in story.left_out if name in rival)
    yield from _lone(story, rival)


def remarks(story: Story) -> Iterator[str]:
    """Yield what else is to be known, a line for all configs that the choice does not hang on."""
    yield from (_out(story, name) for name in story.left_out if name not in story.concerned)
    lone = [cell for cell in story.cells if cell.n == 1 and cell.config not in story.concerned]
    if lone:
        configs = text.plural(len({cell.config for cell in lone}), "other config")
        why = ", which the sweep's own rule had put out" if story.ruled else ""
        verb = "rests" if len(lone) == 1 else "rest"
        yield f"{text.plural(len(lone), 'cell')} of {configs}{why} {verb} on {_each(lone)}"


def place_said(streams: int, temperature: Decimal | float) -> str:
    """Return "8 streams, T=0.7"."""
    return f"{text.plural(streams, 'stream')}, T={text.temperature(Decimal(str(temperature)))}"


def _worse(story: Story) -> Iterator[str]:
    for one in story.held:
        found = one.found
        if found.verdict == WORSE:
            part = "the fallback " if one.other == story.fallback else ""
            at = place_said(found.streams, found.temperature)
            span = "" if found.low is None or found.high is None else f" ({found.low:.3f}–{found.high:.3f})"
            yield f"SHOWN TO BE WORSE than {part}{story.names[one.other]} at {at}: x{found.ratio:.3f}{span}"


def _against_the_rule(story: Story) -> Iterator[str]:
    rule = story.rule
    if rule is None or story.ruled:
        return
    if rule["state"] == RULED:
        yield f"the sweep's own rule did not choose it: {rule['said']}"
    else:
        yield f"the sweep's own rule has not decided: {rule['said']}"


def _fallback(story: Story) -> Iterator[str]:
    if story.fallback not in {cell.config for cell in story.cells} and story.fallback not in story.left_out:
        yield "the fallback was not measured in these cells: what falling back costs is not known"


def _boots(story: Story) -> Iterator[str]:
    for name in (story.chosen, story.fallback):
        own = [boot for boot in story.boots if boot.config_fingerprint == name]
        failed = [boot for boot in own if boot.state == "failed"]
        if failed:
            kinds = ", ".join(sorted({boot.failure_kind or "unknown" for boot in failed}))
            yield f"{len(failed)} of {text.plural(len(own), 'boot')} of {story.concerned[name]} failed ({kinds})"


def _of_these_boots(story: Story) -> Iterator[str]:
    if any(
        side is not None and not side.boot_spread_known for one in story.held for side in (one.found.a, one.found.b)
    ):
        yield BOOTS_UNKNOWN


def _imported(rows: Sequence[WindowRow]) -> Iterator[str]:
    sources = sorted({row.source for row in rows if row.source is not None})
    if sources:
        count = sum(row.source is not None for row in rows)
        yield (
            f"{count} of {text.plural(len(rows), 'row')} were not measured here ({', '.join(sources)}): nobody proved which "
            "engine answered, and what their files do not state is no premise"
        )


def _out(story: Story, config: str) -> str:
    one = story.left_out[config]
    whole = "" if any(cell.config == config for cell in story.cells) else ", so nothing of it is compared"
    differ = text.several(one.differ_in) or "the box"
    windows = text.plural(one.windows, "window")
    return f"{windows} of {story.names[config]} under other conditions left out{whole} (they differ in {differ})"


def _not_shown(story: Story) -> Iterator[str]:
    """Yield where the choice is not what the evidence shows to be the best; the sweep's own rule looks at all cells together."""
    for one in story.held:
        found = one.found
        rival = one.other in (story.runner_up, story.strongest.get((found.streams, found.temperature)))
        if rival and found.verdict == UNDECIDED and not story.ruled:
            more = f"; about {text.plural(found.needed, 'further window')} of each would tell" if found.needed else ""
            at = place_said(found.streams, found.temperature)
            yield f"not shown to be better than {story.names[one.other]} at {at}: {found.verdict}{more}"


def _lone(story: Story, configs: Collection[str]) -> Iterator[str]:
    lone: dict[str, list[CellEvidence]] = defaultdict(list)
    for cell in story.cells:
        if cell.n == 1 and cell.config in configs:
            lone[cell.config].append(cell)
    again = "the rule ranks over all its places together" if story.ruled else "measure it again"
    for config, cells in sorted(lone.items(), key=lambda item: item[0] != story.chosen):
        first = cells[0]
        if len(cells) == 1:
            at = place_said(first.concurrency, first.temperature)
            rests = f"rests on {text.ONE_RUN}" if first.stated == 1 else f"is one number ({text.lone(first.spread)})"
            yield f"{first.mean:.1f} {rests}: {again} ({first.name} at {at})"
        else:
            listed = "; ".join(map(_listed, cells))
            part = story.concerned[config]
            yield (
                f"{len(cells)} cells of {part} {first.name} rest on {_each(cells)}: "
                f"{again.replace(' it ', ' them ')} ({listed})"
            )


def _listed(cell: CellEvidence) -> str:
    stands_for = "" if cell.stated == 1 else f", {text.lone(cell.spread)}"
    return f"{cell.mean:.1f} at {place_said(cell.concurrency, cell.temperature)}{stands_for}"


def _each(cells: Sequence[CellEvidence]) -> str:
    """Return what cells of one window each rest on; what was imported may stand for several runs, or not say for how many."""
    if all(cell.stated == 1 for cell in cells):
        return f"{text.ONE_RUN} each"
    return "one number each: a run, or a mean of runs that are not known"

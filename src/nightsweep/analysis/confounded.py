"""What stands between a difference of two configs and its cause: conditions that differ, too, and several settings at once.

Caveats that need the documents behind fingerprints, and those of single-batch cells; the rest are in `caveats`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from nightsweep.analysis import text
from nightsweep.analysis.caveats import caveats
from nightsweep.analysis.differing import config_differences, differences
from nightsweep.analysis.sides import OF_THE_CONFIG, Document, Documents, brief, expanded
from nightsweep.analysis.values import BootRow, CellSummary, SweepRow

WHOLE_RATE = (
    "their rate is all output tokens by all of the time, with ramp, prefill and tail in it, and no decode rate. The streams are "
    "the most that were open, not a load that was held."
)
SAID_ELSEWHERE = frozenset((*OF_THE_CONFIG, "engine_version", "image_digest", "not_applied"))
"""Conditions that the config names already, or that have a caveat of their own."""


def between_configs(cells: Sequence[CellSummary], documents: Documents) -> Iterator[str]:
    """Yield which conditions differ from config to config besides their settings: a difference may come from those."""
    names: defaultdict[tuple[str, str, bool], dict[str, None]] = defaultdict(dict)
    for cell in cells:
        if cell.decode_rate is not None:
            names[cell.conditions, cell.box, cell.simulated][cell.config] = None
    sets = {key: expanded(key, documents) for key in names}
    first = next(iter(sets), None)
    differing = {
        one.name: None
        for other in sets.values()
        if first is not None
        for one in differences(sets[first], other)
        if one.name not in SAID_ELSEWHERE
    }
    said = []
    for name in differing:
        values: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for key, document in sets.items():
            values[brief(str(document.get(name, "absent")))].update(names[key])
        groups = (f"{value} ({text.several(configs, limit=3)})" for value, configs in values.items())
        said.append(f"{name}: {' / '.join(groups)}")
    if said:
        yield (
            "Configs differ in more than their settings, so that a difference between them may come from this: "
            f"{text.several(said, limit=6)}."
        )


def several_settings(cells: Sequence[CellSummary], documents: Documents) -> Iterator[str]:
    """Yield which configs differ from every other one in two settings or more: no gain of theirs can be put down to one.

    Configs without speculation are held against none: to speculate is one setting, however many words it takes.
    """
    names = {cell.config_fingerprint: cell.config for cell in cells if cell.decode_rate is not None}
    known = {one: documents.configs[one] for one in names if documents.configs.get(one, {}).get("speculative")}
    said = []
    for one, document in known.items():
        apart = [(_settings(document, other), names[key]) for key, other in known.items() if key != one]
        nearest = min(apart, key=lambda pair: len(pair[0]), default=((), ""))
        if len(nearest[0]) > 1:
            said.append(f"{names[one]} (from {nearest[1]}: {text.several(nearest[0], limit=4)})")
    if said:
        yield (
            "Two settings or more differ at once from every other config, so that a difference cannot be put down to one: "
            f"{text.several(said, limit=4)}."
        )


def _settings(one: Document, other: Document) -> tuple[str, ...]:
    return tuple(difference.name.removeprefix("speculative.") for difference in config_differences(one, other))


def all_confounders(kinds: Sequence[Sequence[CellSummary]], documents: Documents) -> tuple[str, ...]:
    """Return both as sentences, of cells of each kind; what is true of several kinds is said once."""
    rules = (between_configs, several_settings)
    return tuple(dict.fromkeys(line for rule in rules for group in kinds for line in rule(group, documents)))


def single_batch_caveats(sweep: SweepRow, alone: Sequence[CellSummary], *, said: Sequence[str]) -> tuple[str, ...]:
    """Return the caveats of single-batch cells, but for what is said already: they lead and are open by themselves."""
    found = caveats(sweep, boots=(), cells=alone) if alone else ()
    return tuple(f"Single batch: {line}" for line in found if line not in said)


def whole_run_caveats(
    sweep: SweepRow, whole: Sequence[CellSummary], *, boots: Sequence[BootRow], said: Sequence[str]
) -> tuple[str, ...]:
    """Return the caveats of whole runs, but for what is said already; what their rate is goes first."""
    if not whole:
        return ()
    found = (WHOLE_RATE, *caveats(sweep, boots=boots, cells=whole))
    return tuple(f"Whole runs: {line}" for line in found if line not in said)

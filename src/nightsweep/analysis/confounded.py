"""What differs from config to config besides their settings, so that a difference between them may come from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from nightsweep.analysis import text
from nightsweep.analysis.comparing import differences
from nightsweep.analysis.sides import OF_THE_CONFIG, Documents, brief, expanded
from nightsweep.analysis.values import CellSummary

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

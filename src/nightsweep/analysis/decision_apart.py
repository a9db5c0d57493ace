"""In what the choice and the fallback of a decision differ besides what was decided: their rates differ by all of it together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nightsweep.analysis.differing import Difference, config_differences, differences
from nightsweep.analysis.premises import Apart, Decision
from nightsweep.analysis.sides import Documents, expanded, unnamed
from nightsweep.analysis.values import WindowRow


def apart(decision: Decision, windows: Sequence[WindowRow], known: Documents) -> tuple[Apart, ...]:
    """Return the settings and conditions, but for the factors, by which the two differ, as `compare` finds them.

    Args:
        windows: At least those of the decision's evidence. A fallback that has none there has no conditions.
    """
    return tuple(Apart(one.name, one.a, one.b) for one in _differing(decision, windows, known))


def _differing(decision: Decision, windows: Sequence[WindowRow], known: Documents) -> Iterator[Difference]:
    documents = [known.configs.get(name, {}) for name in (decision.chosen, decision.fallback)]
    settings = config_differences(*documents) if all(documents) else []
    named = {one.name for one in settings}
    yield from (one for one in settings if one.name not in decision.factors)
    of_evidence = {window for cell in decision.evidence.cells for window in cell.windows}
    rows = {row.config_fingerprint: row for row in windows if row.window_id in of_evidence}
    if decision.chosen in rows and decision.fallback in rows:
        own, other = (
            expanded((row.conditions, row.box, row.simulated), known)
            for row in (rows[decision.chosen], rows[decision.fallback])
        )
        yield from (one for one in unnamed(differences(own, other), named) if one.name not in named)

"""After readiness: what of the config was applied as asked, by the engine's own words, its metrics page and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nightsweep.engine.values import Applied, BootFacts
from nightsweep.errors import ProbeError
from nightsweep.sweep.tools import Tools
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.sweep.boot import Running

LOG_LAG = Seconds(2.0)
"""How long a followed log may be behind an engine that answers already."""


def prove_applied(tools: Tools, running: Running, answers: Mapping[str, Any]) -> Applied:
    """Return what of the running config was not applied; its facts are read again, up to the line that says ready.

    Args:
        answers: The engine's JSON answers to its identity paths.
    """
    running.facts = _facts_up_to_ready(tools, running)
    return running.engine.proof(
        running.config, running.facts, running.identity, page=_page(tools, running), answers=answers
    )


def say_applied(tools: Tools, running: Running, *, sweep_id: int) -> None:
    """Keep as events what was not applied, and the notes."""
    found = [("not_applied", line) for line in running.applied.not_applied]
    found += [("boot_note", line) for line in running.applied.notes]
    for kind, line in found:
        tools.store.event(
            kind, f"{running.config.name}: {line}", level="warning", sweep_id=sweep_id, boot_id=running.boot_id
        )


def _facts_up_to_ready(tools: Tools, running: Running) -> BootFacts:
    """Return the log's facts, the last of the boot among them: an engine answers before the line that says so is read.

    A log that says nothing at all, or never says ready, is not waited for longer than it may be behind.
    """
    waited = 0.0
    while True:
        facts = running.log.facts()
        silent = not facts.facts
        if silent or waited >= LOG_LAG or any(fact.name == "ready" for fact in facts.facts):
            return facts
        tools.clock.sleep(tools.poll)
        waited += tools.poll


def _page(tools: Tools, running: Running) -> str:
    """Return the metrics page, or "" when it does not come: then there is no second source, and the probe will say why."""
    try:
        reading = tools.probe.read(running.target)
    except ProbeError:
        return ""
    return bytes(reading.raw).decode("utf-8", errors="replace")

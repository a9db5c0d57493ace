"""A decision while its sweep goes: what is measured next is asked of the rule, from what is stored, and told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from nightsweep.analysis.decision_said import decision_document, decision_said
from nightsweep.analysis.rounds import Decision, Held, decision_of
from nightsweep.errors import StoreUnavailable
from nightsweep.plan.model import CONTROL_ROUND, DecideSpec, SweepPlan
from nightsweep.plan.remaining import slots
from nightsweep.ports import Store, Stored


def decision_now(store: Store, plan: SweepPlan, spec: DecideSpec, *, sweep_id: int, stored: Stored) -> Decision:
    """Return how a sweep's decision stands, with the boots that it asks for next."""
    held = Held(
        drawn=store.drawn(sweep_id),
        windows=stored.windows,
        failed_boots=stored.failed_boots,
        prefills=stored.prefills,
        single_batches=stored.single_batches,
    )
    return decision_of(plan, spec, held)


def clean_count(plan: SweepPlan, stored: Stored) -> int:
    """Return how many of the planned repeats have a clean window; the plan's repeats may have been lowered since."""
    asked = plan.probe.repeats if plan.decide is None else plan.decide.most
    return sum(clean for key, (clean, _) in stored.windows.items() if key[3] < asked or key[3] >= CONTROL_ROUND)


@dataclass
class Deciding:
    """Tells of a sweep's decision, each round once; of a sweep without one, nothing.

    Attributes:
        said: How the decision stood when it was looked at last; None without one.
    """

    store: Store
    plan: SweepPlan
    sweep_id: int
    said: str | None = None
    planned: int = 0
    _told: int = 0
    _kept: int | None = None  # what the store has of `planned`
    _out: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.planned = slots(self.plan)

    def look(self, say: Callable[[str, str], None]) -> None:
        """Look how the decision stands, and tell of a round that is begun, of contenders that are out, and of its end."""
        decision = self._now()
        if decision is None:
            return
        self._tell_dropped(decision)
        if decision.over:
            if self._told != -1:
                self._told = -1
                self._tell("decision", self.said or "", decision, say)
        elif decision.number != self._told:
            self._told = decision.number
            begun = "goes on" if decision.begun else "begins"
            self._tell("decision_round", f"round {decision.number} {begun}: {decision.why}", decision, say)

    def close(self, say: Callable[[str, str], None]) -> None:
        """Look once more when the sweep stops, and keep what is open then. A database that is away is told elsewhere."""
        with contextlib.suppress(StoreUnavailable):
            decision = self._now()
            if decision is not None and not decision.over:
                self._tell("decision", f"stopped before it stands: {self.said}", decision, say)

    def _now(self) -> Decision | None:
        if self.plan.decide is None:
            return None
        stored = self.store.stored(self.sweep_id)
        decision = decision_now(self.store, self.plan, self.plan.decide, sweep_id=self.sweep_id, stored=stored)
        self.said = decision_said(decision)
        self._keep_planned(stored, decision)
        return decision

    def _keep_planned(self, stored: Stored, decision: Decision) -> None:
        """Keep what is asked for by now: the opening, what further rounds brought, and what is left of the one in hand."""
        most = self.plan.probe.max_attempts
        given_up = sum(not clean and tries >= most for clean, tries in stored.windows.values())
        asked = clean_count(self.plan, stored) + given_up + sum(len(task.repeats) for task in decision.left)
        planned = max(slots(self.plan), asked)
        if planned != self._kept:
            self.store.plan_repeats(self.sweep_id, planned)
        self.planned = self._kept = planned

    def _tell_dropped(self, decision: Decision) -> None:
        for name, why in decision.dropped.items():
            if name not in self._out:
                self._out.add(name)
                told = f"{name} is out of the decision: {why}"
                self.store.event("contender_dropped", told, level="warning", sweep_id=self.sweep_id)

    def _tell(self, kind: str, message: str, decision: Decision, say: Callable[[str, str], None]) -> None:
        self.store.event(kind, message, sweep_id=self.sweep_id, data=decision_document(decision))
        say(kind, message)

"""What the commands of decisions reach, and what holds now of a decision's premises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from nightsweep.analysis.premises import PRODUCTION, Accepted, Change, Decision, Known, Now, changes
from nightsweep.cli.reading import Queries
from nightsweep.errors import HostError, InvalidPlan
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.words import BUNDLED_PROMPTS, IMPORTED, SINGLE_BATCH

if TYPE_CHECKING:
    from nightsweep.analysis.traffic import Recorded
    from nightsweep.ports import ForeignContainer


class Decisions(Protocol):
    """What the commands ask of the store."""

    def add(self, decision: Decision) -> int:
        """Keep a decision."""

    def all(self) -> Sequence[Decision]:
        """Return all, newest first."""

    def get(self, decision_id: int) -> Decision:
        """Return one."""

    def retire(self, decision_id: int, *, why: str, at: datetime) -> bool:
        """Take one out of force."""

    def accept(self, decision_id: int, looked_at: Mapping[str, Accepted]) -> None:
        """Keep that changes were looked at."""

    def now(self, decision: Decision) -> Now:
        """Return what the database knows by now."""

    def traffic(self, sweep_id: int, container: str) -> Recorded | str:
        """Return the traffic of a production container that a sweep was measured beside, or why it is not known."""

    def config_settings(self, fingerprint: str) -> Mapping[str, Any]:
        """Return a config's settings by dotted key."""


@dataclass(frozen=True)
class Reach:
    """What the commands reach; passed as the click context's object to work on something else.

    Attributes:
        foreign: Looks at a container (raises HostError).
        prompts_hash: Content hash of a prompt set (raises InvalidPlan).
    """

    decisions: Callable[[], AbstractContextManager[Decisions]]
    queries: Callable[[], AbstractContextManager[Queries]]
    now: Callable[[], datetime]
    foreign: Callable[[str], ForeignContainer]
    prompts_hash: Callable[[str], str]


def reach(ctx: click.Context) -> Reach:
    """Return the caller's, or the one to this machine's own store and Docker."""
    return ctx.find_object(Reach) or _wired()


def production_settings(reached: Reach, container: str | None) -> tuple[Mapping[str, Any], str | None]:
    """Return the settings that a container serves with, and None; or nothing, and why it could not be looked at."""
    if container is None:
        return {}, "production: the sweep file names no container, and --production none either"
    from nightsweep.production.serving import served_settings

    try:
        return served_settings(reached.foreign(container)), None
    except HostError as error:
        return {}, f"production {container}: {error}"


def production_traffic(store: Decisions, sweep_id: int, container: str | None) -> tuple[Recorded | None, str | None]:
    """Return what a container's traffic was when a sweep was measured, and None; or None, and why it is not known."""
    if container is None:
        return None, "the sweep file names no container, and --production none either"
    found = store.traffic(sweep_id, container)
    if isinstance(found, str):
        return None, found
    if found.traffic.unknown is not None:
        return None, f"{found.container}, {found.traffic.read:%Y-%m-%d}: {found.traffic.unknown}"
    return found, None


@dataclass(frozen=True)
class Judged:
    """A decision, the premises that differ by now, and what could not be looked at."""

    decision: Decision
    changes: tuple[Change, ...]
    now: Now


def judge(decision: Decision, store: Decisions, queries: Queries, reached: Reach) -> Judged:
    """Return how a decision stands today."""
    now = store.now(decision)
    skipped = list(now.skipped)
    values = {**now.values, **_prompts(decision, queries.written_plan(decision.sweep_id), reached, skipped)}
    production = None
    if any(name.startswith(PRODUCTION) for name in decision.premises):
        settings, why = production_settings(reached, decision.evidence.container)
        production = settings or None
        skipped += [f"{why}; skipped"] if why else []
    now = replace(now, values=values, production=production, skipped=tuple(skipped))
    found = changes(decision, now, chosen_settings=store.config_settings(decision.chosen))
    return Judged(decision, tuple(found), now)


def _prompts(decision: Decision, plan: SweepPlan | None, reached: Reach, skipped: list[str]) -> dict[str, Known]:
    """Return the content hash of the decision's prompt set as it is now."""
    if decision.evidence.kind == SINGLE_BATCH:
        return {}  # its prompts are of the run's own making
    if plan is None:
        skipped.append("prompts: the sweep's file cannot be read any more; skipped")
        return {}
    if str(decision.premises.get("source")).startswith(IMPORTED):
        skipped.append("prompts: an import names them at most, and there is nothing to read; skipped")
        return {}
    name = plan.probe.prompts
    if name not in BUNDLED_PROMPTS and not Path(name).is_absolute():
        if plan.base is None:
            skipped.append(
                f"prompts: {name} is beside a sweep file, and an earlier version did not keep where; skipped"
            )
            return {}
        name = str(Path(plan.base) / name)
    try:
        return {"prompts": Known(reached.prompts_hash(name), f"prompt set {name}")}
    except InvalidPlan:
        skipped.append(f"prompts: {name} {'cannot be read' if Path(name).exists() else 'is gone'}; skipped")
        return {}


def _asked_once(ask: Callable[[str], ForeignContainer]) -> Callable[[str], ForeignContainer]:
    """Return the same, asked once for each name: a Docker that is away must not be waited for by every decision."""
    known: dict[str, ForeignContainer | HostError] = {}

    def asked(name: str) -> ForeignContainer:
        if name not in known:
            try:
                known[name] = ask(name)
            except HostError as error:
                known[name] = error
        found = known[name]
        if isinstance(found, HostError):
            raise found
        return found

    return asked


def _wired() -> Reach:
    from nightsweep import wiring

    return Reach(
        decisions=lambda: wiring.open_decisions(wiring.settings()),
        queries=lambda: wiring.open_queries(wiring.settings()),
        now=lambda: datetime.now(UTC),
        foreign=_asked_once(lambda name: wiring.docker_host().foreign(name)),
        prompts_hash=wiring.prompts_hash,
    )

"""Decisions: kept with their evidence and premises, and what is stored by now that may question them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.analysis.premises import (
    Accepted,
    Apart,
    CellEvidence,
    Decision,
    Evidence,
    Now,
    Questioned,
    changes,
    settings_of,
)
from nightsweep.analysis.traffic import Recorded
from nightsweep.errors import NotFound
from nightsweep.plan.words import DECODE
from nightsweep.store import traffic
from nightsweep.store.by_now import by_now
from nightsweep.store.catalog import config_id
from nightsweep.store.codec import clean_text, plain
from nightsweep.store.schema import (
    boxes,
    configs,
    decision_windows,
    decisions,
    sweeps,
)
from nightsweep.store.session import Patient
from nightsweep.units import Seconds

T = TypeVar("T")


class Decisions:
    """Keeps decisions. Every call is one short transaction; one that is away raises StoreUnavailable.

    Args:
        revive: Starts an embedded server again; called between two tries.
    """

    def __init__(
        self, engine: sa.Engine, *, patience: Seconds = Seconds(0.0), revive: Callable[[], None] | None = None
    ) -> None:
        self._do = Patient.alone(engine, patience=patience, revive=revive)

    def add(self, decision: Decision) -> int:
        """Keep a decision; return its id.

        Raises:
            NotFound: A config that no sweep has.
        """
        return self._do.once(lambda c: _add(c, decision))

    def all(self) -> list[Decision]:
        """Return all decisions, newest first."""
        wanted = _decisions().order_by(decisions.c.id.desc())
        return self._do.run(lambda c: [_decision(row) for row in c.execute(wanted)])

    def get(self, decision_id: int) -> Decision:
        """Return one decision (raises NotFound)."""
        wanted = _decisions().where(decisions.c.id == decision_id)
        found = self._do.run(lambda c: c.execute(wanted).one_or_none())
        if found is None:
            raise _missing(decision_id)
        return _decision(found)

    def retire(self, decision_id: int, *, why: str, at: datetime) -> bool:
        """Take a decision out of force; return False for one that is retired already (raises NotFound)."""
        self.get(decision_id)
        standing = sa.update(decisions).where(decisions.c.id == decision_id, decisions.c.retired_at.is_(None))
        changed = standing.values(retired_at=at, retired_why=clean_text(why))
        return self._do.run(lambda c: c.execute(changed).rowcount > 0)

    def accept(self, decision_id: int, looked_at: Mapping[str, Accepted]) -> None:
        """Keep that a person has looked at changes, by premise, and found that the decision stands (raises NotFound)."""
        told = {
            name: {"value": plain(one.value), "reason": clean_text(one.reason), "at": one.at.isoformat()}
            for name, one in looked_at.items()
        }
        table = decisions
        merged = table.c.accepted.concat(sa.cast(told, table.c.accepted.type))
        changed = sa.update(table).where(table.c.id == decision_id).values(accepted=merged)
        if self._do.run(lambda c: c.execute(changed).rowcount) == 0:
            raise _missing(decision_id)

    def now(self, decision: Decision) -> Now:
        """Return what the database knows by now of a decision's premises."""
        return self._do.run(lambda c: by_now(c, decision))

    def traffic(self, sweep_id: int, container: str) -> Recorded | str:
        """Return the traffic of a production container that a sweep was measured beside, or why it is not known."""
        return self._do.run(lambda c: traffic.of_sweep(c, sweep_id, container))

    def config_settings(self, fingerprint: str) -> dict[str, Any]:
        """Return a config's document by dotted key; empty for one that is not known."""
        wanted = sa.select(configs.c.doc).where(configs.c.hash == fingerprint)
        found = self._do.run(lambda c: c.scalar(wanted))
        return {} if found is None else settings_of(found)


def questioned(connection: sa.Connection, *, box: str, simulated: bool) -> list[Questioned]:
    """Return the decisions of a box that are questioned by what the database knows, oldest first.

    What production runs and what its prompt file holds today it does not know: `nightsweep decisions` looks there, too.
    """
    wanted = _decisions().where(decisions.c.retired_at.is_(None)).order_by(decisions.c.id)
    found = []
    for decision in [_decision(row) for row in connection.execute(wanted)]:
        if (decision.box, decision.simulated) == (box, simulated):
            document = connection.scalar(sa.select(configs.c.doc).where(configs.c.hash == decision.chosen))
            settings = {} if document is None else settings_of(document)
            told = changes(decision, by_now(connection, decision), chosen_settings=settings)
            open_ones = tuple(change for change in told if change.accepted is None)
            if open_ones:
                found.append(Questioned(decision, open_ones))
    return found


def _missing(decision_id: int) -> NotFound:
    return NotFound(what=f"decision {decision_id}", hint="`nightsweep decisions` lists the decisions there are")


# --- kept ------------------------------------------------------------------------------------------------------------


def _add(connection: sa.Connection, decision: Decision) -> int:
    row = insert(decisions).values(
        sweep_id=decision.sweep_id,
        chosen_id=config_id(connection, decision.chosen),
        fallback_id=config_id(connection, decision.fallback),
        question=clean_text(decision.question),
        factors=list(decision.factors),
        evidence=plain(asdict(decision.evidence) | {"names": [decision.chosen_name, decision.fallback_name]}),
        premises=plain(decision.premises),
        decided_at=decision.decided,
    )
    decision_id = int(connection.execute(row.returning(decisions.c.id)).scalar_one())
    links = [
        {"decision_id": decision_id, "window_id": window}
        for window in sorted({window for cell in decision.evidence.cells for window in cell.windows})
    ]
    connection.execute(insert(decision_windows), links)
    return decision_id


def _decisions() -> sa.Select[Any]:
    chosen, fallback = configs.alias("chosen"), configs.alias("fallback")
    return (
        sa.select(
            decisions,
            sweeps.c.name.label("sweep_name"),
            boxes.c.name.label("box"),
            boxes.c.simulated,
            chosen.c.hash.label("chosen"),
            fallback.c.hash.label("fallback"),
        )
        .join(sweeps, sweeps.c.id == decisions.c.sweep_id)
        .join(boxes, boxes.c.id == sweeps.c.box_id)
        .join(chosen, chosen.c.id == decisions.c.chosen_id)
        .join(fallback, fallback.c.id == decisions.c.fallback_id)
    )


def _decision(row: Any) -> Decision:
    told = dict(row.evidence)
    chosen_name, fallback_name = told["names"]
    return Decision(
        decision_id=row.id,
        sweep_id=row.sweep_id,
        sweep_name=row.sweep_name,
        box=row.box,
        simulated=row.simulated,
        question=row.question,
        factors=tuple(row.factors),
        chosen=row.chosen,
        chosen_name=chosen_name,
        fallback=row.fallback,
        fallback_name=fallback_name,
        evidence=_evidence(told),
        premises=row.premises,
        decided=row.decided_at,
        accepted={name: _accepted(one) for name, one in row.accepted.items()},
        retired=row.retired_at,
        retired_why=row.retired_why,
    )


def _accepted(told: Mapping[str, Any]) -> Accepted:
    return Accepted(told["value"], told["reason"], datetime.fromisoformat(told["at"]))


def _evidence(told: Mapping[str, Any]) -> Evidence:
    cells = tuple(
        CellEvidence(**{**cell, "temperature": Decimal(cell["temperature"]), "windows": tuple(cell["windows"])})
        for cell in told["cells"]
    )
    return Evidence(
        cells=cells,
        configs=told["configs"],
        runner_up=told["runner_up"],
        verdicts=tuple(told["verdicts"]),
        not_fixed={name: tuple(values) for name, values in told["not_fixed"].items()},
        warnings=tuple(told["warnings"]),
        unknown=tuple(told["unknown"]),
        container=told["container"],
        of_runner_up=tuple(told.get("of_runner_up", ())),
        notes=tuple(told.get("notes", ())),
        rule=told.get("rule"),
        kind=told.get("kind", DECODE),
        traffic=told.get("traffic"),
        apart=tuple(Apart(**one) for one in told.get("apart", ())),
    )

"""Decisions: kept with their evidence and premises, and what is stored by now that may question them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from nightsweep.analysis.differing import flat
from nightsweep.analysis.premises import (
    CONFIG,
    SAME_QUESTION,
    WEIGHTS,
    Accepted,
    CellEvidence,
    Decision,
    Drafting,
    Evidence,
    Known,
    Now,
    Questioned,
    changes,
    settings_of,
)
from nightsweep.analysis.sides import NOT_OF_THE_BOX
from nightsweep.analysis.traffic import Recorded
from nightsweep.errors import NotFound
from nightsweep.plan.words import DECODE
from nightsweep.store import traffic
from nightsweep.store.catalog import config_id
from nightsweep.store.codec import clean_text, plain
from nightsweep.store.schema import (
    boots,
    boxes,
    configs,
    decision_windows,
    decisions,
    images,
    imports,
    sweep_configs,
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
        return self._do.run(lambda c: _now(c, decision))

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
            told = changes(decision, _now(connection, decision), chosen_settings=settings)
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
    )


# --- by now ----------------------------------------------------------------------------------------------------------


def _now(connection: sa.Connection, decision: Decision) -> Now:
    values = {f"box.{key}": Known(value, source) for key, (value, source) in _box(connection, decision).items()}
    boot = connection.execute(_boots_like(decision).limit(1)).one_or_none()
    if boot is not None:
        source = f"boot {boot.id}, {boot.started_at:%Y-%m-%d}"
        told = {"engine_version": boot.engine_version, "image_digest": boot.digest}
        values |= {name: Known(value, source) for name, value in told.items() if value is not None}
    own = connection.execute(_boots_like(decision).where(configs.c.hash == decision.chosen).limit(1)).one_or_none()
    if own is not None and own.weights_gib is not None:
        values[WEIGHTS] = Known(round(own.weights_gib, 2), f"boot {own.id}, {own.started_at:%Y-%m-%d}")
    image = None if boot is None or boot.image is None else str(boot.image)
    served, why = traffic.by_now(connection, decision)
    skipped = () if why is None else (f"{why}; skipped",)
    return Now(values=values | served, newer=tuple(_newer(connection, decision)), image=image, skipped=skipped)


def _box(connection: sa.Connection, decision: Decision) -> dict[str, tuple[Any, str]]:
    """Return the facts of the box as its newest sweep found them, by dotted key."""
    wanted = (
        sa.select(boxes.c.facts, sweeps.c.id, sweeps.c.created_at)
        .join(sweeps, sweeps.c.box_id == boxes.c.id)
        .where(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated, ~_imported(sweeps.c.id))
        .order_by(sa.func.coalesce(sweeps.c.started_at, sweeps.c.created_at).desc(), sweeps.c.id.desc())
        .limit(1)
    )
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return {}
    facts = {key: value for key, value in row.facts.items() if key not in NOT_OF_THE_BOX}
    return {key: (value, f"box at sweep {row.id}") for key, value in flat(facts).items()}


def _boots_like(decision: Decision) -> sa.Select[Any]:
    """Return the SELECT of boots of the decision's engine and model on its box that came up, newest first."""
    same = [
        configs.c.doc[(key,)].astext == str(decision.premises[CONFIG + key])
        for key in ("engine", "model")
        if CONFIG + key in decision.premises
    ]
    return (
        sa.select(
            boots.c.id,
            boots.c.started_at,
            boots.c.engine_version,
            boots.c.weights_gib,
            images.c.digest,
            configs.c.doc[("image",)].astext.label("image"),
        )
        .join(configs, configs.c.id == boots.c.config_id)
        .join(boxes, boxes.c.id == boots.c.box_id)
        .outerjoin(images, images.c.id == boots.c.image_id)
        .where(
            boxes.c.name == decision.box, boxes.c.simulated == decision.simulated, boots.c.ready_at.is_not(None), *same
        )
        .order_by(boots.c.started_at.desc(), boots.c.id.desc())
    )


def _imported(sweep: sa.Column[Any]) -> sa.ColumnElement[bool]:
    return sa.exists().where(imports.c.sweep_id == sweep)


def _newer(connection: sa.Connection, decision: Decision) -> list[Drafting]:
    """Return the configs of the decision's question in sweeps on the box that came after its own, newest sweep first.

    Of sweeps with the same ones, the newest: nights of other questions and repeated ones take no place, however many there are.
    An imported one came when it was measured, as far as its files say, and not when it was imported.
    """
    chosen = connection.scalar(sa.select(configs.c.doc).where(configs.c.hash == decision.chosen)) or {}
    decided_on = sa.select(sweeps.c.started_at).where(sweeps.c.id == decision.sweep_id).scalar_subquery()
    after = sa.or_(~_imported(sweeps.c.id), sweeps.c.started_at >= sa.func.coalesce(decided_on, sweeps.c.started_at))
    by_sweep = (
        sa.select(sweeps.c.id, sa.func.array_agg(aggregate_order_by(configs.c.id, configs.c.id)).label("configs"))
        .join(boxes, boxes.c.id == sweeps.c.box_id)
        .join(sweep_configs, sweep_configs.c.sweep_id == sweeps.c.id)
        .join(configs, configs.c.id == sweep_configs.c.config_id)
        .where(sweeps.c.id > decision.sweep_id, after, *_of_its_question(chosen))
        .where(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated)
        .group_by(sweeps.c.id)
        .subquery()
    )
    newest = sa.select(sa.func.max(by_sweep.c.id)).group_by(by_sweep.c.configs)
    newer = sa.select(sweeps.c.id, sweeps.c.name).where(sweeps.c.id.in_(newest)).subquery()
    wanted = (
        sa.select(newer.c.id, newer.c.name, sweep_configs.c.name.label("config"), configs.c.doc)
        .join(sweep_configs, sweep_configs.c.sweep_id == newer.c.id)
        .join(configs, configs.c.id == sweep_configs.c.config_id)
        .where(*_of_its_question(chosen))
        .order_by(newer.c.id.desc(), sweep_configs.c.position)
    )
    return [Drafting(row.id, row.name, row.config, settings_of(row.doc)) for row in connection.execute(wanted)]


def _of_its_question(chosen: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
    """Return that a config is of the chosen one's question."""
    settings = flat(chosen)
    return [
        configs.c.doc[tuple(key.split("."))].astext.is_not_distinct_from(settings.get(key)) for key in SAME_QUESTION
    ]

"""What is stored by now of a decision's premises: newer boots, newer imported rows, facts of the box, newer drafting rules.

Newer is what was measured after the last of the decision's windows, by the files' own dates where it was imported. A boot that
did not come up tells nothing, and the decision's own sweep only what came after the decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by

from nightsweep.analysis.differing import flat
from nightsweep.analysis.premises import (
    CONFIG,
    DIGEST,
    IMAGE,
    SAME_QUESTION,
    VERSION,
    WEIGHTS,
    Decision,
    Drafting,
    Known,
    Now,
    same_value,
    settings_of,
    shown,
)
from nightsweep.analysis.sides import NOT_OF_THE_BOX
from nightsweep.plan.words import IMPORTED, NO_DATE
from nightsweep.store import traffic
from nightsweep.store.schema import (
    boots,
    boxes,
    cells,
    conditions,
    configs,
    decision_windows,
    images,
    imports,
    sweep_configs,
    sweeps,
    windows,
)

COLUMNS = {VERSION: "engine_version", DIGEST: "image_digest", IMAGE: "image", WEIGHTS: "weights_gib"}
"""What boots tell, by premise: its column in `_seen`."""


def by_now(connection: sa.Connection, decision: Decision) -> Now:
    """Return what the database knows by now of a decision's premises."""
    basis = _basis(connection, decision)
    boots_told = dict(_of_boots(connection, decision, basis))
    values = {name: Known(told.value, told.source) for name, told in boots_told.items() if name in decision.premises}
    values |= _box(connection, decision, basis)
    image = next((boots_told[name].image for name in (VERSION, DIGEST, IMAGE) if name in boots_told), None)
    served, why = traffic.by_now(connection, decision)
    skipped = () if why is None else (f"{why}; skipped",)
    undated = tuple(_undated(connection, decision, basis))
    moved = tuple(_never_fixed(decision, boots_told))
    return Now(
        values=values | served,
        newer=tuple(_newer(connection, decision)),
        image=image,
        skipped=(*skipped, *moved, *undated),
    )


# --- boots and imported rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Basis:
    """When a decision's evidence was measured.

    Attributes:
        last: When its last window began.
        undated: Whether some of it was imported without a date; `last` is then when it was imported, or later.
        like: Configs of its engine and model: see `_like`.
    """

    last: datetime
    undated: bool
    like: sa.CTE


@dataclass(frozen=True)
class _Told:
    value: Any
    source: str
    image: str | None


def _basis(connection: sa.Connection, decision: Decision) -> _Basis:
    wanted = (
        sa.select(sa.func.max(windows.c.started_at), sa.func.bool_or(windows.c.notes.contains([NO_DATE])))
        .join(decision_windows, decision_windows.c.window_id == windows.c.id)
        .where(decision_windows.c.decision_id == decision.decision_id)
    )
    last, undated = connection.execute(wanted).one()
    chosen = connection.scalar(sa.select(configs.c.doc).where(configs.c.hash == decision.chosen))
    return _Basis(last or decision.decided, bool(undated), _like(decision, chosen or {}))


def _like(decision: Decision, chosen: Mapping[str, Any]) -> sa.CTE:
    """Return the configs of the decision's engine and model, and which are the chosen one but for the image."""
    same = [
        configs.c.doc[(key,)].astext == str(decision.premises[CONFIG + key])
        for key in ("engine", "model")
        if CONFIG + key in decision.premises
    ]
    without = {key: value for key, value in chosen.items() if key != "image"}
    bare = configs.c.doc.op("-", return_type=JSONB)(sa.literal("image", sa.Text))
    wanted = sa.select(
        configs.c.id,
        configs.c.hash,
        configs.c.doc[("image",)].astext.label("image"),
        (bare == sa.literal(without, JSONB)).label("as_chosen"),
    )
    return wanted.where(*same).cte("like_it").prefix_with("MATERIALIZED")


def _of_boots(connection: sa.Connection, decision: Decision, basis: _Basis) -> Iterator[tuple[str, _Told]]:
    """Yield what boots tell of each premise: the newest that tells it, for one that says nothing takes nothing back."""
    seen = sa.union_all(_measured(decision, basis), _newer_rows(decision, basis)).cte("seen")
    wanted = [_newest(seen, name) for name in COLUMNS if name in {*decision.premises, *decision.evidence.not_fixed}]
    for row in connection.execute(sa.union_all(*wanted)) if wanted else ():
        if row.premise == IMAGE and row.image_digest is not None and row.image_digest == decision.premises.get(DIGEST):
            continue  # the same image by another name
        value = row._mapping[COLUMNS[row.premise]]
        yield row.premise, _Told(round(value, 2) if row.premise == WEIGHTS else value, _source(row), row.image)


def _newest(seen: sa.CTE, name: str) -> sa.Select[Any]:
    """Return the SELECT of the newest that tells a premise."""
    of = seen.c.as_chosen if name == WEIGHTS else sa.true()
    told = sa.select(seen).where(of, seen.c[COLUMNS[name]].is_not(None))
    newest = told.order_by(seen.c.at.desc(), seen.c.boot.desc()).limit(1).subquery()
    return sa.select(sa.literal(name).label("premise"), newest)


def _never_fixed(decision: Decision, told: Mapping[str, _Told]) -> Iterator[str]:
    """Yield what boots tell by now of conditions that the evidence did not share, where it had no such value."""
    for name, one in told.items():
        had = decision.evidence.not_fixed.get(name, ())
        if name not in decision.premises and shown(one.value) not in had:
            was = f"was not held fixed ({', '.join(had)})"
            yield f"{name}: {was}, so it is not judged; is {shown(one.value)} ({one.source})"


def _source(row: Any) -> str:
    return f"{f'boot {row.boot}' if row.imported is None else f'import {row.imported}'}, {row.at:%Y-%m-%d}"


def _measured(decision: Decision, basis: _Basis) -> sa.Select[Any]:
    """Return the SELECT of newer boots that came up; of the decision's sweep, those of its configs after the decision."""
    like = basis.like
    own = sa.and_(like.c.hash.in_(list(decision.evidence.configs)), boots.c.started_at > decision.decided)
    return (
        sa.select(
            sa.null().cast(sa.Text).label("imported"),
            boots.c.started_at.label("at"),
            boots.c.engine_version.label("engine_version"),
            images.c.digest.label("image_digest"),
            *_of_boot(like),
        )
        .select_from(boots)
        .join(like, like.c.id == boots.c.config_id)
        .join(boxes, boxes.c.id == boots.c.box_id)
        .outerjoin(images, images.c.id == boots.c.image_id)
        .where(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated)
        .where(boots.c.ready_at.is_not(None), boots.c.started_at > basis.last)
        .where(sa.or_(boots.c.sweep_id != decision.sweep_id, own))
    )


def _of_boot(like: sa.CTE) -> tuple[sa.ColumnElement[Any], ...]:
    """Return what measured and imported boots tell alike, behind what they tell each in its own way."""
    return boots.c.id.label("boot"), boots.c.weights_gib.label("weights_gib"), like.c.image, like.c.as_chosen


def _newer_rows(decision: Decision, basis: _Basis) -> sa.Select[Any]:
    """Return the SELECT of newer imported rows; of the same moment as the evidence, those that came after the decision."""
    same_time = sa.and_(windows.c.started_at == basis.last, windows.c.stored_at > decision.decided)
    newer = sa.or_(windows.c.started_at > basis.last, same_time)
    return _imported_rows(decision, basis).where(~windows.c.notes.contains([NO_DATE]), newer)


def _imported_rows(decision: Decision, basis: _Basis) -> sa.Select[Any]:
    """Return the SELECT of imported rows that may enter a mean: each has its own date and conditions, boots of theirs one.

    Of the decision's own sweep, which a later import of its name adds to, those that came after the decision.
    """
    said, like = conditions.c.doc, basis.like
    return (
        sa.select(
            sweeps.c.name.label("imported"),
            windows.c.started_at.label("at"),
            said[("engine_version",)].astext.label("engine_version"),
            said[("image_digest",)].astext.label("image_digest"),
            *_of_boot(like),
        )
        .select_from(windows)
        .join(conditions, conditions.c.id == windows.c.conditions_id)
        .join(cells, cells.c.id == windows.c.cell_id)
        .join(sweeps, sweeps.c.id == cells.c.sweep_id)
        .join(boots, boots.c.id == windows.c.boot_id)
        .join(like, like.c.id == cells.c.config_id)
        .join(boxes, boxes.c.id == sweeps.c.box_id)
        .where(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated)
        .where(_imported(sweeps.c.id), sa.func.cardinality(windows.c.flags) == 0)
        .where(sa.or_(sweeps.c.id != decision.sweep_id, windows.c.stored_at > decision.decided))
    )


def _undated(connection: sa.Connection, decision: Decision, basis: _Basis) -> Iterator[str]:
    """Yield what was imported since the decision and tells something else, where nobody knows whether it is newer."""
    no_date = windows.c.notes.contains([NO_DATE])
    nobody_knows = windows.c.started_at < basis.last if basis.undated else sa.false()
    wanted = _imported_rows(decision, basis).where(
        windows.c.stored_at > decision.decided, sa.or_(no_date, nobody_knows)
    )
    rows = wanted.add_columns(no_date.label("no_date")).subquery("rows")
    kept = (rows.c[column] for column in COLUMNS.values())
    each = sa.select(rows.c.imported, rows.c.no_date, rows.c.as_chosen, *kept).distinct()
    told: dict[tuple[str, bool], dict[str, None]] = {}
    for row in connection.execute(each.order_by(rows.c.imported, *(rows.c[one] for one in COLUMNS.values()))):
        told.setdefault((row.imported, row.no_date), {}).update(dict.fromkeys(_otherwise(decision, row)))
    for (name, undated), values in told.items():
        if values:
            which = "its rows have" if undated else "what the decision rests on has"
            why = f"{which} no date, so nobody knows whether that is newer"
            yield f"import {name}: {', '.join(values)}: {why}; skipped"


def _otherwise(decision: Decision, row: Any) -> Iterator[str]:
    """Yield what a row tells otherwise than the decision's premises have it."""
    for name, column in COLUMNS.items():
        value = row._mapping[column]
        if value is None or name not in decision.premises or (name == WEIGHTS and not row.as_chosen):
            continue
        if not same_value(name, decision.premises[name], value):
            yield f"{name} {shown(value)}"


# --- facts of the box ------------------------------------------------------------------------------------------------


def _box(connection: sa.Connection, decision: Decision, basis: _Basis) -> dict[str, Known]:
    """Return the facts of the box by premise: as its newest sweep found them and, of an imported decision, as files say them."""
    begun = sa.func.coalesce(sweeps.c.started_at, sweeps.c.created_at)
    wanted = (
        sa.select(boxes.c.facts, sweeps.c.id, begun.label("at"))
        .join(sweeps, sweeps.c.box_id == boxes.c.id)
        .where(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated, ~_imported(sweeps.c.id))
        .where(sa.or_(begun > basis.last, sweeps.c.id == decision.sweep_id))
        .order_by(begun.desc(), sweeps.c.id.desc())
        .limit(1)
    )
    row = connection.execute(wanted).one_or_none()
    found = {} if row is None else _facts(row.facts, f"box at sweep {row.id}")
    if not str(decision.premises.get("source")).startswith(IMPORTED):
        return found
    told = _newer_rows(decision, basis).add_columns(boxes.c.facts).where(boxes.c.facts != sa.literal({}, JSONB))
    newest = told.order_by(windows.c.started_at.desc(), windows.c.id.desc()).limit(1)
    stated = connection.execute(newest).one_or_none()
    if stated is None:
        return found
    files = _facts(stated.facts, _source(stated))
    return {**files, **found} if row is not None and row.at > stated.at else {**found, **files}


def _facts(facts: Mapping[str, Any], source: str) -> dict[str, Known]:
    own = {key: value for key, value in facts.items() if key not in NOT_OF_THE_BOX}
    return {f"box.{key}": Known(value, source) for key, value in flat(own).items()}


# --- newer drafting rules --------------------------------------------------------------------------------------------


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

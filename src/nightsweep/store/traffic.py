"""Production's traffic, as intents keep it: what a decision rests on, and what it is held against later."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import sqlalchemy as sa

from nightsweep.analysis.premises import Decision, Known
from nightsweep.analysis.traffic import JUDGED, Recorded, counted_said, premises_of
from nightsweep.analysis.traffic import counted as counted_of
from nightsweep.measurement.traffic import from_document
from nightsweep.plan.words import NO_DATE
from nightsweep.store.readings import each, read_at, telling
from nightsweep.store.schema import boxes, cells, decision_windows, imports, sweeps, windows
from nightsweep.store.schema import production_intents as table

ID = re.compile(r"[0-9a-f]{6,64}")
"""What Docker would take for the beginning of a container's id; anything shorter is rather a name."""


def of_sweep(connection: sa.Connection, sweep_id: int, container: str) -> Recorded | str:
    """Return the traffic that a sweep was measured beside: the box's newest that tells it, read before its last window.

    Whose sweep's intent holds it is no matter: an open one goes to the sweep that finds it. Where none tells it, the newest that
    says why; where nothing was read, or nobody knows when the sweep was measured, that in words.

    Args:
        container: Its name or, as Docker takes it, its id or the beginning of that.
    """
    measured = _measured(connection, sweep_id)
    if isinstance(measured, str):
        return measured
    sweep = connection.execute(
        sa.select(boxes.c.name, boxes.c.simulated)
        .join(sweeps, sweeps.c.box_id == boxes.c.id)
        .where(sweeps.c.id == sweep_id)
    ).one()
    on_box = sa.and_(boxes.c.name == sweep.name, boxes.c.simulated == sweep.simulated)
    found = _newest(connection, on_box, _name(connection, on_box, container), lambda at: at <= measured)
    return found or f"nothing of {container} was recorded on this box by then; a sweep that takes it down does"


def by_now(connection: sa.Connection, decision: Decision) -> tuple[dict[str, Known], str | None]:
    """Return the newest traffic of a decision's production, by premise, and why there is none newer than its own.

    Newer is what was read after its own traffic and after the last of its windows.
    """
    then = decision.evidence.traffic
    if then is None:
        return {}, None
    since = datetime.fromisoformat(then["until"])
    its_own = decision_windows.c.decision_id == decision.decision_id
    last = sa.select(sa.func.max(windows.c.started_at)).join(
        decision_windows, decision_windows.c.window_id == windows.c.id
    )
    measured = connection.scalar(last.where(its_own))
    since = since if measured is None else max(since, measured)
    on_box = sa.and_(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated)
    newest = _newest(connection, on_box, then["container"], lambda at: at > since)
    if newest is None:
        return {}, None
    if newest.traffic.unknown is not None:
        return {}, f"traffic: {newest.container}, {newest.traffic.read:%Y-%m-%d}: {newest.traffic.unknown}"
    source = f"{counted_said(counted_of(newest))}; it was of {then['requests']:,}"
    values = premises_of(newest.traffic)
    return {name: Known(values[name], source) for name in JUDGED if name in values}, None


def _measured(connection: sa.Connection, sweep_id: int) -> datetime | str:
    """Return when a sweep's last window was measured, else when it ended; or why nobody knows."""
    imported = sa.exists().where(imports.c.sweep_id == sweep_id)
    its_own = (
        sa.select(sa.func.max(windows.c.started_at), sa.func.bool_or(windows.c.notes.contains([NO_DATE])) & imported)
        .join(cells, cells.c.id == windows.c.cell_id)
        .where(cells.c.sweep_id == sweep_id)
    )
    last, undated = connection.execute(its_own).one()
    if undated:
        return "some of its rows have no date: nobody knows what they were measured beside"
    if last is None:
        ended = sa.select(sa.func.coalesce(sweeps.c.ended_at, sa.func.now())).where(sweeps.c.id == sweep_id)
        last = connection.execute(ended).scalar_one()
    return last  # type: ignore[no-any-return]


def _name(connection: sa.Connection, on_box: sa.ColumnElement[bool], word: str) -> str:
    """Return the name of the container that a word means, as Docker has it: a name goes before the beginning of an id."""
    word = word.removeprefix("/")
    if ID.fullmatch(word) is None:
        return word
    means = sa.or_(table.c.container_name == word, table.c.container_id.startswith(word, autoescape=True))
    wanted = sa.select(table.c.container_name).join(boxes, boxes.c.id == table.c.box_id).where(on_box, means)
    newest = wanted.order_by((table.c.container_name == word).desc(), table.c.id.desc()).limit(1)
    return connection.scalar(newest) or word


def _newest(
    connection: sa.Connection,
    on_box: sa.ColumnElement[bool],
    container: str,
    when: Callable[[sa.ColumnElement[datetime]], sa.ColumnElement[bool]],
) -> Recorded | None:
    """Return the newest reading of a container that tells a mean; where none does, the newest that says why."""
    reading = each(table.c.traffic)
    value = reading.c.value
    wanted = (
        sa.select(table.c.id, table.c.container_name, value)
        .join(boxes, boxes.c.id == table.c.box_id)
        .join(reading, sa.true())
        .where(on_box, table.c.container_name == container, when(read_at(value)))
        .order_by(telling(value).desc(), read_at(value).desc(), table.c.id.desc())
        .limit(1)
    )
    row = connection.execute(wanted).one_or_none()
    if row is None:
        return None
    return Recorded(int(row.id), str(row.container_name), from_document(row.value))

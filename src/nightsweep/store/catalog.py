"""What is planned and where: boxes, configs, sweeps; and what people are told: events."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.errors import NotFound
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.order import slots
from nightsweep.ports import BoxFacts
from nightsweep.store.codec import clean_text, plain
from nightsweep.store.schema import boxes, configs, events, probes, sweep_configs, sweeps
from nightsweep.store.session import id_of


def box_id(connection: sa.Connection, box: BoxFacts) -> int:
    """Return the box's row; its facts are brought up to date."""
    row = insert(boxes).values(
        name=box.name, fingerprint=box.fingerprint, simulated=box.simulated, facts=plain(box.facts)
    )
    newest = row.on_conflict_do_update(
        index_elements=["name", "fingerprint", "simulated"], set_={"facts": row.excluded.facts}
    )
    return int(connection.execute(newest.returning(boxes.c.id)).scalar_one())


def open_sweep(connection: sa.Connection, plan: SweepPlan, *, box: int, file_text: str) -> int:
    """Return the sweep of this plan on this box.

    The fingerprint leaves out what no number depends on (repeats, schedule, names): the newest file says what those are.
    """
    spec = plain(plan.probe)
    probe = id_of(connection, probes, key={"hash": fingerprint(spec)}, values={"doc": spec})
    row = insert(sweeps).values(
        name=clean_text(plan.name),
        box_id=box,
        probe_id=probe,
        plan_fingerprint=plan.fingerprint,
        plan=plain(plan),
        file_text=clean_text(file_text),
        repeats_planned=slots(plan),
    )
    newest = {name: row.excluded[name] for name in ("probe_id", "plan", "file_text", "repeats_planned")}
    found = row.on_conflict_do_update(index_elements=["box_id", "name", "plan_fingerprint"], set_=newest)
    sweep_id = int(connection.execute(found.returning(sweeps.c.id)).scalar_one())
    _keep_configs(connection, plan, sweep_id=sweep_id)
    return sweep_id


def _keep_configs(connection: sa.Connection, plan: SweepPlan, *, sweep_id: int) -> None:
    rows = [
        {"hash": config.fingerprint, "doc": plain(config.document), "name": clean_text(config.name)}
        for config in sorted(plan.configs, key=lambda each: each.fingerprint)  # one order for all writers: no deadlock
    ]
    new = insert(configs)
    renamed = new.on_conflict_do_update(
        index_elements=["hash"], set_={"name": new.excluded.name}, where=configs.c.name != new.excluded.name
    )
    connection.execute(renamed, rows)
    wanted = configs.c.hash.in_([config.fingerprint for config in plan.configs])
    ids = {row.hash: row.id for row in connection.execute(sa.select(configs.c.hash, configs.c.id).where(wanted))}
    named = insert(sweep_configs)
    newest = {name: named.excluded[name] for name in ("position", "name", "grid_values")}
    connection.execute(
        named.on_conflict_do_update(index_elements=["sweep_id", "config_id"], set_=newest),
        [
            {
                "sweep_id": sweep_id,
                "config_id": ids[config.fingerprint],
                "position": position,
                "name": clean_text(config.name),
                "grid_values": plain(config.grid_values),
            }
            for position, config in enumerate(plan.configs)
        ],
    )


def config_id(connection: sa.Connection, config: str) -> int:
    """Return the row of a config's fingerprint (raises NotFound: its sweep was never opened)."""
    found = connection.scalar(sa.select(configs.c.id).where(configs.c.hash == config))
    if found is None:
        raise NotFound(what=f"config {config[:12]}", hint="open its sweep first")
    return int(found)


def stop_wish(connection: sa.Connection, sweep_id: int) -> str | None:
    """Return how somebody asked the sweep to stop (raises NotFound)."""
    found = connection.execute(sa.select(sweeps.c.stop_wish).where(sweeps.c.id == sweep_id)).one_or_none()
    if found is None:
        raise _no_sweep(sweep_id)
    return None if found.stop_wish is None else str(found.stop_wish)


def wish_stop(connection: sa.Connection, sweep_id: int, *, wish: str) -> None:
    """Ask the sweep to stop; the last word counts (raises NotFound)."""
    asked = sa.update(sweeps).where(sweeps.c.id == sweep_id).values(stop_wish=wish)
    if connection.execute(asked).rowcount == 0:
        raise _no_sweep(sweep_id)


def plan_repeats(connection: sa.Connection, sweep_id: int, repeats: int) -> None:
    """Keep how many repeats the sweep asks for by now (raises NotFound)."""
    asked = sa.update(sweeps).where(sweeps.c.id == sweep_id).values(repeats_planned=repeats)
    if connection.execute(asked).rowcount == 0:
        raise _no_sweep(sweep_id)


def is_paused(connection: sa.Connection, sweep_id: int) -> bool:
    """Return whether the sweep waits for a person to go on with it (raises NotFound)."""
    found = connection.scalar(sa.select(sweeps.c.state).where(sweeps.c.id == sweep_id))
    if found is None:
        raise _no_sweep(sweep_id)
    return bool(found == "paused")


def pause_idle(connection: sa.Connection, sweep_id: int) -> bool:
    """Pause a sweep that does not run; return False, with nothing changed, for one that runs, is done or paused already."""
    idle = sweeps.c.state.not_in(("running", "done", "paused"))
    paused = (
        sa.update(sweeps)
        .where(sweeps.c.id == sweep_id, idle)
        .values(state="paused", note="paused while it did not run")
    )
    return connection.execute(paused).rowcount > 0


def lift_pause(connection: sa.Connection, sweep_id: int) -> bool:
    """Let a paused sweep be started again by a schedule; return False, with nothing changed, for one that is not paused."""
    lifted = sa.update(sweeps).where(sweeps.c.id == sweep_id, sweeps.c.state == "paused")
    values = {"state": "partial", "note": "its pause was lifted: the schedule goes on with it"}
    return connection.execute(lifted.values(values)).rowcount > 0


def note_prefect_run(connection: sa.Connection, sweep_id: int, flow_run: str) -> None:
    """Remember the flow run that carries the sweep out (raises NotFound)."""
    noted = sa.update(sweeps).where(sweeps.c.id == sweep_id).values(prefect_run=flow_run)
    if connection.execute(noted).rowcount == 0:
        raise _no_sweep(sweep_id)


def _no_sweep(sweep_id: int) -> NotFound:
    return NotFound(what=f"sweep {sweep_id}", hint="`nightsweep status` lists the sweeps there are")


def add_event(
    connection: sa.Connection,
    key: uuid.UUID,
    *,
    kind: str,
    message: str,
    at: datetime,
    level: str = "info",
    sweep_id: int | None = None,
    boot_id: int | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Keep an event; a second delivery under the same key is the same event.

    Raises:
        NotFound: There is no such sweep or boot.
    """
    row = insert(events).values(
        event_key=key,
        at=at,
        level=level,
        kind=kind,
        message=clean_text(message),
        sweep_id=sweep_id,
        boot_id=boot_id,
        data=plain(data or {}),
    )
    try:
        connection.execute(row.on_conflict_do_nothing(index_elements=["event_key"]))
    except sa.exc.IntegrityError as error:
        raise NotFound(what=f"sweep {sweep_id} or boot {boot_id}", hint="an event names rows that exist") from error

"""Boots as they are recorded: begun, started, ready, ended; and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.engine.values import BootFacts, BootFailure, LogLine
from nightsweep.errors import BootAlreadyEnded, NotFound
from nightsweep.plan.model import EngineConfig
from nightsweep.ports import BootOutcome, BootReady, EngineHandle, Lease
from nightsweep.store.catalog import config_id
from nightsweep.store.codec import JSON_ZLIB, clean_text, pack_lines, plain, without_secrets
from nightsweep.store.leases import Guard, hold, lose_boots
from nightsweep.store.schema import LIVE_STATES, boot_logs, boots, images


def begin(
    connection: sa.Connection,
    lease: Lease,
    config: EngineConfig,
    *,
    boot_round: int,
    boot_key: str,
    command: Sequence[str],
    at: datetime,
) -> int:
    """Record that a boot is about to start; what of this box is still open is closed as `lost`."""
    hold(connection, lease)
    known = connection.scalar(sa.select(boots.c.id).where(boots.c.boot_key == boot_key))
    if known is not None:
        return int(known)
    lose_boots(connection, lease.box_id)
    config_row = config_id(connection, config.fingerprint)
    slot = (
        boots.c.sweep_id == lease.sweep_id,
        boots.c.config_id == config_row,
        boots.c.boot_round == boot_round,
    )
    earlier = connection.scalar(sa.select(sa.func.coalesce(sa.func.max(boots.c.attempt), 0)).where(*slot))
    row = sa.insert(boots).values(
        sweep_id=lease.sweep_id,
        config_id=config_row,
        box_id=lease.box_id,
        boot_round=boot_round,
        attempt=(earlier or 0) + 1,
        boot_key=boot_key,
        fence=lease.fence,
        command=without_secrets(command),
        engine=config.engine.kind,
        simulated=config.engine.simulated,
        started_at=at,
    )
    return int(connection.execute(row.returning(boots.c.id)).scalar_one())


def started(connection: sa.Connection, lease: Lease, boot_id: int, handle: EngineHandle) -> None:
    """Record container or process, and the image with all names it goes by."""
    hold(connection, lease)
    image = None if handle.image_digest is None else _image(connection, handle.image_digest, handle.image_refs)
    values = {"engine_id": handle.id, "image_id": image, "host_facts": {"host": handle.host, **plain(handle.facts)}}
    _update(connection, lease, boot_id, values)


def _image(connection: sa.Connection, digest: str, refs: Sequence[str]) -> int:
    row = insert(images).values(digest=digest, refs=sorted(set(refs)))
    both = sa.func.unnest(sa.func.array_cat(images.c.refs, row.excluded.refs)).column_valued("ref")
    merged = sa.func.array(sa.select(both).distinct().order_by(both).scalar_subquery())
    kept = row.on_conflict_do_update(index_elements=["digest"], set_={"refs": merged})
    return int(connection.execute(kept.returning(images.c.id)).scalar_one())


def ready(connection: sa.Connection, lease: Lease, boot_id: int, told: BootReady, *, at: datetime) -> None:
    """Record readiness.

    Raises:
        BootAlreadyEnded: The boot was ended or lost meanwhile.
    """
    hold(connection, lease)
    state = _state(connection, lease, boot_id)
    if state not in LIVE_STATES:
        raise BootAlreadyEnded(boot=boot_id, state=state)
    values = _fact_columns(told.facts)
    if told.identity.version is not None:
        values["engine_version"] = clean_text(told.identity.version)
    if told.identity.simulated:
        values["simulated"] = True
    values |= {
        "state": "ready",
        "ready_at": at,
        "cold_start_s": told.cold_start,
        "first_token_s": told.first_token,
        "cache_state": plain(told.cache_state),
        "identity": plain(told.identity),
        "applied": plain(told.applied),
    }
    _update(connection, lease, boot_id, values)
    _name_image(connection, boot_id)


def _name_image(connection: sa.Connection, boot_id: int) -> None:
    """Write to the image what engine it holds, once known."""
    said = sa.select(boots.c.image_id, boots.c.engine, boots.c.engine_version).where(boots.c.id == boot_id).subquery()
    connection.execute(
        sa.update(images)
        .where(images.c.id == said.c.image_id, said.c.engine_version.is_not(None))
        .values(engine=said.c.engine, engine_version=said.c.engine_version)
    )


def end(
    connection: sa.Connection,
    lease: Lease,
    boot_id: int,
    outcome: BootOutcome,
    *,
    at: datetime,
    guard: Guard = hold,
) -> None:
    """Record how a boot ended. A second delivery of the same ending is fine.

    Args:
        guard: What proves that the lease may write.

    Raises:
        BootAlreadyEnded: Another ending is recorded.
    """
    guard(connection, lease)
    state = _state(connection, lease, boot_id)
    if state == outcome.state:
        return
    if state not in (*LIVE_STATES, "lost"):
        raise BootAlreadyEnded(boot=boot_id, state=state)
    values = _fact_columns(outcome.facts) | _failure_columns(outcome)
    values |= {"state": outcome.state, "exit_code": outcome.exit_code, "oom_killed": outcome.oom_killed, "ended_at": at}
    _update(connection, lease, boot_id, values)


def _failure_columns(outcome: BootOutcome) -> dict[str, Any]:
    failure = outcome.failure
    if failure is None and outcome.state == "failed":
        failure = BootFailure(kind="unknown", stage="unknown", lines=(), retry="same", remedy="")
    if failure is None:
        return {}
    return {
        "failure_kind": failure.kind,
        "failure_stage": failure.stage,
        "failure_lines": [clean_text(line) for line in failure.lines],
        "failure_remedy": clean_text(failure.remedy),
        "failure_retry": failure.retry,
    }


def _fact_columns(facts: BootFacts) -> dict[str, Any]:
    """Return the columns that the log spoke of; what it did not say does not wipe out what is there."""
    said = {
        "weights_gib": facts.weights,
        "draft_weights_gib": facts.draft_weights,
        "kv_cache_gib": facts.kv_cache,
        "kv_tokens": facts.kv_tokens,
        "max_concurrency": facts.max_concurrency,
        "max_concurrency_tokens": facts.max_concurrency_tokens,
        "engine_version": None if facts.engine_version is None else clean_text(facts.engine_version),
        "facts": None if facts == BootFacts() else plain(facts),
    }
    return {name: value for name, value in said.items() if value is not None}


def _state(connection: sa.Connection, lease: Lease, boot_id: int) -> str:
    state = connection.scalar(sa.select(boots.c.state).where(boots.c.id == boot_id, boots.c.sweep_id == lease.sweep_id))
    if state is None:
        raise _no_boot(boot_id, lease)
    return str(state)


def _update(connection: sa.Connection, lease: Lease, boot_id: int, values: dict[str, Any]) -> None:
    mine = (boots.c.id == boot_id, boots.c.sweep_id == lease.sweep_id)
    if connection.execute(sa.update(boots).where(*mine).values(values)).rowcount == 0:
        raise _no_boot(boot_id, lease)


def _no_boot(boot_id: int, lease: Lease) -> NotFound:
    return NotFound(what=f"boot {boot_id} of sweep {lease.sweep_id}", hint="begin the boot first")


def add_log(connection: sa.Connection, boot_id: int, seq: int, lines: Sequence[LogLine]) -> None:
    """Keep a chunk of a boot's log.

    A chunk whose answer was lost may come again with further lines behind the same ones: the longer one stays.

    Raises:
        NotFound: There is no such boot.
    """
    data, n_bytes = pack_lines(lines)
    row = insert(boot_logs).values(
        boot_id=boot_id, seq=seq, n_lines=len(lines), n_bytes=n_bytes, codec=JSON_ZLIB, data=data
    )
    longer = row.on_conflict_do_update(
        index_elements=["boot_id", "seq"],
        set_={name: row.excluded[name] for name in ("n_lines", "n_bytes", "codec", "data")},
        where=row.excluded.n_lines > boot_logs.c.n_lines,
    )
    try:
        connection.execute(longer)
    except sa.exc.IntegrityError as error:
        raise NotFound(what=f"boot {boot_id}", hint="begin the boot first") from error

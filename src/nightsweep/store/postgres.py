"""`ports.Store` on PostgreSQL: one transaction a call. What each does is in `leases`, `catalog`, `boots` and `measured`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightsweep.engine.values import LogLine
from nightsweep.measurement.traffic import Traffic
from nightsweep.measurement.values import PrefillResult, WindowResult
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.expect import Prediction, Resident
from nightsweep.plan.fit import PastStarts
from nightsweep.plan.model import EngineConfig, PrefillRepeat, Repeat, SweepPlan
from nightsweep.plan.reuse import Link
from nightsweep.ports import (
    BootOutcome,
    BootReady,
    BoxFacts,
    EngineHandle,
    ForeignContainer,
    Lease,
    Owed,
    Reusable,
    Stored,
)
from nightsweep.store import boots, catalog, drawn, expectations, history, intents, leases, measured, reused, stored
from nightsweep.store.eventlog import log_event
from nightsweep.store.session import MachineTime, Outage, Patient, Waiting, connect
from nightsweep.units import MonotonicSeconds, Seconds

__all__ = ["PostgresStore", "connect"]


class PostgresStore:
    """The store that the loop writes to. Safe to use from several threads; holds no connection between two calls.

    Args:
        clock: What is waited on while PostgreSQL is away.
        patience: How long a PostgreSQL that is away is waited for before calls raise StoreUnavailable, unless `be_patient`
            says otherwise. `renew` does not wait: its caller comes again anyway.
        revive: Starts an embedded server again; called between two tries.
        shelter: Keeps interrupts out of a transaction for a block, and delivers them after it.

    Errors:
        StoreUnavailable from every call; nothing of that call is stored then, or all of it, and calling again is right.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        clock: Waiting | None = None,
        patience: Seconds = Seconds(120.0),
        revive: Callable[[], None] | None = None,
        shelter: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._clock = clock or MachineTime()
        self._outage = Outage(self._clock, patience=patience)
        self._do = Patient(engine, clock=self._clock, outage=self._outage, revive=revive, shelter=shelter)

    def be_patient(self, seconds: Seconds, *, until: MonotonicSeconds | None = None) -> None:
        """See `ports.Store`."""
        self._outage.patience, self._outage.deadline = seconds, until

    # --- boxes and sweeps

    def box_id(self, box: BoxFacts) -> int:
        """See `ports.Store`."""
        return self._do.run(lambda c: catalog.box_id(c, box))

    def open_sweep(self, plan: SweepPlan, *, box_id: int, file_text: str) -> int:
        """See `ports.Store`."""
        return self._do.run(lambda c: catalog.open_sweep(c, plan, box=box_id, file_text=file_text))

    def claim(self, sweep_id: int, *, owner: str, ttl: Seconds) -> Lease:
        """See `ports.Store`. `owner` must be of one run of the loop only: see `owner.new_owner`."""
        return self._do.run(lambda c: leases.claim(c, sweep_id, owner=owner, ttl=ttl))

    def renew(self, lease: Lease, *, ttl: Seconds) -> None:
        """See `ports.Store`."""
        self._do.once(lambda c: leases.renew(c, lease, ttl=ttl))

    def release(self, lease: Lease, *, state: str, note: str) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: leases.release(c, lease, state=state, note=note))

    def stop_wish(self, sweep_id: int) -> str | None:
        """See `ports.Store`."""
        return self._do.once(lambda c: catalog.stop_wish(c, sweep_id))

    def wish_stop(self, sweep_id: int, *, wish: str) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: catalog.wish_stop(c, sweep_id, wish=wish))

    def plan_repeats(self, sweep_id: int, repeats: int) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: catalog.plan_repeats(c, sweep_id, repeats))

    def is_paused(self, sweep_id: int) -> bool:
        """See `ports.Store`."""
        return self._do.run(lambda c: catalog.is_paused(c, sweep_id))

    def pause_idle(self, sweep_id: int) -> bool:
        """Pause a sweep that does not run; False, with nothing changed, for one that runs, is done or paused already."""
        return self._do.run(lambda c: catalog.pause_idle(c, sweep_id))

    def lift_pause(self, sweep_id: int) -> bool:
        """Let a paused sweep be started again by a schedule; False, with nothing changed, for one that is not paused."""
        return self._do.run(lambda c: catalog.lift_pause(c, sweep_id))

    def note_prefect_run(self, sweep_id: int, flow_run: str) -> None:
        """Remember which Prefect flow run carries the sweep out, for people who look for it there."""
        self._do.run(lambda c: catalog.note_prefect_run(c, sweep_id, flow_run))

    def past_starts(self, box_id: int) -> PastStarts:
        """See `ports.Store`. The newest `history.RECENT` of each config, and of production, count."""
        return self._do.run(lambda c: history.past_starts(c, box_id))

    def past_residents(self, box_id: int) -> Mapping[str, Resident]:
        """See `ports.Store`."""
        return self._do.run(lambda c: history.past_residents(c, box_id))

    def stored(self, sweep_id: int) -> Stored:
        """See `ports.Store`."""
        return self._do.run(lambda c: stored.stored(c, sweep_id))

    def drawn(self, sweep_id: int) -> tuple[Drawn, ...]:
        """See `ports.Store`."""
        return self._do.run(lambda c: drawn.drawn(c, sweep_id))

    # --- taken over from other sweeps

    def reusable(self, sweep_id: int) -> Reusable:
        """See `ports.Store`."""
        return self._do.run(lambda c: reused.reusable(c, sweep_id))

    def reuse(self, lease: Lease, links: Sequence[Link]) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: reused.reuse(c, lease, links))

    def reused_conditions(self, sweep_id: int, config: str) -> Mapping[str, Mapping[str, Any]]:
        """See `ports.Store`."""
        return self._do.run(lambda c: reused.reused_conditions(c, sweep_id, config))

    def withdraw_reused(self, lease: Lease, config: str, *, conditions: frozenset[str]) -> int:
        """See `ports.Store`."""
        return self._do.run(lambda c: reused.withdraw(c, lease, config, under=conditions))

    def predict(self, lease: Lease, predictions: Sequence[Prediction], *, at: datetime) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: expectations.predict(c, lease, predictions, at=at))

    # --- boots

    def begin_boot(
        self,
        lease: Lease,
        config: EngineConfig,
        *,
        boot_round: int,
        boot_key: str,
        command: Sequence[str],
        at: datetime,
    ) -> int:
        """See `ports.Store`."""
        return self._do.run(
            lambda c: boots.begin(c, lease, config, boot_round=boot_round, boot_key=boot_key, command=command, at=at)
        )

    def boot_started(self, lease: Lease, boot_id: int, handle: EngineHandle) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: boots.started(c, lease, boot_id, handle))

    def boot_ready(self, lease: Lease, boot_id: int, ready: BootReady, *, at: datetime) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: boots.ready(c, lease, boot_id, ready, at=at))

    def end_boot(self, lease: Lease, boot_id: int, outcome: BootOutcome, *, at: datetime) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: boots.end(c, lease, boot_id, outcome, at=at))

    def add_log(self, boot_id: int, seq: int, lines: Sequence[LogLine]) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: boots.add_log(c, boot_id, seq, lines))

    # --- measurements

    def add_window(
        self,
        lease: Lease,
        boot_id: int,
        repeat: Repeat,
        result: WindowResult,
        *,
        attempt: int,
        conditions: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """See `ports.Store`."""
        return self._do.run(
            lambda c: measured.add_window(c, lease, boot_id, repeat, result, attempt=attempt, under=conditions, at=at)
        )

    def add_prefill(
        self,
        lease: Lease,
        boot_id: int,
        repeat: PrefillRepeat,
        result: PrefillResult,
        *,
        attempt: int,
        conditions: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """See `ports.Store`."""
        return self._do.run(
            lambda c: measured.add_prefill(c, lease, boot_id, repeat, result, attempt=attempt, under=conditions, at=at)
        )

    # --- events and production

    def event(
        self,
        kind: str,
        message: str,
        *,
        level: str = "info",
        sweep_id: int | None = None,
        boot_id: int | None = None,
        data: Mapping[str, Any] | None = None,
        key: uuid.UUID | None = None,
        at: datetime | None = None,
    ) -> None:
        """See `ports.Store`. `key` and `at` are of an event that happened earlier: told twice it is one."""
        if key is None:
            log_event(kind, message, level=level, sweep_id=sweep_id, boot_id=boot_id, data=data or {})
        about: dict[str, Any] = {"level": level, "sweep_id": sweep_id, "boot_id": boot_id, "data": data}
        key, at = key or uuid.uuid4(), at or self._clock.now()
        self._do.run(lambda c: catalog.add_event(c, key, kind=kind, message=message, at=at, **about))

    def open_intent(
        self,
        lease: Lease,
        production: ForeignContainer,
        *,
        restore_by: datetime | None,
        record: Mapping[str, Any] | None = None,
        traffic: Traffic | None = None,
        replaces: bool = False,
    ) -> int:
        """See `ports.Store`."""
        given: dict[str, Any] = {"restore_by": restore_by, "record": record, "traffic": traffic, "replaces": replaces}
        return self._do.run(lambda c: intents.open_intent(c, lease, production, **given))

    def mark_intent(self, intent_id: int, *, stage: str) -> None:
        """See `ports.Store`."""
        self._do.run(lambda c: intents.mark(c, intent_id, stage=stage))

    def close_intent(self, intent_id: int, *, outcome: str, checks: Mapping[str, Any] | None = None) -> None:
        """See `ports.Store`. "restored" and "abandoned" close it; any other outcome is noted, and it stays open."""
        self._do.run(lambda c: intents.close(c, intent_id, outcome=outcome, checks=checks))

    def owed(self, box_id: int) -> tuple[Owed, ...]:
        """See `ports.Store`."""
        return self._do.run(lambda c: intents.owed(c, box_id))

    def open_intents(self, box_id: int) -> tuple[tuple[int, str], ...]:
        """See `ports.Store`."""
        return self._do.run(lambda c: tuple((one.intent_id, one.container) for one in intents.owed(c, box_id)))

"""The store in memory: same fences, same clean-once rule, same idempotence as PostgreSQL (see `contract/test_store.py`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from nightsweep.engine.values import LogLine
from nightsweep.errors import BootAlreadyEnded, BoxBusy, LeaseLost, NotFound, RepeatAlreadyStored
from nightsweep.measurement.traffic import Traffic
from nightsweep.measurement.values import PrefillResult, WindowResult
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.expect import Prediction, Resident
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.fit import Longest, PastStart, PastStarts, program_of
from nightsweep.plan.model import DECODE, SINGLE_BATCH, EngineConfig, PrefillRepeat, Repeat, SweepPlan
from nightsweep.plan.remaining import slots
from nightsweep.plan.reuse import PREFILL, Kept, Link, Place
from nightsweep.ports import (
    BootOutcome,
    BootReady,
    BoxFacts,
    Clock,
    EngineHandle,
    ForeignContainer,
    Lease,
    Owed,
    Reusable,
    Stored,
)
from nightsweep.store.owner import lives_here
from nightsweep.units import MonotonicSeconds, Seconds

LIVE = ("starting", "ready")
RECENT = 20
CLOSING_OUTCOMES = ("restored", "abandoned")


def key_of(temperature: Decimal) -> str:
    """Return the temperature as the store keys it: two decimals."""
    return str(temperature.quantize(Decimal("0.01")))


@dataclass
class FakeSweep:
    """A sweep's row."""

    plan: SweepPlan
    box_id: int
    file_text: str
    state: str = "planned"
    owner: str | None = None
    until: datetime | None = None
    fence: int = 0
    wish: str | None = None
    note: str | None = None
    repeats_planned: int = 0


@dataclass
class FakeBoot:
    """A boot's row."""

    sweep_id: int
    box_id: int
    config: str
    boot_round: int
    boot_key: str
    attempt: int
    command: tuple[str, ...]
    started: datetime
    state: str = "starting"
    handle: EngineHandle | None = None
    ready: BootReady | None = None
    ready_at: datetime | None = None
    outcome: BootOutcome | None = None
    ended: datetime | None = None


@dataclass(frozen=True)
class FakeMeasured:
    """A stored window or prefill."""

    sweep_id: int
    boot_id: int
    key: tuple[Any, ...]
    attempt: int
    result: WindowResult | PrefillResult
    conditions: Mapping[str, Any]
    at: datetime
    kind: str = DECODE

    @property
    def content(self) -> tuple[Any, ...]:
        """What a second delivery must equal."""
        return (self.boot_id, self.result, dict(self.conditions))


@dataclass
class FakeIntent:
    """Production that was taken down."""

    box_id: int
    sweep_id: int
    production: ForeignContainer
    restore_by: datetime | None
    record: Mapping[str, Any] = field(default_factory=dict)
    outcome: str | None = None
    closed: bool = False
    stopped_at: datetime | None = None
    restore_started_at: datetime | None = None
    checks: dict[str, Any] = field(default_factory=dict)
    closed_at: datetime | None = None
    traffic: Traffic | None = None


@dataclass(frozen=True)
class FakeEvent:
    """Something that happened."""

    kind: str
    message: str
    level: str
    sweep_id: int | None
    boot_id: int | None
    data: Mapping[str, Any] = field(default_factory=dict)


class FakeStore:
    """Implements `ports.Store` in memory.

    Rows are open to tests: `sweeps`, `boots`, `windows`, `prefills`, `logs`, `events`, `intents`.

    Args:
        clock: Decides when a lease ran out.
        owner_is_dead: Says of an owner that its process is provably gone.
    """

    def __init__(self, clock: Clock, *, owner_is_dead: Callable[[str], bool] = lambda owner: False) -> None:
        self._clock = clock
        self._owner_is_dead = owner_is_dead
        self._lock = threading.RLock()
        self.boxes: dict[int, BoxFacts] = {}
        self.sweeps: dict[int, FakeSweep] = {}
        self.boots: dict[int, FakeBoot] = {}
        self.windows: dict[int, FakeMeasured] = {}
        self.prefills: dict[int, FakeMeasured] = {}
        self.logs: dict[tuple[int, int], tuple[LogLine, ...]] = {}
        self.events: list[FakeEvent] = []
        self.intents: dict[int, FakeIntent] = {}
        self.links: dict[tuple[int, str, Place, int], Link] = {}
        self.predictions: dict[tuple[int, str], tuple[Prediction, datetime, bool]] = {}

    # -- boxes and sweeps

    def be_patient(self, seconds: Seconds, *, until: MonotonicSeconds | None = None) -> None:
        self.patience = (seconds, until)

    def box_id(self, box: BoxFacts) -> int:
        """See `ports.Store`."""
        with self._lock:
            for box_id, known in self.boxes.items():
                if (known.name, known.fingerprint, known.simulated) == (box.name, box.fingerprint, box.simulated):
                    self.boxes[box_id] = box
                    return box_id
            self.boxes[len(self.boxes) + 1] = box
            return len(self.boxes)

    def open_sweep(self, plan: SweepPlan, *, box_id: int, file_text: str) -> int:
        """See `ports.Store`."""
        with self._lock:
            wanted = (box_id, plan.name, plan.fingerprint)
            for sweep_id, sweep in self.sweeps.items():
                if (sweep.box_id, sweep.plan.name, sweep.plan.fingerprint) == wanted:
                    sweep.plan, sweep.file_text, sweep.repeats_planned = plan, file_text, slots(plan)
                    return sweep_id
            sweep_id = len(self.sweeps) + 1
            self.sweeps[sweep_id] = FakeSweep(
                plan=plan, box_id=box_id, file_text=file_text, repeats_planned=slots(plan)
            )
            return sweep_id

    def _sweep(self, sweep_id: int) -> FakeSweep:
        if sweep_id not in self.sweeps:
            raise NotFound(what=f"sweep {sweep_id}", hint="`nightsweep status` lists the sweeps there are")
        return self.sweeps[sweep_id]

    def claim(self, sweep_id: int, *, owner: str, ttl: Seconds) -> Lease:
        """See `ports.Store`."""
        with self._lock:
            sweep = self._sweep(sweep_id)
            for other_id, other in self.sweeps.items():
                if other.box_id == sweep.box_id and other.state == "running":
                    self._close_if_dead(other, other_id, again=other_id == sweep_id and other.owner == owner)
            taken_over = sweep.state in ("running", "interrupted")
            sweep.state, sweep.owner, sweep.fence = "running", owner, sweep.fence + 1
            sweep.wish = sweep.wish if taken_over else None
            sweep.until = self._clock.now() + timedelta(seconds=ttl)
            self._lose_boots(sweep.box_id)
            return Lease(sweep_id=sweep_id, box_id=sweep.box_id, owner=owner, fence=sweep.fence)

    def _close_if_dead(self, sweep: FakeSweep, sweep_id: int, *, again: bool) -> None:
        assert sweep.owner is not None
        assert sweep.until is not None
        gone = sweep.until <= self._clock.now() and not lives_here(sweep.owner)
        over = again or gone or self._owner_is_dead(sweep.owner)
        if not over:
            box = self.boxes[sweep.box_id].name
            until = sweep.until.isoformat(timespec="seconds")
            raise BoxBusy(box=box, owner=sweep.owner, sweep=sweep_id, name=sweep.plan.name, until=until)
        sweep.state, sweep.owner, sweep.until = "interrupted", None, None

    def _lose_boots(self, box_id: int, *, except_key: str | None = None) -> None:
        for boot in self.boots.values():
            if boot.box_id == box_id and boot.state in LIVE and boot.boot_key != except_key:
                boot.state, boot.ended = "lost", self._clock.now()

    def _held(self, lease: Lease) -> FakeSweep:
        sweep = self._sweep(lease.sweep_id)
        if (sweep.state, sweep.owner, sweep.fence) != ("running", lease.owner, lease.fence):
            raise LeaseLost(sweep=lease.sweep_id, fence=lease.fence)
        return sweep

    def renew(self, lease: Lease, *, ttl: Seconds) -> None:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease).until = self._clock.now() + timedelta(seconds=ttl)

    def release(self, lease: Lease, *, state: str, note: str) -> None:
        """See `ports.Store`."""
        with self._lock:
            known = self._sweep(lease.sweep_id)
            if (known.fence, known.state, known.owner) == (lease.fence, state, None):
                return
            sweep = self._held(lease)
            self._lose_boots(sweep.box_id)
            sweep.state, sweep.note, sweep.owner, sweep.until, sweep.wish = state, note, None, None, None

    def stop_wish(self, sweep_id: int) -> str | None:
        """See `ports.Store`."""
        return self._sweep(sweep_id).wish

    def wish_stop(self, sweep_id: int, *, wish: str) -> None:
        """See `ports.Store`."""
        self._sweep(sweep_id).wish = wish

    def plan_repeats(self, sweep_id: int, repeats: int) -> None:
        """See `ports.Store`."""
        self._sweep(sweep_id).repeats_planned = repeats

    def is_paused(self, sweep_id: int) -> bool:
        """See `ports.Store`."""
        return self._sweep(sweep_id).state == "paused"

    def past_starts(self, box_id: int) -> PastStarts:
        """See `ports.Store`."""
        with self._lock:
            here = {i for i, box in self.boxes.items() if _same_box(box, self.boxes[box_id])}
            started: dict[str, list[float]] = {}
            for boot in self.boots.values():
                if boot.box_id in here and boot.ready is not None:
                    started.setdefault(boot.config, []).append(float(boot.ready.cold_start))
            configs = {c.fingerprint: c for sweep in self.sweeps.values() for c in sweep.plan.configs}
            restored: dict[str, list[float]] = {}
            for intent in self.intents.values():
                if intent.box_id in here and intent.outcome == "restored" and intent.restore_started_at is not None:
                    assert intent.closed_at is not None
                    took = (intent.closed_at - intent.restore_started_at).total_seconds()
                    restored.setdefault(intent.production.name, []).append(took)
            return PastStarts(
                engines=tuple(_past_start(configs[name], times) for name, times in started.items()),
                restores={name: _longest(times) for name, times in restored.items()},
            )

    def past_residents(self, box_id: int) -> Mapping[str, Resident]:
        """See `ports.Store`."""
        with self._lock:
            here = {i for i, box in self.boxes.items() if _same_box(box, self.boxes[box_id])}
            found: dict[str, Resident] = {}
            for boot in self.boots.values():
                facts = None if boot.ready is None else boot.ready.facts
                if boot.box_id in here and facts is not None and facts.weights is not None:
                    found[boot.config] = Resident(facts.weights, facts.kv_cache, facts.kv_tokens)
            return found

    def stored(self, sweep_id: int) -> Stored:
        """See `ports.Store`."""
        with self._lock:
            self._sweep(sweep_id)
            failed: dict[tuple[str, int], tuple[str, ...]] = {}
            for boot in self.boots.values():
                if boot.sweep_id == sweep_id and boot.state == "failed" and boot.outcome is not None:
                    retry = boot.outcome.failure.retry if boot.outcome.failure else "same"
                    slot = (boot.config, boot.boot_round)
                    failed[slot] = (*failed.get(slot, ()), retry)
            taken = {kind: self._taken(sweep_id, kind) for kind in (DECODE, SINGLE_BATCH, PREFILL)}
            prefills = {(key[0], key[1], int(key[2]), key[3]): stored for key, stored in taken[PREFILL].items()}
            return Stored(
                windows=_summary(self.windows, sweep_id, kind=DECODE) | taken[DECODE],
                single_batches=_summary(self.windows, sweep_id, kind=SINGLE_BATCH) | taken[SINGLE_BATCH],
                prefills=_summary(self.prefills, sweep_id) | prefills,
                failed_boots=failed,
            )

    def drawn(self, sweep_id: int) -> tuple[Drawn, ...]:
        """See `ports.Store`."""
        with self._lock:
            self._sweep(sweep_id)
            own = [row for row in self.windows.values() if row.sweep_id == sweep_id and row.kind == DECODE]
            return tuple(self._drawn(row) for row in own if row.result.clean)

    def _drawn(self, row: FakeMeasured) -> Drawn:
        assert isinstance(row.result, WindowResult)
        numbers, ready = row.result.numbers, self.boots[row.boot_id].ready
        assert numbers is not None
        config, concurrency, temperature, repeat = row.key
        return Drawn(
            place=(config, concurrency, temperature, repeat),
            boot_id=row.boot_id,
            decode_rate=numbers.decode_rate,
            acceptance_length=numbers.acceptance_length,
            conditions=fingerprint(dict(row.conditions)),
            not_applied=() if ready is None else ready.applied.not_applied,
        )

    def _taken(self, sweep_id: int, kind: str) -> dict[Any, tuple[bool, int]]:
        return {(*of[2], of[3]): (True, 0) for of in self.links if of[:2] == (sweep_id, kind)}

    def predict(self, lease: Lease, predictions: Sequence[Prediction], *, at: datetime) -> None:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease)
            for one in predictions:
                cell = (one.config, one.concurrency, key_of(one.temperature))
                own = [row for row in self.windows.values() if row.kind == DECODE]
                late = any(row.sweep_id == lease.sweep_id and row.key[:3] == cell for row in own)
                late |= any(of[:2] == (lease.sweep_id, DECODE) and tuple(of[2]) == cell for of in self.links)
                self.predictions.setdefault((lease.sweep_id, one.content_key), (one, at, late))

    # -- taken over from other sweeps

    def reusable(self, sweep_id: int) -> Reusable:
        """See `ports.Store`."""
        with self._lock:
            sweep = self._sweep(sweep_id)
            configs = {config.fingerprint for config in sweep.plan.configs}
            here = {i for i, other in self.sweeps.items() if other.box_id == sweep.box_id}
            found: list[Kept] = []
            documents: dict[str, Mapping[str, Any]] = {}
            for rows, prefill in ((self.windows, False), (self.prefills, True)):
                for row_id, row in rows.items():
                    if row.result.clean and row.sweep_id in here and row.key[0] in configs:
                        conditions = fingerprint(dict(row.conditions))
                        documents[conditions] = row.conditions
                        found.append(_kept(row_id, row, kind=PREFILL if prefill else row.kind, conditions=conditions))
            linked = {(link.kind, link.row_id) for of, link in self.links.items() if of[0] == sweep_id}
            return Reusable(rows=tuple(found), conditions=documents, linked=frozenset(linked))

    def reuse(self, lease: Lease, links: Sequence[Link]) -> None:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease)
            for link in links:
                self.links.setdefault((lease.sweep_id, link.kind, link.place, link.repeat), link)

    def _conditions_of(self, link: Link) -> Mapping[str, Any]:
        return (self.prefills if link.kind == PREFILL else self.windows)[link.row_id].conditions

    def reused_conditions(self, sweep_id: int, config: str) -> Mapping[str, Mapping[str, Any]]:
        """See `ports.Store`."""
        of_config = [link for of, link in self.links.items() if of[0] == sweep_id and of[2][0] == config]
        documents = [self._conditions_of(link) for link in of_config]
        return {fingerprint(dict(document)): document for document in documents}

    def withdraw_reused(self, lease: Lease, config: str, *, conditions: frozenset[str]) -> int:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease)
            gone = [
                of
                for of, link in self.links.items()
                if of[0] == lease.sweep_id
                and of[2][0] == config
                and fingerprint(dict(self._conditions_of(link))) in conditions
            ]
            for of in gone:
                del self.links[of]
            return len(gone)

    # -- boots

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
        with self._lock:
            sweep = self._held(lease)
            known = next((i for i, boot in self.boots.items() if boot.boot_key == boot_key), None)
            if known is not None:
                return known
            self._lose_boots(sweep.box_id)
            slot = (lease.sweep_id, config.fingerprint, boot_round)
            earlier = sum((b.sweep_id, b.config, b.boot_round) == slot for b in self.boots.values())
            boot_id = len(self.boots) + 1
            self.boots[boot_id] = FakeBoot(
                sweep_id=lease.sweep_id,
                box_id=sweep.box_id,
                config=config.fingerprint,
                boot_round=boot_round,
                boot_key=boot_key,
                attempt=earlier + 1,
                command=tuple(command),
                started=at,
            )
            return boot_id

    def _boot(self, lease: Lease, boot_id: int) -> FakeBoot:
        boot = self.boots.get(boot_id)
        if boot is None or boot.sweep_id != lease.sweep_id:
            raise NotFound(what=f"boot {boot_id} of sweep {lease.sweep_id}", hint="begin the boot first")
        return boot

    def boot_started(self, lease: Lease, boot_id: int, handle: EngineHandle) -> None:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease)
            self._boot(lease, boot_id).handle = handle

    def boot_ready(self, lease: Lease, boot_id: int, ready: BootReady, *, at: datetime) -> None:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease)
            boot = self._boot(lease, boot_id)
            if boot.state not in LIVE:
                raise BootAlreadyEnded(boot=boot_id, state=boot.state)
            boot.state, boot.ready, boot.ready_at = "ready", ready, at

    def end_boot(self, lease: Lease, boot_id: int, outcome: BootOutcome, *, at: datetime) -> None:
        """See `ports.Store`."""
        with self._lock:
            self._held(lease)
            boot = self._boot(lease, boot_id)
            if boot.state == outcome.state:
                return
            if boot.state not in (*LIVE, "lost"):
                raise BootAlreadyEnded(boot=boot_id, state=boot.state)
            boot.state, boot.outcome, boot.ended = outcome.state, outcome, at

    def add_log(self, boot_id: int, seq: int, lines: Sequence[LogLine]) -> None:
        """See `ports.Store`."""
        with self._lock:
            if boot_id not in self.boots:
                raise NotFound(what=f"boot {boot_id}", hint="begin the boot first")
            if len(lines) > len(self.logs.get((boot_id, seq), ())):
                self.logs[(boot_id, seq)] = tuple(lines)

    def log_of(self, boot_id: int) -> tuple[LogLine, ...]:
        """Return the boot's whole log, for tests."""
        chunks = sorted(key for key in self.logs if key[0] == boot_id)
        return tuple(line for key in chunks for line in self.logs[key])

    # -- measurements

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
        if not result.flags and result.numbers is None:
            raise ValueError("a window without numbers needs a flag that says why")
        cell = repeat.cell
        key = (cell.config, cell.concurrency, key_of(cell.temperature), repeat.index)
        new = FakeMeasured(lease.sweep_id, boot_id, key, attempt, result, conditions, at, cell.kind)
        return self._keep(self.windows, lease, new)

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
        if not result.flags and result.rate is None:
            raise ValueError("a prefill without a rate needs a flag that says why")
        key = (repeat.config, repeat.tokens, repeat.under_load, repeat.index)
        new = FakeMeasured(lease.sweep_id, boot_id, key, attempt, result, conditions, at)
        return self._keep(self.prefills, lease, new)

    def _keep(self, rows: dict[int, FakeMeasured], lease: Lease, new: FakeMeasured) -> int:
        with self._lock:
            self._held(lease)
            boot = self._boot(lease, new.boot_id)
            if boot.config != new.key[0]:
                raise ValueError(f"boot {new.boot_id} is of config {boot.config[:12]}, the repeat of {new.key[0][:12]}")
            for row_id, row in rows.items():
                if (row.sweep_id, row.kind, row.key) != (new.sweep_id, new.kind, new.key):
                    continue
                same = row.attempt == new.attempt
                if same and row.content == new.content:
                    return row_id
                if same or row.result.clean:
                    raise RepeatAlreadyStored(what=f"{new.key} (attempt {new.attempt})")
            rows[len(rows) + 1] = replace(new, conditions=dict(new.conditions))
            return len(rows)

    # -- events and production

    def event(
        self,
        kind: str,
        message: str,
        *,
        level: str = "info",
        sweep_id: int | None = None,
        boot_id: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """See `ports.Store`."""
        self.events.append(FakeEvent(kind, message, level, sweep_id, boot_id, dict(data or {})))

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
        with self._lock:
            self._held(lease)
            for intent_id, intent in self.intents.items():
                if (intent.box_id, intent.production.name) == (lease.box_id, production.name) and not intent.closed:
                    intent.sweep_id, intent.restore_by = lease.sweep_id, restore_by
                    if replaces:
                        intent.production, intent.record = production, dict(record or {})
                    intent.restore_started_at = None
                    tells = traffic is not None and traffic.unknown is None
                    intent.traffic = traffic if tells else intent.traffic or traffic
                    return intent_id
            intent_id = len(self.intents) + 1
            self.intents[intent_id] = FakeIntent(
                lease.box_id, lease.sweep_id, production, restore_by, dict(record or {}), traffic=traffic
            )
            return intent_id

    def mark_intent(self, intent_id: int, *, stage: str) -> None:
        """See `ports.Store`."""
        with self._lock:
            intent = self._intent(intent_id)
            if stage == "stopped" and not intent.closed:
                intent.stopped_at = intent.stopped_at or self._clock.now()
            elif stage == "restore_started" and not intent.closed:
                intent.restore_started_at = self._clock.now()

    def close_intent(self, intent_id: int, *, outcome: str, checks: Mapping[str, Any] | None = None) -> None:
        """See `ports.Store`."""
        with self._lock:
            intent = self._intent(intent_id)
            if not intent.closed:
                intent.outcome, intent.closed = outcome, outcome in CLOSING_OUTCOMES
                intent.closed_at = self._clock.now() if intent.closed else None
                intent.checks = intent.checks if checks is None else dict(checks)
                if intent.checks.get("started") is False:
                    intent.restore_started_at = None

    def _intent(self, intent_id: int) -> FakeIntent:
        if intent_id not in self.intents:
            raise NotFound(what=f"intent {intent_id}", hint="open it first")
        return self.intents[intent_id]

    def owed(self, box_id: int) -> tuple[Owed, ...]:
        """See `ports.Store`."""
        with self._lock:
            mine = ((i, row) for i, row in self.intents.items() if row.box_id == box_id and not row.closed)
            return tuple(Owed(i, row.production.name, dict(row.record)) for i, row in mine)

    def open_intents(self, box_id: int) -> tuple[tuple[int, str], ...]:
        """See `ports.Store`."""
        with self._lock:
            rows = self.intents.items()
            return tuple((i, row.production.name) for i, row in rows if row.box_id == box_id and not row.closed)


def _same_box(one: BoxFacts, other: BoxFacts) -> bool:
    return (one.name, one.simulated) == (other.name, other.simulated)


def _past_start(config: EngineConfig, times: Sequence[float]) -> PastStart:
    method = (config.speculative or {}).get("method")
    return PastStart(config.fingerprint, program_of(config.document), method, _longest(times))


def _longest(times: Sequence[float]) -> Longest:
    newest = times[-RECENT:]
    return Longest(Seconds(max(newest)), len(newest))


def _kept(row_id: int, row: FakeMeasured, *, kind: str, conditions: str) -> Kept:
    config, number, other, repeat = row.key
    return Kept(
        row_id=row_id,
        kind=kind,
        place=(config, number, str(other)),
        repeat=repeat,
        sweep_id=row.sweep_id,
        conditions=conditions,
        started=row.result.raw.started if isinstance(row.result, WindowResult) else row.result.started,
    )


def _summary(
    rows: Mapping[int, FakeMeasured], sweep_id: int, *, kind: str | None = None
) -> dict[Any, tuple[bool, int]]:
    found: dict[Any, tuple[bool, int]] = {}
    for row in rows.values():
        if row.sweep_id == sweep_id and (kind is None or row.kind == kind):
            clean, attempts = found.get(row.key, (False, 0))
            found[row.key] = (clean or row.result.clean, attempts + 1)
    return found

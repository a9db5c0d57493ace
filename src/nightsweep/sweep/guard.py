"""The production guard: what is stopped for the sweep comes back, however the sweep ends.

The intent (what runs, how it comes back) is in the database, and in a file beside it, before production is touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from nightsweep.errors import (
    ContainerMissing,
    DockerUnavailable,
    HostError,
    LeaseLost,
    NotNoted,
    ProductionComing,
    ProductionNotRestored,
    StoreError,
)
from nightsweep.measurement.traffic import Traffic
from nightsweep.plan.model import Production
from nightsweep.ports import ForeignContainer, Host, Lease, Owed
from nightsweep.production.asking import ask
from nightsweep.production.door import door_of
from nightsweep.production.idle import Idleness, served, until_idle
from nightsweep.production.news import news_of
from nightsweep.production.record import Record, differences, document, from_document, made_again, recorded
from nightsweep.production.returning import Back, Helpers, bring_back
from nightsweep.sweep.signals import signals_held
from nightsweep.sweep.tools import StopWanted, Tools
from nightsweep.units import Seconds

STOP_GRACE = Seconds(60.0)
COMES_UP = 3
"""How often production that Docker starts by itself is stopped again in one night."""


class PutBack(Protocol):
    """Puts something back; `interrupted` says that whoever runs the sweep was told to end."""

    def __call__(self, *, interrupted: bool) -> None:
        """Do it."""


class Guard:
    """Stands between a sweep and production for one night."""

    def __init__(self, tools: Tools, lease: Lease) -> None:
        self._tools = tools
        self._lease = lease
        self._down: Record | None = None
        self._came_up = 0
        self._tried: set[str] = set()
        self._boxes = {lease.box_id}

    # --- down ---

    @contextlib.contextmanager
    def down(
        self, production: Production | None, *, restore_by: datetime | None, check: Callable[[], None]
    ) -> Iterator[None]:
        """Take production down for the block once it is idle, and have it serving again after it.

        With the sweep taken over by another holder it is that one's to bring back: it found the intent open, and measures now.

        Args:
            check: Asked while production is waited for; what it raises ends that, with nothing touched.

        Raises:
            ContainerMissing: There is no such container; nothing was touched.
            StopWanted: It is not idle; nothing was touched.
            ProductionNotRestored: It does not serve again.
        """
        if production is None:
            yield
            return
        found = self._host().foreign(production.container)
        before = self._record_of(found.name)
        if not found.running and before is None:
            said = f"{found.name} was not running before the sweep: it is left as it is"
            self._event("production_not_running", said, level="warning")
            yield
            return
        traffic = self._when_idle(found, production, restore_by=restore_by, check=check) if found.running else None
        record = recorded(found, production, restore_by=restore_by)
        replaces = before is not None and self._made_anew(before, found, production)
        if before is not None and not replaces:  # what ran before anything was stopped counts
            record = replace(before, url=record.url, ready_timeout=record.ready_timeout, restore_by=restore_by)
        with self._back_after(record):
            self._take_down(found, record, traffic, replaces=replaces)
            yield

    def keep_down(self) -> bool:
        """Stop production again when Docker has started it by itself; return whether it was up.

        A container of restart policy `always` comes up when its daemon restarts. Any other was started by somebody, who
        needs it: it is left alone, and the night ends.

        Raises:
            StopWanted: Production was started by somebody.
        """
        if self._down is None:
            return False
        name = self._down.name
        with contextlib.suppress(ContainerMissing, DockerUnavailable):
            found = self._host().foreign(name)
            if not found.running:
                return False
            self._came_up += 1
            if found.restart_policy != "always" or self._came_up > COMES_UP:
                said = f"somebody started {name} while the sweep had it down: it is left alone, and the night ends"
                self._event("production_came_up", said, level="warning")
                raise StopWanted("partial", said)
            said = f"{name} came up while the sweep had it down (restart policy always): it is stopped again"
            self._event("production_came_up", said, level="warning")
            self._host().stop_foreign(name, grace=STOP_GRACE)
            return True
        return False

    def _made_anew(self, before: Record, found: ForeignContainer, production: Production) -> bool:
        """Return whether somebody has made production anew since it was recorded: another container of its name, that serves.

        Only what proves that it serves takes the place of what did before; either way the difference is told. An engine of ours
        is never found here (`Host.foreign`).
        """
        if not found.running or found.paused or before.id in (None, found.id):
            return False
        door = door_of(found, url=production.url)
        asked = ask(door, self._tools.probe)
        missing = "; ".join(asked.unchecked) if door.base_url is None else asked.missing
        said = (
            f"{found.name} was made anew since an earlier sweep took it down: {'; '.join(differences(before, found))}"
        )
        if missing is not None:
            said = f"{said}. It does not prove that it serves ({missing}): what was recorded before stays"
            self._event("production_differs", said, level="warning")
            return False
        said = (
            f"{said}. It serves, and is what comes back from now on; the earlier one was made by {made_again(before)}"
        )
        self._event("production_replaced", said, level="warning")
        return True

    @contextlib.contextmanager
    def _back_after(self, record: Record) -> Iterator[None]:
        def back(*, interrupted: bool) -> None:
            self._down = None
            self.restore(record, interrupted=interrupted)

        with self._afterwards(back):
            yield

    @contextlib.contextmanager
    def _afterwards(self, put_back: PutBack) -> Iterator[None]:
        """Put something back after the block, unless another holder has taken the sweep over meanwhile."""
        ours, interrupted = True, False
        try:
            yield
        except LeaseLost:
            ours = False
            raise
        except BaseException as error:
            interrupted = not isinstance(error, Exception)
            raise
        finally:
            if ours:
                put_back(interrupted=interrupted)

    def _when_idle(
        self, found: ForeignContainer, production: Production, *, restore_by: datetime | None, check: Callable[[], None]
    ) -> Traffic:
        """Wait until production is idle (raises StopWanted when it is not); return what it has served until then."""
        idle_for, now = production.must_idle, self._tools.clock.now
        if found.paused or idle_for <= 0:
            why = "it was paused" if found.paused else "it was not asked (`production.idle_for: 0`)"
            return Traffic(read=now(), problem=why)
        limit = production.idle_limit
        if restore_by is not None:
            limit = min(limit, Seconds((restore_by - self._tools.clock.now()).total_seconds()))
        probe, clock = self._tools.probe, self._tools.clock
        seen = Idleness(None, "")
        for url in (None, production.url) if production.url else (None,):
            door = door_of(found, url=url)
            seen = until_idle(door, probe, clock, idle_for=idle_for, limit=limit, check=check)
            if seen.idle is not None:
                break
        self._say_idle(found.name, seen, proof_wanted=production.idle_for is not None)
        return served(seen, found, at=now())

    def _say_idle(self, name: str, seen: Idleness, *, proof_wanted: bool) -> None:
        if seen.idle:
            self._event("production_idle", f"{name} is {seen.why}")
            return
        if seen.idle is None and not proof_wanted:
            said = (
                f"whether {name} is idle cannot be told ({seen.why}): it is stopped all the same; `production.idle_for`"
            )
            self._event("production_idle_unknown", f"{said} makes that a condition, 0 does not ask", level="warning")
            return
        why = (
            "was busy"
            if seen.idle is False
            else "cannot be asked whether it is idle (`production.idle_for: 0` does not ask)"
        )
        said = f"skipped: production {why}; {name}: {seen.why}; nothing was touched"
        self._event("night_skipped", said, level="warning")
        raise StopWanted("partial", said)

    def _take_down(self, found: ForeignContainer, record: Record, traffic: Traffic | None, *, replaces: bool) -> None:
        """Commit the intent, then stop production."""
        store, lease = self._tools.store, self._lease
        told: dict[str, Any] = {"record": document(record), "traffic": traffic, "replaces": replaces}
        intent_id = store.open_intent(lease, found, restore_by=record.restore_by, **told)
        self._note(record)
        self._event("production_stopping", f"{found.name} is stopped for the sweep")
        self._down = record
        self._host().stop_foreign(found.name, grace=STOP_GRACE)
        store.mark_intent(intent_id, stage="stopped")

    def _note(self, record: Record, **more: str | None) -> None:
        if self._tools.mirror is None:
            return
        facts: dict[str, Any] = {
            "owner": self._lease.owner,
            "box_id": self._lease.box_id,
            "sweep_id": self._lease.sweep_id,
        }
        try:
            self._tools.mirror.write(record.name, {**document(record), **facts, **more})
        except OSError as error:
            raise NotNoted(name=record.name, path=str(error.filename), reason=error.strerror) from error

    # --- back ---

    def restore(self, record: Record, *, interrupted: bool = False) -> None:
        """Bring production back, prove it, close the intent. Idempotent; works without the store.

        Args:
            interrupted: Whoever runs the sweep was told to end: production is started, and not waited for long.

        Raises:
            ProductionNotRestored: With what is wrong; the intent stays open.
        """
        self._tried.add(record.name)
        with signals_held() as signalled:
            helpers = Helpers(
                host=self._host(),
                probe=self._tools.probe,
                clock=self._tools.clock,
                began=lambda: self._began(record),
                hurried=lambda: interrupted or signalled(),
            )
            try:
                back = bring_back(record, helpers)
            except ProductionComing as error:
                self._leave(record)
                with contextlib.suppress(StoreError):
                    self._event("production_coming", str(error), level="warning")
                return
            except HostError as error:
                self._leave(record)
                with contextlib.suppress(StoreError):
                    why = error.why if isinstance(error, ProductionNotRestored) else str(error)
                    self._close(record.name, outcome=why)
                    self._event("production_not_restored", str(error), level="error")
                raise
            self._say_back(back)

    def _leave(self, record: Record) -> None:
        """Note that this sweep does no more for production: whoever comes next need not wait for its end."""
        with contextlib.suppress(NotNoted):
            self._note(record, owner=None)

    def _began(self, record: Record) -> None:
        with contextlib.suppress(NotNoted):  # it was noted before it was stopped
            self._note(record, restore_started_at=self._tools.clock.now().isoformat())
        with contextlib.suppress(StoreError):
            for owed in self._owed(record.name):
                self._tools.store.mark_intent(owed.intent_id, stage="restore_started")

    def _say_back(self, back: Back) -> None:
        if self._tools.mirror is not None:
            with contextlib.suppress(OSError):  # whoever reads it finds production serving, and clears it
                self._tools.mirror.clear(back.name)
        with contextlib.suppress(StoreError):  # production serves; the next sweep on this box closes the intent
            self._close(back.name, outcome="restored", back=back)
            for news in news_of(back):
                self._event(news.kind, news.message, level=news.level)

    def _close(self, name: str, *, outcome: str, back: Back | None = None) -> None:
        checks = None if back is None else back.checks
        for owed in self._owed(name):
            self._tools.store.close_intent(owed.intent_id, outcome=outcome, checks=checks)

    @contextlib.contextmanager
    def nothing_forgotten(self) -> Iterator[None]:
        """Bring back, after the block, what an earlier, dead holder took down, whatever plan it followed on whatever box.

        One machine may go by several names: what its file says is owed counts beside what the database says of this box.

        Raises:
            ProductionNotRestored: One does not serve again; the others were tried.
        """
        for name in self._forgotten():
            said = f"{name} is down since an earlier sweep that died: it is started again when this one ends"
            self._event("production_owed", said, level="warning")
        with self._afterwards(self._restore_forgotten):
            yield

    def _restore_forgotten(self, *, interrupted: bool) -> None:
        problem: HostError | None = None
        for name, record in self._forgotten().items():
            if name not in self._tried:
                try:
                    self.restore(record, interrupted=interrupted)
                except HostError as error:
                    problem = error
        if problem is not None:
            raise problem

    def _forgotten(self) -> dict[str, Record]:
        """Return what nobody who lives brings back, by container name."""
        forgotten: dict[str, Record] = {}
        noted = {} if self._tools.mirror is None else self._tools.mirror.read()
        for name, facts in noted.items():
            owner = facts.get("owner")
            if owner != self._lease.owner and (owner is None or not self._tools.lives(str(owner))):
                forgotten[name] = from_document(name, facts)
                self._boxes.add(int(facts.get("box_id") or self._lease.box_id))
        with contextlib.suppress(StoreError):  # then the file beside the database is all that is known
            for owed in self._tools.store.owed(self._lease.box_id):
                forgotten.setdefault(owed.container, from_document(owed.container, owed.record))
        return forgotten

    def _record_of(self, name: str) -> Record | None:
        """Return the record of a container that an earlier, dead holder took down: then it is ours to bring back."""
        return next((from_document(name, owed.record) for owed in self._owed(name)), None)

    def _owed(self, name: str) -> list[Owed]:
        """Return the open intents of a container, under every name of this machine that is known."""
        return [owed for box in sorted(self._boxes) for owed in self._tools.store.owed(box) if owed.container == name]

    # --- inside ---

    def _host(self) -> Host:
        return self._tools.host("docker")

    def _event(self, kind: str, message: str, *, level: str = "info") -> None:
        self._tools.store.event(kind, message, level=level, sweep_id=self._lease.sweep_id)

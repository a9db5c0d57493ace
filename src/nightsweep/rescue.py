"""Bringing production back from outside a sweep, with the real world picked as in `wiring`.

Needs Docker alone. Prefect is not asked. The database is, when it answers: for intents that the file beside it does not know,
and to close them; one that is away hears of it at the next sweep.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from nightsweep import wiring
from nightsweep.errors import (
    ContainerMissing,
    DockerUnavailable,
    HostError,
    NotFound,
    ProductionNotGone,
    SweepError,
)
from nightsweep.production.news import news_of
from nightsweep.production.record import Record, unreadable
from nightsweep.production.returning import Helpers
from nightsweep.rescue_database import Say, owed_by_database
from nightsweep.service import restoring
from nightsweep.service.restoring import Restored
from nightsweep.service.watchdog import Owing, Rules, judge
from nightsweep.settings import Settings
from nightsweep.store.owner import is_stopped
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.ports import Host
    from nightsweep.service.mirror import FileMirror
    from nightsweep.store.debts import Debt, Debts

STOPS_WITHIN = 120.0
"""Seconds that a sweep which is told to stop at once is waited for: its engine stopped, production started."""


def restore_production(
    chosen: Settings, names: tuple[str, ...] = (), *, say: Say = lambda text: None
) -> tuple[Restored, ...]:
    """Bring back what was taken down: the named containers, else every one whose sweep is dead.

    What a sweep that lives has taken down is left to it, unless it is named: then that sweep is asked to stop at once, for its
    engine has the accelerator, and what it measures beside production is worth nothing. Engines that dead sweeps left
    running are stopped first: production needs their memory.

    Raises:
        ContainerMissing: A name is neither noted nor that of a container: a slip of the keys is nobody's alarm.
        OwedUnreadable: What is owed cannot be told to the end; what could be read was brought back, and said.
    """
    with scene(chosen, say=say) as here:
        owners = here.owners()
        here.know(names, noted=owners)
        here.stop_for(names, owners=owners)
        dead = tuple(sorted(name for name, owner in owners.items() if not wiring.lives_here(owner)))
        if not names and len(dead) < len(owners):
            say("a sweep that runs now has production down, and brings it back itself: `nightsweep cancel` ends it")
        if not any(wiring.lives_here(holder) for holder in here.holders):
            restoring.stop_leftovers(here.hosts(), lives=wiring.lives_here, say=say)
        results = _told(chosen, here.restore(names or dead), say=say)
        try:
            here.whole(results)
        except HostError as error:
            if not names:
                raise
            say(str(error))
        return results


def give_up_production(chosen: Settings, names: tuple[str, ...], *, say: Say) -> None:
    """Close what is owed of containers that were removed for good: nobody brings them back, or is alarmed, any more.

    Raises:
        NotFound: Nothing is owed of a name. Then, and with the following, nothing was closed.
        ProductionNotGone: It exists, or a sweep that lives will bring it back.
        StoreUnavailable: The database would hold on to it.
    """
    from nightsweep.tell import teller

    with wiring.open_store(chosen) as store, scene(chosen, say=say) as here:
        for name, debts in {name: here.gone(name) for name in names}.items():
            here.close(name, debts, event=store.event)
            teller(chosen).forget(name)


def watch(chosen: Settings, rules: Rules, *, say: Say) -> tuple[Restored, ...]:
    """Bring back what is overdue and whose sweep is dead or hung; engines of such sweeps are stopped first.

    A sweep that is not yet due is never disturbed, nor is one whose engine runs now.

    Raises:
        OwedUnreadable: What is owed cannot be told to the end; what could be read was looked after, and said.
    """
    with scene(chosen, say=say) as here:
        now = wiring.SystemClock().now()
        owing = here.owing()
        verdicts = [judge(one, rules, now=now) for one in owing]
        for verdict in verdicts:
            say(f"{verdict.name} is down: {verdict.why}")
        overdue = [verdict.name for verdict in verdicts if verdict.restore]
        if not overdue:
            here.whole(())
            return ()
        owners = here.owners()
        hung = {owners[verdict.name] for verdict in verdicts if verdict.hung}

        def working(holder: str) -> bool:
            return wiring.lives_here(holder) and holder not in hung

        busy = here.engine_of(working)
        if busy is not None:
            say(f"engine {busy} of a sweep that lives runs now: that sweep brings production back at its end")
            here.whole(())
            return ()
        restoring.stop_leftovers(here.hosts(), lives=working, say=say)
        results = _told(chosen, here.restore(overdue), say=say)
        here.whole(results)
        return results


@dataclass(frozen=True)
class Scene:
    """What a rescue works with.

    Attributes:
        owed: What the database says is owed on this machine; empty when it does not answer.
        holders: Who holds a running sweep by the database, and whether the lease has run out.
        debts: Where intents are closed; None when the database does not answer.
    """

    mirror: FileMirror
    host: Callable[[str], Host]
    helpers: Helpers
    say: Say
    debts: Debts | None = None
    owed: tuple[Debt, ...] = ()
    holders: Mapping[str, bool] = field(default_factory=dict)

    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts that engines of ours may run on."""
        return self.host("process"), self.host("docker")

    def noted(self) -> dict[str, Mapping[str, Any]]:
        """Return what the file says, and where it does not, the database."""
        known = {debt.container: _document(debt) for debt in self.owed}
        return {name: {**known.get(name, {}), **facts} for name, facts in self.mirror.read().items()}

    def whole(self, results: Sequence[Restored]) -> None:
        """Raise OwedUnreadable, once the results are said, when the file is damaged and the database does not answer."""
        try:
            self.mirror.whole()
        except HostError:
            for result in results:
                self.say(f"{result.container} {'serves' if result.serving else 'DOES NOT SERVE'}: {result.detail}")
            raise

    def mend(self) -> None:
        """Say what is damaged in the file; with the database there, write it anew from both."""
        for name, facts in self.mirror.read().items():
            lost = unreadable(facts)
            if lost:
                self.say(
                    f"of what is noted of {name}, this cannot be read: {', '.join(lost)}; it counts as not recorded"
                )
        try:
            self.mirror.whole()
        except HostError as error:
            if self.debts is None:  # said at the end: what is noted comes first
                return
            known = {debt.container: _document(debt) for debt in self.owed} | self.noted()
            with contextlib.suppress(OSError):
                remains = self.mirror.renew(known)
                self.say(
                    f"{error}. The database answers: the file is written anew from it, its remains are in {remains}"
                )

    def owners(self) -> dict[str, str | None]:
        """Return who took each container down that is not known to be back; None where that sweep has ended.

        The process that ran a sweep may live on after it: where the database answers, it says who still holds one.
        """
        owners = {debt.container: debt.owner for debt in self.owed} | restoring.owners(self.noted())
        if self.debts is None:
            return owners
        return {name: owner if owner in self.holders else None for name, owner in owners.items()}

    def owing(self) -> tuple[Owing, ...]:
        """Return what is down, with all that tells of its sweep."""
        noted, owners = self.noted(), self.owners()
        over = {debt.container: self.holders.get(debt.owner or "", debt.lease_over) for debt in self.owed}
        found = []
        for record in self.records(sorted(owners)):
            owner = owners[record.name]
            began = noted.get(record.name, {}).get("restore_started_at")
            found.append(
                Owing(
                    name=record.name,
                    restore_by=record.restore_by,
                    ready_timeout=record.ready_timeout,
                    alive=_alive(owner),
                    stopped=owner is not None and is_stopped(owner),
                    lease_over=over.get(record.name),
                    began=None if began is None else datetime.fromisoformat(str(began)),
                )
            )
        return tuple(found)

    def engine_of(self, working: Callable[[str], bool]) -> str | None:
        """Return an engine of ours that runs for a holder who works; None when there is none."""
        for host in self.hosts():
            with contextlib.suppress(HostError):
                for handle in host.owned():
                    if working(str(handle.facts.get("holder"))) and host.state(handle).running:
                        return handle.boot_key
        return None

    def records(self, names: Sequence[str]) -> tuple[Record, ...]:
        """Return what is recorded of containers, in the file or in the database."""
        known = {debt.container: debt.record for debt in self.owed} | self.noted()
        return restoring.records_of(known, names)

    def restore(self, names: Sequence[str]) -> tuple[Restored, ...]:
        """Bring containers back, one after the other, and have file and database know it."""
        results, before = [], restoring.owners(self.mirror.read())
        for record in self.records(names):
            debts = [debt for debt in self.owed if debt.container == record.name]
            began = replace(self.helpers, began=partial(self._began, debts))
            (result,) = restoring.restore_containers((record,), began)
            if self._taken_again(record.name, before=before.get(record.name)):
                result = replace(
                    result, detail="a sweep that runs now has taken it down again, and brings it back itself"
                )
            else:
                self._settle(result, debts)
            results.append(result)
        return tuple(results)

    def know(self, names: Sequence[str], *, noted: Mapping[str, str | None]) -> None:
        """Raise ContainerMissing for a name that nothing goes by."""
        for name in names:
            if name not in noted:
                with contextlib.suppress(DockerUnavailable):  # bringing it back says so better
                    self.host("docker").foreign(name)

    def gone(self, name: str) -> tuple[Debt, ...]:
        """Return the open intents of a container that may be given up (raises NotFound, ProductionNotGone)."""
        owners = self.owners()
        if name not in owners:
            raise NotFound(
                what=f"production container {name!r}", hint="nothing notes it as taken down, so nothing is owed of it"
            )
        if wiring.lives_here(owners[name]):
            reason = (
                "a sweep that runs now has it down, and looks for it at its end: `nightsweep cancel` ends that first"
            )
            raise ProductionNotGone(name=name, reason=reason)
        with contextlib.suppress(ContainerMissing):
            found = self.host("docker").foreign(name)
            state = "runs" if found.running else "exists, and is stopped"
            raise ProductionNotGone(name=name, reason=f"it {state}: `nightsweep restore {name}` has it proven")
        return tuple(debt for debt in self.owed if debt.container == name)

    def close(self, name: str, debts: Sequence[Debt], *, event: Callable[..., None]) -> None:
        """Give a container up: its intents are closed as abandoned, with an event that says what that means."""
        said = (
            f"{name} is given up: a person said that it is gone for good. Nothing brings it back, and nobody is told any more "
            "that it does not serve; sweeps whose file names it end at once until `production` is changed there"
        )
        self.say(said)
        news = [("production_given_up", "warning", said)]
        for debt in debts:
            if self.debts is not None:
                self.debts.settle(debt, outcome="abandoned", checks=None, news=news)
        if not debts:
            event("production_given_up", said, level="warning")
        self.mirror.clear(name)

    def stop_for(self, names: Sequence[str], *, owners: Mapping[str, str | None]) -> None:
        """Have sweeps that live and have one of these down stop at once, and wait until they have."""
        living = {owner for name, owner in owners.items() if name in names and owner and wiring.lives_here(owner)}
        asked = [debt for debt in self.owed if debt.owner in living]
        if self.debts is None or not asked:
            return
        with contextlib.suppress(SweepError):
            for debt in asked:
                self.say(f"sweep {debt.sweep_id} measures now: it is told to stop at once (`nightsweep cancel --drop`)")
                self.debts.stop(debt)
            clock = self.helpers.clock
            begun = clock.monotonic()
            while living & set(self.debts.holders()) and clock.monotonic() - begun < STOPS_WITHIN:
                clock.sleep(Seconds(0.5))

    def _taken_again(self, name: str, *, before: str | None) -> bool:
        now = restoring.owners(self.mirror.read()).get(name)
        return now is not None and now != before and wiring.lives_here(now)

    def _began(self, owed: Sequence[Debt]) -> None:
        if self.debts is not None:
            with contextlib.suppress(SweepError):
                for debt in owed:
                    self.debts.mark_started(debt)

    def _settle(self, result: Restored, owed: Sequence[Debt]) -> None:
        if result.serving:
            with contextlib.suppress(OSError):  # whoever reads it finds production serving, and clears it
                self.mirror.clear(result.container)
        if self.debts is None:
            self.say("the database does not answer: it hears of this at the next sweep")
            return
        back = result.back
        news = [("production_not_restored", "error", f"{result.container} does not serve: {result.detail}")]
        if back is not None:
            news = [(one.kind, one.level, one.message) for one in news_of(back)]
        outcome = "restored" if result.serving else result.detail
        try:
            for debt in owed:
                self.debts.settle(debt, outcome=outcome, checks=None if back is None else back.checks, news=news)
        except SweepError as error:
            self.say(f"the database could not be told: {error}")


def _told(chosen: Settings, results: tuple[Restored, ...], *, say: Say) -> tuple[Restored, ...]:
    """Tell people of production that does not serve, and of what serves after all once they were told otherwise."""
    from nightsweep.tell import teller

    def keep(kind: str, message: str, level: str, sweep_id: int | None) -> None:
        say(f"{kind}: {message}")  # not in the database: one that is down stays down

    people = replace(teller(chosen), event=keep)
    for result in results:
        people.production(result.container, serving=result.serving, detail=result.detail)
    return results


@contextlib.contextmanager
def scene(chosen: Settings, *, say: Say) -> Iterator[Scene]:
    """Yield what a rescue works with."""
    from nightsweep.probe.http_probe import HttpProbe

    clock = wiring.SystemClock()
    with HttpProbe(clock=clock) as probe, wiring.hosts(chosen) as choose, owed_by_database(chosen, say=say) as debts:
        helpers = Helpers(host=choose("docker"), probe=probe, clock=clock, say=say)
        here = Scene(mirror=wiring.production_mirror(chosen), host=choose, helpers=helpers, say=say)
        if debts is not None:
            with contextlib.suppress(SweepError):
                owed = tuple(debt for debt in debts.open() if _is_here(here, debt, box=chosen.box))
                here = replace(here, debts=debts, owed=owed, holders=debts.holders())
        here.mend()
        yield here


def _document(debt: Debt) -> dict[str, Any]:
    """Return what the file would say of a debt."""
    return {**debt.record, "owner": debt.owner, "box_id": debt.box_id, "sweep_id": debt.sweep_id}


def _alive(owner: str | None) -> bool | None:
    """Return whether a holder lives; None when that cannot be told from here. Nobody is as good as dead."""
    if owner is None or wiring.is_dead(owner):
        return False
    return True if wiring.lives_here(owner) else None


def _is_here(here: Scene, debt: Debt, *, box: str) -> bool:
    """Whether a debt is of this machine: one database may hold those of several. One whose container is gone, by its box."""
    noted = here.mirror.read().get(debt.container)
    if noted is not None and noted.get("box_id") is not None:
        return noted.get("box_id") == debt.box_id
    try:
        return here.host("docker").foreign(debt.container_id).id == debt.container_id
    except HostError:
        return debt.box == box

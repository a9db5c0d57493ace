"""Where the reading commands get their rows, their time and the doctor's facts: from `wiring`, or from what a caller gives."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from nightsweep.errors import NotFound

if TYPE_CHECKING:
    from nightsweep.analysis.expected import Expected
    from nightsweep.analysis.grouping import GroupSummary
    from nightsweep.analysis.premises import Questioned
    from nightsweep.analysis.sides import Pool
    from nightsweep.analysis.spool import SpoolFacts
    from nightsweep.analysis.values import (
        BootRow,
        CellSummary,
        Event,
        Filters,
        PrefillRow,
        ProductionRow,
        SweepRow,
        WindowRow,
    )
    from nightsweep.analysis.whole import ConfigRow, WholeBoot, WholeWindow
    from nightsweep.engine.values import LogLine
    from nightsweep.plan.model import SweepPlan
    from nightsweep.plan.queue import Scheduled
    from nightsweep.service.doctor_checks import DoctorSources

T = TypeVar("T")

NAMES_SEARCHED = 200
"""Newest sweeps whose names are looked through for one that was meant."""


class Queries(Protocol):
    """What the reading commands ask of the store."""

    def windows(self, filters: Filters, *, limit: int | None = None) -> Sequence[WindowRow]:
        """Return stored windows, the first `limit`."""

    def pools(self, filters: Filters) -> Sequence[Pool]:
        """Return how many windows may enter a mean, by config, name, conditions and box."""

    def prefills(self, filters: Filters) -> Sequence[PrefillRow]:
        """Return stored prefill measurements."""

    def boots(self, filters: Filters, *, limit: int | None = None) -> Sequence[BootRow]:
        """Return stored boots, the first `limit`."""

    def cells(self, filters: Filters) -> Sequence[CellSummary]:
        """Return cells summed up: clean windows of equal conditions."""

    def groups(self, filters: Filters, by: Sequence[str], *, numbers: Sequence[str] = ...) -> Sequence[GroupSummary]:
        """Return windows pooled by keys."""

    def configs(self, filters: Filters) -> Sequence[ConfigRow]:
        """Return configs by content."""

    def whole_window(self, window_id: int) -> WholeWindow:
        """Return a window with its raw data and all that it depends on."""

    def whole_boot(self, boot_id: int) -> WholeBoot:
        """Return a boot with its config and windows."""

    def windows_of_cell(self, cell_id: int) -> Sequence[WindowRow]:
        """Return the windows of one sweep's cell."""

    def sweeps(self, *, limit: int, filters: Filters | None = None) -> Sequence[SweepRow]:
        """Return the newest sweeps, newest first."""

    def sweep_of(self, name_or_id: str) -> SweepRow | None:
        """Return a sweep by id or name (the newest of that name); None or NotFound when there is none."""

    def sweep_id_of(self, name_or_id: str) -> int | None:
        """Return the id of `sweep_of`; None or NotFound when there is none."""

    def events(self, sweep_id: int, *, limit: int) -> Sequence[Event]:
        """Return the newest events of a sweep."""

    def productions(self, sweep_id: int) -> Sequence[ProductionRow]:
        """Return the production containers that were taken down for a sweep."""

    def plan_of(self, sweep_id: int) -> tuple[str, Mapping[str, Any]]:
        """Return (text of the sweep file, the expanded plan as JSON) of a sweep."""

    def expectations(self, sweep_id: int) -> Sequence[Expected]:
        """Return what was expected of a sweep's cells."""

    def questioned(self, box: str, *, simulated: bool) -> Sequence[Questioned]:
        """Return the decisions of a box that are questioned by what the database knows, oldest first."""

    def boot_log(self, boot_id: int) -> Sequence[LogLine]:
        """Return the whole log of a boot, in order."""

    def sweep_plan(self, sweep_id: int) -> SweepPlan | None:
        """Return the plan of a sweep; None when this program cannot read it any more, or it was imported."""

    def written_plan(self, sweep_id: int) -> SweepPlan | None:
        """Return what a sweep's file says, also one that an import wrote."""

    def condition_documents(self, fingerprints: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return conditions' documents by fingerprint."""

    def config_documents(self, fingerprints: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return configs' documents by fingerprint."""

    def box_documents(self, fingerprints: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
        """Return boxes' facts by fingerprint."""

    def weights(self, boot_ids: Collection[int]) -> Mapping[int, float]:
        """Return the weights that boots loaded, GiB; boots that do not tell are left out."""

    def config_names(self, *, limit: int = 2000) -> Sequence[str]:
        """Return the names of configs, newest sweeps first."""


def _no_spool() -> SpoolFacts:
    from nightsweep.analysis.spool import SpoolFacts

    return SpoolFacts("")


@dataclass(frozen=True)
class Access:
    """What a reading command reaches; passed as the click context's object to read from somewhere else."""

    queries: Callable[[], AbstractContextManager[Queries]]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    doctor: Callable[[], DoctorSources]
    spool: Callable[[], SpoolFacts] = _no_spool
    schedules: Callable[[], Sequence[Scheduled]] = lambda: ()
    dead: Callable[[str | None], bool] = lambda holder: False


def access(ctx: click.Context) -> Access:
    """Return the caller's access, or the one to this machine's own store."""
    return ctx.find_object(Access) or _wired()


def find_sweep(queries: Queries, name_or_id: str) -> SweepRow:
    """Return the sweep.

    Raises:
        NotFound: There is none; the hint names sweeps that are called nearly so.
    """
    return _found(queries, name_or_id, queries.sweep_of)


def find_sweep_id(queries: Queries, name_or_id: str) -> int:
    """Return the sweep's id, without counting what it has; raises as `find_sweep`."""
    return _found(queries, name_or_id, queries.sweep_id_of)


def _found(queries: Queries, name_or_id: str, look: Callable[[str], T | None]) -> T:
    try:
        found = look(name_or_id)
    except NotFound:
        found = None
    if found is None:
        raise NotFound(what=f"sweep {name_or_id!r}", hint=_hint(name_or_id, queries.sweeps(limit=NAMES_SEARCHED)))
    return found


def _hint(wanted: str, sweeps: Sequence[SweepRow]) -> str:
    if not sweeps:
        return "no sweep is stored yet; `nightsweep run FILE` makes one"
    names = list(dict.fromkeys(sweep.name for sweep in sweeps))
    near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    near += [name for name in names if wanted.lower() in name.lower() and name not in near][:3]
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    return "`nightsweep status` lists the sweeps there are"


def _wired() -> Access:
    import time

    from nightsweep import doctoring, wiring

    return Access(
        queries=lambda: wiring.open_queries(wiring.settings()),
        now=lambda: datetime.now(UTC),
        sleep=time.sleep,
        doctor=lambda: doctoring.doctor_sources(wiring.settings()),
        spool=lambda: doctoring.spool_facts(wiring.settings()),
        schedules=lambda: wiring.scheduled(wiring.settings()),
        dead=wiring.is_dead,
    )

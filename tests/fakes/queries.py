"""The reading side of the store, in memory: the same methods over rows that a test gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from nightsweep.analysis.expected import Expected
from nightsweep.analysis.premises import Questioned
from nightsweep.analysis.sides import Pool, pools_of
from nightsweep.analysis.summary import summarise
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
from nightsweep.engine.values import LogLine
from nightsweep.errors import NotFound
from nightsweep.plan.model import SweepPlan


@dataclass
class FakeQueries:
    """Implements what `cli.reading.Queries` asks. `where` and `image` are the database's work and not done here."""

    window_rows: Sequence[WindowRow] = ()
    prefill_rows: Sequence[PrefillRow] = ()
    boot_rows: Sequence[BootRow] = ()
    sweep_rows: Sequence[SweepRow] = ()
    event_rows: Sequence[Event] = ()
    production_rows: Sequence[ProductionRow] = ()
    logs: dict[int, Sequence[LogLine]] = field(default_factory=dict)
    plans: dict[int, SweepPlan] = field(default_factory=dict)
    conditions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    boxes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    expected: dict[int, Sequence[Expected]] = field(default_factory=dict)
    in_question: Sequence[Questioned] = ()
    seen: list[Filters] = field(default_factory=list)
    opened: int = 0

    @contextmanager
    def open(self) -> Iterator[FakeQueries]:
        self.opened += 1
        yield self

    def windows(self, filters: Filters, *, limit: int | None = None) -> list[WindowRow]:
        self.seen.append(filters)
        found = [
            row
            for row in self.window_rows
            if _common(row, filters)
            and row.kind == filters.kind
            and filters.conditions in (None, row.conditions)
            and (not filters.concurrency or row.concurrency in filters.concurrency)
            and (not filters.temperature or row.temperature in filters.temperature)
            and (filters.with_flagged == "yes" or bool(row.flags) == (filters.with_flagged == "only"))
        ]
        return found[:limit]

    def pools(self, filters: Filters) -> list[Pool]:
        return pools_of(self.windows(filters))

    def cells(self, filters: Filters) -> list[CellSummary]:
        return summarise(self.windows(filters))

    def prefills(self, filters: Filters) -> list[PrefillRow]:
        return [row for row in self.prefill_rows if _common(row, filters)]

    def boots(self, filters: Filters, *, limit: int | None = None) -> list[BootRow]:
        self.seen.append(filters)
        return [row for row in self.boot_rows if _common(row, filters)][:limit]

    def sweeps(self, *, limit: int, filters: Filters | None = None) -> list[SweepRow]:
        return sorted(self.sweep_rows, key=lambda row: -row.sweep_id)[:limit]

    def sweep_of(self, name_or_id: str) -> SweepRow:
        for row in self.sweeps(limit=len(self.sweep_rows)):
            if name_or_id in (row.name, str(row.sweep_id)):
                return row
        raise NotFound(what=f"sweep {name_or_id!r}", hint="there is none")

    def sweep_id_of(self, name_or_id: str) -> int:
        return self.sweep_of(name_or_id).sweep_id

    def events(self, sweep_id: int, *, limit: int) -> list[Event]:
        newest = sorted(
            (row for row in self.event_rows if row.sweep_id == sweep_id), key=lambda row: row.at, reverse=True
        )
        return newest[:limit]

    def productions(self, sweep_id: int) -> list[ProductionRow]:
        return list(self.production_rows)

    def boot_log(self, boot_id: int) -> Sequence[LogLine]:
        if boot_id not in self.logs:
            raise NotFound(what=f"log of boot {boot_id}", hint="`nightsweep boots` lists the boots")
        return self.logs[boot_id]

    def plan_of(self, sweep_id: int) -> tuple[str, Mapping[str, Any]]:
        return self.files[sweep_id], {}

    def expectations(self, sweep_id: int) -> Sequence[Expected]:
        return self.expected.get(sweep_id, ())

    def questioned(self, box: str, *, simulated: bool) -> Sequence[Questioned]:
        return [one for one in self.in_question if (one.decision.box, one.decision.simulated) == (box, simulated)]

    def sweep_plan(self, sweep_id: int) -> SweepPlan | None:
        return self.plans.get(sweep_id)

    def written_plan(self, sweep_id: int) -> SweepPlan | None:
        return self.plans.get(sweep_id)

    def condition_documents(self, fingerprints: Collection[str]) -> dict[str, Mapping[str, Any]]:
        return {key: self.conditions[key] for key in fingerprints if key in self.conditions}

    def config_documents(self, fingerprints: Collection[str]) -> dict[str, Mapping[str, Any]]:
        return {key: self.configs[key] for key in fingerprints if key in self.configs}

    def box_documents(self, fingerprints: Collection[str]) -> dict[str, Mapping[str, Any]]:
        return {key: self.boxes[key] for key in fingerprints if key in self.boxes}

    def weights(self, boot_ids: Collection[int]) -> dict[int, float]:
        return {
            row.boot_id: row.weights for row in self.boot_rows if row.boot_id in boot_ids and row.weights is not None
        }

    def config_names(self, *, limit: int = 2000) -> list[str]:
        return list(dict.fromkeys(row.config for row in self.window_rows))[:limit]


def _common(row: WindowRow | PrefillRow | BootRow, filters: Filters) -> bool:
    config = filters.config
    return (
        (filters.sweep is None or row.sweep_id == filters.sweep)
        and (filters.box is None or row.box == filters.box)
        and (filters.since is None or row.started >= filters.since)
        and (config is None or fnmatchcase(row.config, config) or row.config_fingerprint.startswith(config))
    )

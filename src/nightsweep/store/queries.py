"""The reading side: frozen rows for people, reports and estimates."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from nightsweep.analysis import grouping
from nightsweep.analysis.grouping import GroupSummary
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
from nightsweep.errors import BadFilter, NotFound, StoreUnavailable
from nightsweep.plan.words import IMPORT_WROTE
from nightsweep.store import cell_sums, group_sums, handed, rows, statements
from nightsweep.store.schema import (
    boot_logs,
    boots,
    boxes,
    conditions,
    configs,
    events,
    production_intents,
    sweep_configs,
    sweeps,
    windows,
)
from nightsweep.store.session import AWAY, first_line
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.analysis.expected import Expected
    from nightsweep.analysis.premises import Questioned
    from nightsweep.analysis.sides import Pool
    from nightsweep.analysis.whole import ConfigRow, WholeBoot, WholeWindow
    from nightsweep.engine.values import LogLine
    from nightsweep.plan.model import SweepPlan
    from nightsweep.store.raw import StoredWindow

T = TypeVar("T")


class Queries:
    """Reads what is stored. Every call is one short transaction; errors are StoreUnavailable, BadFilter and NotFound."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        try:
            with self._engine.connect() as connection:
                return work(connection)
        except AWAY as error:
            raise StoreUnavailable(reason=first_line(error)) from error
        except sa.exc.DataError as error:  # all that a read is given is what somebody asks for
            raise BadFilter(what="filter", reason=f"the database cannot look for it: {first_line(error)}") from error

    def _all(self, statement: sa.Select[Any], make: Callable[[Any], T]) -> list[T]:
        return self._read(lambda connection: [make(row) for row in connection.execute(statement).all()])

    # --- rows

    def windows(self, filters: Filters, *, limit: int | None = None) -> list[WindowRow]:
        """Return windows, by sweep, config in plan order, temperature, concurrency, repeat and attempt; the first `limit`."""
        wanted = statements.windows_matching(filters).limit(limit)
        return self._read(lambda connection: rows.windows_in(connection.execute(wanted)))

    def pools(self, filters: Filters) -> list[Pool]:
        """Return how many windows may enter a mean, by config, name, conditions and box."""
        from nightsweep.store import pools  # brings the statistics along: lists need none

        return self._all(pools.pools_matching(filters), pools.pool)

    def prefills(self, filters: Filters) -> list[PrefillRow]:
        """Return prefills, by sweep, config in plan order, repeat and attempt. Concurrency and temperature do not apply."""
        return self._all(statements.prefills_matching(filters), rows.prefill_row)

    def boots(self, filters: Filters, *, limit: int | None = None) -> list[BootRow]:
        """Return boots, oldest first; the first `limit`. Concurrency and temperature do not apply."""
        return self._all(statements.boots_matching(filters).limit(limit), rows.boot_row)

    def sweeps(self, *, limit: int = 50, filters: Filters | None = None) -> list[SweepRow]:
        """Return the newest sweeps, newest first; of `filters`, sweep, box and since apply."""
        return self._all(statements.sweeps_matching(filters or Filters()).limit(limit), rows.sweep_row)

    def sweep_of(self, name_or_id: str) -> SweepRow:
        """Return a sweep by id, by uuid, or by name (the newest of that name).

        Raises:
            NotFound: There is none.
        """
        found = self._all(statements.sweeps_matching(Filters()).where(_named(str(name_or_id))).limit(1), rows.sweep_row)
        if not found:
            raise _no_sweep(name_or_id)
        return found[0]

    def sweep_id_of(self, name_or_id: str) -> int:
        """Return the id of `sweep_of`, without counting what it has (raises NotFound)."""
        found = sa.select(sweeps.c.id).where(_named(str(name_or_id))).order_by(sweeps.c.id.desc()).limit(1)
        known = self._all(found, lambda row: int(row.id))
        if not known:
            raise _no_sweep(name_or_id)
        return known[0]

    def events(self, sweep_id: int | None = None, *, limit: int = 100) -> list[Event]:
        """Return the newest events, newest first; of one sweep, or of all with None."""
        wanted = sa.select(events).order_by(events.c.id.desc()).limit(limit)
        if sweep_id is not None:
            wanted = wanted.where(events.c.sweep_id == sweep_id)
        return self._all(wanted, rows.event)

    def productions(self, sweep_id: int) -> list[ProductionRow]:
        """Return what a sweep took down, oldest first, and how it came back; also what a later sweep has taken over since."""
        table = production_intents
        wanted = sa.select(table).where(handed.of_sweep(sweep_id)).order_by(table.c.opened_at)
        return self._all(wanted, lambda row: rows.production_row(row, sweep_id=sweep_id))

    # --- documents behind fingerprints

    def condition_documents(self, fingerprints: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return conditions' documents by fingerprint; unknown ones are left out."""
        wanted = sa.select(conditions.c.fingerprint, conditions.c.doc)
        found = wanted.where(conditions.c.fingerprint.in_(list(fingerprints)))
        return dict(self._all(found, lambda row: (str(row.fingerprint), dict(row.doc))))

    def config_documents(self, fingerprints: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return configs' documents by fingerprint; unknown ones are left out."""
        found = sa.select(configs.c.hash, configs.c.doc).where(configs.c.hash.in_(list(fingerprints)))
        return dict(self._all(found, lambda row: (str(row.hash), dict(row.doc))))

    def box_documents(self, fingerprints: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return boxes' facts, their name among them, by fingerprint; unknown ones are left out."""
        found = sa.select(boxes.c.fingerprint, boxes.c.name, boxes.c.facts)
        found = found.where(boxes.c.fingerprint.in_(list(fingerprints))).order_by(boxes.c.id)
        return dict(self._all(found, lambda row: (str(row.fingerprint), {**row.facts, "name": row.name})))

    def weights(self, boot_ids: Collection[int]) -> dict[int, float]:
        """Return the weights that boots loaded, GiB, by boot; those that do not tell are left out."""
        wanted = sa.select(boots.c.id, boots.c.weights_gib).where(boots.c.weights_gib.is_not(None))
        mine = boots.c.id == sa.func.any(sa.literal(list(boot_ids), ARRAY(sa.BigInteger)))
        return self._read(
            lambda connection: {row.id: row.weights_gib for row in connection.execute(wanted.where(mine)).all()}
        )

    def config_names(self, *, limit: int = 2000) -> list[str]:
        """Return the names of configs, newest sweeps first, each once."""
        newest = sa.func.max(sweep_configs.c.sweep_id).desc()
        wanted = sa.select(sweep_configs.c.name).group_by(sweep_configs.c.name).order_by(newest, sweep_configs.c.name)
        return self._all(wanted.limit(limit), lambda row: str(row.name))

    def expectations(self, sweep_id: int) -> list[Expected]:
        """Return what was expected of a sweep's cells, in the plan's order."""
        from nightsweep.store import expectations  # brings the statistics along: lists need none

        return self._all(expectations.expected_of(sweep_id), expectations.expected)

    def questioned(self, box: str, *, simulated: bool) -> list[Questioned]:
        """Return the decisions of a box that are questioned by what the database knows, oldest first."""
        from nightsweep.store.decisions import questioned

        return self._read(lambda connection: questioned(connection, box=box, simulated=simulated))

    # --- summed up by the database

    def cells(self, filters: Filters) -> list[CellSummary]:
        """Return cells summed up: what `summarise` makes of `windows`, without a row for each window."""
        return self._read(lambda connection: cell_sums.cells_matching(connection, filters))

    def groups(
        self, filters: Filters, by: Sequence[str], *, numbers: Sequence[str] = grouping.NUMBERS
    ) -> list[GroupSummary]:
        """Return windows pooled by keys; what each pool holds stands in it."""
        return self._read(lambda connection: group_sums.groups_matching(connection, filters, by, numbers=numbers))

    def configs(self, filters: Filters) -> list[ConfigRow]:
        """Return configs by content, those of the newest sweeps first. Concurrency and temperature do not apply."""
        from nightsweep.store import browse  # brings what shows one thing whole: lists need none

        return self._all(browse.configs_matching(filters), browse.config_row)

    # --- one thing, whole

    def boot_log(self, boot_id: int) -> list[LogLine]:
        """Return a boot's whole log; empty when it said nothing.

        Raises:
            NotFound: There is no such boot.
        """
        from nightsweep.store.codec import unpack_lines  # brings all values of a measurement along: lists need none

        self._must_exist(boots, boot_id, what="boot", hint="`nightsweep boots` lists the boots")
        chunks = sa.select(boot_logs.c.codec, boot_logs.c.data).where(boot_logs.c.boot_id == boot_id)
        lines = self._all(chunks.order_by(boot_logs.c.seq), lambda row: unpack_lines(row.codec, row.data))
        return [line for chunk in lines for line in chunk]

    def boot_log_text(self, boot_id: int) -> str:
        """Return a boot's whole log as text (raises NotFound)."""
        return "\n".join(line.text for line in self.boot_log(boot_id))

    def plan_of(self, sweep_id: int) -> tuple[str, dict[str, Any]]:
        """Return (text of the sweep file, the expanded plan as JSON) of a sweep (raises NotFound)."""
        wanted = sa.select(sweeps.c.file_text, sweeps.c.plan).where(sweeps.c.id == sweep_id)
        found = self._all(wanted, lambda row: (str(row.file_text), dict(row.plan)))
        if not found:
            raise NotFound(what=f"sweep {sweep_id}", hint="`nightsweep status` lists the sweeps there are")
        return found[0]

    def sweep_plan(self, sweep_id: int) -> SweepPlan | None:
        """Return the plan of a sweep as it is stored; None when this program cannot read it any more.

        An imported sweep was planned by nobody.

        Raises:
            NotFound: There is no such sweep.
        """
        from nightsweep.plan.kept import plan_in

        text, document = self.plan_of(sweep_id)
        if text.startswith(IMPORT_WROTE):
            return None
        return plan_in(document) or self.written_plan(sweep_id)

    def written_plan(self, sweep_id: int) -> SweepPlan | None:
        """Return what a sweep's file says, also one that an import wrote: its configs are known, its probe was never run."""
        from nightsweep.errors import PlanError
        from nightsweep.plan.expand import with_prompts_hash
        from nightsweep.plan.sweepfile import load

        text, document = self.plan_of(sweep_id)
        try:
            plan = load(text, source=f"sweep {sweep_id}")
        except PlanError:
            return None
        plan = replace(plan, base=document.get("base"))
        probe = document.get("probe", {})
        if "warmup" in probe:  # in no window's conditions: what the file leaves to a default is that of then
            plan = replace(plan, probe=replace(plan.probe, warmup=Seconds(probe["warmup"])))
        prompts_hash = probe.get("prompts_hash")
        return plan if prompts_hash is None else with_prompts_hash(plan, prompts_hash)

    def history(self, box_id: int) -> dict[str, float]:
        """Return the median cold start in seconds by config fingerprint, and over all configs as "*"; empty without any."""
        return self._read(lambda connection: statements.cold_starts(connection, box_id))

    def raw_window(self, window_id: int) -> StoredWindow:
        """Return everything that was seen of a window, from which each of its numbers can be derived again (raises NotFound)."""
        from nightsweep.store.raw import raw_window

        self._must_exist(
            windows,
            window_id,
            what="window",
            hint="`nightsweep show cell ID` lists a cell's windows, `nightsweep show boot ID` a boot's",
        )
        return self._read(lambda connection: raw_window(connection, window_id))

    def whole_window(self, window_id: int) -> WholeWindow:
        """Return a window with its raw data, config, boot and conditions (raises NotFound)."""
        from nightsweep.store import browse
        from nightsweep.store.raw import raw_window

        found = self._read(lambda connection: browse.whole_window(connection, window_id, seen=raw_window))
        if found is None:
            raise NotFound(what=f"window {window_id}", hint="`nightsweep show boot ID` lists a boot's windows")
        return found

    def whole_boot(self, boot_id: int) -> WholeBoot:
        """Return a boot with its config and windows (raises NotFound)."""
        from nightsweep.store import browse

        found = self._read(lambda connection: browse.whole_boot(connection, boot_id))
        if found is None:
            raise NotFound(what=f"boot {boot_id}", hint="`nightsweep boots` lists the boots")
        return found

    def windows_of_cell(self, cell_id: int) -> list[WindowRow]:
        """Return the windows of one sweep's cell, flagged ones too (raises NotFound)."""
        from nightsweep.store import browse

        found = self._read(lambda connection: browse.windows_of_cell(connection, cell_id))
        if found is None:
            raise NotFound(what=f"cell {cell_id}", hint="`nightsweep show window ID` names a window's cell")
        return found

    def _must_exist(self, table: sa.Table, row_id: int, *, what: str, hint: str) -> None:
        if not self._all(sa.select(table.c.id).where(table.c.id == row_id), lambda row: row.id):
            raise NotFound(what=f"{what} {row_id}", hint=hint)


def _no_sweep(name_or_id: str) -> NotFound:
    return NotFound(what=f"sweep {name_or_id!r}", hint="`nightsweep status` lists the sweeps there are")


def _named(name_or_id: str) -> sa.ColumnElement[bool]:
    wanted = sweeps.c.name == name_or_id
    if name_or_id.isdigit() and int(name_or_id) < 2**63:
        return sa.or_(sweeps.c.id == int(name_or_id), wanted)
    try:
        return sa.or_(sweeps.c.uuid == uuid.UUID(name_or_id), wanted)
    except ValueError:
        return wanted

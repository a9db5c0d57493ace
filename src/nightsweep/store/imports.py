"""Keeps what was read from other tools' files: all of it or nothing, and nothing twice.

An imported sweep is done from the start and nobody ever holds it. Its box is a row of its own, whatever it is called: of a box
that only a file names, nothing was looked at. Its windows have no readings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.analysis import text
from nightsweep.analysis.import_file import sweep_file
from nightsweep.analysis.imported import ImportedFile, ImportedRow, contents, tools_of
from nightsweep.errors import InvalidImport
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.words import OF_UNKNOWN_BOOTS
from nightsweep.ports import BoxFacts
from nightsweep.store import catalog
from nightsweep.store.codec import clean_text, plain
from nightsweep.store.import_known import known_contents, known_otherwise
from nightsweep.store.import_windows import keep_windows
from nightsweep.store.schema import (
    boots,
    cells,
    conditions,
    configs,
    events,
    imports,
    probes,
    sweep_configs,
    sweeps,
    windows,
)
from nightsweep.store.session import Patient, id_of
from nightsweep.store.unimported import Removed, remove
from nightsweep.units import Seconds

NEXT = "; "
"""Between the parts of a sweep's note."""

Keyed = tuple[ImportedFile, ImportedRow, str]
"""A row with its file and its content hash."""

T = TypeVar("T")


@dataclass(frozen=True)
class OtherName:
    """A config that an earlier sweep has under another name: its rows are the same config's.

    Attributes:
        config: Its name in the imported files.
        known_as: The name that it has already.
        sweep: The newest sweep that calls it so.
        here: Whether that is the sweep that the rows are in, where the first name stands.
    """

    config: str
    known_as: str
    sweep: str
    here: bool


@dataclass(frozen=True)
class Kept:
    """What an import brought to a box.

    Attributes:
        sweep_id: None where all was known already.
        known: Rows that are stored already, by the name of the sweep that has them.
        other_names: Of new rows' configs, what else they are called.
        known_as: Of known rows that stand there under another name of their config, that name by their own.
    """

    box: str
    sweep_id: int | None
    added: int
    configs: int
    known: Mapping[str, int] = field(default_factory=dict)
    other_names: tuple[OtherName, ...] = ()
    known_as: Mapping[str, str] = field(default_factory=dict)


class _Undone(Exception):
    """Takes a trial back."""


class Imports:
    """Keeps imported files. Every call is one transaction; a database that is away raises StoreUnavailable.

    Args:
        revive: Starts an embedded server again; called between two tries.
    """

    def __init__(
        self, engine: sa.Engine, *, patience: Seconds = Seconds(0.0), revive: Callable[[], None] | None = None
    ) -> None:
        self._do = Patient.alone(engine, patience=patience, revive=revive)

    def keep(self, files: Sequence[ImportedFile], *, name: str, at: datetime) -> list[Kept]:
        """Keep the files' rows in a sweep of this name, one for each box; rows that are stored already are left alone."""
        return self._do.run(lambda connection: _keep(connection, files, name=name, at=at))

    def remove(self, name: str) -> list[Removed]:
        """Remove the imported sweeps of this name; return them (raises NotFound, StillNeeded)."""
        return self._do.run(lambda connection: remove(connection, name))

    def trial(self, files: Sequence[ImportedFile], *, name: str, at: datetime) -> list[Kept]:
        """Return what `keep` would bring: all of it is done, and taken back."""
        return self._taken_back(lambda connection: _keep(connection, files, name=name, at=at))

    def removal(self, name: str) -> list[Removed]:
        """Return what `remove` would take out, with its errors: all of it is done, and taken back."""
        return self._taken_back(lambda connection: remove(connection, name))

    def _taken_back(self, work: Callable[[sa.Connection], T]) -> T:
        found: list[T] = []

        def tried(connection: sa.Connection) -> None:
            found[:] = [work(connection)]
            raise _Undone

        with suppress(_Undone):
            self._do.run(tried)
        return found[0]


def _keep(connection: sa.Connection, files: Sequence[ImportedFile], *, name: str, at: datetime) -> list[Kept]:
    connection.execute(sa.text("LOCK TABLE imports IN EXCLUSIVE MODE"))  # what is known must not change meanwhile
    known = known_contents(connection)
    otherwise = known_otherwise(connection, files, known)
    known |= {content: known[stored] for content, (stored, _) in otherwise.items()}
    of_box: dict[tuple[str, str], list[Keyed]] = defaultdict(list)
    for file in files:
        for row, content in zip(file.rows, contents(file.rows), strict=True):
            of_box[row.box, row.box_fingerprint].append((file, row, content))
    found = []
    for (box, _), keyed in of_box.items():
        new: list[Keyed] = []
        times: dict[str, int] = defaultdict(int)
        known_as: dict[str, str] = {}
        for one in keyed:
            if one[2] in known:
                times[known[one[2]]] += 1
                if one[2] in otherwise:
                    known_as[one[1].config] = otherwise[one[2]][1]
            else:
                new.append(one)
                known[one[2]] = clean_text(name)  # the same row in the next file adds nothing
        elsewhere = {sweep: count for sweep, count in times.items() if sweep != clean_text(name)}
        sweep = _Sweep(connection, new, name=name, at=at, elsewhere=elsewhere)
        sweep_id = sweep.keep() if new else None
        named = len({row.fingerprint for _, row, _ in new})
        found.append(Kept(box, sweep_id, len(new), named, dict(times), tuple(sweep.other_names), known_as))
    return found


class _Sweep:
    """One sweep's rows on their way into the store.

    Args:
        elsewhere: How many rows of the same files stand in other sweeps, by name.
    """

    def __init__(
        self,
        connection: sa.Connection,
        rows: Sequence[Keyed],
        *,
        name: str,
        at: datetime,
        elsewhere: Mapping[str, int],
    ) -> None:
        self._connection, self._rows, self._name, self._at = connection, rows, clean_text(name), at
        self._elsewhere = elsewhere
        self.other_names: list[OtherName] = []
        self._box_id = 0
        self._sweep_id = 0
        self._configs: dict[str, int] = {}
        self._boots: dict[tuple[str, str | None], int] = {}
        self._told: dict[int, dict[str, Any]] = {}
        self._cells: dict[tuple[Any, ...], int] = {}
        self._repeats: dict[int, int] = {}
        self._conditions: dict[str, int] = {}

    def keep(self) -> int:
        """Keep all of it; return the sweep's id."""
        first = self._rows[0][1]
        facts = BoxFacts(first.box, first.box_fingerprint, first.box_facts)
        self._box_id = catalog.box_id(self._connection, facts)
        self._sweep_id = self._opened()
        self._configs = dict(self._named())
        windows_of = (self._window(row, content) for _, row, content in self._rows)
        keep_windows(self._connection, self._sweep_id, windows_of)
        self._close()
        return self._sweep_id

    def _refuse_measured(self) -> None:
        """Refuse the name of a sweep that was measured here: whoever asked for it by name would get the imported one."""
        measured = sa.select(sweeps.c.id).where(sweeps.c.name == self._name)
        taken = self._connection.scalar(measured.where(sweeps.c.id.not_in(sa.select(imports.c.sweep_id))).limit(1))
        if taken is not None:
            said = (
                f"sweep {taken} is called {self._name!r} already, and was measured here: give another one, --name NAME"
            )
            raise InvalidImport(problems=(said,))

    def _opened(self) -> int:
        self._refuse_measured()
        probe = {"imported": True}
        dates = [self._when(row) for _, row, _ in self._rows]
        new = insert(sweeps).values(
            name=self._name,
            box_id=self._box_id,
            probe_id=id_of(self._connection, probes, key={"hash": fingerprint(probe)}, values={"doc": probe}),
            plan_fingerprint=fingerprint({"imported": self._name}),
            plan={"imported": True},
            file_text="",
            repeats_planned=0,
            state="done",
            started_at=min(dates),
            ended_at=max(dates),
        )
        both = {
            "started_at": sa.func.least(sweeps.c.started_at, new.excluded.started_at),
            "ended_at": sa.func.greatest(sweeps.c.ended_at, new.excluded.ended_at),
        }
        found = new.on_conflict_do_update(index_elements=["box_id", "name", "plan_fingerprint"], set_=both)
        return int(self._connection.execute(found.returning(sweeps.c.id)).scalar_one())

    def _when(self, row: ImportedRow) -> datetime:
        return row.date or self._at

    def _named(self) -> Iterator[tuple[str, int]]:
        """Keep configs that are new, under the names that they have here; yield their rows by fingerprint."""
        here = sa.select(sa.func.count()).where(sweep_configs.c.sweep_id == self._sweep_id)
        position = self._connection.scalar(here) or 0
        first: dict[str, ImportedRow] = {}  # the first name that a config has here stands
        for _, row, _ in self._rows:
            first.setdefault(row.fingerprint, row)
        for config, row in first.items():
            values = {"doc": plain(row.document), "name": clean_text(row.config)}
            config_id = id_of(self._connection, configs, key={"hash": config}, values=values)
            self.other_names += self._other_names(config_id, clean_text(row.config))
            new = insert(sweep_configs).values(
                sweep_id=self._sweep_id, config_id=config_id, position=position, name=clean_text(row.config)
            )
            made = self._connection.scalar(new.on_conflict_do_nothing().returning(sweep_configs.c.config_id))
            position += made is not None
            yield config, config_id

    def _other_names(self, config_id: int, name: str) -> Iterator[OtherName]:
        newest = sa.func.max(sweeps.c.id)
        source = sweep_configs.join(sweeps, sweeps.c.id == sweep_configs.c.sweep_id)
        wanted = sa.select(sweep_configs.c.name, newest.label("sweep_id")).select_from(source)
        wanted = wanted.where(sweep_configs.c.config_id == config_id).group_by(sweep_configs.c.name)
        found = {row.name: row.sweep_id for row in self._connection.execute(wanted.order_by(newest))}
        for known_as, sweep_id in found.items():
            if known_as != name:
                sweep = self._connection.scalar(sa.select(sweeps.c.name).where(sweeps.c.id == sweep_id))
                yield OtherName(name, known_as, str(sweep), sweep_id == self._sweep_id)

    def _boot(self, row: ImportedRow) -> int:
        key = (row.fingerprint, row.boot)
        if key not in self._boots:
            self._boots[key] = self._boot_row(row)
        boot_id, facts = self._boots[key], dict(row.boot_facts)
        if facts and self._told.get(boot_id) != facts:
            self._connection.execute(sa.update(boots).where(boots.c.id == boot_id).values(facts))
            self._told[boot_id] = facts
        return boot_id

    def _boot_row(self, row: ImportedRow) -> int:
        boot_key = f"import-{self._sweep_id}-{fingerprint([row.fingerprint, row.boot])[:24]}"
        config_id = self._configs[row.fingerprint]
        slot = (boots.c.sweep_id == self._sweep_id, boots.c.config_id == config_id)
        earlier = self._connection.scalar(sa.select(sa.func.count()).where(*slot)) or 0
        when = self._when(row)
        values = {
            "sweep_id": self._sweep_id,
            "config_id": config_id,
            "box_id": self._box_id,
            "boot_round": 0,
            "attempt": earlier + 1,
            "fence": 0,
            "simulated": False,
            "state": "stopped",
            "started_at": when,
            "ended_at": when,
            "engine": row.document.get("engine"),
            "engine_version": row.conditions.get("engine_version"),
            "host_facts": plain({"source": row.source, "boot": row.boot}),
            "applied": {"notes": [OF_UNKNOWN_BOOTS]} if row.boot is None else {},
        }
        return id_of(self._connection, boots, key={"boot_key": boot_key}, values=values)

    def _cell(self, row: ImportedRow) -> int:
        place = (self._configs[row.fingerprint], row.kind, row.concurrency, row.temperature)
        if place not in self._cells:
            names = ("config_id", "kind", "concurrency", "temperature")
            key = {"sweep_id": self._sweep_id, **dict(zip(names, place, strict=True))}
            self._cells[place] = id_of(self._connection, cells, key=key, values={})
        return self._cells[place]

    def _repeat(self, cell_id: int) -> int:
        if cell_id not in self._repeats:
            last = sa.select(sa.func.max(windows.c.repeat)).where(windows.c.cell_id == cell_id)
            newest = self._connection.scalar(last)
            self._repeats[cell_id] = -1 if newest is None else int(newest)
        self._repeats[cell_id] += 1
        return self._repeats[cell_id]

    def _under(self, row: ImportedRow) -> int:
        document = plain(row.all_conditions)
        key = fingerprint(document)
        if key not in self._conditions:
            found = id_of(self._connection, conditions, key={"fingerprint": key}, values={"doc": document})
            self._conditions[key] = found
        return self._conditions[key]

    def _window(self, row: ImportedRow, content: str) -> dict[str, Any]:
        """Return a window's columns."""
        written = {"file": row.file, "line": row.line, "columns": row.record, "named": row.named}
        cell_id = self._cell(row)
        return {
            "cell_id": cell_id,
            "boot_id": self._boot(row),
            "conditions_id": self._under(row),
            "repeat": self._repeat(cell_id),
            "attempt": 1,
            "fence": 0,
            "flags": list(row.flags),
            "flag_details": plain(row.flags),
            "content_hash": content,
            "started_at": self._when(row),
            "stored_at": self._at,
            "notes": [clean_text(note) for note in row.all_notes],
            "decode_rate": row.rate,
            "sources": {"decode_rate": row.source},
            "facts": plain({"imported": written}),
            **{name: plain(value) for name, value in row.numbers.items()},
        }

    def _close(self) -> None:
        """Write the sweep's file, its note, and which files brought it."""
        files = list({file.sha256: file for file, _, _ in self._rows}.values())
        for file in files:
            added = sum(one is file for one, _, _ in self._rows)
            new = insert(imports).values(
                sweep_id=self._sweep_id,
                tool=file.tool,
                file=clean_text(file.name),
                content_hash=file.sha256,
                rows_found=len(file.rows),
                rows_added=added,
                imported_at=self._at,
            )
            self._connection.execute(new.on_conflict_do_nothing())
        count = sa.select(sa.func.count()).select_from(windows.join(cells, cells.c.id == windows.c.cell_id))
        mine = sa.update(sweeps).where(sweeps.c.id == self._sweep_id)
        note = self._note(files)
        measured = count.where(cells.c.sweep_id == self._sweep_id).scalar_subquery()
        self._connection.execute(mine.values(file_text=self._file_text(), note=note, repeats_planned=measured))
        named = ", ".join(clean_text(file.name) for file in files)
        said = {"level": "info", "kind": "imported", "message": f"{len(self._rows)} rows imported from {named}"}
        told = {"event_key": sa.func.gen_random_uuid(), "at": self._at, "sweep_id": self._sweep_id, "data": {}}
        self._connection.execute(sa.insert(events).values(**said, **told))

    def _note(self, files: Sequence[ImportedFile]) -> str:
        """Return what is said of the sweep: rows that stand in another one are missing in this one's tables."""
        was = self._connection.scalar(sa.select(sweeps.c.note).where(sweeps.c.id == self._sweep_id)) or ""
        said = [
            f"imported ({', '.join(tools_of(files))}): not measured here, identity not proven",
            *was.split(NEXT)[1:],
        ]
        for sweep, count in self._elsewhere.items():
            rows = f"{text.plural(count, 'row')} of its files {'is' if count == 1 else 'are'}"
            said.append(f"{rows} in sweep {sweep} since an earlier import, and not in this one")
        return NEXT.join(dict.fromkeys(said))

    def _file_text(self) -> str:
        source = sweep_configs.join(configs, configs.c.id == sweep_configs.c.config_id)
        wanted = sa.select(sweep_configs.c.name, configs.c.doc).select_from(source)
        wanted = wanted.where(sweep_configs.c.sweep_id == self._sweep_id).order_by(sweep_configs.c.position)
        places = sa.select(cells.c.concurrency, cells.c.temperature).where(cells.c.sweep_id == self._sweep_id)
        return sweep_file(
            self._name,
            [(row.name, row.doc) for row in self._connection.execute(wanted)],
            cells=[(row.concurrency, row.temperature) for row in self._connection.execute(places.distinct())],
        )

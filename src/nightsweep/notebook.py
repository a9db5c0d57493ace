"""The store for notebooks: `nightsweep.open()` gives pandas DataFrames, by the same filters as the command line.

    import nightsweep

    with nightsweep.open() as ns:
        cells = ns.cells(where=["method=dflash", "num_speculative_tokens>=5"], concurrency=[1, 2], since="30d")

Units stand in the columns' names. pandas is imported when the first frame is made.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from nightsweep.analysis import asking, documents, grouping, records, whole_runs, wholes
from nightsweep.analysis.cell_documents import CELL_FIELDS, cell_document
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.errors import BadFilter, ExtraMissing, NotFound
from nightsweep.plan.words import WHOLE_RUN

if TYPE_CHECKING:
    from pandas import DataFrame

    from nightsweep.store.queries import Queries

WINDOW_NUMBERS: Mapping[str, str] = {
    "decode_rate": "decode_rate_tokens_per_second",
    "acceptance_length": "acceptance_length",
    "acceptance_rate": "acceptance_rate",
    "step_time": "step_time_seconds",
    "tokens_per_step_and_stream": "tokens_per_step_and_stream",
    "occupancy": "occupancy",
    "streams_per_step": "streams_per_step",
    "ttft_p50": "ttft_p50_seconds",
    "tpot_p50": "tpot_p50_seconds",
    "e2e_p50": "e2e_p50_seconds",
    "seconds": "window_seconds",
}
"""A window's numbers and the columns that they stand in."""


class Asked(TypedDict, total=False):
    """Filters, as the command line has them.

    Keys:
        where: Conditions on any key of the config: "num_speculative_tokens>=5", "args.max-num-seqs=16". One or several.
        concurrency, temperature: Numbers, or one.
        imported: Only what was imported from other tools, or (False) only what was measured here.
        since, before: An age ("30d"), a date, or a datetime.
    """

    sweep: str | int
    box: str
    config: str
    where: str | Iterable[str]
    concurrency: int | Iterable[int]
    temperature: float | Iterable[float]
    image: str
    since: str | date
    before: str | date
    imported: bool


@contextlib.contextmanager
def open(database_url: str | None = None) -> Iterator[Notebook]:
    """Yield the store of this machine, or of another database.

    Args:
        database_url: As in NIGHTSWEEP_DATABASE_URL; None is that variable's, or the embedded one, which is started.

    Raises:
        InvalidSetting: It is no URL of PostgreSQL.
        StoreUnavailable: It cannot be reached.
    """
    from nightsweep import wiring

    given = {} if database_url is None else {"NIGHTSWEEP_DATABASE_URL": database_url}
    chosen = wiring.settings({**os.environ, **given})
    with wiring.open_queries(chosen) as queries:
        yield Notebook(queries)


class Notebook:
    """What is stored, as DataFrames. Flagged windows are in `windows` only when asked for, and in no mean."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def cells(self, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each cell and conditions: every number with mean, n, boots, min, max, sd, cv."""
        found = self._queries.cells(self._filters(asked))
        return _frame(map(cell_document, found), fields=CELL_FIELDS)

    def whole_runs(self, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each imported cell of whole runs: another client's rates, which are no decode rates."""
        found = self._queries.cells(replace(self._filters(asked), kind=WHOLE_RUN))
        return _frame(map(whole_runs.whole_run_document, found), fields=whole_runs.WHOLE_RUN_FIELDS)

    def groups(self, by: str | Sequence[str], **asked: Unpack[Asked]) -> DataFrame:
        """Return windows pooled by keys (method, box, image, any key of the config); each row says what it pools.

        Args:
            by: Keys, or a text of them with commas between, as for `cells --group-by`.

        Raises:
            BadFilter: It names no key, or one that no config of these windows has.
        """
        keys = _keys(by)
        found = self._queries.groups(self._filters(asked), keys)
        absent = grouping.key_of_nobody(found, keys)
        if absent is not None:
            raise BadFilter(what="by", reason=absent)
        return _frame(map(grouping.group_document, found), fields=grouping.group_fields(keys))

    def windows(self, *, flagged: bool = False, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each decode window; with `flagged`, those that enter no mean too."""
        filters = replace(self._filters(asked), with_flagged="yes" if flagged else "no")
        rows = [_window(row) for row in self._queries.windows(filters)]
        return _frame(rows, fields=tuple(rows[0]) if rows else ("window_id", *WINDOW_NUMBERS.values()))

    def boots(self, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each boot."""
        found = self._queries.boots(self._filters(asked))
        return _frame(map(documents.boot_document, found), fields=documents.BOOT_FIELDS)

    def prefills(self, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each prefill measurement, flagged ones too."""
        rows = [
            {
                "prefill_id": row.prefill_id,
                "sweep_id": row.sweep_id,
                "boot_id": row.boot_id,
                "config": row.config,
                "config_fingerprint": row.config_fingerprint,
                "started": row.started,
                "flags": list(row.flags),
                "prompt_tokens": row.prompt_tokens,
                "streams_beside": row.under_load,
                "prefill_rate_tokens_per_second": row.rate,
                "ttft_seconds": row.ttft,
                "cached_tokens": row.cached_tokens,
                "decode_slowdown": row.slowdown,
                "conditions": row.conditions,
                "box": row.box,
                "simulated": row.simulated,
            }
            for row in self._queries.prefills(self._filters(asked))
        ]
        return _frame(rows, fields=tuple(rows[0]) if rows else ("prefill_id", "prefill_rate_tokens_per_second"))

    def sweeps(self, *, limit: int = 1000, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each sweep, newest first; sweep, box, since and before apply."""
        found = self._queries.sweeps(limit=limit, filters=self._filters(asked))
        return _frame(map(documents.sweep_document, found), fields=documents.SWEEP_FIELDS)

    def configs(self, **asked: Unpack[Asked]) -> DataFrame:
        """Return a row for each config by content; the whole document stands in `config`."""
        found = self._queries.configs(self._filters(asked))
        return _frame(map(wholes.config_row_document, found), fields=(*wholes.CONFIG_FIELDS, "config"))

    def requests(self, window_id: int) -> DataFrame:
        """Return a row for each request of a window; times in seconds (raises NotFound, also where they are not known)."""
        if not str(window_id).isdecimal():
            raise NotFound(what=f"window {window_id!r}", hint="a window has a number: see `windows()`")
        found = self._queries.whole_window(int(window_id))
        if not found.has_requests:
            hint = "it was imported" if found.row.source is not None else "they are no longer kept"
            raise NotFound(what=f"the requests of window {window_id}", hint=hint)
        rows = [wholes.request_document(request) for request in found.raw.requests]
        return _frame(rows, fields=tuple(rows[0]) if rows else ("stream", "sent_s"))

    def events(self, sweep: str | int | None = None, *, limit: int = 1000) -> DataFrame:
        """Return the newest events, newest first; of one sweep, or of all."""
        chosen = None if sweep is None else self._queries.sweep_id_of(str(sweep))
        found = self._queries.events(chosen, limit=limit)
        fields = ("at", "level", "kind", "message", "sweep_id", "boot_id")
        return _frame(map(documents.event_document, found), fields=fields)

    def _filters(self, asked: Asked) -> Filters:
        """Return the filters (raises BadFilter, NotFound)."""
        unknown = set(asked) - set(Asked.__annotations__)
        if unknown:
            raise BadFilter(
                what=", ".join(sorted(unknown)), reason=f"the filters are {', '.join(Asked.__annotations__)}"
            )
        sweep = asked.get("sweep")
        return Filters(
            sweep=None if sweep is None else self._queries.sweep_id_of(str(sweep)),
            box=_text(asked.get("box"), "box"),
            config=_text(asked.get("config"), "config"),
            where=tuple(_read(asking.parse_where, words, "where") for words in _several(asked.get("where", ()))),
            concurrency=_numbers(asked.get("concurrency", ()), asking.parse_concurrency, "concurrency"),
            temperature=_numbers(asked.get("temperature", ()), asking.parse_temperature, "temperature"),
            image=_text(asked.get("image"), "image"),
            since=_moment(asked.get("since"), "since"),
            before=_moment(asked.get("before"), "before"),
            imported=_yes_or_no(asked.get("imported"), "imported"),
            with_flagged="yes",
        )


def _window(row: WindowRow) -> documents.Document:
    document = documents.window_document(row)
    numbers = {column: getattr(row, name) for name, column in WINDOW_NUMBERS.items()}
    names = (
        "window_id",
        "sweep_id",
        "boot_id",
        "config",
        "config_fingerprint",
        "concurrency",
        "temperature",
        "repeat",
        "attempt",
    )
    told = ("flags", "notes", "conditions", "box", "simulated", "source")
    positions = None if row.positions is None else list(row.positions)
    return {
        **{name: document[name] for name in names},
        "sweep": row.sweep_name,
        "started": row.started,
        "engine_version": row.engine_version,
        **numbers,
        "accepted_by_position": positions,
        **{name: document[name] for name in told},
    }


def _several(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def _keys(by: Any) -> tuple[str, ...]:
    words = by.split(",") if isinstance(by, str) else _several(by)
    keys = tuple(dict.fromkeys(word.strip() if isinstance(word, str) else word for word in words))
    if not keys or not all(keys) or not all(isinstance(key, str) for key in keys):
        raise BadFilter(
            what="by", reason=f"{by!r} names no keys: write ['method', 'concurrency'] or 'method,concurrency'"
        )
    return keys


def _text(value: Any, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise BadFilter(what=name, reason=f"{value!r} is no text: it is one name or pattern, such as 'mtp*'")


def _yes_or_no(value: Any, name: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise BadFilter(what=name, reason=f"{value!r} is neither True nor False, nor None for both")


def _numbers(value: Any, parse: Any, name: str) -> tuple[Any, ...]:
    return tuple(number for one in _several(value) for number in _read(parse, str(one), name))


def _moment(value: str | date | None, name: str) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    at: datetime = _read(lambda words: asking.parse_since(words, now=datetime.now(UTC)), value, name)
    return at


def _read(parse: Any, words: Any, name: str) -> Any:
    if not isinstance(words, str):
        raise BadFilter(what=name, reason=f"{words!r} is no text")
    try:
        return parse(words)
    except ValueError as error:
        raise BadFilter(what=name, reason=str(error)) from error


def _frame(found: Iterable[documents.Document], *, fields: Sequence[str]) -> DataFrame:
    """Return documents as a frame; its columns do not depend on what is absent (raises ExtraMissing)."""
    try:
        import pandas
    except ImportError as error:
        raise ExtraMissing(what="a DataFrame", package="pandas", extra="notebook") from error
    names = [path.replace(".", "_") for path in fields]
    return pandas.DataFrame([records.record_of(document, fields) for document in found], columns=names)

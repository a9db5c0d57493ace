"""What another tool measured, read from its files: rows with their config, their numbers, and the conditions that they state.

Such a row is weaker than a window of ours: nobody proved which engine answered, what the file does not state is not known, and
its rate may be of another kind. So it never pools with a measured window, and says everywhere where it is from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.mistakes import shown
from nightsweep.plan.words import IMPORTED, MEAN_OF, NO_COUNT, NO_DATE, SINGLE_BATCH, WHOLE_RUN

CSV, BENCH_SERVE, BENCH_SWEEP = "csv", "vllm-bench-serve", "vllm-bench-sweep"
UNKNOWN_BOX = "unknown"

WEAKER = "imported ({tool}): nobody proved which engine answered, and its conditions are what the file states"
WHOLE = "rate over a whole run of a client, with ramp, prefill and tail: no decode window"
SINGLE = "single-batch rate as the other tool defines it"


@dataclass(frozen=True)
class ImportedRow:
    """One row of a file: a run, or what somebody calls one.

    Attributes:
        document: The engine config, as far as it is stated (see `nightsweep.plan.fingerprint.config_document`).
        rate: tokens / second, all streams; what it is a rate of, `kind` says. None of a flagged run of which nothing came.
        numbers: Columns of a window by their names in the store.
        boot: The file's own word for the boot that it is of; None where it has none.
        boot_facts: Columns of a boot by their names in the store.
        date: When it was measured; None where the file does not say.
        runs: Runs that the rate is a mean of; None where the file does not say.
        flags: Why it may enter no mean; empty for most.
        record: What the file has of it, as it stands there.
        known_as: The name that its file has for it, where that is not its config's; else empty. It tells what comes twice.
    """

    file: str
    line: int | None
    tool: str
    config: str
    document: Mapping[str, Any]
    kind: str
    concurrency: int
    temperature: Decimal
    rate: float | None
    box: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    boot: str | None = None
    boot_facts: Mapping[str, Any] = field(default_factory=dict)
    box_facts: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    date: datetime | None = None
    runs: int | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    known_as: str = ""

    @cached_property
    def fingerprint(self) -> str:
        """The config's fingerprint."""
        return fingerprint(self.document)

    @property
    def named(self) -> str:
        """The name that its file has for it."""
        return self.known_as or self.config

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def source(self) -> str:
        """Where it is from, as a condition."""
        return IMPORTED + self.tool

    @cached_property
    def box_fingerprint(self) -> str:
        """The fingerprint of the box, as far as it is stated; never that of a box that was looked at."""
        return fingerprint({"imported": True, "name": self.box, **self.box_facts})

    @property
    def all_conditions(self) -> dict[str, Any]:
        """All that it is known to depend on, by the names that a measured window's conditions have."""
        speculative = self.document.get("speculative", {})
        known = {
            "source": self.source,
            "config": self.fingerprint,
            "engine": self.document.get("engine"),
            "model": self.document.get("model"),
            "model_revision": self.document.get("model_revision"),
            "draft_model": speculative.get("model"),
            "draft_revision": speculative.get("revision"),
            "box": self.box_fingerprint,
            **self.conditions,
        }
        return {name: value for name, value in known.items() if value is not None}

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What a reader of its number must know."""
        counted = NO_COUNT if self.runs is None else None
        if self.runs is not None and self.runs > 1:
            counted = f"{MEAN_OF}{self.runs} runs, of which each is not known"
        said = (
            WEAKER.format(tool=self.tool),
            WHOLE if self.kind == WHOLE_RUN else None,
            SINGLE if self.kind == SINGLE_BATCH else None,
            counted,
            NO_DATE if self.date is None else None,
            *self.notes,
        )
        return tuple(one for one in said if one is not None)

    @property
    def content(self) -> str:
        """A hash of what it says, wherever it stands."""
        return fingerprint(
            {
                "config": self.document,
                "named": self.named,
                "cell": [self.kind, self.concurrency, str(self.temperature)],
                "rate": self.rate,
                "numbers": self.numbers,
                "boot": self.boot,
                "boot_facts": self.boot_facts,
                "box": [self.box, self.box_facts],
                "conditions": self.all_conditions,
                "date": None if self.date is None else self.date.isoformat(),
                "runs": self.runs,
                "flags": self.flags,
            }
        )


@dataclass(frozen=True)
class ImportedFile:
    """What a file holds.

    Attributes:
        sha256: Of its bytes.
        skipped: What of it was left out, in words.
    """

    name: str
    sha256: str
    tool: str
    rows: tuple[ImportedRow, ...]
    skipped: tuple[str, ...] = ()


def contents(rows: Iterable[ImportedRow]) -> list[str]:
    """Return a hash for each row: of equal rows, the second is the second of its kind, however often the file comes again."""
    seen: Counter[str] = Counter()
    return [_content(row, seen) for row in rows]


def contents_under(rows: Iterable[ImportedRow], names: Mapping[str, Iterable[str]]) -> list[dict[str, str]]:
    """Return for each row the hashes that it would have under its config's other names, with these names.

    Args:
        names: What configs have been called, by fingerprint.
    """
    seen: Counter[str] = Counter()
    return [
        {
            _content(replace(row, known_as=name), seen): name
            for name in names.get(row.fingerprint, ())
            if name != row.named
        }
        for row in rows
    ]


def _content(row: ImportedRow, seen: Counter[str]) -> str:
    content = row.content
    seen[content] += 1
    return content if seen[content] == 1 else fingerprint([content, seen[content]])


def told_apart(files: Iterable[ImportedFile]) -> Iterator[str]:
    """Yield what is wrong where configs of a box differ in name alone: all rows would be one config's, under the first name.

    Names that differ from import to import are another thing: a config may be called anew.
    """
    named: dict[tuple[str, str], dict[str, ImportedRow]] = defaultdict(dict)
    for row in (row for file in files for row in file.rows):
        named[row.box_fingerprint, row.fingerprint].setdefault(row.config, row)
    for rows in named.values():
        first, *others = rows.values()
        yield from (_of_one_content(first, other) for other in others)


def _of_one_content(first: ImportedRow, other: ImportedRow) -> str:
    differing = sorted(
        name
        for name in {*first.conditions, *other.conditions} - {"client"}
        if first.conditions.get(name) != other.conditions.get(name)
    )
    apart = f" ({', '.join(differing)} keeps rows apart, and is no part of a config)" if differing else ""
    what = "args.KEY, speculative.KEY, env.KEY, image, model_revision"
    remedy = f"add a column that tells them apart ({what}), or give both one name"
    if other.tool != CSV:
        remedy = f"import them apart, each with --set of what it differs in ({what}), or both as one: --set config=NAME"
    return (
        f"{other.place}: config: found {shown(other.config)}, and {shown(first.config)} in {first.place} has the same content: "
        f"both would be one config{apart}; {remedy}"
    )


def boots_at_odds(files: Iterable[ImportedFile]) -> Iterator[str]:
    """Yield what is wrong where rows say two things of one boot of a config on a box: of which the last would stand."""
    said: dict[tuple[str, str, str], dict[str, tuple[Any, ImportedRow]]] = defaultdict(dict)
    for row in (row for file in files for row in file.rows):
        if row.boot is None or not row.boot_facts:
            continue
        boot = said[row.box_fingerprint, row.fingerprint, row.boot]
        for name, value in row.boot_facts.items():
            had, first = boot.setdefault(name, (value, row))
            if had != value:
                yield (
                    f"{row.place}: {name}: found {value:g}, and {had:g} in {first.place} of the same boot "
                    f"({shown(row.boot)}): a boot has one; correct it, or give two boots two words"
                )


def tools_of(files: Sequence[ImportedFile]) -> list[str]:
    """Return the tools that files are from, each once."""
    return list(dict.fromkeys(file.tool for file in files))

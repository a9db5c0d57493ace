"""From named columns to a row: which columns there are, what may stand in them, and what is wrong with what does.

The plain CSV has these columns in its header; what other tools write is put into them first, so that one set of rules holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from nightsweep.analysis.asking import typed
from nightsweep.analysis.imported import ImportedRow
from nightsweep.plan.expand import default_command
from nightsweep.plan.fingerprint import config_document
from nightsweep.plan.mistakes import looks_like_token, looks_secret, nearest, shown
from nightsweep.plan.model import EngineSpec
from nightsweep.plan.words import DECODE, KINDS, SINGLE_BATCH, UNKNOWN_TEMPERATURE, WHOLE_RUN

UNKNOWN = "unknown"
MOST = 1e12
"""No number of a benchmark is larger; one that is was meant otherwise, and its square has no place in a database."""
LEAST = 1e-12
"""No number of a benchmark is smaller, but 0, as none is larger than `MOST`."""
MOST_STREAMS = 1_000_000
NUL = "it holds a NUL character: take it out"
Columns = Mapping[str, Any]
"""Values by column; a text is read as the column has it, what is a number already stays one."""

RATES = {"decode_rate": DECODE, "whole_run_rate": WHOLE_RUN, "single_batch_rate": SINGLE_BATCH}
"""The three kinds of rates, in tokens / second over all streams; a row has one of them."""
DISTRIBUTIONS = ("ttft", "tpot", "e2e")
PARTS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99"}
PERCENTILES = ("p50", "p90", "p99")
AT_ODDS = "correct the one that is wrong, or take it out"


class Wrong(ValueError):
    """A column cannot be meant; says what would do.

    Args:
        other: The column that it contradicts; `said` names it.
    """

    def __init__(self, column: str, said: str, *, other: str = "") -> None:
        super().__init__(f"{column}: {said}")
        self.column, self.said, self.other = column, said, other


# --- values ----------------------------------------------------------------------------------------------------------


def number_of(
    column: str,
    value: Any,
    *,
    least: float,
    most: float = MOST,
    above: bool = False,
    form: str = "a number with a decimal point",
) -> float:
    """Return a number from `least` (or above it) to `most`; raises Wrong, also for a truth value, NaN and infinity."""
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    except (TypeError, ValueError):
        raise Wrong(column, f"found {shown(value)}; write {form}") from None
    if 0 < number < LEAST:
        raise Wrong(column, f"found {shown(value)}; write a number from {LEAST:g}")
    within = least < number <= most if above else least <= number <= most  # what is no number is in neither
    if isinstance(value, bool) or not within:
        span = f"above {least:g}" if above else f"from {least:g}"
        span += "" if number < least and most == MOST else f" to {most:g}"
        percent = f"; {number:g}% is {number / 100:g}" if most == 1 < number <= 100 else ""
        raise Wrong(column, f"found {shown(value)}; write a number {span}{percent}")
    return number


def whole_of(column: str, value: Any, *, least: int, most: float = MOST) -> int:
    """Return a whole number from `least` to `most`; raises Wrong."""
    number = number_of(column, value, least=least, most=most, form="a whole number")
    if number != int(number):
        raise Wrong(column, f"found {shown(value)}; write a whole number")
    return int(number)


def positive(column: str, value: Any) -> float:
    """Return a number above 0; raises Wrong."""
    return number_of(column, value, least=0, above=True)


def _least_0(column: str, value: Any) -> float:
    return number_of(column, value, least=0)


def _ratio(column: str, value: Any) -> float:
    return number_of(column, value, least=0, most=1)


def _length(column: str, value: Any) -> float:
    return number_of(column, value, least=1)


def count_of(column: str, value: Any) -> int:
    """Return a whole number from 0; raises Wrong."""
    return whole_of(column, value, least=0)


def _positions(column: str, value: Any) -> list[float]:
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise Wrong(column, f"found {shown(value)}; write ratios, position 1 first: 0.75 0.52 (in JSON, a list)")
    return [_ratio(column, part) for part in parts]


def text_of(column: str, value: Any) -> str:
    """Return a text, without spaces around it; raises Wrong for what is none, and for what looks like a secret."""
    if not isinstance(value, str):  # a number's own spelling is not known any more: 0.30 is 0.3
        raise Wrong(
            column, f"found {shown(value)}; write a text{', in quotes' if isinstance(value, int | float) else ''}"
        )
    text = value.strip()
    if "\0" in text:
        raise Wrong(column, NUL)
    if looks_like_token(text):
        raise Wrong(column, "it looks like a secret, and secrets are not stored: take it out")
    return text


def _not_finite(value: Any) -> float | None:
    """Return the first number in a value that JSON does not have."""
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((found for one in members if (found := _not_finite(one)) is not None), None)


Reader = Callable[[str, Any], Any]

NUMBERS: Mapping[str, tuple[str, Reader]] = {
    "acceptance_length": ("acceptance_length", _length),
    "acceptance_rate": ("acceptance_rate", _ratio),
    "positions": ("positions", _positions),
    "step_time_s": ("step_time_s", positive),
    "tokens_per_step_and_stream": ("tokens_per_step_and_stream", positive),
    "window_s": ("seconds", positive),
    "generation_tokens": ("generation_tokens", count_of),
    "drafts": ("drafts", count_of),
    "draft_tokens": ("draft_tokens", count_of),
    "accepted_tokens": ("accepted_tokens", count_of),
}
"""Numbers of a row: the store's column, and what reads it."""
BOOT_FACTS: Mapping[str, Reader] = {
    "cold_start_s": positive,
    "weights_gib": positive,
    "draft_weights_gib": positive,
    "kv_cache_gib": positive,
    "kv_tokens": count_of,
    "max_concurrency": positive,
    "max_concurrency_tokens": count_of,
}
TEXTS = ("config", "engine", "model", "model_revision", "image", "box", "boot", "note")
CONDITIONS = ("engine_version", "image_digest", "prompts", "origin")
OTHERS = ("concurrency", "temperature", "date", "n")
OPEN = ("speculative", "args", "env", "box", "sampling", "condition", "client")
"""What a dotted column begins with; the rest of its name is free."""
TIMES = tuple(f"{name}_{part}_s" for name in DISTRIBUTIONS for part in PARTS)
KNOWN = (*TEXTS, *OTHERS, *RATES, *NUMBERS, *TIMES, *BOOT_FACTS, *CONDITIONS)


def unknown_column(name: str) -> str | None:
    """Return why a column's name cannot be meant, with what may; None for one that there is."""
    head, dot, rest = name.partition(".")
    if name in KNOWN or (dot and rest and head in OPEN):
        return None
    hint = nearest(name, KNOWN) or f"there are {', '.join(KNOWN)}, and {', '.join(f'{head}.KEY' for head in OPEN)}"
    return f"column {shown(name)} is not known: {hint}"


# --- moments ---------------------------------------------------------------------------------------------------------

_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)")
_MONTH = re.compile(r"\d{4}-\d\d")


def moment(column: str, value: Any, *, zone: tzinfo) -> tuple[datetime, str | None]:
    """Return a moment, and what it leaves open in words: a day or a month is its beginning, one without a zone is of `zone`.

    Raises:
        Wrong: It is none.
    """
    text = str(value).strip()
    compact = _COMPACT.fullmatch(text)
    try:
        at = datetime.fromisoformat(f"{text}-01" if _MONTH.fullmatch(text) else text) if compact is None else None
        at = at or datetime(*(int(part) for part in compact.groups()))  # type: ignore[union-attr, arg-type]
        at = (at if at.tzinfo is not None else at.replace(tzinfo=zone)).astimezone(UTC)
    except (
        ValueError,
        OverflowError,
    ):  # the second: of a year at the calendar's edge, by its zone in one that there is not
        raise Wrong(column, f"found {shown(value)}; write 2026-05-12, 2026-05 or 2026-05-12T22:30+02:00") from None
    left = "the month" if _MONTH.fullmatch(text) else "the day" if len(text) == 10 else None
    said = None if left is None else f"date known to {left}"
    return at, said


# --- a row -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where a row stands, and by what zone its moments without one are read."""

    file: str
    line: int | None
    tool: str
    zone: tzinfo


def row_of(
    columns: Columns, place: Place, *, flags: Mapping[str, str] | None = None, failed: str | None = None
) -> ImportedRow:
    """Return the row of these columns; what is absent or empty is not known.

    Args:
        failed: The kind of a run of which nothing came: a flagged row, which has no rate unless a column says one.

    Raises:
        Wrong: With the first column that cannot be meant.
    """
    given = {name: value for name, value in columns.items() if value is not None and value != ""}
    texts = {name: text_of(name, given[name]) for name in (*TEXTS, *CONDITIONS) if name in given}
    kind, rate = _rate(given) if failed is None or RATES.keys() & given.keys() else (failed, None)
    date, left_open = moment("date", given["date"], zone=place.zone) if _told(given, "date") else (None, None)
    return ImportedRow(
        file=place.file,
        line=place.line,
        tool=place.tool,
        config=_required(texts, "config", "a name for what was started"),
        document=_document(texts, given),
        kind=kind,
        concurrency=_concurrency(given),
        temperature=_temperature(given),
        rate=rate,
        box=_required(texts, "box", "the machine that it was measured on, or `unknown`: --box NAME"),
        numbers=_numbers(given),
        boot=texts.get("boot"),
        boot_facts={name: read(name, given[name]) for name, read in BOOT_FACTS.items() if name in given},
        box_facts=_below("box", given),
        conditions=_conditions(texts, given),
        date=date,
        runs=whole_of("n", given["n"], least=1) if _told(given, "n") else None,
        flags=dict(flags or {}),
        notes=tuple(one for one in (texts.get("note"), left_open) if one),
        record=dict(given),
    )


def _told(given: Columns, name: str) -> bool:
    return name in given and given[name] != UNKNOWN


def _required(texts: Mapping[str, str], name: str, what: str) -> str:
    if not texts.get(name):
        raise Wrong(name, f"nothing is there; write {what}")
    return texts[name]


def _rate(given: Columns) -> tuple[str, float]:
    named = [name for name in RATES if name in given]
    if len(named) != 1:
        found = "several rates" if named else "no rate"
        raise Wrong(", ".join(named) or "decode_rate", f"found {found}; a row has one of {', '.join(RATES)}")
    return RATES[named[0]], positive(named[0], given[named[0]])


def _concurrency(given: Columns) -> int:
    if "concurrency" not in given:
        raise Wrong("concurrency", "nothing is there; write the number of streams that were held")
    return whole_of("concurrency", given["concurrency"], least=1, most=MOST_STREAMS)


def _temperature(given: Columns) -> Decimal:
    value = given.get("temperature")
    if value is None:
        raise Wrong("temperature", "nothing is there; write it, or say --temperature T (`unknown` where nobody knows)")
    if value == UNKNOWN:
        return UNKNOWN_TEMPERATURE
    number_of("temperature", value, least=0, most=10, form="a number such as 0.7, or `unknown`")
    try:
        exact = Decimal(str(value))
        kept = exact.quantize(Decimal("0.01"))
    except InvalidOperation:
        raise Wrong("temperature", f"found {shown(value)}; write a number such as 0.7") from None
    if kept != exact:
        raise Wrong("temperature", f"found {shown(value)}; write two decimals at most: cells are told apart by two")
    return kept


def _numbers(given: Columns) -> dict[str, Any]:
    numbers: dict[str, Any] = {
        column: read(name, given[name]) for name, (column, read) in NUMBERS.items() if name in given
    }
    for name in DISTRIBUTIONS:
        parts = {
            part: _least_0(f"{name}_{column}_s", given[f"{name}_{column}_s"])
            for part, column in PARTS.items()
            if f"{name}_{column}_s" in given
        }
        if parts:
            _in_order(name, parts)
            numbers[name] = parts
    accepted, drafted = numbers.get("accepted_tokens"), numbers.get("draft_tokens")
    if accepted is not None and drafted is not None and accepted > drafted:
        said = f"found {accepted}, and draft_tokens is {drafted}: no more are accepted than were drafted; {AT_ODDS}"
        raise Wrong("accepted_tokens", said, other="draft_tokens")
    return numbers


def _in_order(name: str, parts: Mapping[str, float]) -> None:
    """Raise Wrong where a percentile is above a higher one."""
    known = [part for part in PERCENTILES if part in parts]
    for lower, higher in pairwise(known):
        if parts[lower] > parts[higher]:
            other = f"{name}_{higher}_s"
            said = f"it is above {other} ({parts[lower]:g} s and {parts[higher]:g} s); {AT_ODDS}"
            raise Wrong(f"{name}_{lower}_s", said, other=other)


def _typed(_: str, value: Any) -> Any:
    return typed(value.strip()) if isinstance(value, str) else value


def _below(head: str, given: Columns, *, read: Reader = _typed) -> dict[str, Any]:
    """Return what stands in the columns `head.KEY`, by key; a secret is refused."""
    found = {}
    for name, value in given.items():
        if not name.startswith(f"{head}."):
            continue
        key = name.removeprefix(f"{head}.")
        if looks_secret(key) or (isinstance(value, str) and looks_like_token(value)):
            raise Wrong(name, "it looks like a secret, and secrets are not stored: take it out")
        if isinstance(value, str) and "\0" in value:
            raise Wrong(name, NUL)
        not_finite = _not_finite(value)
        if not_finite is not None:
            raise Wrong(name, f"found {shown(not_finite)}, which is no number; write one, a text, or take it out")
        found[key] = read(name, value)
    return found


def _document(texts: Mapping[str, str], given: Columns) -> Mapping[str, Any]:
    kind = _required(texts, "engine", f"{' or '.join(KINDS)}: --set engine=...")
    if kind not in KINDS:
        raise Wrong("engine", f"found {shown(kind)}; write {' or '.join(KINDS)}")
    engine = EngineSpec(
        kind=kind,
        host="docker",
        model=_required(texts, "model", "the model's name or path"),
        served_name="",
        image=texts.get("image"),
        command=default_command(kind, "docker"),
        args=_below("args", given),
        env=_below("env", given, read=text_of),  # an engine is handed text, letter by letter
        model_revision=texts.get("model_revision"),
    )
    return config_document(engine, _below("speculative", given) or None)


def _conditions(texts: Mapping[str, str], given: Columns) -> dict[str, Any]:
    found: dict[str, Any] = {name: texts[name] for name in CONDITIONS if name in texts}
    for head in ("sampling", "client"):
        below = _below(head, given)
        if below:
            found[head] = below
    return found | _below("condition", given)

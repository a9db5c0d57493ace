"""One window, boot or config with everything that is kept of it, and a window's numbers derived again from its raw data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from nightsweep.analysis.values import BootRow, PrefillRow, WindowRow
from nightsweep.errors import SweepError
from nightsweep.plan.words import SINGLE_BATCH
from nightsweep.units import Tokens

if TYPE_CHECKING:
    from nightsweep.measurement.boxstate import BoxSample
    from nightsweep.measurement.values import DecodeNumbers, RawWindow, WindowResult

STORED_AS = {"step_time": "step_time_s"}
REQUESTS = "its requests and samples"
"""How a window's raw data are called that its client saw; the other part are its two readings."""
NOT_NUMBERS = ("sources", "unavailable", "facts", "integrity")


@dataclass(frozen=True)
class ConfigRow:
    """An engine config by content, with what was planned and measured of it.

    Attributes:
        names: What sweeps call it.
        windows_clean: Clean decode windows, over all sweeps.
        windows_flagged: Flagged ones, and flagged whole runs.
        whole_runs_clean: Clean whole runs of another client.
    """

    config_fingerprint: str
    names: tuple[str, ...]
    method: str | None
    document: Mapping[str, Any]
    sweeps: int
    boots: int
    boots_failed: int
    windows_clean: int
    windows_flagged: int
    first_planned: datetime
    last_planned: datetime
    whole_runs_clean: int = 0


@dataclass(frozen=True)
class WholeWindow:
    """A window with its raw data and all that it depends on.

    Attributes:
        stored: Every column of it, as stored.
        config_document: What its boot's config is.
        raw_lost: What of its raw data is no longer kept, in words.
    """

    row: WindowRow
    cell_id: int
    stored: Mapping[str, Any]
    raw: RawWindow
    conditions: Mapping[str, Any]
    box_samples: tuple[BoxSample, ...]
    config_document: Mapping[str, Any]
    boot: BootRow
    raw_lost: tuple[str, ...] = ()

    @property
    def has_requests(self) -> bool:
        """Whether its requests are known: else there being none of them says nothing."""
        return self.row.source is None and REQUESTS not in self.raw_lost

    @property
    def has_readings(self) -> bool:
        """Whether its readings are known."""
        return self.row.source is None and not set(self.raw_lost) - {REQUESTS}


@dataclass(frozen=True)
class WholeBoot:
    """A boot with its config, its windows and its prefills.

    Attributes:
        stored: Every column of it, as stored.
    """

    row: BootRow
    stored: Mapping[str, Any]
    config_document: Mapping[str, Any]
    windows: tuple[WindowRow, ...]
    prefills: tuple[PrefillRow, ...] = ()


@dataclass(frozen=True)
class Again:
    """A window's numbers derived once more from raw, beside those that are stored.

    Attributes:
        compared: How many numbers were held against each other.
        differing: (stored, derived) by name.
        flags_missing: Flags that the raw data give and that are not stored.
        problem: Why nothing could be derived; None when it could.
    """

    compared: int = 0
    differing: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    flags_missing: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def equal(self) -> bool:
        """Whether every number is the same to the last digit."""
        return self.problem is None and not self.differing and not self.flags_missing

    @property
    def said(self) -> str:
        """The comparison in one line."""
        if self.problem is not None:
            return f"cannot be derived again: {self.problem}"
        if self.equal:
            return f"derived again: equal ({self.compared} numbers)"
        parts = [f"{name} stored {was!r}, derived {now!r}" for name, (was, now) in self.differing.items()]
        parts += [f"flag {flag} is not stored" for flag in self.flags_missing]
        return "derived again: DIFFERENT: " + "; ".join(parts)


def derived_again(window: WholeWindow) -> Again:
    """Return the numbers of the raw data held against the stored ones. Pure.

    Flags of the box, of identity and of compilation are not made from the readings: stored ones may be more.
    """
    if window.row.source is not None:
        return Again(problem="it was imported, and has no readings; what its file has of it is shown")
    if window.raw_lost:
        return Again(problem=f"{' and '.join(window.raw_lost)} are no longer kept; the numbers are as they were stored")
    try:
        result = _derived(window)
    except (SweepError, ValueError, ArithmeticError, KeyError) as error:
        return Again(problem=str(error) or type(error).__name__)
    missing = tuple(flag for flag in result.flags if flag not in window.row.flags)
    if result.numbers is None:
        was = window.stored.get("decode_rate")
        return Again(compared=1, differing={} if was is None else {"decode_rate": (was, None)}, flags_missing=missing)
    return _compared(result.numbers, window.stored, missing=missing)


def _derived(window: WholeWindow) -> WindowResult:
    # Imported here: lists need none of it, and a command line must start at once.
    from nightsweep.engine.registry import engine_for
    from nightsweep.engine.speculative import proposed_drafts
    from nightsweep.measurement.derive import derive
    from nightsweep.measurement.single_batch import derive_single_batch

    kind = str(window.boot.engine or window.config_document["engine"])
    dialect = engine_for(kind).dialect(window.boot.engine_version)
    drafts = proposed_drafts(kind, window.config_document.get("speculative"))
    if window.row.kind == SINGLE_BATCH:
        return derive_single_batch(
            window.raw,
            dialect=dialect,
            input_tokens=Tokens(window.conditions["input_tokens"]),
            output_tokens=Tokens(window.conditions["output_tokens"]),
            num_speculative_tokens=drafts,
        )
    return derive(window.raw, dialect=dialect, num_speculative_tokens=drafts)


def _compared(numbers: DecodeNumbers, stored: Mapping[str, Any], *, missing: tuple[str, ...]) -> Again:
    differing: dict[str, tuple[Any, Any]] = {}
    compared = 0
    for field in dataclasses.fields(numbers):
        if field.name in NOT_NUMBERS:
            continue
        was, now = _plain(stored.get(STORED_AS.get(field.name, field.name))), _plain(getattr(numbers, field.name))
        compared += 1
        if was != now:
            differing[field.name] = (was, now)
    kept = stored.get("facts") or {}
    for name, value in numbers.facts.items():
        compared += 1
        if kept.get(name) != value:
            differing[f"facts.{name}"] = (kept.get(name), value)
    return Again(compared=compared, differing=differing, flags_missing=missing)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return list(value) if isinstance(value, tuple) else value

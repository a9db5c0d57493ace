"""From a raw window to its numbers and flags: the same raw data always give the same result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.errors import DialectMismatch
from nightsweep.measurement import client_times, rates
from nightsweep.measurement.acceptance import elsewhere
from nightsweep.measurement.buffering import Delivery, delivery, without_times
from nightsweep.measurement.degenerate import degenerate
from nightsweep.measurement.flags import flags, loose
from nightsweep.measurement.identity import rate_identity
from nightsweep.measurement.occupancy import mean_running, occupancy, own_tokens, queued_share
from nightsweep.measurement.requests import disagreement, own_acceptance
from nightsweep.measurement.values import DecodeNumbers, RawWindow, Reading, WindowResult
from nightsweep.units import MonotonicSeconds, Ratio, Tokens

NEEDS: Mapping[str, tuple[str, ...]] = {
    "decode_rate": ("generation_tokens",),
    "acceptance_length": ("accepted_tokens", "drafts"),
    "acceptance_rate": ("accepted_tokens", "draft_tokens"),
    "positions": ("accepted_per_position", "drafts"),
    "steps": ("steps",),
    "step_time": ("steps",),
    "tokens_per_step_and_stream": ("generation_tokens", "steps"),
}
"""Which canonical counters a number is made of."""

EXTRA_COUNTS = (
    "prefix_cache_hits",
    "prefix_cache_queries",
    "prompt_tokens",
    "prompt_tokens_computed",
    "requests_finished",
    "preemptions",
)
"""Counters whose movement is kept beside the numbers, as facts "<name>_in_window"."""

NO_TIMES: Mapping[str, str] = {
    "ttft": "no request was sent and had its first token inside the window",
    "tpot": "no request had tokens enough inside the window, or the server sent no counts while streaming",
    "e2e": "no request was sent and ended inside the window",
    "chunk_gap": "no request had two chunks inside the window",
}
"""Why a client-side time can be missing."""


def derive(raw: RawWindow, *, dialect: Dialect, num_speculative_tokens: int | None) -> WindowResult:
    """Return the numbers and flags of a raw window. Pure.

    A window without both readings, or with an engine restart inside, has no numbers. Facts beside the numbers:
    `step_time_by_gaps` (s, the engine's inter-token histogram), `identity_rate` (tokens/s: concurrency * tokens per
    step and stream / step time by gaps, which must agree with the decode rate), the residuals of `identity`,
    `mean_draft_length`, `mean_running`, `streams_per_step`, `queued_share`, `chunks_per_read`,
    `acceptance_length_by_requests`, and the movement of further counters.

    Args:
        dialect: Where this engine keeps its counters: gives sources and reasons.
        num_speculative_tokens: Draft length of the config; None without speculation, or when it is not fixed.

    Raises:
        DialectMismatch: The engine does not count generated tokens as they come: measuring again will not help.
    """
    before, after = raw.before, raw.after
    own, arrived = None, Delivery()
    if before is not None and after is not None:
        own = own_tokens(raw.requests, opened=before.at, closed=after.at)
        arrived = delivery(
            raw.requests, opened=before.at, closed=after.at, num_speculative_tokens=num_speculative_tokens
        )
    countable = None if arrived.held_back else own
    found = flags(raw, own_tokens=countable, num_speculative_tokens=num_speculative_tokens)
    numbers: DecodeNumbers | None = None
    notes: tuple[str, ...] = ()
    if before is not None and after is not None and after.at > before.at and not rates.resets(before, after):
        numbers = _Numbers(raw, before, after, dialect, num_speculative_tokens).decode(own)
        numbers, notes = _judged(raw, numbers, arrived, opened=before.at, closed=after.at)
    return WindowResult(raw=raw, numbers=numbers, flags=tuple(found), flag_details=found, notes=notes)


def _judged(
    raw: RawWindow, numbers: DecodeNumbers, arrived: Delivery, *, opened: MonotonicSeconds, closed: MonotonicSeconds
) -> tuple[DecodeNumbers, tuple[str, ...]]:
    """Return the numbers that may stand, and what a reader must know of the window."""
    own = own_acceptance(raw.requests, opened=opened, closed=closed)
    numbers = without_times(numbers, arrived)
    identity = rate_identity(raw, numbers, opened=opened, closed=closed, held_back=arrived.held_back)
    found: dict[str, float | None] = {
        "chunks_per_read": arrived.chunks_per_read,
        "acceptance_length_by_requests": None if own is None else own.length,
        "requests_with_acceptance": None if own is None else own.requests,
        **identity.facts,
    }
    facts = {**numbers.facts, **{name: value for name, value in found.items() if value is not None}}
    notes = (
        arrived.note,
        loose(numbers.relative_uncertainty),
        disagreement(own, counted=numbers.acceptance_length, drafts=numbers.drafts),
        identity.note,
        degenerate(raw.requests),
    )
    return replace(numbers, facts=facts), tuple(note for note in notes if note)


@dataclass(frozen=True)
class _Numbers:
    """The derivation of one window that has two sound readings."""

    raw: RawWindow
    before: Reading
    after: Reading
    dialect: Dialect
    k: int | None

    def decode(self, own: Tokens | None) -> DecodeNumbers:
        before, after = self.before, self.after
        tokens = rates.delta(before, after, "generation_tokens")
        rate = rates.decode_rate(before, after)
        if tokens is None or rate is None:
            raise DialectMismatch(
                engine=self.dialect.engine,
                version=self.dialect.version,
                counter="generation_tokens",
                reason=self._why_absent("generation_tokens") or "one of the two readings lacks it",
            )
        steps = rates.delta(before, after, "steps")
        times = self._client_times()
        numbers = DecodeNumbers(
            seconds=rates.window_seconds(before, after),
            generation_tokens=Tokens(round(tokens)),
            decode_rate=rate,
            acceptance_length=rates.acceptance_length(before, after),
            acceptance_rate=rates.acceptance_rate(before, after),
            positions=rates.positions(before, after, num_speculative_tokens=self.k),
            drafts=self._count("drafts"),
            draft_tokens=self._count("draft_tokens"),
            accepted_tokens=self._count("accepted_tokens"),
            steps=None if steps is None else round(steps),
            step_time=rates.step_time(before, after),
            tokens_per_step_and_stream=rates.tokens_per_step_and_stream(
                before, after, concurrency=self.raw.concurrency
            ),
            own_tokens=own,
            foreign_tokens=None if own is None else Tokens(round(tokens) - own),
            occupancy=occupancy(self.raw.requests, concurrency=self.raw.concurrency, opened=before.at, closed=after.at),
            relative_uncertainty=rates.relative_uncertainty(before, after),
            ttft=client_times.percentiles(times["ttft"]),
            tpot=client_times.percentiles(times["tpot"]),
            e2e=client_times.percentiles(times["e2e"]),
            chunk_gap=client_times.percentiles(times["chunk_gap"]),
            integrity=rates.integrity(before, after, concurrency=self.raw.concurrency, num_speculative_tokens=self.k),
            facts=self._facts(),
        )
        return self._explained(self._without_counters(numbers))

    def _count(self, name: str) -> Tokens | None:
        value = rates.delta(self.before, self.after, name)
        return None if value is None else Tokens(round(value))

    def _client_times(self) -> dict[str, tuple[float, ...]]:
        requests, opened, closed = self.raw.requests, self.before.at, self.after.at
        return {
            "ttft": client_times.ttfts(requests, opened=opened, closed=closed),
            "tpot": client_times.tpots(requests, opened=opened, closed=closed),
            "e2e": client_times.e2es(requests, opened=opened, closed=closed),
            "chunk_gap": client_times.chunk_gaps(requests, opened=opened, closed=closed),
        }

    def _facts(self) -> dict[str, float]:
        before, after = self.before, self.after
        by_gaps = rates.step_time_by_gaps(before, after)
        per_step = rates.tokens_per_step_and_stream(before, after, concurrency=self.raw.concurrency)
        drafts, proposed = rates.delta(before, after, "drafts"), rates.delta(before, after, "draft_tokens")
        found: dict[str, float | None] = {
            "step_time_by_gaps": by_gaps,
            "identity_rate": self.raw.concurrency * per_step / by_gaps if by_gaps and per_step else None,
            "mean_draft_length": proposed / drafts if proposed is not None and drafts else None,
            "mean_running": mean_running(self.raw.samples),
            "streams_per_step": rates.streams_per_step(before, after),
            "queued_share": queued_share(self.raw.samples),
        }
        found |= {f"{name}_in_window": rates.delta(before, after, name) for name in EXTRA_COUNTS}
        return {name: value for name, value in found.items() if value is not None}

    def _without_counters(self, numbers: DecodeNumbers) -> DecodeNumbers:
        """Take the acceptance from elsewhere where the engine has no counters of drafts; the sources say from where."""
        if numbers.acceptance_length is not None or not isinstance(self.dialect.series.get("drafts"), Unavailable):
            return numbers
        found = elsewhere(self.raw, self.before, self.after, dialect=self.dialect, num_speculative_tokens=self.k)
        if found is None:
            return numbers
        told = {"acceptance_length": found.length, "acceptance_rate": found.rate, "positions": found.positions}
        return replace(
            numbers,
            acceptance_length=Ratio(found.length),
            acceptance_rate=None if found.rate is None else Ratio(found.rate),
            positions=found.positions,
            sources={name: found.source for name, value in told.items() if value is not None},
        )

    def _explained(self, numbers: DecodeNumbers) -> DecodeNumbers:
        """Add the source of every number there is, and the reason for every number there is not."""
        sources, unavailable = dict(numbers.sources), {}
        for number, counters in NEEDS.items():
            if getattr(numbers, number) is not None:
                sources.setdefault(number, " / ".join(self._names(counter) for counter in counters))
            else:
                unavailable[number] = self._reason(counters)
        if numbers.own_tokens is None:
            unavailable["own_tokens"] = "the server sent no token counts while streaming (continuous usage)"
            unavailable["foreign_tokens"] = unavailable["own_tokens"]
        unavailable |= {number: why for number, why in NO_TIMES.items() if getattr(numbers, number) is None}
        return replace(numbers, sources=sources, unavailable=unavailable)

    def _reason(self, counters: tuple[str, ...]) -> str:
        reasons = [why for counter in counters if (why := self._why_absent(counter)) is not None]
        return reasons[0] if reasons else "nothing of the kind happened in the window"

    def _why_absent(self, counter: str) -> str | None:
        entry = self.dialect.series.get(counter)
        if isinstance(entry, Unavailable):
            return entry.because
        if entry is None:
            return f"it is not known where this engine keeps {counter}"
        if counter in self.after.values or any(name.startswith(f"{counter}[") for name in self.after.values):
            return None
        return f"the engine's metrics page holds no {self._names(counter)}"

    def _names(self, counter: str) -> str:
        entry = self.dialect.series.get(counter)
        if entry is None or isinstance(entry, Unavailable):
            return counter
        return " or ".join(series.name for series in entry)

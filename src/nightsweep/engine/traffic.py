"""Speculation lines that engines log every few seconds while they serve: for reading a log, never for a measurement.

A window's numbers come from counters. These lines help where there is a log and nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUM = r"\d+(?:\.\d+)?"
_ACCEPTED = re.compile(r"Accepted: (\d+) tokens, Drafted: (\d+) tokens")
_LENGTH = re.compile(rf"Mean acceptance length: ({_NUM})")
_RATE = re.compile(rf"(?:Avg )?Draft acceptance rate: ({_NUM})%")
_POSITIONS = re.compile(rf"Per-position acceptance rate: ((?:{_NUM}(?:, )?)+)")
_SGLANG_LENGTH = re.compile(rf"\baccept len: ({_NUM})")
_SGLANG_RATE = re.compile(rf"\baccept rate: ({_NUM})")
_SGLANG_DECODE = re.compile(rf"gen throughput \(token/s\): ({_NUM})")


@dataclass(frozen=True)
class SpeculationLine:
    """One interval as the engine logged it. Absent is None.

    Attributes:
        acceptance_length: As printed; vLLM before 0.9.0 leaves the bonus token out.
        acceptance_rate: 1.0 is all draft tokens.
        positions: Printed rates. Shape: (num_speculative_tokens,), position 0 first.
        decode_rate: Tokens per second, where the line has it (SGLang).
    """

    acceptance_length: float | None
    acceptance_rate: float | None
    accepted_tokens: int | None
    draft_tokens: int | None
    positions: tuple[float, ...] | None
    decode_rate: float | None = None

    @property
    def drafts(self) -> int | None:
        """Drafts of the interval, where every draft was of full length; None where the line's numbers rule that out."""
        if not self.positions or self.draft_tokens is None or self.draft_tokens % len(self.positions):
            return None
        return self.draft_tokens // len(self.positions)


def speculation_line(message: str) -> SpeculationLine | None:
    """Return the interval that a message tells of, or None when it is no such line.

    Source:
        vLLM v1/spec_decode/metrics.py `SpecDecoding metrics` (0.8.5+); SGLang `Decode batch ... accept len`.
    """
    if message.startswith("SpecDecoding metrics:"):
        counts, positions = _ACCEPTED.search(message), _POSITIONS.search(message)
        rate = _value(_RATE, message)
        return SpeculationLine(
            acceptance_length=_value(_LENGTH, message),
            acceptance_rate=None if rate is None else rate / 100.0,
            accepted_tokens=int(counts[1]) if counts else None,
            draft_tokens=int(counts[2]) if counts else None,
            positions=tuple(float(part) for part in positions[1].rstrip(", ").split(", ")) if positions else None,
        )
    if message.startswith("Decode batch") and "accept len" in message:
        return SpeculationLine(
            acceptance_length=_value(_SGLANG_LENGTH, message),
            acceptance_rate=_value(_SGLANG_RATE, message),
            accepted_tokens=None,
            draft_tokens=None,
            positions=None,
            decode_rate=_value(_SGLANG_DECODE, message),
        )
    return None


def _value(pattern: re.Pattern[str], message: str) -> float | None:
    found = pattern.search(message)
    return float(found.group(1)) if found else None

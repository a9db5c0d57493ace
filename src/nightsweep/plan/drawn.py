"""A stored window as a decision asks for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Drawn:
    """A stored clean window, as far as a decision asks for it.

    Attributes:
        place: (config fingerprint, concurrency, `remaining.temperature_key`, repeat index); windows of equal place and repeat had
            the same prompts.
        conditions: Their fingerprint.
        not_applied: What of the config its boot did not apply as asked.
    """

    place: tuple[str, int, str, int]
    boot_id: int
    decode_rate: float
    acceptance_length: float | None
    conditions: str
    not_applied: tuple[str, ...] = ()

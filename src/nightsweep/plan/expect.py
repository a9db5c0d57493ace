"""What is expected before a run: written down in the sweep file, or estimated from the box's memory bandwidth.

An expectation that is written after the numbers are known proves nothing, so each is stored with its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase

from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.model import EngineConfig, Expectation, ProbeSpec
from nightsweep.plan.words import ACCEPTANCE_LENGTH as ACCEPTANCE_LENGTH
from nightsweep.plan.words import DECODE_RATE as DECODE_RATE
from nightsweep.plan.words import FROM_BANDWIDTH as FROM_BANDWIDTH
from nightsweep.plan.words import FROM_FILE as FROM_FILE
from nightsweep.plan.words import QUANTITIES as QUANTITIES
from nightsweep.plan.words import RATIO as RATIO
from nightsweep.plan.words import SOURCES as SOURCES
from nightsweep.plan.words import STEP_TIME as STEP_TIME
from nightsweep.units import GiB, Tokens


@dataclass(frozen=True)
class Prediction:
    """What is expected of one cell; configs by fingerprint.

    Attributes:
        low, high: Between what; None is without a limit on that side. Both equal: one value.
        against: For a ratio of decode rates: the config that it is divided by.
        basis: What it rests on, for people.

    Units:
        decode_rate: tokens / second, all streams; step_time: seconds; the others are ratios.
    """

    config: str
    concurrency: int
    temperature: Decimal
    quantity: str
    source: str
    low: float | None
    high: float | None
    against: str | None = None
    basis: str = ""

    @property
    def content_key(self) -> str:
        """What makes it the same prediction: of an estimate its cell and quantity, for weights differ a little by boot."""
        limits = [self.low, self.high] if self.source == FROM_FILE else None
        told = [self.config, self.concurrency, str(round(self.temperature, 2)), self.quantity, self.source]
        return fingerprint({"of": told, "limits": limits, "against": self.against})


@dataclass(frozen=True)
class Resident:
    """What a boot of a config told of one device's memory.

    Attributes:
        weights: Target and draft.
        kv_cache, kv_tokens: Size of the KV cache and what it holds; None where the log does not say.
    """

    weights: GiB
    kv_cache: GiB | None = None
    kv_tokens: Tokens | None = None


def predictions_of(
    expect: Sequence[Expectation], configs: Sequence[EngineConfig], probe: ProbeSpec
) -> tuple[Prediction, ...]:
    """Return what a sweep file expects, cell by cell, each once."""
    found = dict.fromkeys(one for each in expect for one in _cells(each, configs, probe))
    return tuple(found)


def _cells(expected: Expectation, configs: Sequence[EngineConfig], probe: ProbeSpec) -> Iterator[Prediction]:
    against = next((config.fingerprint for config in configs if config.name == expected.against), None)
    meant = matching(expected.config, configs)
    for config in (one for one in meant if one.fingerprint != against):  # of a pattern that `against` fits, too
        for concurrency in probe.concurrency if expected.concurrency is None else (expected.concurrency,):
            for temperature in probe.temperature if expected.temperature is None else (expected.temperature,):
                yield Prediction(
                    config=config.fingerprint,
                    concurrency=concurrency,
                    temperature=temperature,
                    quantity=expected.quantity,
                    source=FROM_FILE,
                    low=expected.low,
                    high=expected.high,
                    against=against,
                    basis="sweep file",
                )


def matching(pattern: str, configs: Sequence[EngineConfig]) -> list[EngineConfig]:
    """Return the configs of a name, or else those that a shell-style pattern matches."""
    exact = [config for config in configs if config.name == pattern]
    return exact or [config for config in configs if fnmatchcase(config.name, pattern)]

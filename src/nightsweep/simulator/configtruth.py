"""The truth of one engine config on one box: step time by batch, acceptance by temperature, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nightsweep.simulator.acceptance import Chain, conditionals, scaled_to
from nightsweep.simulator.profile import ByBatch, Entry, Profile, Spread, at


class UnsupportedMethod(ValueError):
    """The profile has no such speculative method (vLLM: NotImplementedError, the boot fails)."""


@dataclass(frozen=True)
class ConfigTruth:
    """What one engine config does. Built once per boot; the scheduler asks it at every step.

    Attributes:
        entry: The profile's entry, brought to this k.
        prescribed: Rates of `rejection_sample_method: synthetic`: the same for all content, as in vLLM.
    """

    profile: Profile
    entry: Entry
    prescribed: tuple[float, ...] | None = None
    _chains: dict[tuple[float, float], Chain] = field(default_factory=dict, compare=False, repr=False)

    @property
    def k(self) -> int:
        """num_speculative_tokens."""
        return self.entry.k

    @property
    def spread(self) -> Spread:
        """How far content moves acceptance: not at all when the rates are prescribed."""
        if self.prescribed is not None or self.k == 0:
            return replace(self.profile.spread, prompt=((0.0, 0.0),), drift=0.0)
        return self.profile.spread

    def step_seconds(self, batch: int, *, prefill_tokens: int = 0) -> float:
        """Return simulated seconds of a step over `batch` decoding streams that also computes `prefill_tokens`.

        Decoding is bound by memory and prefill by arithmetic: a short prompt rides along, a long one sets the time.
        """
        decoding = at(self.entry.step, max(1, batch), prolong=True)
        return max(decoding, prefill_tokens / self.profile.prefill_rate)

    def acceptance_length(self, temperature: float, batch: int) -> float:
        """Return tokens per drafting step, averaged over content; 1.0 without speculation."""
        if self.k == 0:
            return 1.0
        if self.prescribed is not None:
            return 1.0 + sum(self.prescribed)
        lengths = [(warmth, at(table, batch)) for warmth, table in self.entry.lengths]
        return at(tuple(lengths), temperature)

    def positions(self, temperature: float, batch: int) -> tuple[float, ...]:
        """Return unconditional acceptance by position, averaged over content. Shape: (k,), position 0 first."""
        if self.k == 0:
            return ()
        if self.prescribed is not None:
            return self.prescribed
        return scaled_to(self.entry.shape, self.acceptance_length(temperature, batch))

    def prompt_spread(self, temperature: float) -> float:
        """Return the standard deviation of the shift between prompts, in logit units."""
        return at(self.spread.prompt, temperature)

    def chain(self, temperature: float, batch: int) -> Chain:
        """Return the odds that a step draws from; kept, since they are asked for at every step."""
        key = (temperature, round(self.acceptance_length(temperature, batch), 4))
        chain = self._chains.get(key)
        if chain is None:
            total = (self.prompt_spread(temperature) ** 2 + self.spread.drift**2) ** 0.5
            chain = Chain.calibrated(self.positions(temperature, batch), spread=total)
            self._chains[key] = chain
        return chain

    def kv_tokens(self, kv_bytes: int) -> int:
        """Return KV cache tokens that fit into `kv_bytes`."""
        return int(self.entry.kv_tokens * kv_bytes / self.profile.kv_reference_bytes)

    def kv_bytes_per_token(self) -> float:
        """Return bytes of KV cache for one token, all layers."""
        return self.profile.kv_reference_bytes / self.entry.kv_tokens


def config_truth(profile: Profile, speculative: Mapping[str, Any] | None) -> ConfigTruth:
    """Return the truth of a config; `speculative` holds vLLM's own keys, None is no speculation.

    Raises:
        UnsupportedMethod: The profile knows no such method.
    """
    if not speculative:
        return ConfigTruth(profile, profile.family(None, "any", "any")[0])
    method = str(speculative.get("method"))
    k = int(speculative.get("num_speculative_tokens", 1))
    rejection = str(speculative.get("rejection_sample_method", "standard"))
    drafting = str(speculative.get("draft_sample_method", "greedy"))
    family = profile.family(method, drafting, "standard" if rejection == "synthetic" else rejection)
    if not family:
        raise UnsupportedMethod(f"Unsupported speculative method: '{method}'")
    entry = _at_depth(family, profile.family(None, "any", "any")[0], k)
    return ConfigTruth(profile, entry, _prescribed(speculative, entry) if rejection == "synthetic" else None)


def at_depth(truth: ConfigTruth, speculative: Mapping[str, Any], k: int) -> ConfigTruth:
    """Return the truth of the same config at another draft depth (0 is none), for a schedule of depths by batch."""
    if k == 0:
        plain = config_truth(truth.profile, None)
        return replace(plain, entry=replace(plain.entry, weights_gib=truth.entry.weights_gib))
    changed = dict(speculative, num_speculative_tokens=k)
    if truth.prescribed is not None:
        changed = {**changed, "synthetic_acceptance_rates": list(truth.prescribed[:k])}
        changed.pop("synthetic_acceptance_length", None)
    return config_truth(truth.profile, changed)


def _prescribed(speculative: Mapping[str, Any], entry: Entry) -> tuple[float, ...]:
    rates = speculative.get("synthetic_acceptance_rates")
    if rates is not None:
        return tuple(float(rate) for rate in rates)
    length = float(speculative["synthetic_acceptance_length"])
    if length <= 1.0:
        return (0.0,) * entry.k
    if length >= entry.k + 1:
        return (1.0,) * entry.k
    return scaled_to(entry.shape, length)


def _at_depth(family: tuple[Entry, ...], none: Entry, k: int) -> Entry:
    """Bring a family's figures to depth k: straight lines between known depths, towards no speculation below, odds held above."""
    known = [entry for entry in family if entry.k == k]
    if known:
        return known[0]
    lower = [entry for entry in family if entry.k < k]
    upper = [entry for entry in family if entry.k > k]
    if lower and upper:
        return _between(lower[-1], upper[0], k)
    if upper:
        return _shallower(upper[0], none, k)
    return _deeper(lower[-1], none, k)


def _between(low: Entry, high: Entry, k: int) -> Entry:
    share = (k - low.k) / (high.k - low.k)

    def mix(a: float, b: float) -> float:
        return a + (b - a) * share

    return replace(
        high,
        k=k,
        shape=high.shape[:k],
        step=_mixed(low.step, high.step, mix),
        lengths=_mixed_lengths(low, high, mix),
        kv_tokens=round(mix(low.kv_tokens, high.kv_tokens)),
        draft_share=mix(low.draft_share, high.draft_share),
        source="estimate",
        reported=(),
    )


def _shallower(entry: Entry, none: Entry, k: int) -> Entry:
    share = k / entry.k
    lengths = tuple(
        (warmth, tuple((batch, 1.0 + sum(scaled_to(entry.shape, length)[:k])) for batch, length in table))
        for warmth, table in entry.lengths
    )
    return replace(
        entry,
        k=k,
        shape=entry.shape[:k],
        step=_mixed(none.step, entry.step, lambda a, b: a + (b - a) * share),
        lengths=lengths,
        kv_tokens=round(none.kv_tokens + (entry.kv_tokens - none.kv_tokens) * (0.5 + 0.5 * share)),
        source="estimate",
        reported=(),
    )


def _deeper(entry: Entry, none: Entry, k: int) -> Entry:
    share = k / entry.k
    tail = conditionals(entry.shape)[-1]
    shape = entry.shape + tuple(entry.shape[-1] * tail ** (i + 1) for i in range(k - entry.k))
    lengths = tuple(
        (warmth, tuple((batch, _prolonged(entry, length, k)) for batch, length in table))
        for warmth, table in entry.lengths
    )
    return replace(
        entry,
        k=k,
        shape=shape,
        step=_mixed(none.step, entry.step, lambda a, b: a + (b - a) * share),
        lengths=lengths,
        kv_tokens=round(entry.kv_tokens * (1.0 - 0.01 * (k - entry.k))),
        source="estimate",
        reported=(),
    )


def _prolonged(entry: Entry, length: float, k: int) -> float:
    rates = scaled_to(entry.shape, length)
    tail = conditionals(rates)[-1]
    return length + sum(rates[-1] * tail ** (i + 1) for i in range(k - entry.k))


def _mixed(low: ByBatch, high: ByBatch, mix: Callable[[float, float], float]) -> ByBatch:
    batches = sorted({batch for batch, _ in low} | {batch for batch, _ in high})
    return tuple((batch, mix(at(low, batch, prolong=True), at(high, batch, prolong=True))) for batch in batches)


def _mixed_lengths(low: Entry, high: Entry, mix: Callable[[float, float], float]) -> tuple[tuple[float, ByBatch], ...]:
    by_low = dict(low.lengths)
    return tuple((warmth, _mixed(by_low[warmth], table, mix)) for warmth, table in high.lengths if warmth in by_low)

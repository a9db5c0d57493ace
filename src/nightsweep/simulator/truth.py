"""The truth that was set, worked out: what a sound measurement of the simulator must find, and how far it may stray.

Everything here is in simulated seconds; `Expected.at_speed` gives what a client's clock shows when `--sim-speed` is set.

How a stream is modelled. A closed loop: a request decodes A tokens a step (A hangs on its prompt) until its natural end,
then one step is lost between two requests and one step computes the next prompt and gives its first token. A window that
is short against a request sees the plain mean over prompts; a long one sees slow prompts more often, because they last
longer. Both follow from stepping the share of streams by difficulty through the window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nightsweep.simulator import content, tokenizer
from nightsweep.simulator.acceptance import NODES, Chain
from nightsweep.simulator.configtruth import ConfigTruth, config_truth
from nightsweep.simulator.profile import Profile, at, load_profile

_COARSE = tuple((z, w) for z, w in NODES if (z * 2).is_integer() and abs(z) <= 3.5)
_TOTAL = sum(w for _, w in _COARSE)
_POINTS = tuple((z, w / _TOTAL) for z, w in _COARSE)
_STEPS_AT_MOST = 3000


@dataclass(frozen=True)
class Expected:
    """What a decode window of one cell must find.

    Attributes:
        decode_rate: Tokens per second, all streams together.
        acceptance_length: 1 + accepted / drafts, as the window weighs content. 1.0 without speculation.
        positions: Accepted at i / drafts. Shape: (num_speculative_tokens,).
        step_time: Seconds of an engine step.
        tokens_per_step: Tokens of a stream in a step in which it decodes; below `acceptance_length` when not all steps draft.
        tokens_sd_between_requests: Of a request's mean tokens per step, between prompts.
        tokens_sd_of_drift: Of its slow drift within a request.
        tokens_sd_within_step: Of one step's tokens around the request's mean.
        decode_rate_sd_between_requests: Tokens per second of one stream, between prompts.
        request_tokens: Mean tokens of an answer, cut at `max_tokens`.
        drift_steps: Steps over which the drift forgets.
        requests_ended: Requests that end in the window, all streams together.
    """

    concurrency: int
    decode_rate: float
    acceptance_length: float
    positions: tuple[float, ...]
    step_time: float
    tokens_per_step: float
    tokens_sd_between_requests: float
    tokens_sd_of_drift: float
    tokens_sd_within_step: float
    decode_rate_sd_between_requests: float
    request_tokens: float
    drift_steps: float
    requests_ended: float

    def at_speed(self, speed: float) -> Expected:
        """Return the same as a client's clock shows it under `--sim-speed`."""
        return replace(
            self,
            decode_rate=self.decode_rate * speed,
            step_time=self.step_time / speed,
            decode_rate_sd_between_requests=self.decode_rate_sd_between_requests * speed,
        )


@dataclass(frozen=True)
class _Kind:
    """Requests of one difficulty: their share, and how they fare."""

    share: float
    tokens: float  # per step
    length: float  # per draft
    positions: tuple[float, ...]
    drift_variance: float
    step_variance: float


def expected(
    profile: str | Profile,
    speculative: Mapping[str, Any] | None,
    concurrency: int,
    temperature: float,
    prompts: Sequence[str] | None = None,
    *,
    window_seconds: float = 40.0,
    prompt_tokens: int = 100,
    max_tokens: int | None = 1024,
    ignore_eos: bool = False,
    seed: int = 0,
) -> Expected:
    """Return what a decode window of this cell must find.

    Args:
        profile: Its name, a file, or the profile itself.
        speculative: vLLM's own keys, None is no speculation.
        prompts: User messages of the prompt set; their own difficulty then counts instead of that of all content.
        window_seconds: Simulated seconds of the window, which opens on fresh requests: `--sim-speed` times the real ones.
        prompt_tokens: Fresh tokens of a typical prompt; matters only when they take longer than a step.
        max_tokens: As sent; None is no cut.
        seed: `--sim-seed` of the simulator.
    """
    box = profile if isinstance(profile, Profile) else load_profile(profile)
    truth = config_truth(box, speculative)
    kinds = _kinds(truth, temperature, concurrency, prompts=prompts, seed=seed)
    step = truth.step_seconds(concurrency)
    flow = _Flow(kinds, box, max_tokens=max_tokens, ignore_eos=ignore_eos, lost_steps=1 if concurrency > 1 else 0)
    steps = max(1, min(_STEPS_AT_MOST, round(window_seconds / step)))
    totals = flow.run(steps)
    ended = totals.ended * concurrency
    slowed = max(0.0, prompt_tokens / box.prefill_rate - step) * ended / steps
    step_time = step + slowed
    mean = totals.decoded / totals.decoding
    between = math.sqrt(sum(k.share * k.tokens**2 for k in kinds) - sum(k.share * k.tokens for k in kinds) ** 2)
    return Expected(
        concurrency=concurrency,
        decode_rate=concurrency * totals.tokens / (steps * step_time),
        acceptance_length=totals.drafted_length / totals.decoding,
        positions=tuple(value / totals.decoding for value in totals.positions),
        step_time=step_time,
        tokens_per_step=mean,
        tokens_sd_between_requests=between,
        tokens_sd_of_drift=math.sqrt(sum(k.share * k.drift_variance for k in kinds)),
        tokens_sd_within_step=math.sqrt(sum(k.share * k.step_variance for k in kinds)),
        decode_rate_sd_between_requests=between / step_time,
        request_tokens=flow.mean_tokens,
        drift_steps=box.spread.drift_steps,
        requests_ended=ended * (window_seconds / step) / steps,
    )


def _kinds(
    truth: ConfigTruth, temperature: float, concurrency: int, *, prompts: Sequence[str] | None, seed: int
) -> tuple[_Kind, ...]:
    spread = truth.prompt_spread(temperature)
    if prompts:
        points = tuple((prompt_difficulty(p, seed=seed), 1.0 / len(prompts)) for p in prompts)
    else:
        points = _POINTS if spread > 0 else ((0.0, 1.0),)
    chain = truth.chain(temperature, concurrency)
    return tuple(_kind(truth, chain, spread * z, share) for z, share in points)


def prompt_difficulty(prompt: str, *, seed: int = 0) -> float:
    """Return the difficulty of a user message as the simulator sees it over the chat endpoint."""
    ids = tokenizer.encode(tokenizer.render_chat([("user", prompt)]))
    return content.difficulty(tokenizer.prompt_key(ids), seed=seed)


def _kind(truth: ConfigTruth, chain: Chain, shift: float, share: float) -> _Kind:
    drift, drafts = truth.spread.drift, truth.entry.draft_share
    around = [(shift + drift * z, w) for z, w in (_POINTS if drift > 0 else ((0.0, 1.0),))]
    rates = [(chain.positions(x), w) for x, w in around]
    positions = tuple(sum(w * rate[i] for rate, w in rates) for i in range(truth.k))
    length = 1.0 + sum(positions)
    extra = [sum(rate) for rate, _ in rates]
    drift_variance = sum(w * e * e for e, (_, w) in zip(extra, rates, strict=True)) - (length - 1.0) ** 2
    within = sum(w * chain.length_variance(x) for x, w in around)
    step_variance = drafts * (within + (1.0 - drafts) * (length - 1.0) ** 2)
    return _Kind(
        share=share,
        tokens=1.0 + drafts * (length - 1.0),
        length=length,
        positions=positions,
        drift_variance=max(0.0, drafts * drafts * drift_variance),
        step_variance=max(0.0, step_variance),
    )


@dataclass
class _Totals:
    tokens: float = 0.0
    decoding: float = 0.0
    decoded: float = 0.0
    drafted_length: float = 0.0
    ended: float = 0.0
    positions: tuple[float, ...] = ()


class _Flow:
    """One stream's requests through a window, as shares of all streams by difficulty."""

    def __init__(
        self, kinds: tuple[_Kind, ...], box: Profile, *, max_tokens: int | None, ignore_eos: bool, lost_steps: int
    ) -> None:
        self._kinds = kinds
        self._lost = lost_steps
        cap = float(max_tokens or 10**6)
        self._least = cap if ignore_eos else min(cap, box.stop_minimum)
        self._rest = box.stop_mean - box.stop_minimum
        self._cap = cap
        self.mean_tokens = self._least + self._rest * (1.0 - math.exp(-(cap - self._least) / self._rest))

    def run(self, steps: int) -> _Totals:
        totals = _Totals()
        lanes = [_Lane(kind, self._least, self._cap, self._rest) for kind in self._kinds]
        starts = [0.0] * (steps + 3)  # requests whose first token comes at this step
        for lane in lanes:
            lane.start(-1, lane.kind.share)
        for now in range(steps):
            fresh = starts[now]
            totals.tokens += fresh
            ended = 0.0
            for lane in lanes:
                ended += lane.advance(now, totals)
                lane.start(now, fresh * lane.kind.share)
            totals.ended += ended
            starts[now + 1 + self._lost] += ended
        totals.positions = _weighted_positions(lanes)
        return totals


class _Lane:
    """Requests of one kind on their way: too young to end, then ending at a constant chance per token, or at the cut."""

    def __init__(self, kind: _Kind, least: float, cap: float, rest: float) -> None:
        self.kind = kind
        self._age_young = max(1, round((least - 1.0) / kind.tokens))
        self._age_cut = max(self._age_young, round((cap - 1.0) / kind.tokens))
        self._chance = 1.0 - math.exp(-kind.tokens / rest) if cap > least else 0.0
        self._begun: dict[int, float] = {}
        self._young = self._old = self.stayed = 0.0
        second = kind.step_variance + kind.drift_variance + kind.tokens**2
        self._cut_off = (second / kind.tokens - 1.0) / 2.0  # tokens of the last step beyond the end

    def start(self, now: int, share: float) -> None:
        if share:
            self._begun[now] = share
            self._young += share

    def advance(self, now: int, totals: _Totals) -> float:
        grown = self._begun.get(now - self._age_young, 0.0)
        self._young -= grown
        self._old += grown
        alive = self._young + self._old
        cut = self._begun.pop(now - self._age_cut, 0.0) * (1.0 - self._chance) ** (self._age_cut - self._age_young)
        cut = min(cut, self._old)
        ended = cut + self._chance * (self._old - cut)
        self._old -= ended
        self.stayed += alive
        totals.decoding += alive
        totals.decoded += alive * self.kind.tokens
        totals.drafted_length += alive * self.kind.length
        totals.tokens += alive * self.kind.tokens - ended * self._cut_off
        return ended


def _weighted_positions(lanes: Sequence[_Lane]) -> tuple[float, ...]:
    count = len(lanes[0].kind.positions)
    return tuple(sum(lane.stayed * lane.kind.positions[i] for lane in lanes) for i in range(count))


def standard_error(
    expected: Expected,
    *,
    windows: int,
    window_seconds: float,
    concurrency: int | None = None,
    request_tokens: float | None = None,
    jitter: float = 0.003,
) -> float:
    """Return the standard error of a mean decode rate over `windows` windows, in tokens per second.

    A stream's mean tokens per step over W steps varies by: the difficulty of the prompts it happened to draw, which last
    m = request_tokens / A steps each and are drawn anew (a process with correlation exp(-t/m): its mean over W has the
    variance v * g(W/m), g(x) = 2 (x - 1 + exp(-x)) / x^2); the drift within a request (the same with its own memory, which a
    new request cuts); and each step's own draw (v / W). Streams are independent. Both ends of a window fall somewhere within
    a step: the count of whole steps varies by 1/6; and both are off by what the machine's timers are.

    Args:
        window_seconds: On the clock of `expected`: simulated, unless it was brought `at_speed`.
        jitter: Standard deviation of a reading against the engine's pace, in seconds of that clock: timers tick in
            milliseconds, and a busy machine wakes late. Matters for windows of less than a second only.
    """
    streams = concurrency or expected.concurrency
    steps = max(1.0, window_seconds / expected.step_time)
    mean = expected.tokens_per_step
    lasting = (request_tokens or expected.request_tokens) / mean
    memory = 1.0 / (1.0 / expected.drift_steps + 1.0 / lasting)
    per_stream = (
        expected.tokens_sd_between_requests**2 * _averaged(steps / lasting)
        + expected.tokens_sd_of_drift**2 * _averaged(steps / memory)
        + expected.tokens_sd_within_step**2 / steps
    )
    edges = 1.0 / (6.0 * steps * steps) + 2.0 * (jitter / window_seconds) ** 2
    relative = math.sqrt((per_stream / (streams * mean * mean) + edges) / windows)
    return expected.decode_rate * relative


def length_standard_error(expected: Expected, *, windows: int, window_seconds: float) -> float:
    """Return the standard error of a mean acceptance length over `windows` windows; as `standard_error`, without its edges."""
    rate_error = standard_error(expected, windows=windows, window_seconds=window_seconds, jitter=0.0)
    steps = max(1.0, window_seconds / expected.step_time)
    edges = 1.0 / (6.0 * steps * steps * windows)
    relative = math.sqrt(max(0.0, (rate_error / expected.decode_rate) ** 2 - edges))
    return expected.acceptance_length * relative


def _averaged(x: float) -> float:
    if x < 1e-3:
        return 1.0
    return 2.0 * (x - 1.0 + math.exp(-x)) / (x * x)


def prefill_seconds(profile: str | Profile, tokens: int, *, speculative: Mapping[str, Any] | None = None) -> float:
    """Return simulated seconds from scheduling to first token of a fresh prompt on an idle engine."""
    box = profile if isinstance(profile, Profile) else load_profile(profile)
    alone = at(config_truth(box, speculative).entry.step, 1)
    whole, rest = divmod(tokens, box.max_num_batched_tokens)
    chunks = [box.max_num_batched_tokens] * whole + ([rest] if rest else [])
    return sum(max(alone, chunk / box.prefill_rate) for chunk in chunks)

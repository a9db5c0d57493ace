"""From one request alone to the numbers of a single-batch run. Pure."""

from __future__ import annotations

from nightsweep.engine.values import Dialect, Unavailable
from nightsweep.measurement import client_times, rates
from nightsweep.measurement.buffering import held_back_alone
from nightsweep.measurement.requests import positions_of
from nightsweep.measurement.values import DecodeNumbers, RawWindow, Reading, RequestTiming, WindowResult
from nightsweep.units import MonotonicSeconds, Ratio, Seconds, Tokens, TokensPerSecond

SOURCE = "client: (output tokens - 1) / (E2E - TTFT) of one request alone"


def derive_single_batch(
    raw: RawWindow,
    *,
    dialect: Dialect,
    input_tokens: Tokens,
    output_tokens: Tokens,
    num_speculative_tokens: int | None,
) -> WindowResult:
    """Return the numbers and flags of a single-batch run.

    The decode rate is (output tokens - 1) / (E2E - TTFT): the first token belongs to the prefill. Facts beside it:
    `report_rate` (tokens/s: SGLang's own report divides all output tokens by the same time), `prefill_rate` (tokens/s: input /
    TTFT), `ttft_s`, `e2e_s`, `cached_tokens`. Acceptance comes from the engine's counters, or from what it says of this
    request where it has none. A stream that was held back on its way has no numbers: all are made of the client's times.

    Args:
        input_tokens, output_tokens: What was asked for; another count is a failed request.

    Source:
        SGLang `benchmark/one_batch_server.py`: output_throughput = output tokens / (latency - last TTFT).
    """
    request = raw.requests[0] if raw.requests else None
    found = _flags(raw, request, input_tokens=input_tokens, output_tokens=output_tokens)
    held_back = None if request is None else held_back_alone(request, num_speculative_tokens=num_speculative_tokens)
    if held_back is not None and not found:
        found = {"buffered": held_back}
    numbers = None
    if (
        request is not None
        and held_back is None
        and raw.before is not None
        and raw.after is not None
        and not rates.resets(raw.before, raw.after)
    ):
        numbers = _numbers(request, raw.before, raw.after, dialect=dialect, k=num_speculative_tokens)
    if numbers is None and not found:
        found = {"request_failed": "the answer has no two tokens whose times could be told"}
    return WindowResult(raw=raw, numbers=numbers, flags=tuple(found), flag_details=found)


def _flags(
    raw: RawWindow, request: RequestTiming | None, *, input_tokens: Tokens, output_tokens: Tokens
) -> dict[str, str]:
    """Return the first cause that holds; what follows from it is not flagged beside it."""
    if raw.ended_early is not None:
        return {raw.ended_early: raw.detail or "the run could not be made"}
    if request is None or raw.before is None or raw.after is None:
        return {"request_failed": raw.detail or "no request was sent"}
    signs = rates.resets(raw.before, raw.after)
    if signs:
        return {"counter_reset": "; ".join(signs[:3])}
    failed = _failed(request, input_tokens=input_tokens, output_tokens=output_tokens)
    if failed is not None:
        return {"request_failed": failed}
    foreign = _foreign(raw.before, raw.after, input_tokens=input_tokens, output_tokens=output_tokens)
    doubts = {"foreign_load": foreign, **_hit(request, raw.before, raw.after)}
    return next(({flag: why} for flag, why in doubts.items() if why), {})


def _failed(request: RequestTiming, *, input_tokens: Tokens, output_tokens: Tokens) -> str | None:
    if request.error is not None:
        return request.error
    if request.prompt_tokens is not None and request.prompt_tokens != input_tokens:
        return f"{input_tokens} prompt tokens were sent, the engine counted {request.prompt_tokens}"
    if request.completion_tokens != output_tokens:
        return f"{output_tokens} output tokens were asked for, {request.completion_tokens} came"
    return None


def _foreign(before: Reading, after: Reading, *, input_tokens: Tokens, output_tokens: Tokens) -> str | None:
    for name, own, what in (
        ("prompt_tokens", input_tokens, "took {:g} prompt tokens"),
        ("generation_tokens", output_tokens, "generated {:g} tokens"),
    ):
        moved = rates.delta(before, after, name)
        if moved is not None and moved > own:
            return f"the engine {what.format(moved)}, the probe asked for {own}"
    return None


def _hit(request: RequestTiming, before: Reading, after: Reading) -> dict[str, str]:
    told = [request.cached_tokens, rates.delta(before, after, "prefix_cache_hits")]
    known = [count for count in told if count is not None]
    if not known:
        return {
            "miss_unproven": "no counter of cache hits and no cached_tokens in the answer: a cold run cannot be shown"
        }
    return {"cache_hit": f"{max(known):g} of the prompt's tokens came from the prefix cache"} if max(known) > 0 else {}


def _numbers(
    request: RequestTiming, before: Reading, after: Reading, *, dialect: Dialect, k: int | None
) -> DecodeNumbers | None:
    first, ended, tokens = request.first_token, request.ended, request.completion_tokens
    if first is None or ended is None or tokens is None or tokens < 2 or ended <= first:
        return None
    seconds = Seconds(ended - first)
    told = _Acceptance.of(request, before, after, dialect=dialect, k=k)
    rate = TokensPerSecond((tokens - 1) / seconds)
    decoding = told.drafts if told.drafts is not None else tokens - 1 if told.without else None
    opened, closed = request.sent, MonotonicSeconds(ended)
    foreign = rates.delta(before, after, "generation_tokens")
    return DecodeNumbers(
        seconds=seconds,
        generation_tokens=Tokens(tokens),
        decode_rate=rate,
        acceptance_length=told.length,
        acceptance_rate=told.rate,
        positions=told.positions,
        drafts=told.drafts,
        draft_tokens=told.draft_tokens,
        accepted_tokens=told.accepted_tokens,
        steps=decoding,
        step_time=Seconds(seconds / decoding) if decoding else None,
        tokens_per_step_and_stream=Ratio((tokens - 1) / decoding) if decoding else None,
        own_tokens=Tokens(tokens),
        foreign_tokens=None if foreign is None else Tokens(max(round(foreign) - tokens, 0)),
        occupancy=Ratio(1.0),
        relative_uncertainty=None,
        ttft=client_times.percentiles([first - request.sent]),
        tpot=client_times.percentiles([seconds / (tokens - 1)]),
        e2e=client_times.percentiles([ended - request.sent]),
        chunk_gap=client_times.percentiles(client_times.chunk_gaps([request], opened=opened, closed=closed)),
        sources={"decode_rate": SOURCE, **told.sources},
        unavailable=told.unavailable,
        facts=_facts(request, tokens=tokens, seconds=seconds, ttft=first - request.sent),
    )


def _facts(request: RequestTiming, *, tokens: int, seconds: float, ttft: float) -> dict[str, float]:
    found: dict[str, float | None] = {
        "report_rate": tokens / seconds,
        "ttft_s": ttft,
        "e2e_s": ttft + seconds,
        "output_tokens": tokens,
        "input_tokens": request.prompt_tokens,
        "cached_tokens": request.cached_tokens,
        "prefill_rate": request.prompt_tokens / ttft if request.prompt_tokens and ttft > 0 else None,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


class _Acceptance:
    """What is known of a run's drafts, and from where."""

    def __init__(self) -> None:
        self.length: Ratio | None = None
        self.rate: Ratio | None = None
        self.positions: tuple[float, ...] | None = None
        self.drafts: Tokens | None = None
        self.draft_tokens: Tokens | None = None
        self.accepted_tokens: Tokens | None = None
        self.without = False  # the engine does not speculate
        self.sources: dict[str, str] = {}
        self.unavailable: dict[str, str] = {}

    @classmethod
    def of(
        cls, request: RequestTiming, before: Reading, after: Reading, *, dialect: Dialect, k: int | None
    ) -> _Acceptance:
        found = cls()
        if rates.delta(before, after, "drafts"):
            found._from_counters(before, after, k=k)
        elif request.acceptance is not None:
            found._from_request(request)
        else:
            entry = dialect.series.get("drafts")
            because = entry.because if isinstance(entry, Unavailable) else "nothing was drafted"
            found.unavailable = {"acceptance_length": because}
            found.without = k is None
        return found

    def _from_counters(self, before: Reading, after: Reading, *, k: int | None) -> None:
        self.length, self.rate = rates.acceptance_length(before, after), rates.acceptance_rate(before, after)
        self.positions = rates.positions(before, after, num_speculative_tokens=k)
        counts = {name: rates.delta(before, after, name) for name in ("drafts", "draft_tokens", "accepted_tokens")}
        self.drafts, self.draft_tokens, self.accepted_tokens = (
            None if value is None else Tokens(round(value)) for value in counts.values()
        )
        self.sources = {"acceptance_length": "the engine's counters around this one request"}

    def _from_request(self, request: RequestTiming) -> None:
        told = request.acceptance
        assert told is not None
        self.drafts, self.draft_tokens, self.accepted_tokens = told.drafts, told.draft_tokens, told.accepted_tokens
        if told.drafts and told.accepted_tokens is not None:
            self.length = Ratio(1.0 + told.accepted_tokens / told.drafts)
        elif told.length is not None:
            self.length = Ratio(told.length)
        if told.draft_tokens and told.accepted_tokens is not None:
            self.rate = Ratio(told.accepted_tokens / told.draft_tokens)
        self.positions = positions_of(told)
        self.sources = {"acceptance_length": told.source}

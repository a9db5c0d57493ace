"""A probe without an engine: scripted answers on an advanced clock, and builders of raw windows of known truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from nightsweep.errors import MetricsUnreadable
from nightsweep.measurement.values import (
    OccupancySample,
    PrefillResult,
    RawWindow,
    Reading,
    RequestAcceptance,
    RequestTiming,
)
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Clock, Reached, Secret, SingleBatchRequest, Target, WindowRequest
from nightsweep.units import MonotonicSeconds, Seconds, Tokens, TokensPerSecond

LONG_AGO = datetime(2026, 11, 29, 22, 30, tzinfo=UTC)
Script = RawWindow | BaseException | Callable[[Target, WindowRequest], RawWindow]


def a_reading(at: float = 100.0, *, uncertainty: float = 0.001, **values: float) -> Reading:
    """Return a reading; a keyword `accepted_per_position_0` becomes "accepted_per_position[0]"."""
    named: dict[str, float] = {}
    for name, value in values.items():
        stem, _, last = name.rpartition("_")
        named[f"{stem}[{last}]" if last.isdigit() else name] = value
    return Reading(at=MonotonicSeconds(at), uncertainty=Seconds(uncertainty), wall=LONG_AGO, values=named)


def a_raw_window(
    *,
    concurrency: int = 1,
    seconds: float = 40.0,
    step_time: float = 0.1,
    positions: Sequence[float] = (0.75, 0.5),
    opened: float = 100.0,
    seconds_asked: float | None = None,
    started: datetime = LONG_AGO,
) -> RawWindow:
    """Return a clean window: every stream runs through it with one long request, and every counter is exact.

    Every step drafts on every stream; `positions` empty is an engine without speculation.
    """
    steps = round(seconds / step_time)
    drafts = steps * concurrency if positions else 0
    accepted = [round(drafts * share) for share in positions]
    tokens = steps * concurrency + sum(accepted)
    shares = [tokens // concurrency + (1 if s < tokens % concurrency else 0) for s in range(concurrency)]
    deltas = {
        "generation_tokens": tokens,
        "steps": steps,
        "itl_count": steps * concurrency,
        "itl_sum": steps * concurrency * step_time,
        "preemptions": 0,
    }
    if positions:
        deltas |= {"drafts": drafts, "draft_tokens": drafts * len(positions), "accepted_tokens": sum(accepted)}
        deltas |= {f"accepted_per_position[{i}]": count for i, count in enumerate(accepted)}
    before = {name: 1000.0 for name in deltas} | {"running": float(concurrency), "waiting": 0.0, "process_start": 17e8}
    after = {name: before[name] + deltas.get(name, 0.0) for name in before}
    return RawWindow(
        concurrency=concurrency,
        seconds_asked=Seconds(seconds if seconds_asked is None else seconds_asked),
        started=started,
        before=Reading(MonotonicSeconds(opened), Seconds(0.001), started, before),
        after=Reading(MonotonicSeconds(opened + seconds), Seconds(0.001), started, after),
        samples=tuple(
            OccupancySample(MonotonicSeconds(opened + seconds * part / 8), float(concurrency), 0.0)
            for part in range(1, 8)
        ),
        requests=tuple(
            _long_request(stream, opened=opened, seconds=seconds, steps=steps, tokens=shares[stream])
            for stream in range(concurrency)
        ),
        ramp=Seconds(1.0),
    )


def _long_request(stream: int, *, opened: float, seconds: float, steps: int, tokens: int) -> RequestTiming:
    """One request from a second before the window to just after it: 7 tokens before it opened, `tokens` inside."""
    pitch = seconds / steps
    inside = [(opened + pitch * (i + 0.5), 7 + round(tokens * (i + 1) / steps)) for i in range(steps)]
    return RequestTiming(
        stream=stream,
        prompt_index=stream,
        sent=MonotonicSeconds(opened - 1.0),
        first_token=MonotonicSeconds(opened - 0.5),
        ended=MonotonicSeconds(opened + seconds + 0.01),
        chunk_at=(opened - 0.5, *(at for at, _ in inside)),
        chunk_tokens=(7, *(count for _, count in inside)),
        cancelled=True,
    )


def a_prefill_result(*, tokens: int = 12000, rate: float = 2000.0, flags: tuple[str, ...] = ()) -> PrefillResult:
    """Return a measured prefill with a verified miss."""
    return PrefillResult(
        started=LONG_AGO,
        prompt_tokens=Tokens(tokens),
        ttft=Seconds(tokens / rate),
        rate=TokensPerSecond(rate),
        cached_tokens=Tokens(0),
        engine_seconds=None,
        flags=flags,
        source="fake",
    )


def _come_up(request: WindowRequest) -> None:
    for up in range(1, request.concurrency + 1):
        request.coming_up(up)


def a_single_batch(
    *,
    tokens: int = 256,
    prompt: int = 1024,
    seconds: float = 1.8,
    ttft: float = 0.2,
    acceptance_length: float | None = 2.0,
    cached: int | None = 0,
    opened: float = 100.0,
    started: datetime = LONG_AGO,
    acceptance: RequestAcceptance | None = None,
) -> RawWindow:
    """Return a clean single-batch run; without `acceptance_length` the engine has no counters of drafts."""
    made = {"generation_tokens": tokens, "prompt_tokens": prompt}
    if cached is not None:
        made["prefix_cache_hits"] = cached
    if acceptance_length is not None:
        drafts = round((tokens - 1) / acceptance_length)
        made |= {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted_tokens": tokens - 1 - drafts}
    before = {name: 5000.0 for name in made} | {"running": 0.0, "waiting": 0.0, "process_start": 17e8}
    after = {name: value + made.get(name, 0) for name, value in before.items()}
    ended = opened + ttft + seconds
    request = RequestTiming(
        stream=0,
        prompt_index=0,
        sent=MonotonicSeconds(opened),
        first_token=MonotonicSeconds(opened + ttft),
        ended=MonotonicSeconds(ended),
        chunk_at=(opened + ttft, ended),
        chunk_tokens=(1, tokens),
        prompt_tokens=Tokens(prompt),
        completion_tokens=Tokens(tokens),
        cached_tokens=None if cached is None else Tokens(cached),
        finish_reason="length",
        acceptance=acceptance,
    )
    return RawWindow(
        concurrency=1,
        seconds_asked=None,
        started=started,
        before=Reading(MonotonicSeconds(opened - 0.01), Seconds(0.001), started, before),
        after=Reading(MonotonicSeconds(ended + 0.01), Seconds(0.001), started, after),
        samples=(),
        requests=(request,),
        ramp=None,
        detail="random token ids 100 to 8000",
    )


class FakeProbe:
    """A `ports.Probe` whose answers are set beforehand. Waiting advances the clock.

    Attributes:
        calls: (method, facts) of every call, in order.
        windows: What the next windows give; when used up, `truth` (keywords of `a_raw_window`) makes clean ones.
        prefills: What the next prefills give; when used up, clean ones.
        single_batches: What the next single-batch runs give; when used up, clean ones of two seconds.
        healthy_when: Whether the engine answers its health check now.
        refusal: Why no token is served; None serves one.
        answers: What `ask` finds, by key.
        wanted_key: The API key that is asked for; None asks for none.
        speculates: Whether the engine that runs now drafts; windows of one that does not have no drafts.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        windows: Iterable[Script] = (),
        prefills: Iterable[PrefillResult | BaseException | Callable[[], PrefillResult]] = (),
        single_batches: Iterable[RawWindow | BaseException | Callable[[], RawWindow]] = (),
        healthy_when: Callable[[], bool] = lambda: True,
        refusal: str | None = None,
        answers: Mapping[str, Any] | None = None,
        truth: Mapping[str, Any] | None = None,
        wanted_key: Secret | None = None,
        speculates: Callable[[], bool] = lambda: True,
    ) -> None:
        self.clock = clock
        self.windows = list(windows)
        self.prefills = list(prefills)
        self.single_batches = list(single_batches)
        self.healthy_when = healthy_when
        self.refusal = refusal
        self.answers = dict(answers or {})
        self.truth = dict(truth or {})
        self.wanted_key = wanted_key
        self.speculates = speculates
        self.values: dict[str, float] | None = {"generation_tokens": 0.0, "running": 0.0, "waiting": 0.0}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.statuses: dict[str, int | None] = {}

    def __enter__(self) -> FakeProbe:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing was started."""

    def healthy(self, url: str, *, timeout: Seconds) -> bool:
        self.calls.append(("healthy", {"url": url}))
        return self.healthy_when()

    def reach(self, url: str, *, timeout: Seconds, api_key: Secret | None = None) -> Reached:
        self.calls.append(("reach", {"url": url, "api_key": api_key}))
        if not self.healthy_when():
            return Reached(listening=False)
        path = next((path for path in self.statuses if url.endswith(path)), None)
        return Reached(listening=True, status=200 if path is None else self.statuses[path])

    def served_token(self, target: Target, *, timeout: Seconds, check: Callable[[], None] = lambda: None) -> str | None:
        check()
        self.calls.append(("served_token", {"target": target}))
        if not self.healthy_when():
            return "connection refused"
        return "HTTP 401: unauthorized" if target.api_key != self.wanted_key else self.refusal

    def ask(
        self, base_url: str, paths: Mapping[str, str], *, timeout: Seconds, api_key: Secret | None = None
    ) -> Mapping[str, Any]:
        self.calls.append(("ask", {"base_url": base_url, "paths": dict(paths), "api_key": api_key}))
        if not self.healthy_when() or api_key != self.wanted_key:
            return {}
        return {key: self.answers[key] for key in paths if key in self.answers}

    def read(self, target: Target) -> Reading:
        self.calls.append(("read", {"target": target}))
        if self.values is None or not self.healthy_when():
            raise MetricsUnreadable(url=f"{target.base_url}/metrics", reason="connection refused")
        return Reading(self.clock.monotonic(), Seconds(0.001), self.clock.now(), dict(self.values))

    def warm_up(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> None:
        self.calls.append(("warm_up", {"target": target, "request": request}))
        if alive():
            _come_up(request)
            self.clock.sleep(Seconds(1.0))

    def window(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> RawWindow:
        self.calls.append(("window", {"target": target, "request": request}))
        if self.windows:
            scripted = self.windows.pop(0)
            if isinstance(scripted, BaseException):
                raise scripted
            if isinstance(scripted, RawWindow):
                self.clock.sleep(request.window)
                return scripted
            return scripted(target, request)
        return self._from_truth(request, alive=alive)

    def prefill(
        self,
        target: Target,
        *,
        tokens: Tokens,
        salt: str,
        sampling: SamplingSpec,
        alive: Callable[[], bool],
        load: WindowRequest | None = None,
        waiting: Callable[[str], None] = lambda what: None,
    ) -> PrefillResult:
        self.calls.append(("prefill", {"target": target, "tokens": tokens, "salt": salt, "load": load}))
        scripted = self.prefills.pop(0) if self.prefills else a_prefill_result(tokens=tokens)
        scripted = scripted() if callable(scripted) else scripted
        if load is not None and isinstance(scripted, PrefillResult):
            beside = {"decode_streams": load.concurrency, "decode_rate_alone": 120.0, "decode_rate_beside": 60.0}
            scripted = replace(scripted, facts={**scripted.facts, **beside, "decode_slowdown": 2.0})
        if isinstance(scripted, BaseException):
            raise scripted
        self.clock.sleep(scripted.ttft or Seconds(0.0))
        return scripted

    def single_batch(self, target: Target, request: SingleBatchRequest, *, alive: Callable[[], bool]) -> RawWindow:
        self.calls.append(("single_batch", {"target": target, "request": request}))
        if self.single_batches:
            scripted = self.single_batches.pop(0)
            scripted = scripted() if callable(scripted) else scripted
            if isinstance(scripted, BaseException):
                raise scripted
            return scripted
        opened = float(self.clock.monotonic())
        self.clock.sleep(Seconds(2.0))
        raw = a_single_batch(
            tokens=int(request.output),
            prompt=int(request.input),
            acceptance_length=2.0 if self.speculates() else None,
            opened=opened,
            started=self.clock.now(),
        )
        return raw if alive() else replace(raw, after=None, ended_early="engine_exited", detail="the engine is gone")

    def drain(self, target: Target, *, timeout: Seconds) -> bool:
        self.calls.append(("drain", {"target": target}))
        return True

    def _from_truth(self, request: WindowRequest, *, alive: Callable[[], bool]) -> RawWindow:
        opened, started = self.clock.monotonic(), self.clock.now()
        _come_up(request)
        for _ in range(4):
            if not alive():
                return RawWindow(
                    concurrency=request.concurrency,
                    seconds_asked=request.window,
                    started=started,
                    before=None,
                    after=None,
                    samples=(),
                    requests=(),
                    ramp=None,
                    ended_early="engine_exited",
                    detail="the engine is gone",
                )
            self.clock.sleep(Seconds(request.window / 4))
        return a_raw_window(
            concurrency=request.concurrency,
            seconds=float(request.window),
            opened=float(opened),
            started=started,
            **({} if self.speculates() else {"positions": ()}),
            **{name: value for name, value in self.truth.items() if name != "positions" or self.speculates()},
        )

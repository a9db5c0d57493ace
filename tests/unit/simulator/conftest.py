"""A closed-loop bench: streams on an engine core under a clock that jumps from step to step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from nightsweep.simulator import content
from nightsweep.simulator.configtruth import config_truth
from nightsweep.simulator.engine import EngineCore
from nightsweep.simulator.kvpool import KvPool, block_hashes
from nightsweep.simulator.metrics import EngineMetrics
from nightsweep.simulator.profile import load_profile
from nightsweep.simulator.request import Request


class Tape:
    """An outlet that remembers what it was given."""

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int]] = []
        self.reason: str | None = None

    def tokens(self, start: int, count: int, finish_reason: str | None) -> bool:
        self.pieces.append((start, count))
        self.reason = finish_reason or self.reason
        return False


@dataclass
class Bench:
    """An engine core, its clock and the requests that were made on it."""

    core: EngineCore
    now: float = 1000.0
    tapes: list[Tape] = field(default_factory=list)
    names: Any = field(default_factory=itertools.count)

    @property
    def metrics(self) -> EngineMetrics:
        return self.core.metrics

    def ask(
        self,
        *,
        prompt_tokens: int = 100,
        tokens: int | None = None,
        temperature: float = 0.7,
        ids: tuple[int, ...] = (),
        key: bytes | None = None,
    ) -> tuple[Request, Tape]:
        """Submit a request; without `tokens` it has a natural end."""
        key = key or b"prompt %d" % next(self.names)
        profile = self.core.truth.profile
        natural = content.answer_tokens(key, mean=profile.stop_mean, minimum=profile.stop_minimum)
        limit = min(natural, 1024) if tokens is None else tokens
        tape = Tape()
        request = Request(
            prompt_tokens=len(ids) or prompt_tokens,
            hashes=block_hashes(ids),
            limit=limit,
            natural=tokens is None and natural <= 1024,
            max_tokens=tokens or 1024,
            temperature=temperature,
            difficulty=content.difficulty(key),
            outlet=tape,
        )
        self.tapes.append(tape)
        self.core.submit(request, now=self.now)
        return request, tape

    def step(self) -> float:
        """Make one step; return its simulated seconds (0 when there was nothing to do)."""
        seconds = self.core.begin(self.now)
        if seconds is None:
            return 0.0
        self.now += seconds
        self.core.finish(self.now)
        return seconds

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def window(self, streams: int, seconds: float, *, temperature: float = 0.7) -> float:
        """Run fresh closed-loop streams; return tokens per second between the first step that has all of them and the end.

        A stream asks again one step after its answer ended, as a client does whose next request arrives during a step.
        """
        for request in [*self.core.running, *self.core.waiting]:
            self.core.abort(request)
        live = [self.ask(temperature=temperature)[0] for _ in range(streams)]
        while any(request.generated == 0 for request in live):
            self.step()
        began, before = self.now, self.metrics.generation_tokens
        returning: list[int] = []
        while self.now - began < seconds:
            ready = returning if streams > 1 else [i for i, r in enumerate(live) if r.state == "done"]
            for i in ready:
                live[i] = self.ask(temperature=temperature)[0]
            self.step()
            returning = [i for i, r in enumerate(live) if r.state == "done" and i not in returning]
        return (self.metrics.generation_tokens - before) / (self.now - began)


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    """Return a maker of benches."""

    def make(
        speculative: Mapping[str, Any] | None = None,
        *,
        profile: str = "gb10",
        kv_tokens: int = 800_000,
        max_num_seqs: int = 16,
        seed: int = 1,
        caching: bool = True,
    ) -> Bench:
        truth = config_truth(load_profile(profile), speculative)
        core = EngineCore(
            truth,
            speculative=speculative,
            pool=KvPool(kv_tokens, caching=caching),
            metrics=EngineMetrics(model="m", k=truth.k, cache_config={"num_gpu_blocks": "1"}),
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=truth.profile.max_num_batched_tokens,
            rng=Random(seed),
        )
        return Bench(core)

    return make

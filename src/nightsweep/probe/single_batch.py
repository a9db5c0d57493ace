"""One single-batch run: one request alone, random token ids in, a set number of tokens out.

Source:
    SGLang `bench_one_batch_server`: one streamed POST to its native `/generate` with `input_ids` and `ignore_eos`. vLLM takes
    token ids at `/v1/completions`.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import dataclass, replace

from nightsweep.measurement.values import RawWindow, RequestTiming
from nightsweep.ports import Clock, SingleBatchRequest, Target
from nightsweep.probe.alone import stream_alone
from nightsweep.probe.bodies import path_of, sampling_of, streaming_body
from nightsweep.probe.client import DirectClient
from nightsweep.probe.draining import drained
from nightsweep.probe.load import UsageModes
from nightsweep.probe.readings import fetch_reading, settled_reading
from nightsweep.probe.stream import RequestLog, timing_of
from nightsweep.units import Seconds

IDLE_TIMEOUT = Seconds(30.0)
RANGES = ((100, 8000), (100, 1000))
"""Token ids that are drawn from: the second for a vocabulary that is smaller than the first. Below lie special tokens."""


@dataclass
class SingleBatchRun:
    """One run in the making. `gone` is set from outside when the engine is no longer alive."""

    client: DirectClient
    load_client: DirectClient
    target: Target
    request: SingleBatchRequest
    clock: Clock
    usage: UsageModes
    gone: asyncio.Event

    async def measure(self) -> RawWindow:
        """Return the request with the readings around it; a failed one is among the requests with its error.

        Raises:
            MetricsUnreadable: The engine's counters could not be read.
        """
        started = self.clock.now()
        was_idle = await drained(
            self.client,
            self.target,
            clock=self.clock,
            timeout=IDLE_TIMEOUT,
            gone=self.gone,
            waiting=self.request.waiting,
        )
        before = await fetch_reading(self.client, self.target, clock=self.clock)
        timing, source = await self._timed()
        exited = self.gone.is_set()
        after = None
        if not exited:
            failed = timing.error is not None
            after = await settled_reading(self.client, self.target, clock=self.clock, before=before, failed=failed)
        closed = "engine_exited" if exited else None if was_idle else "foreign_load"
        why = {
            "engine_exited": "the engine ended while it was measured",
            "foreign_load": "the engine was not idle before",
        }
        return RawWindow(
            concurrency=1,
            seconds_asked=None,
            started=started,
            before=before,
            after=after,
            samples=(),
            requests=(timing,),
            ramp=None,
            ended_early=closed,
            detail=source if closed is None else why[closed],
        )

    async def _timed(self) -> tuple[RequestTiming, str]:
        for low, high in RANGES:
            source = f"random token ids {low} to {high}"
            timing = await self._sent(self._ids(low, high))
            if "vocab" not in (timing.error or ""):  # vLLM 0.32 says it inside a stream of status 200
                break
        return timing, source

    def _ids(self, low: int, high: int) -> list[int]:
        """Return ids that follow from the salt, so that no cache has seen them."""
        chance = random.Random(hashlib.sha256(self.request.salt.encode()).hexdigest())
        return [chance.randrange(low, high) for _ in range(self.request.input)]

    async def _sent(self, ids: list[int]) -> RequestTiming:
        path, body = self._asked(ids, continuous=self.usage.continuous(self.target))
        timing, log = await self._streamed(path, body)
        if log.status in (400, 422) and self.usage.continuous(self.target) and "vocab" not in (timing.error or ""):
            again, second = await self._streamed(*self._asked(ids, continuous=False))
            if second.status == 200:
                self.usage.refused(self.target)
                return again
        return timing

    def _asked(self, ids: list[int], *, continuous: bool) -> tuple[str, bytes]:
        given = replace(self.request.sampling, max_tokens=self.request.output, ignore_eos=True, min_tokens=None)
        sampling = sampling_of(given, temperature=self.request.temperature)
        api = "generate" if self.target.dialect.engine == "sglang" else "completions"
        body = streaming_body(self.target, ids, sampling=sampling, continuous=continuous, api=api)
        return path_of(api), body

    async def _streamed(self, path: str, body: bytes) -> tuple[RequestTiming, RequestLog]:
        log = await stream_alone(self.load_client, self.target, path, body=body, clock=self.clock, gone=self.gone)
        return timing_of(log), log

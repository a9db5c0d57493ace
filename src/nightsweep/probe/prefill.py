"""One prefill: a fresh prompt of exactly so many tokens, one output token, on an idle engine or while streams decode."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import httpx

from nightsweep.measurement.prefill import Beside, derive_prefill
from nightsweep.measurement.values import PrefillResult, Reading, RequestTiming
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Clock, Target, WindowRequest
from nightsweep.probe.alone import stream_alone
from nightsweep.probe.bodies import headers_of, path_of, sampling_of, streaming_body, words_of
from nightsweep.probe.client import DirectClient
from nightsweep.probe.draining import drained
from nightsweep.probe.load import Load, UsageModes
from nightsweep.probe.readings import fetch_reading, settled_reading
from nightsweep.probe.stream import timing_of
from nightsweep.units import MonotonicSeconds, Seconds, Tokens

IDLE_TIMEOUT = Seconds(30.0)
TOKENIZE_TIMEOUT = 60.0
GAUGE_PATIENCE = 5.0
RAMP_POLL = 0.05
LOWEST_ID, HIGHEST_ID = 100, 1000
"""Token ids that every vocabulary has, for engines that do not tokenize for us; below lie special tokens."""


@dataclass
class PrefillRun:
    """One prefill in the making. `gone` is set from outside when the engine is no longer alive.

    Attributes:
        load: Streams that decode meanwhile, and for how long alone before; None is an idle engine.
        waiting: Told what is waited for.
    """

    client: DirectClient
    load_client: DirectClient
    target: Target
    tokens: Tokens
    salt: str
    sampling: SamplingSpec
    clock: Clock
    usage: UsageModes
    gone: asyncio.Event
    load: WindowRequest | None = None
    waiting: Callable[[str], None] = lambda what: None

    async def measure(self) -> PrefillResult:
        """Return the result with its flags; a failed request, or a load that does not come up, is a flagged result.

        Raises:
            MetricsUnreadable: The engine's counters could not be read.
        """
        started = self.clock.now()
        ids, source = await self._prompt()
        was_idle = await self._idle()
        if self.load is None:
            beside, (before, timing, after) = None, await self._once(ids)
        else:
            beside, (before, timing, after) = await self._beside(self.load, ids)
        return derive_prefill(
            timing,
            before=before,
            after=after,
            tokens=self.tokens,
            was_idle=was_idle,
            exited=self.gone.is_set(),
            started=started,
            dialect=self.target.dialect,
            facts={"prompt": source, "salt": self.salt, "round_trip_before": before.uncertainty * 2},
            load=beside,
        )

    async def _beside(
        self, load: WindowRequest, ids: list[int]
    ) -> tuple[Beside, tuple[Reading, RequestTiming, Reading]]:
        """Let streams decode by themselves for a while, and send the prompt among them."""
        streams = Load(self.load_client, self.target, load, clock=self.clock, usage=self.usage)
        async with streams:
            held = await self._held(streams, load)
            alone = await fetch_reading(self.client, self.target, clock=self.clock)
            await self._until(timeout=float(load.window) if held else 0.0)
            seen = await self._once(ids)
            held = held and not streams.failed.is_set()
        if not self.gone.is_set():
            await self._idle()
        return Beside(load.concurrency, alone=alone, held=held), seen

    async def _idle(self) -> bool:
        return await drained(
            self.client, self.target, clock=self.clock, timeout=IDLE_TIMEOUT, gone=self.gone, waiting=self.waiting
        )

    async def _once(self, ids: list[int]) -> tuple[Reading, RequestTiming, Reading]:
        before = await fetch_reading(self.client, self.target, clock=self.clock)
        timing = await self._timed(ids)
        if self.gone.is_set():
            return before, timing, before
        after = await settled_reading(
            self.client, self.target, clock=self.clock, before=before, failed=timing.error is not None
        )
        return before, timing, after

    async def _held(self, streams: Load, load: WindowRequest) -> bool:
        """Wait until every stream has its first token and the engine runs them all; False when that does not come."""
        await self._until(streams.started, streams.failed, timeout=float(load.ramp_timeout))
        deadline = self.clock.monotonic() + GAUGE_PATIENCE
        while streams.started.is_set() and not (streams.failed.is_set() or self.gone.is_set()):
            reading = await fetch_reading(self.client, self.target, clock=self.clock)
            running = reading.values.get("running")
            if (running is None or running >= load.concurrency) and not reading.values.get("waiting"):
                return True
            if self.clock.monotonic() > deadline:
                return False
            await asyncio.sleep(RAMP_POLL)
        return False

    async def _until(self, *events: asyncio.Event, timeout: float) -> None:
        """Wait for one of the events, for the engine's end, or for the time."""
        waits = [asyncio.ensure_future(event.wait()) for event in (*events, self.gone)]
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def _prompt(self) -> tuple[list[int], str]:
        """Return exactly `tokens` token ids that no cache has seen, and where they are from.

        The engine tokenizes made-up words drawn by the salt, and the ids are cut to length: counting costs no cache
        entry. A
        prompt whose very first tokens are new shares no block with any other.
        """
        digest = hashlib.sha256(self.salt.encode()).hexdigest()
        chance = random.Random(digest)
        count = int(self.tokens) + 16
        for _ in range(3):
            text = f"{digest[:16]} " + words_of([chance.randrange(10_000) for _ in range(count)])
            ids = await self._tokenized(text)
            if ids is None:
                break
            if len(ids) >= self.tokens:
                return ids[: self.tokens], "made-up words, tokenized by the engine"
            count *= 2
        ids = [chance.randrange(LOWEST_ID, HIGHEST_ID) for _ in range(self.tokens)]
        return ids, f"random token ids {LOWEST_ID} to {HIGHEST_ID} (the engine does not tokenize)"

    async def _tokenized(self, text: str) -> list[int] | None:
        body = {"model": self.target.model, "prompt": text, "add_special_tokens": False}
        try:
            async with asyncio.timeout(TOKENIZE_TIMEOUT):
                response = await self.client.post(
                    f"{self.target.base_url}/tokenize", json=body, headers=headers_of(self.target)
                )
            answer: Any = response.json() if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError, TimeoutError):
            return None
        ids = answer.get("tokens") if isinstance(answer, dict) else None
        return list(ids) if isinstance(ids, list) and all(isinstance(i, int) for i in ids) else None

    async def _timed(self, ids: list[int]) -> RequestTiming:
        continuous = self.usage.continuous(self.target)
        timing, status = await self._sent(ids, continuous=continuous)
        if status in (400, 422) and continuous:
            again, status = await self._sent(ids, continuous=False)
            if status == 200:
                self.usage.refused(self.target)
                return again
        return timing

    async def _sent(self, ids: list[int], *, continuous: bool) -> tuple[RequestTiming, int | None]:
        sampling = sampling_of(replace(self.sampling, max_tokens=1), temperature=0.0)
        body = streaming_body(self.target, ids, sampling=sampling, continuous=continuous, api="completions")
        log = await stream_alone(
            self.load_client, self.target, path_of("completions"), body=body, clock=self.clock, gone=self.gone
        )
        timing = timing_of(log)
        if timing.first_token is None and log.status == 200 and log.stamps and timing.error is None:
            timing = replace(timing, first_token=MonotonicSeconds(log.stamps[0]))  # a token without text, and no counts
        return timing, log.status

"""The engine's core: continuous batching over KV blocks, one step at a time, without a clock of its own.

`begin` says how long the next step takes, `finish` makes it happen: whoever paces it (real time, or a test that just jumps)
decides when. Counters move at `finish`, every step, as vLLM's do.

Sources: vLLM V1's scheduler (running requests first, then waiting ones within the token budget; the latest is preempted
when blocks run out; accepted draft tokens are counted before the answer's end trims them).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from nightsweep.simulator.acceptance import Chain
from nightsweep.simulator.configtruth import ConfigTruth, at_depth
from nightsweep.simulator.foreign import ForeignLoad
from nightsweep.simulator.journal import Journal
from nightsweep.simulator.kvpool import BLOCK, KvPool
from nightsweep.simulator.metrics import EngineMetrics
from nightsweep.simulator.request import Request

_DRIFT_EVERY = 8  # steps between two moves of a request's drift
_PREFILL_AT_LEAST = 256  # prompt tokens of a step however many streams decode: else a large batch would never fill up


@dataclass
class _Step:
    truth: ConfigTruth
    decoding: list[Request]
    chunks: list[tuple[Request, int]]
    batch: int


class EngineCore:
    """All requests of one engine.

    Args:
        speculative: vLLM's own keys; its schedule of depths by batch size is followed.
        rng: Draws acceptance and drift.
        journal: Notes every step; None keeps no notes.
    """

    def __init__(
        self,
        truth: ConfigTruth,
        *,
        speculative: Mapping[str, Any] | None,
        pool: KvPool,
        metrics: EngineMetrics,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        rng: Random,
        journal: Journal | None = None,
    ) -> None:
        self.truth = truth
        self._journal = journal
        self.pool = pool
        self.metrics = metrics
        self.max_num_seqs = max_num_seqs
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.foreign = ForeignLoad()
        self.steps = 0
        self._budget = max_num_batched_tokens
        self._rng = rng
        self._depths = _depths(truth, speculative or {})
        self._step: _Step | None = None
        self._finished_at: float | None = None

    # --- requests in and out ---------------------------------------------------------------------------------------

    def submit(self, request: Request, *, now: float) -> None:
        """Queue a request."""
        request.arrived = now
        request.target = request.prompt_tokens
        request.state = "waiting"
        spread = self.truth.spread
        request.drift = self._rng.gauss(0.0, spread.drift) if spread.drift else 0.0
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Drop a request whose client is gone; tokens made so far stay counted. Idempotent."""
        if request.state == "waiting":
            self.waiting.remove(request)
        elif request.state in ("prefill", "decode"):
            self.running.remove(request)
            self._give_back(request)
        request.state = "done"

    def preempt_latest(self) -> bool:
        """Preempt the latest running request; False when none runs."""
        if not self.running:
            return False
        self._preempt(self.running[-1])
        return True

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self._give_back(request)
        request.state = "waiting"
        request.preempted += 1
        request.target = request.prompt_tokens + request.generated
        request.computed = 0
        self.waiting.appendleft(request)
        self.metrics.preemptions += 1

    def _give_back(self, request: Request) -> None:
        self.pool.release(request.held, private=request.private)
        request.held = []
        request.private = 0

    # --- a step ----------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> float | None:
        """Schedule the next step. Return its simulated seconds, or None when there is nothing to do."""
        decoding = self._growing()
        budget = max(_PREFILL_AT_LEAST, self._budget - len(decoding) * (1 + self.truth.k))
        chunks = []
        for request in self.running:
            if request.state == "prefill" and budget > 0:
                chunk = min(request.target - request.computed, budget)
                budget -= chunk
                chunks.append((request, chunk))
        budget = self._admit(chunks, budget, now=now)
        batch = len(decoding) + self.foreign.streams
        if not batch and not chunks and not self.foreign.rate:
            self._finished_at = None
            return None
        truth = self._depth(batch)
        self._step = _Step(truth, decoding, chunks, max(1, batch))
        return truth.step_seconds(batch, prefill_tokens=sum(chunk for _, chunk in chunks))

    def _growing(self) -> list[Request]:
        """Return the decoding requests, each with blocks for its next tokens; the latest ones give way when there are none."""
        decoding = []
        ahead = 1 + self.truth.k
        for request in list(self.running):
            if request.state != "decode":
                continue
            need = (request.prompt_tokens + request.generated + ahead + BLOCK - 1) // BLOCK
            lacking = need - len(request.held) - request.private
            if lacking <= 0 or self._grown(request, lacking):
                decoding.append(request)
        return [request for request in decoding if request.state == "decode"]

    def _grown(self, request: Request, lacking: int) -> bool:
        while not self.pool.take(lacking):
            latest = self.running[-1]
            self._preempt(latest)
            if latest is request:
                return False
        request.private += lacking
        return True

    def _admit(self, chunks: list[tuple[Request, int]], budget: int, *, now: float) -> int:
        while self.waiting and budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            known = min(self.pool.known(request.hashes), (request.target - 1) // BLOCK)
            found = list(request.hashes[:known])
            self.pool.hold(found)
            need = (request.target + BLOCK - 1) // BLOCK - known
            if not self.pool.take(need):
                self.pool.release(found, private=0)
                break
            self.waiting.popleft()
            self._start(request, found, need, now=now)
            chunk = min(request.target - request.computed, budget)
            budget -= chunk
            chunks.append((request, chunk))
        return budget

    def _start(self, request: Request, found: list[int], private: int, *, now: float) -> None:
        request.held = found
        request.private = private
        request.computed = len(found) * BLOCK
        request.state = "prefill"
        self.running.append(request)
        if request.scheduled is None:
            request.scheduled = now
            request.cached = request.computed
            if self.pool.caching:
                self.metrics.cache_queries += request.prompt_tokens
                self.metrics.cache_hits += request.cached

    def finish(self, now: float) -> None:
        """Make the step that `begin` scheduled happen: tokens go to their outlets, counters move."""
        step = self._step
        if step is None:
            return
        self._step = None
        self.steps += 1
        before = self._finished_at
        self._finished_at = now
        emitted = self._decode(step, now, before)
        computed = 0
        for request, chunk in step.chunks:
            if request.state == "prefill":
                computed += chunk
                emitted += self._prefill(request, chunk, now)
        if self.foreign.rate and before is not None:
            tokens, accepted_by = self.foreign.step(now - before, step.truth)
            self.metrics.inter_token.observe(now - before, sum(accepted_by))
            self._count_drafts(accepted_by, step.truth.k)
            emitted += tokens
        self.metrics.generation_tokens += emitted
        if emitted or computed:
            self.metrics.iteration_tokens.observe(emitted + computed)
        if self._journal is not None:
            self._journal.step(now, self.metrics)

    def _decode(self, step: _Step, now: float, before: float | None) -> int:
        accepted_by = [0] * (step.truth.k + 1)
        in_rhythm = emitted = 0
        chains: dict[float, Chain] = {}
        ended: list[tuple[Request, str]] = []
        for request in step.decoding:
            if request.state != "decode":
                continue
            count = 1
            if step.truth.k:
                count += self._accepted(request, step, chains, accepted_by)
            count, reason = self._emit(request, count)
            emitted += count
            if request.last_token == before:
                in_rhythm += 1
            else:
                self.metrics.inter_token.observe(now - request.last_token)
            request.last_token = now
            if reason is not None:
                ended.append((request, reason))
        if in_rhythm and before is not None:
            self.metrics.inter_token.observe(now - before, in_rhythm)
        self._count_drafts(accepted_by, step.truth.k)
        for request, reason in ended:
            self._end(request, reason, now)
        return emitted

    def _accepted(self, request: Request, step: _Step, chains: dict[float, Chain], accepted_by: list[int]) -> int:
        """Draw how many draft tokens this request accepts in this step; 0 also when it does not draft."""
        self._content(request, step, chains)
        share = step.truth.entry.draft_share
        if share < 1.0 and self._rng.random() >= share:
            return 0
        accepted = step.truth.k - bisect_right(request.table, self._rng.random())
        accepted_by[accepted] += 1
        return accepted

    def _emit(self, request: Request, count: int) -> tuple[int, str | None]:
        """Hand tokens out; return how many were left after the answer's end cut them, and why it ended, if it did."""
        start = request.generated
        reason = None
        if start + count >= request.limit:
            count = request.limit - start
            reason = "stop" if request.natural else "length"
        request.generated = start + count
        if request.outlet.tokens(start, count, reason) and reason is None:
            reason = "stop"
        return count, reason

    def _content(self, request: Request, step: _Step, chains: dict[float, Chain]) -> None:
        """Bring the request's table up to its drift and to the batch it is in."""
        chain = chains.get(request.temperature)
        if chain is None:
            chain = chains[request.temperature] = step.truth.chain(request.temperature, step.batch)
        moved = request.steps % _DRIFT_EVERY == 0
        request.steps += 1
        spread = step.truth.spread
        if moved and spread.drift:
            kept = math.exp(-_DRIFT_EVERY / spread.drift_steps)
            request.drift = kept * request.drift + self._rng.gauss(0.0, spread.drift * math.sqrt(1.0 - kept * kept))
        if moved or request.chain is not chain:
            request.chain = chain
            shift = step.truth.prompt_spread(request.temperature) * request.difficulty
            request.table = chain.table(shift + (request.drift if spread.drift else 0.0))

    def _count_drafts(self, accepted_by: Sequence[int], k: int) -> None:
        drafts = sum(accepted_by)
        if not k or not drafts:
            return
        metrics = self.metrics
        metrics.drafts += drafts
        metrics.draft_tokens += drafts * k
        reaching = 0
        for position in range(k - 1, -1, -1):
            reaching += accepted_by[position + 1]
            metrics.accepted_at[position] += reaching
            metrics.accepted += reaching

    def _prefill(self, request: Request, chunk: int, now: float) -> int:
        request.computed += chunk
        if request.computed < request.target:
            return 0
        known = len(request.held)
        published = self.pool.publish(request.hashes[known:])
        request.held.extend(published)
        request.private -= len(published)
        request.state = "decode"
        metrics = self.metrics
        if request.generated == 0:
            request.first_token = now
            metrics.first_token.observe(now - request.arrived)
            metrics.prompt_tokens += request.prompt_tokens
            metrics.prompt_cached += request.cached
            metrics.prompt_computed += request.prompt_tokens - request.cached
        else:
            metrics.inter_token.observe(now - request.last_token)
        request.last_token = now
        _, reason = self._emit(request, 1)
        if reason is not None:
            self._end(request, reason, now)
        return 1

    def _end(self, request: Request, reason: str, now: float) -> None:
        if request.state == "done":
            return
        self.running.remove(request)
        self._give_back(request)
        request.state = "done"
        metrics = self.metrics
        scheduled = request.scheduled if request.scheduled is not None else now
        metrics.finished[reason] += 1
        metrics.end_to_end.observe(now - request.arrived)
        metrics.queued.observe(scheduled - request.arrived)
        metrics.inference.observe(now - scheduled)
        metrics.prefill.observe(request.first_token - scheduled)
        metrics.decode.observe(now - request.first_token)
        if request.generated > 1:
            metrics.per_token.observe((now - request.first_token) / (request.generated - 1))
        metrics.request_prompt.observe(request.prompt_tokens)
        metrics.request_generation.observe(request.generated)
        metrics.request_max_tokens.observe(request.max_tokens)
        metrics.request_prefill_kv.observe(request.prompt_tokens - request.cached)

    def _depth(self, batch: int) -> ConfigTruth:
        for first, last, truth in self._depths:
            if first <= batch <= last:
                return truth
        return self.truth


def _depths(truth: ConfigTruth, speculative: Mapping[str, Any]) -> tuple[tuple[int, float, ConfigTruth], ...]:
    """Return (first batch, last batch, truth) of `num_speculative_tokens_per_batch_size`; gaps carry the depth before forward."""
    rows = [tuple(row) for row in speculative.get("num_speculative_tokens_per_batch_size") or ()]
    ends = [*(row[0] - 1 for row in rows[1:]), math.inf][: len(rows)]
    return tuple(
        (int(row[0]), end, at_depth(truth, speculative, min(int(row[2]), truth.k)))
        for row, end in zip(rows, ends, strict=True)
    )

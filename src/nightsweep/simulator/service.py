"""One running simulated engine: core, pace, counters and faults, and what the endpoints ask of it."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable
from random import Random
from typing import Any

from nightsweep.simulator import content, tokenizer
from nightsweep.simulator.answers import Answer
from nightsweep.simulator.bootlog import Booted, Log, engine_died, kill_self
from nightsweep.simulator.engine import EngineCore
from nightsweep.simulator.faults import KINDS, Fault, FaultSet
from nightsweep.simulator.journal import Journal
from nightsweep.simulator.kvpool import BLOCK, KvPool, block_hashes
from nightsweep.simulator.metrics import EngineMetrics
from nightsweep.simulator.pace import Pacer
from nightsweep.simulator.request import Request
from nightsweep.simulator.requests import Ask, Limits
from nightsweep.simulator.settings import SimSettings

_TIMED = frozenset({"exit_in_window", "exit_137", "counter_reset", "stall", "preempt", "jit_warning", "foreign_burst"})
_SPOILING = ("cut_stream", "stream_error", "empty_stream", "garbage")
_DEAD_FOR = 0.45  # real seconds between the core's death and the server's own end, as measured on vLLM 0.26


class SimEngine:
    """The engine behind the endpoints.

    Args:
        stop: Called when the engine decides to end (after its core died).
    """

    def __init__(self, settings: SimSettings, booted: Booted, *, faults: FaultSet, log: Log) -> None:
        self.settings = settings
        self.booted = booted
        self.faults = faults
        self.truth = booted.truth
        self.version = booted.version
        self.seed = settings.seed
        self.dead = False
        self.stop: Callable[[], None] = lambda: None
        names = settings.served_names
        if "wrong_model" in faults:
            names = tuple(f"{name}-other" for name in names)
        self.limits = Limits(names, booted.max_model_len, speculating=self.truth.k > 0)
        profile = self.truth.profile
        self.journal = Journal() if settings.journal else None
        self.metrics = EngineMetrics(model=names[0], k=self.truth.k, cache_config=_cache_config(settings, booted))
        self.core = EngineCore(
            self.truth,
            speculative=settings.speculative,
            pool=KvPool(booted.kv_tokens, caching=settings.prefix_caching),
            metrics=self.metrics,
            max_num_seqs=settings.max_num_seqs or profile.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens or profile.max_num_batched_tokens,
            rng=Random(settings.luck if settings.luck is not None else time.time_ns() ^ os.getpid()),
            journal=self.journal,
        )
        self._most = self.core.max_num_seqs
        self.pacer = Pacer(self.core, speed=settings.speed)
        self._log = log
        self._answers: dict[Request, Answer] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._begun = False
        self._luck = Random(self.seed)

    # --- requests ----------------------------------------------------------------------------------------------------

    def admit(self, ask: Ask, answer: Callable[[int, str], Answer]) -> tuple[Request, Answer]:
        """Queue a generation; `answer` makes its outlet from a start in the text and a request id."""
        if not self._begun:
            self.begin_faults()
        key = tokenizer.prompt_key(ask.ids)
        start = content.answer_start(key, request_seed=ask.seed)
        outlet = answer(start, ("chatcmpl-" if ask.chat else "cmpl-") + uuid.uuid4().hex[:16])
        limit, natural = self._length(ask, key)
        request = Request(
            prompt_tokens=len(ask.ids),
            hashes=block_hashes(ask.ids) if self.settings.prefix_caching else (),
            limit=limit,
            natural=natural,
            max_tokens=ask.max_tokens,
            temperature=ask.temperature,
            difficulty=content.difficulty(key, seed=self.seed),
            outlet=outlet if self.journal is None else self.journal.follow(outlet, arrived=time.monotonic()),
        )
        self._answers[request] = outlet
        self.core.submit(request, now=time.monotonic())
        self.pacer.wake()
        return request, outlet

    def _length(self, ask: Ask, key: bytes) -> tuple[int, bool]:
        if ask.ignore_eos:
            return ask.max_tokens, False
        profile = self.truth.profile
        natural = content.answer_tokens(
            key, mean=profile.stop_mean, minimum=profile.stop_minimum, seed=self.seed, request_seed=ask.seed
        )
        natural = max(natural, ask.min_tokens)
        return (natural, True) if natural <= ask.max_tokens else (ask.max_tokens, False)

    def done(self, request: Request) -> None:
        """Let go of a request that has ended, or whose client is gone. Idempotent."""
        self.core.abort(request)
        self._answers.pop(request, None)

    def refusal(self) -> int | None:
        """Return the HTTP status with which this request is refused, by the faults that strike some; None for the others."""
        return 500 if self._strikes("error_rate") else 503 if self._strikes("refuse") else None

    def spoiling(self) -> str | None:
        """Return the fault that spoils this stream; None for the others."""
        return next((name for name in _SPOILING if self._strikes(name)), None)

    def _strikes(self, name: str) -> bool:
        fraction = self.faults.value(name, "FRACTION")
        return fraction is not None and self._luck.random() < fraction

    # --- faults ------------------------------------------------------------------------------------------------------

    def begin_faults(self) -> None:
        """Start the clock of the faults that were asked for at the start."""
        self._begun = True
        for fault in list(self.faults.active.values()):
            self._enforce(fault)

    def inject(self, fault: Fault) -> None:
        """Put a fault in force now.

        Raises:
            ValueError: It strikes a boot, and the boot is over.
        """
        if KINDS[fault.name].boot:
            raise ValueError(f"{fault.name} strikes a boot; this engine has booted")
        self.faults.add(fault)
        self._enforce(fault)

    def lift(self, name: str) -> bool:
        """End a lasting fault; False when it was not in force."""
        known = self.faults.clear(name)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        if name == "foreign_load":
            self.core.foreign.rate = 0.0
        if name == "slow_drift":
            self.pacer.slow_down(0.0)
        if name == "hold":
            self.core.max_num_seqs = self._most
            self.pacer.wake()
        return known

    def _enforce(self, fault: Fault) -> None:
        if fault.name == "foreign_load":
            self.core.foreign.rate = fault.value("RATE")
            self.pacer.wake()
        elif fault.name == "slow_drift":
            self.pacer.slow_down(fault.value("FRACTION_PER_S"))
        elif fault.name == "hold":
            self.core.max_num_seqs = max(1, int(fault.value("STREAMS")))
        elif fault.name in _TIMED:
            loop = asyncio.get_running_loop()
            self._timers[fault.name] = loop.call_later(fault.value("AFTER"), self._strike, fault)

    def _strike(self, fault: Fault) -> None:
        if fault.name == "exit_in_window":
            self.die()
        elif fault.name == "exit_137":
            kill_self()
        elif fault.name == "counter_reset":
            self.metrics.restart()
        elif fault.name == "preempt":
            self.core.preempt_latest()
        elif fault.name == "foreign_burst":
            self._burst(fault.value("RATE"), fault.value("SECONDS"))
        elif fault.name == "stall":
            self.pacer.stall(fault.value("SECONDS"))
        elif fault.name == "jit_warning":
            text = (
                "Triton kernel JIT compilation during inference: eagle_prepare_next_token_padded_kernel. This causes a "
                "latency spike; consider extending warmup to cover this shape/config."
            )
            self._log.core("jit_monitor.py:103", text, level="WARNING")
            self.pacer.stall(fault.value("SECONDS"))

    def _burst(self, rate: float, seconds: float) -> None:
        def over() -> None:
            self.core.foreign.rate = 0.0

        self.core.foreign.rate = rate
        self.pacer.wake()
        asyncio.get_running_loop().call_later(seconds, over)

    def die(self) -> None:
        """Lose the engine core as vLLM does: every request gets an error, then the server ends by itself with code 0."""
        self.dead = True
        engine_died(self._log)
        self.drop_all()
        asyncio.get_running_loop().call_later(_DEAD_FOR, self.stop)

    def drop_all(self) -> None:
        """End every request without an answer."""
        for request, answer in list(self._answers.items()):
            self.core.abort(request)
            answer.fail()
        self._answers.clear()

    # --- what the engine tells -----------------------------------------------------------------------------------------

    def metrics_page(self) -> bytes:
        """Return the page of counters; without series of the engine under --disable-log-stats."""
        if not self.settings.log_stats:
            return self.metrics.render_process()
        core = self.core
        running = len(core.running) + (core.foreign.streams)
        return self.metrics.render(running=running, waiting=len(core.waiting), kv_usage=core.pool.usage)

    def usage(self, request: Request, count: int) -> dict[str, Any]:
        """Return the usage of a finished answer."""
        details = {"cached_tokens": request.cached} if self.settings.prompt_details else None
        return {
            "prompt_tokens": request.prompt_tokens,
            "total_tokens": request.prompt_tokens + count,
            "completion_tokens": count,
            "prompt_tokens_details": details,
        }

    def truth_page(self) -> dict[str, Any]:
        """Return what was set: step times, acceptance, rates, faults; and how late the machine made the steps."""
        batches = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        temperatures = ("0.0", "0.7", "1.0")
        return {
            "simulated": True,
            "profile": self.truth.profile.name,
            "speed": self.settings.speed,
            "boot_speed": self.settings.boot_speed,
            "seed": self.seed,
            "speculative": self.settings.speculative,
            "source": self.truth.entry.source,
            "num_speculative_tokens": self.truth.k,
            "step_seconds": {str(batch): self.truth.step_seconds(batch) for batch in batches},
            "acceptance_length": {
                t: {str(batch): self.truth.acceptance_length(float(t), batch) for batch in batches[:5]}
                for t in temperatures
            },
            "positions": {t: self.truth.positions(float(t), 1) for t in temperatures},
            "draft_share": self.truth.entry.draft_share,
            "prefill_rate": self.truth.profile.prefill_rate,
            "weights_gib": self.truth.entry.weights_gib,
            "kv_tokens": self.booted.kv_tokens,
            "max_concurrency": self.booted.kv_tokens / self.booted.max_model_len,
            "cold_start_seconds": self.booted.cold_start,
            "faults": sorted(self.faults.active),
            "steps": self.core.steps,
            **self.pacer.lateness(),
        }


def _cache_config(settings: SimSettings, booted: Booted) -> dict[str, str]:
    return {
        "_block_size_resolved": "True",
        "block_size": str(BLOCK),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(settings.prefix_caching),
        "gpu_memory_utilization": str(settings.gpu_memory_utilization),
        "kv_cache_max_concurrency": str(booted.kv_tokens / booted.max_model_len),
        "kv_cache_memory_bytes": str(settings.kv_cache_memory_bytes),
        "kv_cache_size_tokens": str(booted.kv_tokens),
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(booted.kv_tokens // BLOCK),
        "num_gpu_blocks_override": "None",
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": "None",
    }

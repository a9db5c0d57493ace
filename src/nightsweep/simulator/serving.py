"""Serving in real time: uvicorn around the engine, until somebody says stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import time
from collections.abc import Generator

import uvicorn

from nightsweep.simulator.bootlog import Booted, Log
from nightsweep.simulator.faults import FaultSet
from nightsweep.simulator.http import SimApp
from nightsweep.simulator.service import SimEngine
from nightsweep.simulator.settings import SimSettings

_REPORT_EVERY = 10.0  # real seconds between the engine's own lines about its rates, as in vLLM


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling: vLLM ends with code 0 on SIGTERM, uvicorn by the signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield


def serve(settings: SimSettings, booted: Booted, *, sock: socket.socket, faults: FaultSet, log: Log) -> int:
    """Listen on a bound socket and serve until SIGTERM, or until the engine dies; return the exit code."""
    engine = SimEngine(settings, booted, faults=faults, log=log)
    config = uvicorn.Config(
        SimApp(engine),
        http="httptools",
        loop="uvloop" if sys.platform == "linux" else "asyncio",
        ws="none",
        lifespan="on",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        backlog=2048,
    )
    server = _Server(config)
    gc.collect()
    gc.freeze()  # what lives now lives for good: collections stay short, and a step stays on time
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_run(server, engine, sock, deaf="swallow_sigterm" in faults))
    return 0


async def _run(server: uvicorn.Server, engine: SimEngine, sock: socket.socket, *, deaf: bool) -> None:
    def stop() -> None:
        server.should_exit = True
        engine.drop_all()

    engine.stop = stop
    loop = asyncio.get_running_loop()
    if not deaf:
        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, stop)
    tasks = [asyncio.create_task(engine.pacer.run()), asyncio.create_task(_report(engine))]
    pacing = tasks[0]
    pacing.add_done_callback(lambda task: None if task.cancelled() or task.exception() is None else stop())
    try:
        await server.serve(sockets=[sock])
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _report(engine: SimEngine) -> None:
    """Print rates every ten seconds while there is traffic, in vLLM's words. Averages for people: the counters are the truth."""
    log = Log(speed=1.0)
    before, at = _totals(engine), time.monotonic()
    while True:
        await asyncio.sleep(_REPORT_EVERY)
        now, then = _totals(engine), at
        at = time.monotonic()
        made = {key: (now[key] - before[key]) / (at - then) for key in now}
        delta = {key: now[key] - before[key] for key in now}
        before = now
        if not delta["generated"] and not delta["prompt"]:
            continue
        log.api("loggers.py:310", _rates(engine, made))
        if delta["drafts"] > 0:
            log.api("metrics.py:119", _drafting(delta, made))


def _totals(engine: SimEngine) -> dict[str, float]:
    metrics = engine.metrics
    positions = {f"position {i}": float(value) for i, value in enumerate(metrics.accepted_at)}
    return {
        "prompt": metrics.prompt_tokens,
        "generated": metrics.generation_tokens,
        "drafts": metrics.drafts,
        "drafted": metrics.draft_tokens,
        "accepted": metrics.accepted,
        **positions,
    }


def _rates(engine: SimEngine, made: dict[str, float]) -> str:
    metrics = engine.metrics
    hits = 100.0 * metrics.cache_hits / metrics.cache_queries if metrics.cache_queries else 0.0
    return (
        f"Engine 000: Avg prompt throughput: {made['prompt']:.1f} tokens/s, Avg generation throughput: "
        f"{made['generated']:.1f} tokens/s, Running: {len(engine.core.running)} reqs, Waiting: {len(engine.core.waiting)} "
        f"reqs, GPU KV cache usage: {100 * engine.core.pool.usage:.1f}%, Prefix cache hit rate: {hits:.1f}%"
    )


def _drafting(delta: dict[str, float], made: dict[str, float]) -> str:
    positions = ", ".join(f"{v / delta['drafts']:.3f}" for key, v in delta.items() if key.startswith("position"))
    return (
        f"SpecDecoding metrics: Mean acceptance length: {1 + delta['accepted'] / delta['drafts']:.2f}, Accepted throughput: "
        f"{made['accepted']:.2f} tokens/s, Drafted throughput: {made['drafted']:.2f} tokens/s, Accepted: "
        f"{delta['accepted']:.0f} tokens, Drafted: {delta['drafted']:.0f} tokens, Per-position acceptance rate: {positions}, "
        f"Avg Draft acceptance rate: {100 * delta['accepted'] / delta['drafted']:.1f}%"
    )

"""What the probe itself takes from a real engine: decode rate with and without its polling and its work on each chunk.

Pairs of windows on one engine that runs already, in turn (with, without; without, with; ...): the same streams, prompts and
sampling, natural ends off. *With* is the probe as in a sweep. *Without* reads the counters at both ends only, and its streams
are drained by a process that does nothing with the bytes. The figure is the mean of the pairs' ratios, with its standard error:
below 0.5% is asked for, and what the error says is what this machine can tell.

    NIGHTSWEEP_BENCH_ENGINE=http://127.0.0.1:8000 NIGHTSWEEP_BENCH_MODEL=tiny python -m benchmarks.disturbance

The engine is any vLLM that serves (`tests/live/README.md` says how to have one on a CPU). On a machine whose cores the engine
and the client share, the client's own CPU time is in the figure as well: on a box with an accelerator it is not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.common import Figure, Section, table, write
from benchmarks.truth import PROMPTS, a_probe
from nightsweep.engine.dialects import vllm_dialect
from nightsweep.measurement.derive import derive
from nightsweep.measurement.rates import decode_rate
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Target, WindowRequest
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.units import Seconds

STREAMS = 4
MAX_TOKENS = 512
WINDOW = 8.0
SETTLE = 1.5
PAIRS = 12
TARGET = 0.005


def engine_of_environment() -> Target | None:
    """The engine that is named, or None."""
    url, model = os.environ.get("NIGHTSWEEP_BENCH_ENGINE"), os.environ.get("NIGHTSWEEP_BENCH_MODEL")
    if not url or not model:
        return None
    return Target(url, url, model, vllm_dialect(None), api="completions", request_timeout=Seconds(300.0))


def with_probe(probe: HttpProbe, target: Target, *, place: int) -> float:
    """The decode rate of a window as a sweep measures it."""
    request = WindowRequest(
        concurrency=STREAMS,
        temperature=0.7,
        window=Seconds(WINDOW),
        sampling=SamplingSpec(max_tokens=MAX_TOKENS, ignore_eos=True),
        prompts=PROMPTS,
        first_prompt=place * 37,
        order_seed=5,
    )
    result = derive(
        probe.window(target, request, alive=lambda: True), dialect=target.dialect, num_speculative_tokens=None
    )
    if result.numbers is None or result.flags:
        raise RuntimeError(f"no clean window: {dict(result.flag_details)}")
    return float(result.numbers.decode_rate)


def without_probe(probe: HttpProbe, target: Target, *, place: int) -> float:
    """The decode rate between two readings while somebody else drains the same streams."""
    with draining(target, place=place):
        _until_running(probe, target)
        before = probe.read(target)
        time.sleep(WINDOW)
        after = probe.read(target)
    rate = decode_rate(before, after)
    if rate is None:
        raise RuntimeError("the engine counts no generated tokens")
    probe.drain(target, timeout=Seconds(30.0))
    return float(rate)


def _until_running(probe: HttpProbe, target: Target) -> None:
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        values = probe.read(target).values
        if values.get("running", 0.0) >= STREAMS and not values.get("waiting"):
            time.sleep(SETTLE)  # the drainer's own start is over
            return
        time.sleep(0.1)
    raise RuntimeError("the streams did not run together")


@contextmanager
def draining(target: Target, *, place: int) -> Iterator[None]:
    """Hold the streams in a process of their own until the block ends."""
    command = [sys.executable, "-m", "benchmarks.disturbance", "--drain", target.base_url, "--model", target.model]
    process = subprocess.Popen([*command, "--place", str(place)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def drain(url: str, model: str, *, place: int) -> None:
    """Send closed-loop requests on bare sockets and throw the bytes away, for ever."""
    threads = [threading.Thread(target=_drain_one, args=(url, model, place * 37 + stream)) for stream in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _drain_one(url: str, model: str, first: int) -> None:
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    for number in range(first, first + 1_000_000, STREAMS):
        body = {"model": model, "prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": MAX_TOKENS, "temperature": 0.7}
        body |= {"ignore_eos": True, "stream": True, "top_p": 1.0, "top_k": -1}
        data = json.dumps(body).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        with socket.create_connection((host, port)) as sock:
            sock.sendall(head.encode() + data)
            while sock.recv(65536):
                pass


def measure(*, pairs: int = PAIRS) -> Section:
    """The pairs' ratios."""
    target = engine_of_environment()
    if target is None:
        return Section(
            "disturbance", skipped="NIGHTSWEEP_BENCH_ENGINE and NIGHTSWEEP_BENCH_MODEL name no engine that runs"
        )
    ratios = []
    with a_probe() as probe:
        with_probe(probe, target, place=0)  # warm-up
        for pair in range(pairs):
            order = (with_probe, without_probe) if pair % 2 == 0 else (without_probe, with_probe)
            rates = {each: each(probe, target, place=pair) for each in order}
            ratios.append(rates[without_probe] / rates[with_probe] - 1.0)
            print(
                f"   with {rates[with_probe]:.2f}, without {rates[without_probe]:.2f} tokens/s: {ratios[-1]:+.2%}",
                flush=True,
            )
    return Section(name="disturbance", figures=(_figure(ratios),), facts={"ratios": ratios, "window_s": WINDOW})


def _figure(ratios: list[float]) -> Figure:
    error = statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.inf
    return Figure(
        name="decode rate that the probe takes from a real engine",
        unit="%",
        value=100 * statistics.fmean(ratios),
        samples=tuple(100 * ratio for ratio in ratios),
        target=100 * TARGET if error <= TARGET else None,
        note=f"mean of {len(ratios)} pairs, standard error {100 * error:.2f}%, {STREAMS} streams, {WINDOW:g} s"
        + ("" if error <= TARGET else ": this machine is too restless to tell half a percent"),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What the probe takes from a real engine.")
    parser.add_argument("--drain", metavar="URL", help="hold the streams of this engine and throw the bytes away")
    parser.add_argument("--model", default="")
    parser.add_argument("--place", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    given = parser.parse_args()
    if given.drain:
        drain(given.drain, given.model, place=given.place)
    else:
        section = measure(pairs=given.pairs)
        write(section)
        print(table((section,)))

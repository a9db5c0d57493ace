"""What the probe itself takes from a real engine: decode rate with and without its polling and its work on each chunk.

One server, many short segments. In each, the same streams with the same prompts and seeds are begun anew, all decode, half a
second passes, and the engine's counters are read at both edges, in every segment alike. Segments differ in who holds the streams
(see `disturbance_client`):

    off      a process that only drains bytes, and nobody who polls
    probe    the probe, as in an ordinary window of 40 s: polling, stamps, token counts in every chunk
    polling  (--parts) as off, but the metrics page is read once in two seconds, as the probe does in such a window
    counts   (--parts) as off, but with the token counts in every chunk that the probe asks for

Segments stand in blocks that read the same forward and backward (off probe probe off, the next block the other way round): what
drifts evenly is in both. A block gives one difference of logarithms; the figure is the blocks' median with a bootstrap interval,
the mean and its t interval beside it. The client has cores of its own: what is measured is the engine's own extra work.

Rates are told of tokens and of steps: with speculation, chance decides how many tokens a step yields. On an engine without an
accelerator the same is told once more as CPU seconds per step: what another program takes from the engine's core makes a segment
longer, but no step dearer.

    python -m benchmarks.disturbance --model NAME --server 'vllm serve MODEL --served-model-name NAME --port {port}'
    NIGHTSWEEP_BENCH_ENGINE=http://127.0.0.1:8000 NIGHTSWEEP_BENCH_MODEL=NAME python -m benchmarks.disturbance
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks.common import RESULTS, Figure, Section, table, write
from benchmarks.disturbance_client import WINDOW, target_of
from benchmarks.intervals import of_mean, of_median
from benchmarks.real_server import Cores, Server, apart, on_cores, started
from nightsweep.measurement import rates
from nightsweep.measurement.values import Reading
from nightsweep.ports import Target
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.window import SAMPLES_ENOUGH
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock

OFF, PROBE = "off", "probe"
PARTS = ("polling", "counts")
POLL = WINDOW / SAMPLES_ENOUGH
"""Seconds between two readings of the probe's in an ordinary window. A segment is a multiple: each holds as many readings."""

SETTLE = 0.5
TARGET = 0.005
UNTOUCHED = 30.0
"""Seconds within which streams must run together, or be gone."""


@dataclass(frozen=True)
class Load:
    """The engine and the streams."""

    server: Server
    model: str
    streams: int
    max_tokens: int


@dataclass(frozen=True)
class Segment:
    """One segment: the engine's decode rate (tokens/s), steps per second, CPU seconds per step (None: not told)."""

    arm: str
    rate: float
    steps: float | None
    cpu: float | None


class Client:
    """The process that holds the streams."""

    def __init__(self, load: Load) -> None:
        said = {"url": load.server.url, "model": load.model, "streams": load.streams, "max_tokens": load.max_tokens}
        command = [sys.executable, "-m", "benchmarks.disturbance_client", json.dumps(said)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def tell(self, word: str) -> None:
        """Have it do something (raises RuntimeError when it cannot)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise RuntimeError(f"the client could not {word}: {answer or 'it is gone'}")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@dataclass
class Experiment:
    """Segments on one server."""

    load: Load
    client: Client
    probe: HttpProbe
    seconds: float
    target: Target = field(init=False)

    def __post_init__(self) -> None:
        self.target = target_of(self.load.server.url, self.load.model)

    def segment(self, arm: str) -> Segment:
        """Hold the streams this way, and read the counters at both edges."""
        self._until(0)
        self.client.tell(arm if arm in (PROBE, "counts") else "drain")
        try:
            self._until(self.load.streams)
            time.sleep(SETTLE)
            before, used = self.probe.read(self.target), self.load.server.cpu_seconds()
            with self._polled() if arm == "polling" else contextlib.nullcontext():
                time.sleep(self.seconds)
            after, used_after = self.probe.read(self.target), self.load.server.cpu_seconds()
        finally:
            self.client.tell("stop")
        return self._told(arm, before, after, None if used is None or used_after is None else used_after - used)

    def _told(self, arm: str, before: Reading, after: Reading, cpu: float | None) -> Segment:
        rate, steps = rates.decode_rate(before, after), rates.step_time(before, after)
        running = (before.values.get("running"), after.values.get("running"))
        if rate is None or running != (self.load.streams, self.load.streams):
            raise RuntimeError(f"{arm}: the streams did not run all through the segment: {running} running")
        taken = cpu * steps / rates.window_seconds(before, after) if cpu and steps else None
        return Segment(arm, float(rate), None if steps is None else 1 / steps, taken)

    def _until(self, running: int) -> None:
        """Wait until the engine runs so many requests, and each has had a token."""
        begun = self.probe.read(self.target)
        end = time.monotonic() + UNTOUCHED
        while time.monotonic() < end:
            now = self.probe.read(self.target)
            made = (rates.delta(begun, now, "generation_tokens") or 0.0) >= 2 * running
            if now.values.get("running") == running and not now.values.get("waiting") and made:
                return
            time.sleep(0.05)
        raise RuntimeError(f"the engine did not come to run {running} requests")

    @contextmanager
    def _polled(self) -> Iterator[None]:
        """Read the metrics page beside the block as often as the probe does."""
        over = threading.Event()

        def poll() -> None:
            wait = POLL / 2  # none at a segment's edges
            while not over.wait(wait):
                self.probe.read(self.target)
                wait = POLL

        thread = threading.Thread(target=poll, name="poll")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def block_of(arms: Sequence[str], *, number: int) -> tuple[str, ...]:
    """The arms of a block: forward and backward, every other block the other way round."""
    order = tuple(arms if number % 2 == 0 else reversed(arms))
    return order + order[::-1]


def differences(blocks: Sequence[Sequence[Segment]], arm: str, *, of: str) -> list[float]:
    """Each block's difference in percent; blocks in which it was not told are left out.

    Args:
        of: "rate", "steps": how much faster the engine is with nobody watching; "cpu": how much more a step costs with the arm.
    """
    found = []
    for block in blocks:
        logs: dict[str, list[float]] = {arm: [], OFF: []}
        for segment in block:
            value = getattr(segment, of)
            if segment.arm in logs and value:
                logs[segment.arm].append(math.log(value))
        if all(logs.values()):
            apart_by = fmean(logs[OFF]) - fmean(logs[arm])
            found.append(100 * math.expm1(apart_by if of != "cpu" else -apart_by))
    return found


def figure_of(blocks: Sequence[Sequence[Segment]], arm: str, *, of: str, seconds: float) -> Figure | None:
    """The figure of an arm against nobody watching; None where it was not told. Judged only where half a percent can be told."""
    samples = differences(blocks, arm, of=of)
    if len(samples) < 3:
        return None
    median, mean = of_median(samples), of_mean(samples)
    segments = sum(segment.arm in (arm, OFF) for block in blocks for segment in block)
    told = median.half <= 100 * TARGET
    note = (
        f"median of {len(samples)} blocks, 95% {median.low:+.2f} to {median.high:+.2f}%; mean {mean.value:+.2f}%, "
        f"95% {mean.low:+.2f} to {mean.high:+.2f}%; {segments} segments of {seconds:g} s"
    )
    return Figure(
        name=NAMES[of].format(arm=arm),
        unit="%",
        value=median.value,
        samples=tuple(samples),
        target=100 * TARGET if told and arm == PROBE else None,
        note=note if told else f"{note}: this machine is too restless to tell half a percent",
    )


NAMES: Mapping[str, str] = {
    "rate": "decode rate that a real engine loses: {arm}",
    "steps": "steps per second that a real engine loses: {arm}",
    "cpu": "CPU time per step that a real engine spends more: {arm}",
}


@dataclass(frozen=True)
class Given:
    """What is asked for."""

    model: str
    url: str | None = None
    pid: int | None = None
    command: str | None = None
    streams: int = 4
    max_tokens: int = 2048
    seconds: float = 2 * POLL
    blocks: int = 24
    parts: bool = False
    cores: Cores = field(default_factory=apart)

    @contextmanager
    def server(self) -> Iterator[Server]:
        """The running engine."""
        if self.command is None:
            yield Server(str(self.url), pid=self.pid)
            return
        with started(self.command, cores=self.cores.engine, log=RESULTS / "disturbance.server.log") as server:
            yield server


def given_by_environment() -> Given | None:
    """The engine that NIGHTSWEEP_BENCH_ENGINE (its URL) or NIGHTSWEEP_BENCH_SERVER (its command) names, or None."""
    url, command = os.environ.get("NIGHTSWEEP_BENCH_ENGINE"), os.environ.get("NIGHTSWEEP_BENCH_SERVER")
    model = os.environ.get("NIGHTSWEEP_BENCH_MODEL")
    return Given(model=model, url=url, command=command) if model and (url or command) else None


def measure(given: Given | None = None) -> Section:
    """All blocks and their figures."""
    asked = given or given_by_environment()
    if asked is None:
        return Section(
            "disturbance", skipped="NIGHTSWEEP_BENCH_ENGINE and NIGHTSWEEP_BENCH_MODEL name no engine that runs"
        )
    blocks = run_blocks(asked)
    arms = [PROBE, *(PARTS if asked.parts else ())]
    figures = [figure_of(blocks, arm, of=of, seconds=asked.seconds) for of in NAMES for arm in arms]
    facts = {
        "streams": asked.streams,
        "segment_s": asked.seconds,
        "cores": {"engine": asked.cores.engine, "client": asked.cores.client},
        "rate": fmean(segment.rate for block in blocks for segment in block if segment.arm == OFF),
        "blocks": [[[one.arm, one.rate, one.steps, one.cpu] for one in block] for block in blocks],
    }
    return Section(name="disturbance", figures=tuple(one for one in figures if one is not None), facts=facts)


def run_blocks(asked: Given) -> list[list[Segment]]:
    """Measure; a block in which a segment failed is left out and said."""
    arms = (OFF, PROBE, *(PARTS if asked.parts else ()))
    blocks: list[list[Segment]] = []
    with ExitStack() as stack:
        server = stack.enter_context(asked.server())
        stack.enter_context(on_cores(asked.cores.client))  # our own readings, too
        load = Load(server, asked.model, asked.streams, asked.max_tokens)
        client = Client(load)
        stack.callback(client.close)
        probe = stack.enter_context(HttpProbe(clock=SystemClock()))
        experiment = Experiment(load, client, probe, asked.seconds)
        experiment.probe.drain(experiment.target, timeout=Seconds(UNTOUCHED))
        for arm in arms:  # warm-up
            experiment.segment(arm)
        for number in range(asked.blocks):
            try:
                blocks.append([experiment.segment(arm) for arm in block_of(arms, number=number)])
            except RuntimeError as error:
                print(f"   block {number} is left out: {error}", flush=True)
                continue
            _say(number, blocks)
    return blocks


def _say(number: int, blocks: Sequence[Sequence[Segment]]) -> None:
    last = "  ".join(f"{segment.arm} {segment.rate:.1f}" for segment in blocks[-1])
    by_rate = differences(blocks, PROBE, of="rate")
    print(f"   {number}: {last} tokens/s; {by_rate[-1]:+.2f}%, median {of_median(by_rate).value:+.2f}%", flush=True)


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description="What the probe takes from a real engine.")
    named = given_by_environment()
    parser.add_argument("--url", default=named and named.url, help="an engine that runs")
    parser.add_argument("--server", default=named and named.command, help="command that serves; {port} is filled in")
    parser.add_argument("--model", default=named.model if named else None, help="as it is served")
    parser.add_argument("--pid", type=int, help="first process of an engine that runs: tells its CPU time")
    parser.add_argument("--blocks", type=int, default=Given.blocks)
    parser.add_argument("--seconds", type=float, default=Given.seconds, help="of a segment")
    parser.add_argument("--streams", type=int, default=Given.streams)
    parser.add_argument("--max-tokens", type=int, default=Given.max_tokens, help="more than a segment can make")
    parser.add_argument("--parts", action="store_true", help="polling and token counts apart, too")
    given = parser.parse_args()
    if not given.model or not (given.url or given.server):
        parser.error("say --model, and --url or --server")
    section = measure(
        Given(
            model=given.model,
            url=given.url,
            pid=given.pid,
            command=given.server,
            streams=given.streams,
            max_tokens=given.max_tokens,
            seconds=given.seconds,
            blocks=given.blocks,
            parts=given.parts,
        )
    )
    write(section)
    print(table((section,)))


if __name__ == "__main__":
    main()

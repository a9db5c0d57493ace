"""What watching costs: CPU seconds per 1,000 streamed chunks, and how many chunks a second one core can watch.

Client and engine are processes of their own, each on one core where the machine has two. All clients read the same streams of
the same simulated engine: so many closed-loop streams of completions, one token a chunk, natural ends off. A client's CPU time
is taken around all of its work on a load: for ours, the whole window with its ramp, its counter readings, its samples and the
accounting of every chunk afterwards (after a first short window, as in a sweep of hundreds); for `vllm bench serve`, its
`benchmark` coroutine (no import, no data set).

The largest rate is the last one at which the client's TPOT (median) is within 5% of the engine's own, by its journal. What a
client reports beyond is its own lateness. A client climbs no further once it drifts, once a load takes it longer than a client
that follows would need (LOAD_LIMIT), or once its climb has had CLIMB_LIMIT; the figure says which.

`vllm bench serve` runs when NIGHTSWEEP_BENCH_VLLM names a vllm executable. AIPerf and GuideLLM are not measured: see the facts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import Figure, Section, table, write
from benchmarks.simulated import SERVED, Engine, engine, speed_for
from benchmarks.truth import PROMPTS, a_probe, timing_of
from nightsweep.engine.dialects import vllm_dialect
from nightsweep.measurement import client_times
from nightsweep.measurement.derive import derive
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Target, WindowRequest
from nightsweep.units import MonotonicSeconds, Seconds

OURS, PEER = "ours", "`vllm bench serve`"
STREAMS = 32
MAX_TOKENS = 512
COST_RATES = (1000.0, 4000.0)
"""Chunks a second: what a GB10 streams to many agents, and what a fast server does."""

SECONDS = 20.0
REPEATS = 3
CLIMB_SECONDS = 6.0
RATES = (2000.0, 4000.0, 6000.0, 8000.0, 12000.0, 16000.0)
DRIFT = 0.05
LOAD_LIMIT = 120.0
"""Seconds that a client may take beside those it was asked to watch: the peer's imports take up to half of them."""
CLIMB_LIMIT = 600.0
"""Seconds after which a client is given no larger rate."""

CHEAPER = 0.5
"""Ours shall cost at most this share of the cheapest peer."""


@dataclass(frozen=True)
class Watched:
    """One client on one load.

    Attributes:
        chunks: That the client was streamed.
        tpot: Median, by the client (inf: it says itself that its times are not the engine's); `true_tpot` by the engine's
            journal. Seconds.
        rate: Chunks a second that the engine made meanwhile.
    """

    cpu: float
    chunks: int
    tpot: float
    true_tpot: float
    rate: float

    @property
    def per_thousand(self) -> float:
        """CPU seconds per 1,000 chunks."""
        return 1e3 * self.cpu / self.chunks

    @property
    def drift(self) -> float:
        """Relative error of the client's TPOT."""
        return self.tpot / self.true_tpot - 1.0


Client = Callable[[Engine, float, float], Watched]
"""Watches an engine for so many seconds at so many chunks a second. Raises NotWatched."""


class NotWatched(Exception):
    """A client that told no cost of a load: it took too long, or failed."""


@dataclass(frozen=True)
class Climb:
    """What one client did at ever larger rates, and why there was no larger one."""

    watched: tuple[Watched, ...]
    end: str

    @property
    def largest(self) -> float:
        """The largest rate without drift, in chunks a second; 0 when there was none."""
        return max((one.rate for one in self.watched if abs(one.drift) <= DRIFT), default=0.0)


# --- ours --------------------------------------------------------------------------------------------------------


def watch(url: str, *, seconds: float, streams: int) -> dict[str, Any]:
    """Measure one window and return what it cost this process (run in a process of its own)."""
    target = Target(url, url, SERVED, vllm_dialect("0.28.0"), api="completions", request_timeout=Seconds(120.0))
    request = WindowRequest(
        concurrency=streams,
        temperature=0.7,
        window=Seconds(seconds),
        sampling=SamplingSpec(max_tokens=MAX_TOKENS, ignore_eos=True),
        prompts=PROMPTS,
        first_prompt=0,
        order_seed=5,
    )
    with a_probe() as probe:
        probe.window(target, replace(request, window=Seconds(0.5)), alive=lambda: True)  # what is imported late is in
        before = _used()
        raw = probe.window(target, request, alive=lambda: True)
        result = derive(raw, dialect=target.dialect, num_speculative_tokens=None)
        cpu = _used() - before
    numbers = result.numbers
    if numbers is None or raw.before is None or raw.after is None:
        raise RuntimeError(f"no numbers: {dict(result.flag_details)}")
    print(f"notes {result.notes} {dict(numbers.unavailable)}" if numbers.tpot is None else "", file=sys.stderr)
    return {
        "cpu_s": cpu,
        "chunks": sum(len(one.chunk_at) for one in raw.requests),
        "tpot_p50_s": None if numbers.tpot is None else numbers.tpot.p50,
        "begun": raw.before.at,
        "ended": raw.after.at,
    }


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def ours(made: Engine, seconds: float, *, core: int | None = None) -> Watched:
    """Our probe, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.cost", "--watch", made.url, "--seconds", f"{seconds:g}"]
    return _watched(made, told(_pinned(command, core), limit=seconds + LOAD_LIMIT))


# --- the peer ----------------------------------------------------------------------------------------------------


def peer_python() -> Path | None:
    """The Python of the peer's environment, or None."""
    vllm = os.environ.get("NIGHTSWEEP_BENCH_VLLM")
    python = Path(vllm).parent / "python" if vllm else None
    return python if python is not None and python.exists() else None


def peer(made: Engine, seconds: float, *, core: int | None = None, rate: float) -> Watched:
    """`vllm bench serve` on the same engine, for about as long."""
    with tempfile.TemporaryDirectory(prefix="nscost.") as folder:
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS), encoding="utf-8")
        count = max(2 * STREAMS, round(rate * seconds / MAX_TOKENS))
        command = [str(peer_python()), str(Path(__file__).with_name("peer_client.py"))]
        command += ["--backend", "openai", "--base-url", made.url, "--model", SERVED, "--skip-tokenizer-init"]
        command += ["--dataset-name", "custom", "--dataset-path", str(prompts), "--num-prompts", str(count)]
        command += ["--max-concurrency", str(STREAMS), "--disable-tqdm", "--custom-output-len", str(MAX_TOKENS)]
        command += ["--extra-body", json.dumps({"max_tokens": MAX_TOKENS, "ignore_eos": True, "temperature": 0.7})]
        return _watched(made, told(_pinned(command, core), limit=seconds + LOAD_LIMIT, cwd=folder, env=_quiet()))


def _quiet() -> dict[str, str]:
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, **quiet}


# --- one load ----------------------------------------------------------------------------------------------------


def _pinned(command: list[str], core: int | None) -> list[str]:
    return command if core is None else ["taskset", "-c", str(core), *command]


def told(
    command: list[str], *, limit: float, cwd: str | None = None, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a client and return what it told of its cost; it is ended after `limit` seconds.

    Raises:
        NotWatched: It told nothing, or not in time.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=limit)
    except subprocess.TimeoutExpired as error:
        raise NotWatched(f"it was not done after {limit:g} s") from error
    for line in done.stdout.splitlines():
        if line.startswith("COST "):
            return dict(json.loads(line[5:]))
    raise NotWatched(f"it told no cost (exit {done.returncode}): {(done.stdout + done.stderr)[-500:].strip()}")


def _watched(made: Engine, told: Mapping[str, Any]) -> Watched:
    begun, ended = MonotonicSeconds(told["begun"]), MonotonicSeconds(told["ended"])
    journal = made.journal(begun, ended, slack=0.0)
    since = journal["since"][0] if journal["since"] else 0
    requests = tuple(timing_of(one) for one in journal["requests"])
    true = client_times.percentiles(client_times.tpots(requests, opened=begun, closed=ended))
    if true is None:
        raise RuntimeError("the engine streamed nothing")
    return Watched(
        cpu=told["cpu_s"],
        chunks=told["chunks"],
        tpot=math.inf if told["tpot_p50_s"] is None else told["tpot_p50_s"],
        true_tpot=true.p50,
        rate=(journal["until"][0] - since) / (ended - begun),
    )


def cores() -> tuple[int | None, int | None]:
    """One core for the client and one for the engine; none are chosen where there is only one."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (allowed[0], allowed[1]) if len(allowed) > 1 and shutil.which("taskset") else (None, None)


def measure_cost(clients: Mapping[str, Client], *, rate: float, repeats: int = REPEATS) -> dict[str, list[Watched]]:
    """Measure all clients in turn on one engine; a peer that cannot watch it is asked no more, and told."""
    found: dict[str, list[Watched]] = {name: [] for name in clients}
    left = dict(clients)
    _, core = cores()
    with engine(speed=speed_for(rate, streams=STREAMS, k=0), core=core) as made:
        for _ in range(repeats):
            for name, client in tuple(left.items()):
                try:
                    found[name].append(client(made, SECONDS, rate))
                except NotWatched as why:
                    if name == OURS:
                        raise
                    del left[name]
                    print(f"   {rate:g} chunks/s, {name}: {why}", flush=True)
                else:
                    print(f"   {rate:g} chunks/s, {name}: {_told_of(found[name][-1])}", flush=True)
    return found


def climb(
    watch: Callable[[float], Watched], *, rates: Sequence[float], now: Callable[[], float] = time.monotonic
) -> Climb:
    """Raise the rate until the client drifts or cannot go on, its time is over, or no rate is left."""
    found: list[Watched] = []
    begun = now()
    for rate in rates:
        if now() - begun > CLIMB_LIMIT:
            return Climb(tuple(found), f"not asked for {rate:,.0f} chunks/s: its {CLIMB_LIMIT:g} s were over")
        try:
            found.append(watch(rate))
        except NotWatched as why:
            return Climb(tuple(found), f"asked for {rate:,.0f} chunks/s, {why}")
        print(f"   {rate:g} chunks/s asked: {_told_of(found[-1])}", flush=True)
        if abs(found[-1].drift) > DRIFT:
            off = "it gives no TPOT" if math.isinf(found[-1].tpot) else f"its TPOT is {found[-1].drift:+.1%} off"
            return Climb(tuple(found), f"at {found[-1].rate:,.0f} chunks/s {off}")
    return Climb(tuple(found), "no drift at the largest rate that the simulated engine reached: it is the limit here")


def watched_at(client: Client, rate: float) -> Watched:
    """Return how a client watches a rate; the better of two, where it drifts: once may be the machine's doing."""
    _, core = cores()
    with engine(speed=speed_for(rate, streams=STREAMS, k=0), core=core) as made:
        tries = [client(made, CLIMB_SECONDS, rate)]
        if abs(tries[0].drift) > DRIFT:
            tries.append(client(made, CLIMB_SECONDS, rate))
    return min(tries, key=lambda one: abs(one.drift))


def _told_of(one: Watched) -> str:
    return f"{1e3 * one.per_thousand:.1f} us a chunk of {one.chunks:,}, {one.rate:,.0f} chunks/s, TPOT {one.drift:+.2%} off"


# --- all of it ---------------------------------------------------------------------------------------------------


def measure(*, repeats: int = REPEATS, rates: Sequence[float] = RATES) -> tuple[Section]:
    """Cost and largest rate, ours and the peer's."""
    core, _ = cores()
    clients: dict[str, Client] = {OURS: lambda made, seconds, rate: ours(made, seconds, core=core)}
    if peer_python() is not None:
        clients[PEER] = lambda made, seconds, rate: peer(made, seconds, core=core, rate=rate)
    costs = {rate: measure_cost(clients, rate=rate, repeats=repeats) for rate in COST_RATES}
    most = {name: climb(partial(watched_at, client), rates=rates) for name, client in clients.items()}
    figures = (*(_cost_figure(rate, found) for rate, found in costs.items()), _largest_figure(most))
    return (Section(name="cost", figures=figures, facts=_facts(costs, most)),)


def _cost_figure(rate: float, found: Mapping[str, Sequence[Watched]]) -> Figure:
    costs = {name: [one.per_thousand for one in watched] for name, watched in found.items()}
    peers = costs.get(PEER)
    beside = statistics.median(peers) if peers else None
    spread = f"; {PEER}: {min(peers):.4f} to {max(peers):.4f} (n={len(peers)})" if peers else ""
    return Figure(
        name=f"CPU per 1,000 streamed chunks, {rate:,.0f} chunks/s",
        unit="s",
        value=statistics.median(costs[OURS]),
        samples=tuple(costs[OURS]),
        target=None if beside is None else CHEAPER * beside,
        beside=beside,
        beside_name=None if beside is None else PEER,
        note=f"{STREAMS} streams, {SECONDS:g} s{spread}; AIPerf and GuideLLM are not measured",
    )


def _largest_figure(most: Mapping[str, Climb]) -> Figure:
    ours, beside = most[OURS], most.get(PEER)
    return Figure(
        name="largest rate that one core watches (TPOT within 5%)",
        unit="chunks/s",
        value=ours.largest,
        beside=None if beside is None else beside.largest,
        beside_name=None if beside is None else PEER,
        note=f"ours: {ours.end}" + ("" if beside is None else f"; {PEER}: {beside.end}"),
    )


def _facts(costs: Mapping[float, Mapping[str, Sequence[Watched]]], most: Mapping[str, Climb]) -> dict[str, Any]:
    return {
        "streams": STREAMS,
        "per_1000_s": {
            f"{rate:g}": {name: [one.per_thousand for one in watched] for name, watched in found.items()}
            for rate, found in costs.items()
        },
        "rates": {
            name: [{"rate": one.rate, "drift": one.drift, "per_1000_s": one.per_thousand} for one in watched]
            for name, watched in ((name, each.watched) for name, each in most.items())
        },
        "ends": {name: each.end for name, each in most.items()},
        "not_measured": ["aiperf", "guidellm"],
        "peer_missing": None if peer_python() else "NIGHTSWEEP_BENCH_VLLM names no vllm executable",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What watching costs.")
    parser.add_argument("--watch", metavar="URL", help="measure one window of this engine and print what it cost")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    if given.watch:
        print("COST " + json.dumps(watch(given.watch, seconds=given.seconds, streams=STREAMS)), flush=True)
    else:
        sections = measure(repeats=given.repeats)
        for each in sections:
            write(each)
        print(table(sections))

"""What watching costs: CPU seconds per 1,000 streamed chunks, and how many chunks a second one core can watch.

Client and engine are processes of their own, each on one core where the machine has two. All clients read the same streams of
the same simulated engine: so many closed-loop streams of completions, one token a chunk, natural ends off. A client's CPU time
is taken around all of its work on a load: for ours, the whole window with its ramp, its counter readings, its samples and the
accounting of every chunk afterwards (after a first short window, as in a sweep of hundreds); for `vllm bench serve`, its
`benchmark` coroutine (no import, no data set).

The largest rate is the last one at which the client's TPOT (median) is within 5% of the engine's own, by its journal. What a
client reports beyond is its own lateness.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
RATES = (2000.0, 4000.0, 6000.0, 8000.0, 12000.0, 16000.0)
DRIFT = 0.05
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
"""Watches an engine for so many seconds at so many chunks a second."""


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
    return _watched(made, _told(_pinned(command, core)))


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
        return _watched(made, _told(_pinned(command, core), cwd=folder, env=_quiet()))


def _quiet() -> dict[str, str]:
    quiet = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, **quiet}


# --- one load ----------------------------------------------------------------------------------------------------


def _pinned(command: list[str], core: int | None) -> list[str]:
    return command if core is None else ["taskset", "-c", str(core), *command]


def _told(command: list[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=600)
    for line in done.stdout.splitlines():
        if line.startswith("COST "):
            return dict(json.loads(line[5:]))
    raise RuntimeError(f"{command[:4]} said no cost ({done.returncode}): {(done.stdout + done.stderr)[-1500:]}")


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
    """Measure all clients in turn on one engine."""
    found: dict[str, list[Watched]] = {name: [] for name in clients}
    _, core = cores()
    with engine(speed=speed_for(rate, streams=STREAMS, k=0), core=core) as made:
        for _ in range(repeats):
            for name, client in clients.items():
                found[name].append(client(made, SECONDS, rate))
                print(f"   {rate:g} chunks/s, {name}: {_told_of(found[name][-1])}", flush=True)
    return found


def measure_largest(client: Client, *, rates: Sequence[float]) -> list[Watched]:
    """Raise the rate until the client drifts, twice in a row, or no rate is left."""
    found: list[Watched] = []
    _, core = cores()
    for rate in rates:
        with engine(speed=speed_for(rate, streams=STREAMS, k=0), core=core) as made:
            tries = [client(made, 6.0, rate)]
            if abs(tries[0].drift) > DRIFT:  # once may be the machine's doing
                tries.append(client(made, 6.0, rate))
        found.append(min(tries, key=lambda one: abs(one.drift)))
        print(f"   {rate:g} chunks/s asked: {_told_of(found[-1])}", flush=True)
        if abs(found[-1].drift) > DRIFT:
            break
    return found


def _told_of(one: Watched) -> str:
    return f"{1e3 * one.per_thousand:.1f} us a chunk of {one.chunks:,}, {one.rate:,.0f} chunks/s, TPOT {one.drift:+.2%} off"


def largest(found: Sequence[Watched]) -> tuple[float, str]:
    """The largest rate without drift, and whether it is a limit of the client's."""
    good = [one for one in found if abs(one.drift) <= DRIFT]
    best = max((one.rate for one in good), default=0.0)
    bad = [one for one in found if abs(one.drift) > DRIFT]
    if bad:
        off = "it gives no TPOT" if math.isinf(bad[0].tpot) else f"its TPOT is {bad[0].drift:+.1%} off"
        return best, f"at {bad[0].rate:,.0f} chunks/s {off}"
    return best, "no drift at the largest rate that the simulated engine reached: the engine is the limit here"


# --- all of it ---------------------------------------------------------------------------------------------------


def measure(*, repeats: int = REPEATS, rates: Sequence[float] = RATES) -> tuple[Section]:
    """Cost and largest rate, ours and the peer's."""
    core, _ = cores()
    clients: dict[str, Client] = {OURS: lambda made, seconds, rate: ours(made, seconds, core=core)}
    if peer_python() is not None:
        clients[PEER] = lambda made, seconds, rate: peer(made, seconds, core=core, rate=rate)
    costs = {rate: measure_cost(clients, rate=rate, repeats=repeats) for rate in COST_RATES}
    most = {name: measure_largest(client, rates=rates) for name, client in clients.items()}
    figures = (*(_cost_figure(rate, found) for rate, found in costs.items()), _largest_figure(most))
    return (Section(name="cost", figures=figures, facts=_facts(costs, most)),)


def _cost_figure(rate: float, found: Mapping[str, Sequence[Watched]]) -> Figure:
    costs = {name: [one.per_thousand for one in watched] for name, watched in found.items()}
    beside = statistics.median(costs[PEER]) if PEER in costs else None
    spread = f"; {PEER}: {min(costs[PEER]):.3f} to {max(costs[PEER]):.3f}" if PEER in costs else ""
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


def _largest_figure(most: Mapping[str, Sequence[Watched]]) -> Figure:
    best, why = largest(most[OURS])
    beside, beside_why = largest(most[PEER]) if PEER in most else (None, "")
    return Figure(
        name="largest rate that one core watches (TPOT within 5%)",
        unit="chunks/s",
        value=best,
        beside=beside,
        beside_name=None if beside is None else PEER,
        note=f"ours: {why}" + (f"; {PEER}: {beside_why}" if beside_why else ""),
    )


def _facts(
    costs: Mapping[float, Mapping[str, Sequence[Watched]]], most: Mapping[str, Sequence[Watched]]
) -> dict[str, Any]:
    return {
        "streams": STREAMS,
        "per_1000_s": {
            f"{rate:g}": {name: [one.per_thousand for one in watched] for name, watched in found.items()}
            for rate, found in costs.items()
        },
        "rates": {
            name: [{"rate": one.rate, "drift": one.drift, "per_1000_s": one.per_thousand} for one in watched]
            for name, watched in most.items()
        },
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

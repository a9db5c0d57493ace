"""`vllm bench serve`, unchanged, on a server that runs: what it is asked, what it kept, and what its whole duration is made of.

Its prompts are the probe's in the probe's order, its sampling and its concurrency the probe's. Its `output_throughput` is all
tokens over the whole duration: the ramp, in which not all streams decode yet, and the tail, in which no request is left for a
stream that has ended, are in it. `parts_of` tells both from the span between them, by the client's own stamps.

Source:
    vllm/benchmarks/serve.py `benchmark`, lib/endpoint_request_func.py `async_request_openai_completions` (0.32.0). Its stamps are
    `time.perf_counter`, on Linux the monotonic clock that the probe stamps with, also in a container.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from nightsweep.plan.model import SamplingSpec
from nightsweep.probe.bodies import PromptOrder

PROMPTS_FILE, RESULT_FILE = "nsbench.prompts.jsonl", "nsbench.result.json"
TIMEOUT = 600.0


@dataclass(frozen=True)
class Where:
    """Where the client runs.

    Attributes:
        prefix: Before every command: `()` here, `("docker", "exec", "-i", NAME)` beside an engine in its container.
        vllm: The vllm command there.
        tokenizer: Folder of the model's tokenizer there.
        folder: For the prompts and the result, there; nothing is removed from it.
    """

    prefix: tuple[str, ...]
    vllm: tuple[str, ...]
    tokenizer: str
    folder: str = "/tmp"

    def call(self, *words: str, text: str | None = None) -> str:
        """What a command there prints (raises RuntimeError with its words when it fails)."""
        command = [*self.prefix, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        if done.returncode != 0:
            raise RuntimeError(
                f"{' '.join(command)[:300]} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
            )
        return done.stdout


@dataclass(frozen=True)
class Asked:
    """One run of the client: the load of a window, for so many requests."""

    url: str
    model: str
    streams: int
    requests: int
    temperature: float
    sampling: SamplingSpec
    prompts: Sequence[str]
    first_prompt: int
    order_seed: int


@dataclass(frozen=True)
class Told:
    """What it kept (`--save-result --save-detailed`) and what it printed."""

    result: Mapping[str, Any]
    printed: str

    def shown(self, label: str) -> float | None:
        """A number of its printed table."""
        found = re.search(rf"^{re.escape(label)}\s+([\d.]+)\s*$", self.printed, re.MULTILINE)
        return None if found is None else float(found.group(1))


def bench_serve(where: Where, asked: Asked) -> Told:
    """Run it to its end."""
    where.call("sh", "-c", f"cat > {where.folder}/{PROMPTS_FILE}", text=prompts_file(asked))
    printed = where.call(*where.vllm, *arguments(asked, where=where))
    result = json.loads(where.call("cat", f"{where.folder}/{RESULT_FILE}"))
    return Told(result=result, printed=printed)


def prompts_file(asked: Asked) -> str:
    """The prompts in the order in which the probe's streams take them, a line for each request."""
    order = PromptOrder(len(asked.prompts), seed=asked.order_seed, first=asked.first_prompt)
    return "".join(json.dumps({"prompt": asked.prompts[order.next()]}) + "\n" for _ in range(asked.requests))


def arguments(asked: Asked, *, where: Where) -> tuple[str, ...]:
    """The words after `vllm`."""
    sampling = asked.sampling
    return (
        *("bench", "serve", "--backend", "openai", "--base-url", asked.url, "--endpoint", "/v1/completions"),
        *("--model", asked.model, "--tokenizer", where.tokenizer, "--disable-tqdm"),
        *("--dataset-name", "custom", "--dataset-path", f"{where.folder}/{PROMPTS_FILE}"),
        *("--disable-shuffle", "--skip-chat-template"),
        *("--num-prompts", str(asked.requests), "--max-concurrency", str(asked.streams)),
        *("--custom-output-len", str(sampling.max_tokens), *(("--ignore-eos",) if sampling.ignore_eos else ())),
        *(f"--temperature={asked.temperature:g}", f"--top-p={sampling.top_p:g}", f"--top-k={sampling.top_k}"),
        f"--repetition-penalty={sampling.repetition_penalty:g}",
        f"--presence-penalty={sampling.presence_penalty:g}",
        f"--frequency-penalty={sampling.frequency_penalty:g}",
        *("--save-result", "--save-detailed", "--result-dir", where.folder, "--result-filename", RESULT_FILE),
    )


# --- what its duration is made of --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """The whole run, and the span in which all streams decoded and a next request was there for each.

    Attributes:
        opened, closed: Of that span, on the monotonic clock: every stream has had its first token; the first stream ends
            that has no request left.
        whole_rate: Tokens over the whole duration, as the client says itself. Tokens per second.
        steady_rate: Tokens of the span over its length, by the client's own stamps.
        ramp_share, tail_share: What each takes from the steady rate, as a share of it: together 1 - whole / steady.
    """

    opened: float
    closed: float
    whole_rate: float
    steady_rate: float
    ramp_share: float
    tail_share: float


def parts_of(result: Mapping[str, Any], *, streams: int) -> Parts:
    """Return the parts of a run of closed-loop streams.

    A chunk holds the tokens of a step; the client keeps its time, and of tokens only a request's total: they are dealt evenly to
    its chunks, but for the first, which is the one token of the prefill.
    """
    starts, first = result["start_times"], result["ttfts"]
    ends = [start + latency for start, latency in zip(starts, result["latencies"], strict=True)]
    sent = sorted(range(len(starts)), key=lambda number: starts[number])
    opened = max(starts[number] + first[number] for number in sent[:streams])
    last_sent = starts[sent[-1]]
    closed = min(end for end in ends if end > last_sent)
    if closed <= opened:
        raise ValueError(f"{len(starts)} requests are too few for {streams} streams: no span in which all decode")
    begun, duration = min(starts), result["duration"]
    before = _tokens_between(result, -float("inf"), opened)
    inside = _tokens_between(result, opened, closed)
    after = _tokens_between(result, closed, float("inf"))
    steady = inside / (closed - opened)
    full = steady * duration
    return Parts(
        opened=opened,
        closed=closed,
        whole_rate=result["output_throughput"],
        steady_rate=steady,
        ramp_share=(steady * (opened - begun) - before) / full,
        tail_share=(steady * (begun + duration - closed) - after) / full,
    )


def _tokens_between(result: Mapping[str, Any], since: float, until: float) -> float:
    columns = ("start_times", "ttfts", "itls", "output_lens")
    total = 0.0
    for start, ttft, gaps, tokens in zip(*(result[name] for name in columns), strict=True):
        arrived = list(accumulate(gaps, initial=start + ttft))
        each = (tokens - 1) / len(gaps) if gaps else 0.0
        total += since < arrived[0] <= until
        total += each * sum(since < at <= until for at in arrived[1:])
    return total

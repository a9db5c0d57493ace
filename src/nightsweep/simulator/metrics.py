"""The engine's counters, as vLLM's V1 engine keeps and shows them: names, labels, buckets and `_created` series alike.

Source: `/metrics` of vLLM 0.26.0 (CUDA) and 0.32.0 (CPU build).
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping

_SECONDS_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_SECONDS_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
_SECONDS_REQUEST = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
)  # fmt: skip
_TOKENS_STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_TOKENS_REQUEST = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000,
)  # fmt: skip
REASONS = ("stop", "length", "abort", "error", "repetition")


class Histogram:
    """A Prometheus histogram."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value`, `times` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Values counted."""
        return sum(self.counts)


class EngineMetrics:
    """All counters of one engine. Plain numbers: the scheduler adds to them at every step.

    Args:
        k: Positions of the per-position series; 0 leaves all speculative series out, as vLLM does.
        cache_config: Labels of `vllm:cache_config_info`.
    """

    def __init__(self, *, model: str, k: int, cache_config: Mapping[str, str], started: float | None = None) -> None:
        self.model = model
        self.k = k
        self.process_start = time.time() if started is None else started
        self._cache_config = dict(cache_config)
        self.reset()

    def reset(self) -> None:
        """Begin at zero, as after a restart."""
        self.created = time.time()
        self.drafts = 0
        self.draft_tokens = 0
        self.accepted = 0
        self.accepted_at = [0] * self.k
        self.generation_tokens = 0
        self.prompt_tokens = 0
        self.prompt_computed = 0
        self.prompt_cached = 0
        self.cache_queries = 0
        self.cache_hits = 0
        self.preemptions = 0
        self.finished = dict.fromkeys(REASONS, 0)
        self.iteration_tokens = Histogram(_TOKENS_STEP)
        self.inter_token = Histogram(_SECONDS_ITL)
        self.first_token = Histogram(_SECONDS_TTFT)
        self.end_to_end = Histogram(_SECONDS_REQUEST)
        self.queued = Histogram(_SECONDS_REQUEST)
        self.inference = Histogram(_SECONDS_REQUEST)
        self.prefill = Histogram(_SECONDS_REQUEST)
        self.decode = Histogram(_SECONDS_REQUEST)
        self.per_token = Histogram(_SECONDS_ITL)
        self.request_prompt = Histogram(_TOKENS_REQUEST)
        self.request_generation = Histogram(_TOKENS_REQUEST)
        self.request_max_tokens = Histogram(_TOKENS_REQUEST)
        self.request_prefill_kv = Histogram(_TOKENS_REQUEST)

    def restart(self) -> None:
        """Begin at zero and claim that the process is new."""
        self.process_start = time.time()
        self.reset()

    def render(self, *, running: int, waiting: int, kv_usage: float) -> bytes:
        """Return the page in Prometheus text format."""
        lines = list(self._process())
        if self.k:
            lines.extend(self._speculative())
        lines.extend(self._gauges(running=running, waiting=waiting, kv_usage=kv_usage))
        lines.extend(self._tokens())
        lines.extend(self._histograms())
        labels = ",".join(f'{name}="{value}"' for name, value in sorted({**self._cache_config, "engine": "0"}.items()))
        lines.append("# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig")
        lines.append("# TYPE vllm:cache_config_info gauge")
        lines.append(f"vllm:cache_config_info{{{labels}}} 1.0")
        return ("\n".join(lines) + "\n").encode()

    def render_process(self) -> bytes:
        """Return the page of an engine that keeps no statistics (--disable-log-stats)."""
        return ("\n".join(self._process()) + "\n").encode()

    def _process(self) -> Iterator[str]:
        yield "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds."
        yield "# TYPE process_start_time_seconds gauge"
        yield f"process_start_time_seconds {self.process_start!r}"
        yield "# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds."
        yield "# TYPE process_cpu_seconds_total counter"
        times = os.times()
        yield f"process_cpu_seconds_total {times.user + times.system:.2f}"

    def _labels(self, extra: str = "") -> str:
        return f'{{engine="0",model_name="{self.model}"{extra}}}'

    def _counter(self, name: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
        yield f"# HELP vllm:{name}_total {text}"
        yield f"# TYPE vllm:{name}_total counter"
        for extra, value in values.items():
            yield f"vllm:{name}_total{self._labels(extra)} {float(value)!r}"
        yield f"# HELP vllm:{name}_created {text}"
        yield f"# TYPE vllm:{name}_created gauge"
        for extra in values:
            yield f"vllm:{name}_created{self._labels(extra)} {self.created!r}"

    def _gauge(self, name: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
        yield f"# HELP vllm:{name} {text}"
        yield f"# TYPE vllm:{name} gauge"
        for extra, value in values.items():
            yield f"vllm:{name}{self._labels(extra)} {float(value)!r}"

    def _speculative(self) -> Iterator[str]:
        yield from self._counter("spec_decode_num_drafts", "Number of spec decoding drafts.", {"": self.drafts})
        yield from self._counter("spec_decode_num_draft_tokens", "Number of draft tokens.", {"": self.draft_tokens})
        yield from self._counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.", {"": self.accepted})
        by_position = {f',position="{i}"': value for i, value in enumerate(self.accepted_at)}
        text = "Accepted tokens per draft position."
        yield from self._counter("spec_decode_num_accepted_tokens_per_pos", text, by_position)

    def _gauges(self, *, running: int, waiting: int, kv_usage: float) -> Iterator[str]:
        yield from self._gauge("num_requests_running", "Number of requests in model execution batches.", {"": running})
        yield from self._gauge("num_requests_waiting", "Number of requests waiting to be processed.", {"": waiting})
        by_reason = {',reason="capacity"': waiting, ',reason="deferred"': 0}
        yield from self._gauge("num_requests_waiting_by_reason", "Number of waiting requests by reason.", by_reason)
        awake = {
            ',sleep_state="awake"': 1,
            ',sleep_state="weights_offloaded"': 0,
            ',sleep_state="discard_all"': 0,
        }
        yield from self._gauge("engine_sleep_state", "Engine sleep state.", awake)
        text = "KV-cache usage. 1 means 100 percent usage."
        yield from self._gauge("kv_cache_usage_perc", text, {"": kv_usage})

    def _tokens(self) -> Iterator[str]:
        text = "Prefix cache queries, in terms of number of queried tokens."
        yield from self._counter("prefix_cache_queries", text, {"": self.cache_queries})
        text = "Prefix cache hits, in terms of number of cached tokens."
        yield from self._counter("prefix_cache_hits", text, {"": self.cache_hits})
        text = "Cumulative number of preemption from the engine."
        yield from self._counter("num_preemptions", text, {"": self.preemptions})
        yield from self._counter("prompt_tokens", "Number of prefill tokens processed.", {"": self.prompt_tokens})
        sources = {
            ',source="local_compute"': self.prompt_computed,
            ',source="local_cache_hit"': self.prompt_cached,
            ',source="external_kv_transfer"': 0,
        }
        yield from self._counter("prompt_tokens_by_source", "Number of prompt tokens by source.", sources)
        text = "Number of cached prompt tokens (local + external)."
        yield from self._counter("prompt_tokens_cached", text, {"": self.prompt_cached})
        text = "Number of generation tokens processed."
        yield from self._counter("generation_tokens", text, {"": self.generation_tokens})
        reasons = {f',finished_reason="{reason}"': count for reason, count in self.finished.items()}
        yield from self._counter("request_success", "Count of successfully processed requests.", reasons)

    def _histograms(self) -> Iterator[str]:
        for name, text, histogram in (
            ("request_prompt_tokens", "Number of prefill tokens processed.", self.request_prompt),
            ("request_generation_tokens", "Number of generation tokens processed.", self.request_generation),
            ("iteration_tokens_total", "Histogram of number of tokens per engine_step.", self.iteration_tokens),
            ("request_params_max_tokens", "Histogram of the max_tokens request parameter.", self.request_max_tokens),
            ("time_to_first_token_seconds", "Histogram of time to first token in seconds.", self.first_token),
            ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", self.inter_token),
            ("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", self.per_token),
            ("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", self.end_to_end),
            ("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", self.queued),
            ("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", self.inference),
            ("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", self.prefill),
            ("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", self.decode),
            (
                "request_prefill_kv_computed_tokens",
                "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
                self.request_prefill_kv,
            ),
        ):  # fmt: skip
            yield from self._histogram(name, text, histogram)

    def _histogram(self, name: str, text: str, histogram: Histogram) -> Iterator[str]:
        yield f"# HELP vllm:{name} {text}"
        yield f"# TYPE vllm:{name} histogram"
        seen = 0
        for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
            seen += count
            edge = "+Inf" if bound is None else repr(float(bound))
            yield f'vllm:{name}_bucket{{engine="0",le="{edge}",model_name="{self.model}"}} {float(seen)!r}'
        yield f"vllm:{name}_count{self._labels()} {float(seen)!r}"
        yield f"vllm:{name}_sum{self._labels()} {histogram.total!r}"
        yield f"# HELP vllm:{name}_created {text}"
        yield f"# TYPE vllm:{name}_created gauge"
        yield f"vllm:{name}_created{self._labels()} {self.created!r}"

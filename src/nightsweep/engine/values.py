"""What is known of an engine: facts of a boot, why one failed, which series hold which counter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nightsweep.units import GiB, Seconds, Tokens


@dataclass(frozen=True)
class LogLine:
    """One line of an engine's log.

    Attributes:
        seconds: Since the engine's start, where known.
        stream: "stdout", "stderr" or "" when the two came mixed.
    """

    text: str
    seconds: float | None = None
    stream: str = ""


@dataclass(frozen=True)
class Fact:
    """One value that a log line states, with the line it came from. Never derived from another fact."""

    name: str
    value: Any
    line: str
    rank: str | None = None


@dataclass(frozen=True)
class BootFacts:
    """What a boot's log says. Absent is None. `facts` holds every statement, also those without a field here.

    Attributes:
        weights: GiB of all weights that the engine reports for one device (vLLM: target and draft in one number).
        draft_weights: GiB of the draft alone; None unless the engine says it.
        max_concurrency: Requests of `max_concurrency_tokens` tokens each that the KV cache holds.
        stages: Seconds by stage of the cold start, as far as lines tell.
    """

    engine: str | None = None
    engine_version: str | None = None
    weights: GiB | None = None
    draft_weights: GiB | None = None
    weights_seconds: Seconds | None = None
    kv_cache: GiB | None = None
    kv_tokens: Tokens | None = None
    max_concurrency: float | None = None
    max_concurrency_tokens: Tokens | None = None
    block_size: int | None = None
    compile_seconds: Seconds | None = None
    graph_capture_seconds: Seconds | None = None
    init_seconds: Seconds | None = None
    model_runner: str | None = None
    attention_backend: str | None = None
    quantization_kernel: str | None = None
    non_default_args: Mapping[str, Any] | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class FailureEvidence:
    """All that is known of a boot (or engine) that ended badly; the classifier uses it together.

    Attributes:
        ready: Whether the engine had been ready before.
        seconds: From start to the end or the timeout.
        killed_by_us: Whether we ended it (timeout, cancel).
        taken_away: Whether another hand ended it and took it away (`EngineState.taken_away`).
    """

    lines: tuple[str, ...]
    exit_code: int | None
    oom_killed: bool | None
    ready: bool
    timed_out: bool
    killed_by_us: bool
    seconds: float
    launch_error: str | None = None
    taken_away: bool = False


@dataclass(frozen=True)
class BootFailure:
    """Why a boot failed.

    Attributes:
        kind: Class of the failure, e.g. "bad_flag", "kv_too_small", "gpu_oom", "port_in_use", "killed", "unknown".
        stage: Where: "launch", "arguments", "config", "load", "kv_cache", "compile", "warmup", "serving".
        lines: The deciding lines, first cause first.
        retry: "never" (same config fails again), "same" (may succeed), "after_memory" (when memory is free), "outside" (another
            hand stopped it, which says nothing of the config).
        remedy: One line for people.
        numbers: What the deciding line states in numbers (e.g. needed, available, length, fits, free, total, wanted); memory in
            GiB, lengths in tokens.
    """

    kind: str
    stage: str
    lines: tuple[str, ...]
    retry: str
    remedy: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Series:
    """Where a canonical counter is found on the metrics page.

    Attributes:
        name: Series name as scraped (e.g. "vllm:generation_tokens_total").
        labels: Labels that must match; all other labels are summed over.
        by: Label whose values tell members apart (e.g. "position"); values then become "canonical[value]".
        combine: How members of several engines become one number: "sum" for counts, else "max" or "mean".
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    combine: str = "sum"


@dataclass(frozen=True)
class Unavailable:
    """The engine has no such counter; `because` says why."""

    because: str


@dataclass(frozen=True)
class Dialect:
    """Which series of an engine version hold which canonical value.

    Canonical names: generation_tokens, prompt_tokens, prompt_tokens_computed, prefix_cache_hits, drafts, draft_tokens,
    accepted_tokens, accepted_per_position (by position: "accepted_per_position[0]", ...), steps, itl_count, itl_sum, running,
    waiting, preemptions, prefill_seconds_sum, prefill_seconds_count, process_start.
    """

    engine: str
    version: str
    series: Mapping[str, tuple[Series, ...] | Unavailable]
    step_semantics: str = ""
    state_paths: tuple[str, ...] = ()  # that answer with the engine's own state in JSON, the newest first


@dataclass(frozen=True)
class Readiness:
    """How to tell that an engine is ready: `path` answers 200, and then one token is served."""

    path: str
    poll: Seconds = Seconds(0.1)


@dataclass(frozen=True)
class ServedIdentity:
    """What the answering engine says of itself. None is: it did not say."""

    served_names: tuple[str, ...] = ()
    version: str | None = None
    max_model_len: int | None = None
    simulated: bool = False
    process_start: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class KvBudget:
    """What a source other than the boot log says of the KV cache. Absent is None.

    Attributes:
        tokens: KV cache tokens of one engine (of several, the lowest index's).
        max_concurrency: Full-length requests it holds.
        blocks: Blocks of `block_size` tokens; their product is not `tokens` on hybrid models.
        source: The series or answer it came from.
    """

    tokens: int | None
    max_concurrency: float | None
    blocks: int | None
    block_size: int | None
    source: str


@dataclass(frozen=True)
class Applied:
    """What was asked for against what the engine says it does.

    Attributes:
        not_applied: What was asked for and not applied, one line each, "setting: why"; empty when all that was told agrees.
        notes: What a reader should know and what is no setting that was ignored: fallbacks, sources that disagree.
        kv_second: The KV budget as sources other than the log tell it; the log's own figure is never replaced by it.
    """

    not_applied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kv_second: tuple[KvBudget, ...] = ()

"""What SGLang says while it boots, 0.4.0 to 0.5.23, as facts. "GB" in its lines is 2**30 bytes.

Source:
    Format strings of SGLang: srt/model_executor/model_runner.py, srt/mem_cache/memory_pool.py, srt/managers/scheduler.py,
    srt/entrypoints/engine.py, srt/server_args.py.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from nightsweep.engine.bootlog_vllm import literal
from nightsweep.engine.boots import Boots, sign_of
from nightsweep.engine.collect import Collector, Rule, Stages, abridged, rule
from nightsweep.engine.lines import Line, seconds_of
from nightsweep.engine.redact import redacted
from nightsweep.engine.values import BootFacts

STAGES = ("config", "load", "kv_cache", "graphs", "warmup", "ready")

_NUM = r"-?\d+(?:\.\d+)?"

RULES: dict[str, tuple[Rule, ...]] = {
    "Attention": (
        rule(r"Attention backend .*?Use (?P<attention_backend>\w+) backend by default", text="attention_backend"),
    ),
    "Using": (
        rule(
            r"Using hybrid attention backend for decode and prefill: decode_backend=(?P<attention_backend>\w+), "
            r"prefill_backend=(?P<prefill_attention_backend>\w+)",
            text="attention_backend prefill_attention_backend",
        ),
        rule(r"Using KV cache dtype: (?P<kv_cache_dtype>[\w.]+)", text="kv_cache_dtype"),
    ),
    "Mamba": (
        rule(
            rf"Mamba Cache is allocated\. (?:max_mamba_cache_size: (?P<mamba_cache_size>\d+), )?"
            rf"conv_state size: (?P<mamba_conv_state>{_NUM})\s?GB, ssm_state size: (?P<mamba_ssm_state>{_NUM})\s?GB",
            counts="mamba_cache_size",
        ),
    ),
    "Memory": (rule(rf"Memory pool end\. avail mem=(?P<free_memory_after_pool>{_NUM})"),),
    "max_total_num_tokens": (
        rule(
            r"max_total_num_tokens=(?P<kv_tokens>\d+)"
            r"(?:.*?max_running_requests=(?P<max_running_requests>\d+))?"
            r"(?:.*?context_len=(?P<max_model_len>\d+))?"
            rf"(?:.*?available_gpu_mem=(?P<free_memory_after_boot>{_NUM}) GB)?",
            counts="kv_tokens max_running_requests max_model_len",
        ),
    ),
    "Engine": (
        rule(
            rf"Engine startup timings \(s\): load_weight=(?P<load_seconds>{_NUM}), "
            rf"kv_cache_allocation=(?P<kv_cache_seconds>{_NUM}), scheduler_e2e=(?P<scheduler_seconds>{_NUM})"
            rf"(?:.*?tokenizer_e2e=(?P<tokenizer_seconds>{_NUM}))?"
        ),
    ),
    "The": (rule(r"The server is fired up and ready to roll!", also={"ready": True}),),
    "Application": (rule(r"Application startup complete\.", also={"http_up": True}),),
    "Use": (
        rule(
            r"Use sliding window memory pool\.? ?(?:\(all SWA\)\. )?(?:full_layer_tokens=(?P<full_layer_tokens>\d+), )?"
            r"swa_layer_tokens=(?P<swa_layer_tokens>\d+)",
            counts="full_layer_tokens swa_layer_tokens",
        ),
    ),
    "Draft": (
        rule(
            r"Draft model quantization \((?P<draft_quantization>\S+)\) differs from main model quantization \(\S+\)",
            text="draft_quantization",
        ),
    ),
}

_LOAD_FIELD = {
    "mem_usage": re.compile(rf"mem usage=({_NUM}) GB"),
    "elapsed": re.compile(rf"elapsed=({_NUM}) s"),
    "type": re.compile(r"type=([\w.]+)"),
    "quant": re.compile(r"quant=(\w+)"),
}
_POOL = re.compile(
    r"(?P<late>Post-capture KV sizing: )?(?P<draft>draft )?(?P<pool>Full |SWA |MLA )?KV [Cc]ache "
    r"(?:is allocated|allocated)[.:]?\s*(?:dtype: [\w.]+, )?#tokens: (?P<tokens>\d+)(?=,|\s|$)"
    rf"(?:, K size: (?P<k>{_NUM}) GB, V size: (?P<v>{_NUM}) GB|, KV size: (?P<kv>{_NUM}) GB)?"
)
_WINDOW = re.compile(r"Use sliding window memory pool\.? ?full_layer_tokens=\d+, swa_layer_tokens=(\d+)(?!\d)")
_CAPTURE = re.compile(
    r"Capture (?P<what>[\w ]*?)(?:cuda|CUDA) graph end\..*?(?:Time elapsed: |elapsed=)~?(?P<seconds>\d+(?:\.\d+)?) s"
    rf"(?:.*?mem usage=(?P<memory>{_NUM}) GB)?"
)
"""An allocated pool; "VA upper bound" (0.5.17 and later) reserves addresses only, and the sizing after the capture allocates."""

_DRAFT_TYPE = re.compile(r"draft|mtp|eagle|nextn|dspark|dflash|assistant", re.I)
_CHANGED = re.compile(
    r"overriding|is adjusted|adjusted to|mismatch|falling back|fall back to|is not supported|defaulting to|fewer than"
    r"|deprecated|unstable|differs from|automatically (?:set|disabled|enabled)|will be ignored|has no effect",
    re.I,
)
_MESSAGES_OF_TRAFFIC = frozenset({"Decode", "Prefill", "INFO", "server_args"})


class SglangLog:
    """Reads SGLang's boot log while it comes."""

    engine = "sglang"

    def __init__(self) -> None:
        self._boots = Boots()
        self._begin(start=0.0)

    def _begin(self, *, start: float | None) -> None:
        """Begin anew: facts are those of the last boot in the log."""
        self._kept = Collector()
        self._stages = Stages(STAGES, start=start)
        self._loads: dict[str | None, str] = {}  # the target's type by rank, once it was read
        self._pools: dict[str | None, tuple[str, str | None]] = {}  # the target's pool by rank: tokens and GB
        self._windows: dict[str | None, list[str]] = {}  # tokens of the sliding-window pool that comes next, by rank
        self._drafts = False  # whether any line told of a drafter
        self._one_rank = False
        self._moved = False

    @property
    def recognised(self) -> bool:
        """Whether anything of this engine was found."""
        return bool(self._kept.facts)

    def wants(self, word: str, *, level: str) -> bool:
        """Return whether a message that begins with this word may hold a fact or a warning.

        SGLang's lines tell no level, so that all but its reports on traffic are looked at; vLLM's lines tell one.
        """
        return not level and word.rstrip(",.") not in _MESSAGES_OF_TRAFFIC

    def take(self, line: Line, *, seconds: float | None) -> None:
        """Take one message."""
        message = line.message
        word = message[: message.find(" ")] if " " in message else message
        word = word.partition("=")[0].rstrip(".,:")
        if word in ("Decode", "Prefill"):
            return
        at = seconds if seconds is not None else seconds_of(line.raw)
        if self._boots.begins(line, moved=self._moved):
            self._begin(start=at if self._boots.by_exit else None)
        stated = self._kept.stated
        self._read(word, line, at)
        if self._kept.stated > stated:
            self._boots.engine_wrote(line)
            self._moved = self._moved or sign_of(message) is None
        if line.style == "sglang" or line.level == "WARNING":
            self._warning(line, word)

    def _read(self, word: str, line: Line, at: float | None) -> None:
        if word == "Load":
            self._load(line, at)
        elif word in ("KV", "Full", "SWA", "MLA", "Post-capture"):
            self._pool(line, at)
        elif word == "Capture":
            self._capture(line, at)
        elif word == "server_args":
            self._arguments(line, at)
        elif word in RULES:
            if word == "Use":
                self._window(line)
            self._kept.apply(RULES[word], line)
            self._milestone(word, line, at)

    def facts(self) -> BootFacts:
        """Return what is known so far; `non_default_args` holds all of `server_args`, resolved as SGLang echoes them."""
        kept = self._kept
        return BootFacts(
            engine=self.engine,
            engine_version=kept.get("engine_version"),
            weights=kept.get("weights"),
            draft_weights=kept.get("draft_weights"),
            weights_seconds=kept.get("weights_seconds"),
            kv_cache=kept.get("kv_cache"),
            kv_tokens=kept.first_of("kv_tokens", "kv_pool_tokens"),
            max_concurrency=None,  # SGLang states none
            max_concurrency_tokens=None,
            block_size=kept.get("block_size"),
            compile_seconds=None,
            graph_capture_seconds=kept.get("graph_capture_seconds"),
            init_seconds=kept.get("scheduler_seconds"),
            model_runner=None,
            attention_backend=kept.first_of("attention_backend", "attention_backend_asked"),
            quantization_kernel=None,
            non_default_args=kept.get("server_args"),
            stages=self._stages.seconds(),
            warnings=kept.warnings,
            facts=kept.facts,
        )

    # --- sentences that need more than a pattern -----------------------------------------------------------------

    def _load(self, line: Line, at: float | None) -> None:
        if not line.message.startswith("Load weight end") or "Committed real weights" in line.message:
            return
        told = {
            name: found.group(1) for name, pattern in _LOAD_FIELD.items() if (found := pattern.search(line.message))
        }
        if "mem_usage" not in told and "elapsed" not in told and "type" not in told:
            return
        draft = self._is_draft(told.get("type", ""), line)
        head = "draft_" if draft else ""
        if "mem_usage" in told:
            self._kept.add(f"{head}weights", float(told["mem_usage"]), line)
        if "elapsed" in told:
            self._kept.add(f"{head}weights_seconds", float(told["elapsed"]), line)
        if "type" in told:
            self._kept.add(f"{head}architecture", told["type"], line)
        if "quant" in told:
            self._kept.add(f"{head}quantization", told["quant"], line)
        self._stages.reach("load", at)

    def _is_draft(self, kind: str, line: Line) -> bool:
        """Whether a read is the draft's: it says so by its type, or it is the second of one rank of an engine that drafts.

        Without ranks in the log, and with another boot in it, the same type comes again and is no draft.
        """
        if _DRAFT_TYPE.search(kind):
            self._drafts = True
            return True
        if line.rank not in self._loads:
            self._loads[line.rank] = kind
            return False
        draft = kind != self._loads[line.rank] or (self._drafts and (self._one_rank or line.rank is not None))
        self._drafts = self._drafts or draft
        return draft

    def _pool(self, line: Line, at: float | None) -> None:
        found = _POOL.match(line.message)
        if found is None or abridged(line.message, found.end()):
            return
        head = self._owner(found, line)
        self._kept.add(f"{head}kv_pool_tokens", int(found["tokens"]), line)
        if found["kv"]:
            self._kept.add(f"{head}kv_cache", float(found["kv"]), line)
        elif found["k"]:
            self._kept.add(f"{head}k_cache", float(found["k"]), line)
            self._kept.add(f"{head}v_cache", float(found["v"]), line)
            # One sentence states one pool in two parts.
            self._kept.add(f"{head}kv_cache", round(float(found["k"]) + float(found["v"]), 2), line)
        self._stages.reach("kv_cache", at)

    def _owner(self, found: re.Match[str], line: Line) -> str:
        """Return whose pool it is, as the beginning of its facts' names: "" is the target's.

        Releases before 0.5.17 named both pools of a model with sliding windows alike, the windows' first.
        """
        if found["draft"]:
            return "draft_"
        if (found["pool"] or "").strip() == "SWA":
            return "swa_"
        window = self._windows.get(line.rank, [])
        if found["tokens"] in window:
            window.remove(found["tokens"])
            return "swa_"
        size = (found["tokens"], found["kv"] or found["k"])
        target = self._pools.setdefault(line.rank, size)
        if found["late"] or target == size:
            return ""
        return "draft_" if self._drafts or _is_a_share(size, of=target) else ""

    def _window(self, line: Line) -> None:
        found = _WINDOW.match(line.message)
        if found is not None:
            self._windows[line.rank] = [found.group(1)]

    def _capture(self, line: Line, at: float | None) -> None:
        found = _CAPTURE.match(line.message)
        if found is None:
            return
        what = found["what"].strip()
        head = "draft_" if what.startswith("draft") else ""
        self._kept.add(f"{head}graph_capture_seconds", float(found["seconds"]), line)
        if what:
            self._kept.add(f"graph_capture_seconds[{what}]", float(found["seconds"]), line)
        if found["memory"]:
            self._kept.add(f"{head}graph_memory", float(found["memory"]), line)
        self._stages.reach("graphs", at)

    def _arguments(self, line: Line, at: float | None) -> None:
        value = server_args(line.message.partition("=")[2].strip())
        if value is None:
            return
        self._kept.add("server_args", redacted(value), line)
        self._drafts = self._drafts or bool(value.get("speculative_algorithm"))
        self._one_rank = value.get("tp_size", value.get("tensor_parallel_size")) == 1
        for name, fact in (
            ("attention_backend", "attention_backend_asked"),
            ("speculative_algorithm", "speculative_method"),
            ("speculative_draft_model_path", "speculative_model"),
            ("page_size", "block_size"),
            ("version", "engine_version"),
        ):
            if value.get(name) is not None:
                self._kept.add(fact, value[name], line)
        self._stages.reach("config", at)

    def _warning(self, line: Line, word: str) -> None:
        if word in _MESSAGES_OF_TRAFFIC or len(line.message) > 800:
            return
        if line.level == "WARNING" or _CHANGED.search(line.message):
            self._kept.warn(line.message)

    def _milestone(self, word: str, line: Line, at: float | None) -> None:
        if word == "max_total_num_tokens":
            self._stages.reach("warmup", at)
        elif word == "The" and line.message.startswith("The server is fired up"):
            self._stages.reach("ready", at)


def _is_a_share(pool: tuple[str, str | None], *, of: tuple[str, str | None]) -> bool:
    """Whether a pool holds as many tokens as another in a fraction of its memory: a draft's few layers do."""
    if pool[0] != of[0] or pool[1] is None or of[1] is None:
        return False
    return float(pool[1]) < 0.25 * float(of[1])


def server_args(text: str) -> dict[str, Any] | None:
    """Return the arguments that `ServerArgs(a=1, ...)` or `{...}` shows, or None when it cannot be read.

    A value that is no literal (an enum, an object) is left out.
    """
    if text.startswith("{"):
        value = literal(text)
        return value if isinstance(value, dict) else None
    if not text.startswith("ServerArgs("):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call = ast.parse(re.sub(r"<[^<>]*>", "None", text), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    if not isinstance(call, ast.Call):
        return None
    told: dict[str, Any] = {}
    for keyword in call.keywords:
        try:
            if keyword.arg is not None:
                told[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, RecursionError, MemoryError):
            continue
    return told

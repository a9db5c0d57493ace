"""What vLLM says while it boots, 0.6.0 to 0.33.0, V0 and V1, as facts.

Source:
    Format strings of vLLM: v1/worker/gpu_model_runner.py, v1/worker/gpu/model_runner.py, v1/worker/gpu_worker.py,
    v1/core/kv_cache_utils.py, v1/engine/core.py, model_executor/model_loader, compilation/, platforms/, worker/worker.py,
    executor/, entrypoints/; genuine logs of 0.26.0 (CUDA) and 0.32.0 (CPU).
"""

from __future__ import annotations

import ast
import re
import warnings
from functools import lru_cache
from typing import Any

from nightsweep.engine.boots import Boots, sign_of
from nightsweep.engine.collect import Collector, Stages, abridged
from nightsweep.engine.lines import Line, seconds_of
from nightsweep.engine.redact import redacted
from nightsweep.engine.sentences_vllm import ATTENTION, DEVICES, KV_LINE, NUM, RULES, USING
from nightsweep.engine.values import BootFacts
from nightsweep.engine.versions import parse_version

STAGES = ("imports", "config", "load", "compile", "kv_cache", "graphs", "warmup", "ready")
"""In order; each is the time until its milestone: banner, engine process, weights, torch.compile, KV cache, graphs, ..."""

QUIET_WARNINGS = (
    "Found ulimit of",
    "libtcmalloc is not found",
    "libiomp is not found",
    "Triton is not installed",
    "Reset SSM cache type",
    "Inductor compilation was disabled",
    "[shutdown]",
    "Found duplicate keys --port",
)
"""Warnings that tell nothing about numbers on this box."""

_SPECULATIVE = re.compile(
    r"speculative_config=SpeculativeConfig\(method='(?P<speculative_method>\w+)', model='?(?P<speculative_model>[^',]*)'?, "
    r"num_spec_tokens=(?P<speculative_tokens>\d+)(?=[,)])"
)
_INIT = re.compile(r"Initializing an? (?:(V\d) )?LLM engine \(v(\d[^)\s]*)\) with config")
_MAX_SEQ = re.compile(r"\bmax_seq_len=(\d+)")
_SAMPLING = re.compile(r"(\{[^{}]*'temperature'[^{}]*\})")
_OBJECT = re.compile(r"<[^<>]*>")


@lru_cache(maxsize=8)
def literal(text: str) -> Any:
    """Return the Python literal that a text is; objects shown as <...> become their text. None when it is not one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd backslash in somebody's argument is not our warning
        for candidate in (text, _OBJECT.sub(lambda found: repr(found[0]), text)):
            try:
                return ast.literal_eval(candidate)
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                continue
    return None


class VllmLog:
    """Reads vLLM's boot log while it comes."""

    engine = "vllm"

    def __init__(self) -> None:
        self._boots = Boots()
        self._begin(start=0.0)
        self._handlers = {
            "Using": self._using,
            "Loading": self._loading,
            "non-default": self._arguments,
            "Initializing": self._initializing,
            "Resolved": self._architecture,
            "Detected": self._detected,
            "Default": self._sampling,
            "[backbone]": self._tagged,
        }

    def _begin(self, *, start: float | None) -> None:
        """Begin anew: facts are those of the last boot in the log."""
        self._kept = Collector()
        self._stages = Stages(STAGES, start=start)
        self._loads: dict[tuple[str | None, str], int] = {}  # "Loading weights took" so far, by process
        self._drafter: set[str | None] = set()  # ranks that said that the drafter is next
        self._drafts = False  # whether any line told of a drafter
        self._load_started = False
        self._moved = False

    @property
    def recognised(self) -> bool:
        """Whether anything of this engine was found."""
        return bool(self._kept.facts)

    def wants(self, word: str, *, level: str) -> bool:
        """Return whether a message that begins with this word may hold a fact or a warning."""
        return (
            level == "WARNING" or word in RULES or word in self._handlers or word in _ODD or word[:1] in _ODD_INITIALS
        )

    def take(self, line: Line, *, seconds: float | None) -> None:
        """Take one message."""
        message = line.message
        if message[:1] == " ":
            message = message.lstrip()
            line = line._replace(message=message)
        if message[:1] == "[" and message[:9] != "[shutdown":
            self._tagged(line, seconds=seconds)
            return
        word = message[: message.find(" ")] if " " in message else message
        self._boot(line, seconds)
        if line.level == "WARNING" and line.headed:
            self._warning(line)
        self._read(word, line, seconds)

    def _read(self, word: str, line: Line, seconds: float | None) -> None:
        stated = self._kept.stated
        handler = self._handlers.get(word)
        if handler is not None:
            handler(line)
        elif word in RULES:
            self._kept.apply(RULES[word], line)
        elif word in DEVICES:
            self._kept.apply((KV_LINE,), line)
        else:
            return
        if self._kept.stated > stated:
            self._boots.engine_wrote(line)
            self._moved = self._moved or not (word in _FIRST_WORDS or sign_of(line.message))
        if word == "Model" or line.message.startswith("Starting to load model"):
            self._runner(line)
        self._milestone(word, line, seconds)

    def _boot(self, line: Line, seconds: float | None) -> None:
        """Tell whether another boot begins with a line, which is told before the line is read."""
        if self._boots.begins(line, moved=self._moved):
            at = seconds if seconds is not None else seconds_of(line.raw)
            self._begin(start=at if self._boots.by_exit else None)

    def facts(self) -> BootFacts:
        """Return what is known so far."""
        kept = self._kept
        return BootFacts(
            engine=self.engine,
            engine_version=kept.get("engine_version"),
            weights=kept.get("weights"),
            draft_weights=None,  # vLLM reports target and draft in one number
            weights_seconds=kept.get("weights_seconds"),
            kv_cache=kept.get("kv_cache"),
            kv_tokens=kept.get("kv_tokens"),
            max_concurrency=kept.get("max_concurrency"),
            max_concurrency_tokens=kept.get("max_concurrency_tokens"),
            block_size=kept.get("block_size"),
            compile_seconds=kept.first_of("compile_seconds", "init_compile_seconds"),
            graph_capture_seconds=kept.get("graph_capture_seconds"),
            init_seconds=kept.get("init_seconds"),
            model_runner=kept.get("model_runner"),
            attention_backend=kept.get("attention_backend"),
            quantization_kernel=kept.get("quantization_kernel"),
            non_default_args=kept.get("non_default_args"),
            stages=self._stages.seconds(),
            warnings=kept.warnings,
            facts=kept.facts,
        )

    # --- sentences that need more than a pattern -----------------------------------------------------------------

    def _tagged(self, line: Line, *, seconds: float | None = None) -> None:
        """Take a message behind a tag: "[backbone] torch.compile took ...", "[dflash_head] ..."."""
        end = line.message.find("] ")
        if not 0 < end < 80:
            return
        tag, message = line.message[1:end], line.message[end + 2 :]
        if not message.startswith("torch.compile"):
            return
        inner = line._replace(message=message)
        if tag == "backbone":
            self._kept.apply(RULES["torch.compile"], inner)
            self._milestone("torch.compile", inner, seconds)
            return
        found = re.match(rf"torch\.compile (?:and initial .*? together )?took ({NUM}) s in total", message)
        if found:
            self._kept.add(f"compile_seconds[{tag}]", float(found.group(1).replace(",", "")), line)

    def _using(self, line: Line) -> None:
        message = line.message
        if message.startswith("Using max model len "):
            found = re.match(r"Using max model len (\d+)", message)
            if found and not abridged(message, found.end()):
                second = self._kept.get("max_model_len") is not None
                self._kept.add("second_max_model_len" if second else "max_model_len", int(found.group(1)), line)
            return
        if "sampling param" in message:
            self._sampling(line)
            return
        rules = USING
        if message.rstrip(". ").endswith("MoE backend") or not ATTENTION.search(message):
            rules = USING[:-1]
        self._kept.apply(rules, line)

    def _loading(self, line: Line) -> None:
        rank = line.rank
        if line.message.startswith("Loading drafter model"):
            self._drafter.add(rank)
            self._drafts = True
            self._kept.add("drafter_loaded", True, line)
            return
        found = re.match(rf"Loading (model )?weights took ({NUM}) (seconds|GB)", line.message)
        if found is None:
            return
        value = float(found.group(2).replace(",", ""))
        if found.group(3) == "GB":
            self._kept.add("weights", value, line)
            return
        writer = line.writer
        self._loads[writer] = self._loads.get(writer, 0) + 1
        # One process reads twice only for a draft; without its number it may be another process.
        draft = rank in self._drafter or (self._loads[writer] > 1 and (self._drafts or writer != (None, "")))
        self._kept.add("draft_weights_read_seconds" if draft else "weights_read_seconds", value, line)

    def _load_starts(self, line: Line) -> None:
        """Begin to count a process's reads anew: the same model again is another boot, a second one V0's draft."""
        draft = self._drafts and self._loads.get(line.writer, 0) > 0
        model = line.message[len("Starting to load model ") :].rstrip(". ")
        if draft and model != self._kept.get("load_model"):
            self._drafter.add(line.rank)
            return
        self._loads.pop(line.writer, None)
        self._drafter.discard(line.rank)

    def _detected(self, line: Line) -> None:
        """Tell a lone load as the draft's: this sentence comes right after the draft was read, whatever its method."""
        if not line.message.startswith("Detected EAGLE model"):
            return
        self._drafts = True
        if self._loads.get(line.writer, 0) == 1 and not self._load_started and line.rank not in self._drafter:
            self._kept.rename("weights_read_seconds", "draft_weights_read_seconds", rank=line.rank)
            self._drafter.add(line.rank)

    def _arguments(self, line: Line) -> None:
        at = line.message.find("{")
        if not line.message.startswith("non-default args:") or at < 0:
            return
        value = literal(line.message[at:].strip())
        if not isinstance(value, dict):
            return
        self._kept.add("non_default_args", redacted(value), line)
        self._temperature(value.get("override_generation_config"), line)

    def _initializing(self, line: Line) -> None:
        found = _INIT.match(line.message)
        if found is None:
            return
        if found.group(1):
            self._kept.add("engine_generation", found.group(1), line)
        self._kept.add("engine_version", found.group(2), line)
        longest = _MAX_SEQ.search(line.message)
        if longest and not abridged(line.message, longest.end()) and self._kept.get("max_model_len") is None:
            self._kept.add("max_model_len", int(longest.group(1)), line)
        draft = _SPECULATIVE.search(line.message)
        if draft:
            self._drafts = True
            self._kept.add("speculative_method", draft["speculative_method"], line)
            if draft["speculative_model"] not in ("", "None"):
                self._kept.add("speculative_model", draft["speculative_model"], line)
            self._kept.add("speculative_tokens", int(draft["speculative_tokens"]), line)

    def _runner(self, line: Line) -> None:
        """Tell the model runner by the file that a load line comes from: V1 has no sentence of its own.

        The V0 engine had a model_runner.py too; its line is that of 0.8 to 0.10, without the word "memory".
        """
        if "model_runner.py" not in line.source:
            return
        if line.source.startswith(("gpu_model_runner.py", "cpu_model_runner.py", "xpu_model_runner.py")):
            self._kept.add("model_runner", "V1", line)
        elif line.source.startswith("model_runner.py") and line.message.startswith("Model loading took"):
            version = parse_version(self._kept.get("engine_version"))
            if "GiB memory and" in line.message or (version is not None and version >= (0, 12, 0)):
                self._kept.add("model_runner", "V2", line)

    def _architecture(self, line: Line) -> None:
        found = re.match(r"Resolved architecture: (\S+)", line.message)
        if found:
            second = self._kept.get("architecture") is not None
            self._kept.add("second_architecture" if second else "architecture", found.group(1), line)

    def _sampling(self, line: Line) -> None:
        found = _SAMPLING.search(line.message)
        self._temperature(literal(found.group(1)) if found else None, line)

    def _temperature(self, sampling: Any, line: Line) -> None:
        """Keep the temperature of requests that set none."""
        if isinstance(sampling, dict) and isinstance(sampling.get("temperature"), int | float):
            self._kept.add("default_temperature", float(sampling["temperature"]), line)

    def _warning(self, line: Line) -> None:
        if any(line.message.startswith(quiet) for quiet in QUIET_WARNINGS):
            return
        self._kept.warn(line.message)
        if "JIT compilation during inference" in line.message:
            self._kept.add("jit_during_inference", line.message[:300], line)

    def _milestone(self, word: str, line: Line, seconds: float | None) -> None:
        if word == "Starting" and line.message.startswith("Starting to load"):
            self._load_started = True
            self._load_starts(line)
            return
        if word == "Loading" and line.message.startswith("Loading model from scratch"):
            self._load_started = True
            return
        stage = _MILESTONES.get(word)
        if stage is None or not line.message.startswith(stage[1]):
            return
        self._stages.reach(stage[0], seconds if seconds is not None else seconds_of(line.raw))


_FIRST_WORDS = frozenset({"▄▄", "█▄█▀", "Using", "Detected", "Default"})
"""Words of sentences that may come before a boot's arguments are told."""

_ODD = frozenset(DEVICES)
_ODD_INITIALS = frozenset({"", "[", "▄", "█"})
_MILESTONES = {
    "non-default": ("imports", "non-default args"),
    "Initializing": ("config", "Initializing a"),
    "Model": ("load", "Model loading took"),
    "torch.compile": ("compile", "torch.compile"),
    "GPU": ("kv_cache", "GPU"),
    "CPU": ("kv_cache", "CPU KV"),
    "XPU": ("kv_cache", "XPU KV"),
    "#": ("kv_cache", "#"),
    "Graph": ("graphs", "Graph capturing finished"),
    "init": ("warmup", "init engine"),
    "Application": ("ready", "Application startup complete"),
}

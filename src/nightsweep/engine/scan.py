"""Going through a log for the reason of a failure: causes, consequences, how far the engine had got, and whether it was ready."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

from nightsweep.engine import stalls
from nightsweep.engine.boots import Boots
from nightsweep.engine.causes import Cause
from nightsweep.engine.failure_rules import CAUSES, CAUSES_IN_DRAFT, HARMLESS
from nightsweep.engine.lines import Line, lines_of
from nightsweep.engine.wrapped import Wrapped

_ALARM = re.compile(
    r"rror|xception|atal|ailed|annot|No |not |denied|died|dead|less than|too (?:old|small|large)|should be|Unexpected key"
    r"|NCCL|nvidia-container|unsatisfied|out of memory|ncomplete|ETADATA|in use|sigquit|KV cache is needed|Interrupt"
    r"|can only be|EngineCore encountered|Illegal|is larger than|must |requires |leave no|appears to be|denied|restricted"
    r"|unexpectedly|exit code|provided but|offline mode|off the bus|Unable to|is lost|Killed process"
    r"|Kill process|oom-kill|OOM killer|code 137"
    r"|OUT_OF_|egfault|egmentation|custom code"
    r"|OutOfRes|StopIter|hit an exc"
)
_NEGATIVE = ("KV Cache is -", "KV cache memory: -")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout|OutOfResources|StopIteration)\b(?::|$)"
    r"|OutOfResources:|StopIteration\b(?::|$)|(?:[a-z_]\w{0,80}\.){0,8}(?:errors?|exceptions?)\.[A-Z]\w*:"
)
_WRAPPING = re.compile(
    r"(?:[\w.]*\.)?(?:SystemExit|GeneratorExit|CancelledError|BrokenPipeError|ConnectionResetError|EOFError|ChildFailedError"
    r"|ProcessExitedException|ContextTerminated)\b"
    r"|RuntimeError: (?:Worker failed with error|cancelled|Engine process|Engine loop|Background loop|Server process"
    r"|Rank \d+ scheduler)"
    r"|(?:[\w.]*\.)?Dist(?:Network|Store)Error\b|(?:[\w.]*\.)?TimeoutError: RPC call"
)
"""Exceptions that only pass on that something failed elsewhere."""

_BROKEN_CONTEXT = re.compile(
    r"CUDA error: (?:an illegal (?:memory access|instruction)|device-side assert|misaligned address|unspecified launch failure)"
)
"""After these no process ever computes again."""
_CONTINUED = ("Unexpected keyword", "Input should be", "Value error,")
_EARLY = ("MemorySnapshot", "init_device", "mem_get_info")
_CAPTURE = ("capture_end", "capture_model", "graph_capture", "cuda_graph_runner", "capture_begin")
_DRAFTER = ("speculative_config=SpeculativeConfig(", "speculative_draft_model_path='")
_OF_A_BOOT = frozenset(
    {
        "bad_flag",
        "unsupported_combination",
        "draft_config_error",
        "draft_arch_unsupported",
        "model_arch_unsupported",
        "model_missing",
        "model_files_incomplete",
        "missing_package",
        "kv_too_small",
        "no_kv_memory",
    }
)
"""What can only keep an engine from coming up; said by one that serves, it is about a request."""

_PROBED = frozenset({"gpu_oom", "cuda_init_failed"})
"""What libraries say aloud while they try how much they get, and then do with less."""

_NEAR = 60
"""Messages within which a traceback's frames belong to its last line."""

STAGE_WORDS: tuple[tuple[str, str], ...] = (
    ("non-default args", "config"),
    ("vLLM API server version", "config"),
    ("vLLM server version", "config"),
    ("args: Namespace", "config"),
    ("server_args=", "config"),
    ("Resolved architecture", "config"),
    ("Initializing a", "config"),
    ("Starting to load model", "load"),
    ("Loading model from scratch", "load"),
    ("Load weight begin", "load"),
    ("Loading weights took", "load"),
    ("Loading model weights took", "compile"),
    ("Model loading took", "compile"),
    ("Load weight end", "kv_cache"),
    ("torch.compile t", "compile"),
    ("Dynamo bytecode", "compile"),
    ("Available KV cache memory", "kv_cache"),
    ("KV Cache is allocated", "kv_cache"),
    ("Memory pool end", "warmup"),
    ("Graph capturing", "warmup"),
    ("Capturing CUDA graph", "warmup"),
    ("Capture cuda graph begin", "warmup"),
    ("Capture target", "warmup"),
    ("max_total_num_tokens=", "warmup"),
    ("Starting vLLM", "warmup"),
)
STAGE_ORDER = ("arguments", "config", "load", "compile", "kv_cache", "warmup", "serving")
_STAGE_BY_INITIAL: dict[str, tuple[tuple[str, str], ...]] = {}
for _text, _stage in STAGE_WORDS:
    _STAGE_BY_INITIAL[_text[0]] = (*_STAGE_BY_INITIAL.get(_text[0], ()), (_text, _stage))

_STAGE_FIRST_WORDS = frozenset({text.split(" ")[0] for text, _ in STAGE_WORDS}) | {
    "",
    "model",
    "Application",
    "Compiling",
    "Shutting",
    "[shutdown]",
    "The",
    "▄▄",
    "No",
    "Engine",
}


@dataclass(frozen=True)
class Hit:
    """A sentence that tells why: where it stands, what it says, and where the engine was."""

    at: int
    cause: Cause
    found: re.Match[str]
    lines: tuple[str, ...]
    stage: str
    in_draft: bool
    after_target: bool
    aside: bool = False
    """Whether it stands on no line of the engine's own and is no exception: a boot that goes on takes it back."""


@dataclass
class Scan:
    """What a whole log tells of a failure."""

    hits: list[Hit] = field(default_factory=list)
    exceptions: list[tuple[int, str]] = field(default_factory=list)
    real_exception: tuple[int, str] | None = None
    last_exception_at: int | None = None
    spoke_at: int = 0
    went_on_at: int = 0
    crashed: bool = False
    waits: stalls.Stalls = field(default_factory=stalls.Stalls)
    messages: int = 0
    stage: str = "arguments"
    ready: bool = False
    stopped_at: int | None = None
    load_started: bool = False
    loads: int = 0
    drafter_next: bool = False
    loaded: bool = False
    drafter_configured: bool = False
    cold_compile: bool = False
    last_line: str = ""
    sglang: bool = False
    early_at: int | None = None
    capture_at: int | None = None
    before: Scan | None = None
    _boots: Boots = field(default_factory=Boots)
    _wrapped: Wrapped = field(default_factory=Wrapped)
    _previous: str = ""
    _ignoring: bool = False

    def wants(self, word: str, *, level: str) -> bool:
        """Return whether a message of this level that begins with this word may tell of a failure or of progress."""
        if level in ("INFO", "DEBUG", "WARNING"):
            return word in _STAGE_FIRST_WORDS
        return word not in ("Decode", "Prefill")

    def take(self, line: Line) -> None:
        """Take the next message."""
        message = line.message.strip()
        if not message:
            return
        if self._boots.begins(line, moved=self._moved()):
            self._begin()
        self.messages += 1
        self.sglang = self.sglang or line.style == "sglang"
        self.last_line = line.raw.strip()[:1000]
        self._progress(message, line)
        if self._looks_alarming(message, line):
            if not self._ignored_by_python(message):
                self._match(message, line)
        elif line.headed and (line.level == "INFO" or line.style == "sglang"):
            self.spoke_at = self.messages
        self._go_on(message, line)
        if "it/s]" not in message and "s/it]" not in message:  # a bar may come between a cause's two lines
            self._previous = message

    def _moved(self) -> bool:
        """Whether this boot told more than its arguments."""
        told = bool(self.hits or self.exceptions) and self._boots.signed
        return told or self.ready or self.stage not in ("arguments", "config")

    def _begin(self) -> None:
        """Begin anew: what follows is another boot. The one before is kept, for a log that ends early in the next."""
        before = Scan()
        for each in fields(Scan):
            setattr(before, each.name, getattr(self, each.name))
        before.before = None
        now = self.messages
        fresh = Scan(before=before, messages=now, spoke_at=now, went_on_at=now, sglang=self.sglang)
        fresh._boots = self._boots
        for each in fields(Scan):
            setattr(self, each.name, getattr(fresh, each.name))

    def telling(self) -> Scan:
        """Return the boot that tells of the end: the last one, or the one before while the last tells nothing at all."""
        silent = not (self.ready or self.hits or self.exceptions or self.stopped_at)
        return self.before if silent and self.before is not None and self.before.hits else self

    def _ignored_by_python(self, message: str) -> bool:
        """Whether a message is of a traceback that Python itself calls ignored: something failed while it was cleaned up."""
        if message.startswith("Exception ignored in"):
            self._ignoring = True
            return True
        if self._ignoring and _EXCEPTION.match(message):
            self._ignoring = False
            return True
        return False

    def best(self) -> Hit | None:
        """Return the first hit of the most telling weight."""
        return min(self.hits, key=lambda hit: (-hit.cause.weight, hit.at), default=None)

    # --- how far the engine had got ------------------------------------------------------------------------------

    def _progress(self, message: str, line: Line) -> None:
        for text, stage in _STAGE_BY_INITIAL.get(message[0], ()):
            if message.startswith(text):
                self._boots.engine_wrote(line)
                self.went_on_at = self.messages
                self._advance(stage)
                self._note(message)
                return
        if message.startswith(("Application startup complete", "The server is fired up")):
            self._boots.engine_wrote(line)
            self._ready(message, line)
        elif message.startswith("Engine 0") and stalls.generates(message):
            self._unstall()
        elif message.startswith(("Loading drafter model", "Compiling a graph for", "Shutting down", "[shutdown]")):
            self._note(message)

    def _advance(self, stage: str) -> None:
        if STAGE_ORDER.index(stage) > STAGE_ORDER.index(self.stage):
            self.stage = stage
            self._unstall()
            self.hits = [hit for hit in self.hits if not (hit.aside and hit.cause.kind in _PROBED)]

    def _unstall(self) -> None:
        """Forget the waits so far: the engine went on."""
        if self.waits.longest:
            self.waits.moved()
            self.hits = [hit for hit in self.hits if hit.cause.kind != "engine_stalled"]

    def _note(self, message: str) -> None:
        if message.startswith(("Starting to load", "Loading model from scratch", "Load weight begin")):
            self.load_started = True
        elif message.startswith(("Loading weights took", "Load weight end")):
            self.loads += 1
        elif message.startswith("Loading drafter model"):
            self.drafter_next = True
        elif message.startswith(("Model loading took", "Loading model weights took")):
            self.loaded = True
        elif message.startswith("Compiling a graph for"):
            self.cold_compile = True
        elif message.startswith("Shutting down") or "shutdown triggered" in message or "received signal" in message:
            self.stopped_at = self.messages if self.stopped_at is None else self.stopped_at
        elif any(sign in message for sign in _DRAFTER):
            self.drafter_configured = "method='ngram" not in message

    def _ready(self, message: str, line: Line) -> None:
        if message.startswith("Application") and self.sglang:
            return  # SGLang's own warm-up is still to come
        self.ready = True
        self.stage = "serving"
        self.hits.clear()  # whatever alarmed before, the engine came up
        self.exceptions.clear()
        self.waits.moved()
        self.real_exception, self.last_exception_at, self.crashed = None, None, False

    # --- what it says ------------------------------------------------------------------------------------------------

    def _looks_alarming(self, message: str, line: Line) -> bool:
        if line.headed and line.level in ("INFO", "DEBUG", "WARNING"):
            return message.startswith(stalls.SENTENCE) or any(sign in message for sign in _NEGATIVE)
        if message.startswith(('File "', "^", "~", "raise ")) or "it/s]" in message or "s/it]" in message:
            self._frame(message)
            return False
        if _ALARM.search(message, 0, 4000) is not None:
            return True
        self._frame(message)
        return False

    def _frame(self, message: str) -> None:
        if any(sign in message for sign in _EARLY):
            self.early_at = self.messages
        if any(sign in message for sign in _CAPTURE):
            self.capture_at = self.messages

    def _match(self, message: str, line: Line) -> None:
        self._frame(message)
        if any(text in message for text in HARMLESS):
            return
        continued = message.startswith(_CONTINUED)
        text = f"{self._previous} {message}"[:8000] if continued else message[:8000]
        stated = (CAUSES_IN_DRAFT if self._in_draft() else CAUSES).first(text)
        if stated is not None:
            kept = (self._previous, line.raw) if continued else (line.raw,)
            self._keep(*stated, line, lines=tuple(part.strip()[:1000] for part in kept))
            return
        if _EXCEPTION.match(message):
            self._raised(message, line)

    def _go_on(self, message: str, line: Line) -> None:
        """Take the rest of a sentence that was wrapped: it may say more than its first lines did."""
        joined = self._wrapped.joined(message, line)
        if joined is None:
            return
        stated = CAUSES.first(joined)
        if stated is None or stated[0].kind != "kv_too_small":
            return
        cause, found = stated
        if self.hits and self.hits[-1].cause.kind == cause.kind:
            self.hits[-1] = replace(self.hits[-1], cause=cause, found=found)
        else:
            self._keep(cause, found, line, lines=(line.raw.strip()[:1000],))

    def _raised(self, message: str, line: Line) -> None:
        self._boots.engine_wrote(line)
        self.last_exception_at = self.messages
        self.crashed = self.crashed or _BROKEN_CONTEXT.search(message, 0, 4000) is not None
        if len(self.exceptions) < 200:
            self.exceptions.append((self.messages, line.raw.strip()[:1000]))
            self._real(message)

    def _real(self, message: str) -> None:
        if self.real_exception is None and not _WRAPPING.match(message) and "KeyboardInterrupt" not in message:
            self.real_exception = self.exceptions[-1]

    def _in_draft(self) -> bool:
        """Whether the draft's weights are being read: target and draft are loaded in this order, and told as one."""
        return (self.drafter_next or self.loads > 0) and not self.loaded

    def _keep(self, cause: Cause, found: re.Match[str], line: Line, *, lines: tuple[str, ...]) -> None:
        self._boots.engine_wrote(line)
        if cause.kind == "engine_stalled":
            self.waits.wait(prefix=line.prefix, raw=line.raw)
        if len(self.hits) >= 500:
            return
        stage = cause.stage or self.stage
        if cause.kind == "gpu_oom" and self.capture_at is not None and self.messages - self.capture_at < _NEAR:
            stage = "warmup"
        if self.ready and cause.kind in _OF_A_BOOT:
            return  # a request was refused: the engine serves on
        self.hits.append(
            Hit(
                at=self.messages,
                cause=cause,
                found=found,
                lines=lines,
                stage="serving" if self.ready else stage,
                in_draft=self._in_draft(),
                after_target=self.loads > 0 or self.loaded,
                aside=not line.headed and not _EXCEPTION.match(line.message),
            )
        )

    def early(self, hit: Hit) -> bool:
        """Return whether a hit stands beside the frames of the very first look at the device."""
        return self.early_at is not None and not self.load_started and abs(hit.at - self.early_at) < _NEAR


def scan(texts: Iterable[str]) -> Scan:
    """Return what a log tells of a failure, in one pass."""
    result = Scan()
    for text in texts:
        for line in lines_of(text):
            result.take(line)
    return result

"""A boot as it looks from outside: log lines in vLLM's words and frame, each stage lasting what the profile says.

stdout carries the engine's log, stderr progress bars, tracebacks and uvicorn's lines, as with vLLM. The seconds that a line
states are simulated ones; the line's own time of day is real.

Sources: boot logs of vLLM 0.26.0 (CUDA) and 0.32.0 (CPU build); one-line KV cache line as printed by 0.28.0.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nightsweep.simulator import speculative as spec
from nightsweep.simulator.configtruth import ConfigTruth, UnsupportedMethod, config_truth
from nightsweep.simulator.faults import FaultSet
from nightsweep.simulator.profile import Profile
from nightsweep.simulator.settings import SimSettings, refuse_arguments

GIB = 2**30
NOTICE = "nightsweep simulator: nothing measured here is a real engine's number"


class BootEnded(Exception):
    """The boot failed the way a real one does; everything is printed already.

    Attributes:
        exit_code: Of the process.
    """

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Booted:
    """What a boot ended with."""

    truth: ConfigTruth
    version: str
    max_model_len: int
    kv_tokens: int
    kv_bytes: int
    cold_start: float  # simulated seconds


class Log:
    """Prints lines in vLLM's frame. Every line is flushed: a follower sees it when it happens."""

    def __init__(self, *, speed: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._speed = speed
        self._sleep = sleep
        self.simulated = 0.0

    def line(self, process: str, level: str, place: str, text: str) -> None:
        """Print one record; its further lines carry the same prefix."""
        pid = os.getpid()
        stamp = time.strftime("%m-%d %H:%M:%S")
        prefix = f"({process} pid={pid}) {level} {stamp} [{place}] "
        self.raw("\n".join(prefix + part for part in text.split("\n")))

    def api(self, place: str, text: str, *, level: str = "INFO") -> None:
        """Print a record of the API server's process."""
        self.line("APIServer", level, place, text)

    def core(self, place: str, text: str, *, level: str = "INFO") -> None:
        """Print a record of the engine core's process."""
        self.line("EngineCore", level, place, text)

    def raw(self, text: str) -> None:
        """Print to stdout as it is."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def error(self, text: str) -> None:
        """Print to stderr as it is."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def wait(self, simulated: float) -> None:
        """Let simulated seconds pass."""
        self.simulated += simulated
        self._sleep(simulated / self._speed)

    def pause(self, seconds: float) -> None:
        """Let real seconds pass."""
        self._sleep(seconds)


def engine_version(profile: Profile) -> str:
    """Return the version that the simulated engine gives."""
    return f"{profile.vllm_version}+simulated"


def boot(settings: SimSettings, profile: Profile, faults: FaultSet, log: Log) -> Booted:
    """Go through a whole boot, up to the point where the server starts to listen.

    Raises:
        BootEnded: It failed, as asked for or because the settings do not fit the box.
    """
    log.wait(0.5 * profile.boot.imports)
    if "bad_flag" in faults:
        refuse_arguments(["--no-such-flag", "1"])
    _arguments(settings, profile, faults, log)
    truth, max_model_len = _configure(settings, profile, faults, log)
    _start_core(settings, truth, faults, log, max_model_len=max_model_len)
    _load(settings, truth, faults, log)
    kv_bytes = _kv_cache(settings, truth, faults, log, max_model_len=max_model_len)
    _graphs(truth, faults, log)
    log.wait(profile.boot.api)
    log.api("api_server.py:657", f"Starting vLLM server on http://{settings.host}:{settings.port}")
    return Booted(
        truth, engine_version(profile), max_model_len, truth.kv_tokens(kv_bytes), kv_bytes, cold_start=log.simulated
    )


def _arguments(settings: SimSettings, profile: Profile, faults: FaultSet, log: Log) -> None:
    log.raw(NOTICE)
    logo = (
        "\n       █     █     █▄   ▄█\n"
        f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {engine_version(profile)}\n"
        f"  █▄█▀ █     █     █     █  model   {settings.model}\n"
        "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀\n"
    )
    log.api("api_utils.py:325", logo)
    log.api("api_utils.py:272", f"non-default args: {settings.non_default!r}")
    if "port_in_use" in faults:
        port_in_use(log)
    if "model_missing" in faults:
        log.error(_TRACE + f"OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{settings.model}'. "
                  "Use `repo_type` argument if needed.")  # fmt: skip
        raise BootEnded(1)


_TRACE = (
    "Traceback (most recent call last):\n"
    '  File "vllm/entrypoints/cli/serve.py", line 160, in cmd\n'
    "    uvloop.run(run_server(args))\n"
)


def port_in_use(log: Log) -> None:
    """End as vLLM does when its port is taken: before the engine is built."""
    log.error(_TRACE + "    sock.bind(addr)\nOSError: [Errno 98] Address already in use")
    raise BootEnded(1)


def _configure(settings: SimSettings, profile: Profile, faults: FaultSet, log: Log) -> tuple[ConfigTruth, int]:
    log.wait(0.5 * profile.boot.imports)
    refused = spec.problem(settings.speculative)
    if "bad_spec_key" in faults:
        refused = spec.unexpected("no_such_key", 1)
    if refused is not None:
        log.error(_TRACE + refused)
        raise BootEnded(1)
    max_len = settings.max_model_len or profile.derived_max_len
    log.api("model.py:640", f"Resolved architecture: {profile.architecture}")
    if max_len > profile.derived_max_len:
        log.error(
            _TRACE + "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, "
            f"User-specified max_model_len ({max_len}) is greater than the derived max_model_len (max_position_embeddings="
            f"{profile.derived_max_len} or model_max_length=None in model's config.json). [type=value_error]"
        )
        raise BootEnded(1)
    log.api("model.py:1790", f"Using max model len {max_len}")
    try:
        truth = config_truth(profile, settings.speculative)
    except UnsupportedMethod as error:
        log.error(_TRACE + f"NotImplementedError: {error}")
        raise BootEnded(1) from None
    if truth.k and truth.entry.runner == "V1":
        missing = f"speculative method '{truth.entry.method}'"
        text = f"Model Runner V2 does not yet support {missing}; using the V1 model runner instead."
        log.api("vllm.py:590", text, level="WARNING")
    return truth, max_len


def _start_core(settings: SimSettings, truth: ConfigTruth, faults: FaultSet, log: Log, *, max_model_len: int) -> None:
    profile = truth.profile
    log.wait(profile.boot.engine_init)
    drafting = "None"
    if settings.speculative:
        draft = settings.speculative.get("model", settings.model)
        drafting = f"SpeculativeConfig(method={truth.entry.method!r}, model={draft!r}, num_spec_tokens={truth.k})"
    log.core(
        "core.py:125",
        f"Initializing a V1 LLM engine (v{engine_version(profile)}) with config: model={settings.model!r}, "
        f"speculative_config={drafting}, tokenizer={settings.model!r}, max_seq_len={max_model_len}, "
        f"enable_prefix_caching={settings.prefix_caching}",
    )
    wanted = settings.gpu_memory_utilization * profile.memory_gib
    free = 0.2 * profile.memory_gib if "free_memory_low" in faults else profile.free_gib
    if free < wanted:
        core_failed(
            log,
            f"ValueError: Free memory on device cuda:0 ({free:.2f}/{profile.memory_gib} GiB) on startup is less than desired "
            f"GPU memory utilization ({settings.gpu_memory_utilization}, {wanted:.2f} GiB). Decrease GPU memory utilization "
            "or reduce GPU memory used by other processes.",
        )
    if truth.entry.runner == "V2":
        log.core("gpu_worker.py:370", "Using V2 Model Runner")
    backend = profile.attention_backend
    text = f"Using {backend} attention backend out of potential backends: ['{backend}', 'TRITON_ATTN']."
    log.core("cuda.py:486", text)
    if profile.gemm_kernel:
        log.core("__init__.py:900", f"Using {profile.gemm_kernel} for NVFP4 GEMM")


def core_failed(log: Log, cause: str) -> None:
    """End as vLLM does when its engine core fails: the cause in the core's records, a generic error from the API server."""
    trace = (
        "EngineCore failed to start.\nTraceback (most recent call last):\n"
        '  File "vllm/v1/engine/core.py", line 1080, in run_engine_core\n'
        "    engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)\n"
    )
    log.core("core.py:1100", trace + cause, level="ERROR")
    log.error(
        _TRACE
        + "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
    )
    raise BootEnded(1)


def oom(log: Log, profile: Profile, free: float) -> None:
    """End out of accelerator memory while the model loads."""
    core_failed(
        log,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 0 has a total capacity of "
        f"{profile.memory_gib:.2f} GiB of which {min(112.0, free * 1024):.2f} MiB is free.",
    )


def _load(settings: SimSettings, truth: ConfigTruth, faults: FaultSet, log: Log) -> None:
    entry, profile = truth.entry, truth.profile
    v2 = entry.runner == "V2"
    log.core(
        "model_runner.py:358" if v2 else "gpu_model_runner.py:5400",
        "Loading model from scratch..." if v2 else f"Starting to load model {settings.model}...",
    )
    _shards(log, profile.shards, profile.boot.load, faults, profile)
    log.core("default_loader.py:480", f"Loading weights took {profile.boot.load:.2f} seconds")
    if entry.draft_load:
        if not v2:
            log.core("gpu_model_runner.py:5430", "Loading drafter model...")
        _shards(log, 1, entry.draft_load, FaultSet(), profile)
        log.core("default_loader.py:480", f"Loading weights took {entry.draft_load:.2f} seconds")
    seconds = profile.boot.load + entry.draft_load
    log.core(
        "model_runner.py:380" if v2 else "gpu_model_runner.py:5500",
        f"Model loading took {round(entry.weights_gib, 2)} GiB memory and {seconds:.6f} seconds",
    )
    if "hang" in faults:
        while True:
            log.pause(3600.0)


def _shards(log: Log, count: int, seconds: float, faults: FaultSet, profile: Profile) -> None:
    for done in range(count + 1):
        share = 100 * done // count
        spent = seconds * done / count
        rate = "?it/s" if not done else f"{spent / done:5.2f}s/it"
        log.error(
            f"\rLoading safetensors checkpoint shards: {share:3d}% Completed | {done}/{count} "
            f"[{_clock(spent)}<{_clock(seconds - spent)}, {rate}]"
        )
        if done == count // 2:
            _strike_load(log, faults, profile)
        if done < count:
            log.wait(seconds / count)


def _strike_load(log: Log, faults: FaultSet, profile: Profile) -> None:
    if "killed" in faults:
        kill_self()
    if "gpu_oom" in faults:
        oom(log, profile, 0.1)


def kill_self() -> None:
    """End by SIGKILL; as the first process of a container, which SIGKILL from inside does not reach, with code 137."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)
    os._exit(137)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _kv_cache(settings: SimSettings, truth: ConfigTruth, faults: FaultSet, log: Log, *, max_model_len: int) -> int:
    entry, profile = truth.entry, truth.profile
    compiling = profile.boot.compile + entry.draft_compile
    log.wait(compiling)
    log.core("monitor.py:53", f"torch.compile took {profile.boot.compile:.2f} s in total")
    if entry.draft_compile:
        log.core("monitor.py:53", f"torch.compile took {entry.draft_compile:.2f} s in total")
    log.wait(profile.boot.profile_kv)
    kv_bytes = _kv_bytes(settings, truth, log)
    if "no_kv_memory" in faults or kv_bytes <= 0:
        core_failed(
            log,
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
            "the engine. See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
        )
    if "kv_too_small" in faults:
        kv_bytes = min(kv_bytes, int(0.4 * max_model_len * truth.kv_bytes_per_token()))
    tokens = truth.kv_tokens(kv_bytes)
    if tokens < max_model_len:
        _kv_too_small(log, truth, kv_bytes=kv_bytes, tokens=tokens, max_model_len=max_model_len)
    text = f"Maximum concurrency for {max_model_len:,} tokens per request: {tokens / max_model_len:.2f}x"
    log.core("kv_cache_utils.py:1869", f"GPU KV cache size: {tokens:,} tokens, {text}")
    return kv_bytes


def _kv_bytes(settings: SimSettings, truth: ConfigTruth, log: Log) -> int:
    profile = truth.profile
    if settings.kv_cache_memory_bytes is not None:
        reserved = settings.kv_cache_memory_bytes / GIB
        log.core(
            "gpu_worker.py:560",
            f"Initial free memory {round(profile.free_gib, 2)} GiB, reserved {round(reserved, 2)} GiB memory for KV Cache as "
            "specified by kv_cache_memory_bytes config and skipped memory profiling. This does not respect the "
            "gpu_memory_utilization config. Only use kv_cache_memory_bytes config when you want manual control of KV cache "
            "memory size.",
        )
        return settings.kv_cache_memory_bytes
    rest = settings.gpu_memory_utilization * profile.memory_gib - truth.entry.weights_gib - profile.overhead_gib
    log.core("gpu_worker.py:690", f"Available KV cache memory: {round(rest, 2)} GiB")
    return int(rest * GIB)


def _kv_too_small(log: Log, truth: ConfigTruth, *, kv_bytes: int, tokens: int, max_model_len: int) -> None:
    needed = max_model_len * truth.kv_bytes_per_token() / GIB
    core_failed(
        log,
        f"ValueError: To serve at least one request with the model's max seq len ({max_model_len}), ({round(needed, 2)} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({round(kv_bytes / GIB, 2)} GiB). Based on the "
        f"available memory, the estimated maximum model length is {tokens // 16 * 16}. Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine. See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details.",
    )


def _graphs(truth: ConfigTruth, faults: FaultSet, log: Log) -> None:
    profile, entry = truth.profile, truth.entry
    log.wait(profile.boot.warmup)
    if truth.k and entry.runner == "V2":
        name = {"dflash": "DFlash2 ", "dspark": "DSpark "}.get(entry.method or "", "")
        log.core("speculator.py:140", f"Capturing model for {name}speculator...")
    log.wait(profile.boot.graphs)
    log.core(
        "model_runner.py:906",
        f"Graph capturing finished in {profile.boot.graphs:.0f} secs, took {profile.graph_gib:.2f} GiB",
    )
    compiling = profile.boot.compile + entry.draft_compile
    init = compiling + profile.boot.profile_kv + profile.boot.warmup + profile.boot.graphs
    silent = faults.value("silent_boot", "SECONDS")
    if silent:
        log.pause(silent)
    text = f"init engine (profile, create kv cache, warmup model) took {init:.2f} s (compilation: {compiling:.2f} s)"
    log.core("core.py:347", text)


def engine_died(log: Log) -> None:
    """Print what the API server says when its engine core is gone."""
    trace: dict[str, Any] = {"async_llm.py:704": "output_handler", "serving.py:830": "chat_completion_stream_generator"}
    for place, function in trace.items():
        log.api(
            place,
            f'Traceback (most recent call last):\n  File "vllm/v1/engine/{place.split(":")[0]}", line 660, in {function}\n'
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the "
            "root cause.",
            level="ERROR",
        )

"""Sentences by which engines, their libraries and their carriers say why they failed.

Each cause has a class, a stage where the sentence itself tells it, an advice, and a remedy with the sentence's own numbers.
Order does not matter: of all causes in a log, the most specific kind wins, and of those the first.

Source:
    vLLM v1/core/kv_cache_utils.py, v1/worker, config/, engine/arg_utils.py, v1/executor; SGLang srt/managers/scheduler.py,
    srt/model_executor; torch, transformers, huggingface_hub, NCCL, nvidia-container-toolkit; measured on vLLM 0.26.0 and 0.32.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CAUSE, HINT, CONSEQUENCE = 3, 2, 1
"""How much a sentence tells: the cause itself; a generic cause or weak sign; only that something failed elsewhere."""

NEVER, SAME, AFTER_MEMORY = "never", "same", "after_memory"


@dataclass(frozen=True)
class Cause:
    """One way to fail.

    Attributes:
        kind: The class of the failure.
        needle: A text that every such line holds: looked for before the pattern is tried.
        pattern: Searched in the message; its named groups fill `remedy`.
        weight: CAUSE, HINT or CONSEQUENCE.
        stage: Where, when the sentence tells it; "" is where the log had got to.
    """

    kind: str
    needle: str
    pattern: re.Pattern[str]
    retry: str
    remedy: str
    weight: int = CAUSE
    stage: str = ""


def _cause(
    kind: str, pattern: str, *, needle: str, retry: str = NEVER, remedy: str, weight: int = CAUSE, stage: str = ""
) -> Cause:
    return Cause(
        kind=kind,
        needle=needle,
        pattern=re.compile(pattern),
        retry=retry,
        remedy=remedy,
        weight=weight,
        stage=stage,
    )


_GIB = r"-?\d+(?:\.\d+)?"

ARGUMENTS = (
    _cause(
        "bad_flag",
        r"(?:^|[\w. ]+: )error: (?P<what>(?:unrecognized arguments|argument |the following arguments|ambiguous "
        r"option|unknown).*)",
        needle="error: ",
        stage="arguments",
        remedy="the engine refuses its command line ({what}): mend args or speculative in the sweep file",
    ),
    _cause(
        "bad_flag",
        r"No such command '(?P<what>[^']*)'",
        needle="No such command",
        stage="arguments",
        remedy="the image's entry point takes {what!r} for a subcommand: set container.entrypoint or engine.command",
    ),
    _cause(
        "bad_flag",
        r"(?P<key>\S+) *Unexpected keyword argument",
        needle="Unexpected keyword argument",
        stage="config",
        remedy="this release does not know the key {key}: `nightsweep plan` names the nearest known one",
    ),
    _cause(
        "bad_flag",
        r"Input should be (?P<what>.{0,200})",
        needle="Input should be ",
        stage="config",
        remedy="a setting has a value that this release does not know; it takes {what}",
    ),
    _cause(
        "bad_flag",
        r"'SpeculativeConfig' object has no attribute '(?P<what>\w+)'",
        needle="'SpeculativeConfig' object has no",
        stage="config",
        remedy="this release stumbles over the speculative settings: a key is misnamed or not supported here",
    ),
    _cause(
        "bad_flag",
        r"(?P<what>--[\w-]+ can only be (?:set|used) with --[\w-]+)",
        needle="can only be ",
        stage="config",
        remedy="{what}; under MTP with rope scaling, set max_model_len inside `speculative` as well",
    ),
    _cause(
        "bad_flag",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\(max_position_embeddings=(?P<most>[\d.]+)",
        needle="User-specified max_model_len",
        stage="config",
        remedy="max-model-len {asked} is more than the model's {most}: lower it",
    ),
    _cause(
        "bad_flag",
        r"VLLM_\w+ '?(?P<what>\S+?)'? appears to be a URI|Invalid value '(?P<value>[^']*)' for VLLM_\w+",
        needle="VLLM_",
        stage="config",
        remedy="an environment variable VLLM_* holds something else (a container or service named vllm injects "
        "such): rename it",
    ),
    _cause(
        "bad_flag",
        r"(?P<what>(?:num_speculative_tokens was provided but|num_speculative_tokens must be provided"
        r"|synthetic_acceptance_\w+ must"
        r"|[\w='.]* ?requires exactly one of synthetic_acceptance|Batch-size ranges must|The first batch-size range must"
        r"|'\w+' is not a valid argument in the speculative_config).{0,200}?)(?: \[type=|$)",
        needle="",
        stage="config",
        remedy="the speculative settings do not fit together: {what}",
    ),
)

DRAFTS = (
    _cause(
        "draft_config_error",
        r"Target and draft model should have the same vocabulary size\. Target model vocab_size=(?P<target>\d+)\. "
        r"Draft model vocab_size=(?P<draft>\d+)",
        needle="same vocabulary size",
        stage="config",
        remedy="the draft's vocabulary ({draft}) is not the target's ({target}): use a draft made for this target",
    ),
    _cause(
        "unsupported_combination",
        r"num_speculative_tokens:? ?(?P<k>\d+) must be divisible by n_predict=(?P<n>\d+)",
        needle="must be divisible by n_predict",
        stage="config",
        remedy="num_speculative_tokens {k} must be a multiple of the draft's n_predict {n}",
    ),
    _cause(
        "unsupported_combination",
        r"Unsupported speculative method: '(?P<method>[^']*)'",
        needle="Unsupported speculative method",
        stage="config",
        remedy="method {method!r} does not go with this model (or this release): use another method or a checkpoint "
        "that has it",
    ),
    _cause(
        "unsupported_combination",
        r"(?:speculative_)?draft_tensor_parallel_size=?(?P<what>\d+) cannot be other value",
        needle="draft_tensor_parallel_size",
        stage="config",
        remedy="draft_tensor_parallel_size must be 1 or the target's",
    ),
    _cause(
        "draft_quant_mismatch",
        r"(?P<what>(?:KeyError|AttributeError)\b.*\b\w*(?:weight|input|block|w13|w2)_\w*scale\w*|"
        r"Cannot find the config file for \w+)",
        needle="",
        stage="load",
        remedy="weights and quantisation do not agree ({what}): set the draft's own quantization (SGLang: "
        "draft_model_quantization), or take an unquantised draft",
    ),
    _cause(
        "draft_quant_mismatch",
        r"expected mat1 and mat2 to have the same dtype",
        needle="mat1 and mat2",
        weight=HINT,
        remedy="the quantised draft meets layers of another type: take an unquantised draft or a release that "
        "supports it",
    ),
    _cause(
        "unsupported_combination",
        r"Model Runner V[12] does not (?:yet )?support: ?(?P<what>.*)",
        needle="Model Runner V",
        stage="config",
        remedy="the forced model runner does not support {what}: unset VLLM_USE_V2_MODEL_RUNNER",
    ),
    _cause(
        "unsupported_combination",
        r"(?:Error|Exception): (?P<what>.*(?:not (?:yet )?supported (?:in|with|by|for) (?:speculative|attention "
        r"backend|the V[12]|"
        r"Flex Attention|MTP|EAGLE)|requires --speculative-algorithm|is (?:currently )?not supported with "
        r"speculative).*)",
        needle="",
        stage="config",
        remedy="the engine does not support this combination: {what}",
    ),
)

MEMORY = (
    _cause(
        "kv_too_small",
        r"max seq len \((?P<length>\d+)\), \(?(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the "
        r"available "
        r"KV cache memory \((?P<available>[\d.]+) GiB\)(?:.*?maximum model length is (?P<fits>\d+))?",
        needle="KV cache is needed",
        stage="kv_cache",
        remedy="kv_too_small",
    ),
    _cause(
        "kv_too_small",
        r"(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache",
        needle="KV cache is needed",
        weight=CAUSE,
        stage="kv_cache",
        remedy="kv_too_small",
    ),
    _cause(
        "kv_too_small",
        r"model's max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in "
        r"KV cache "
        r"\((?P<fits>\d+)\)",
        needle="can be stored in KV cache",
        stage="kv_cache",
        remedy="kv_too_small",
    ),
    _cause(
        "kv_too_small",
        r"Cannot auto-fit max_model_len: not enough GPU memory",
        needle="Cannot auto-fit",
        stage="kv_cache",
        remedy="no context length fits beside the weights: raise gpu-memory-utilization or use a smaller model",
    ),
    _cause(
        "kv_too_small",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        needle="Not enough memory. Please",
        stage="kv_cache",
        remedy="the KV pool does not fit: raise --mem-fraction-static, or lower --context-length",
    ),
    _cause(
        "kv_too_small",
        r"(?:Not enough GPU memory for hybrid|Hybrid \(mamba/linear-attention\) state cache is too small)",
        needle="mamba/linear-attention",
        stage="kv_cache",
        remedy="the hybrid state cache does not fit: lower --max-running-requests or the draft length, or raise "
        "--mem-fraction-static",
    ),
    _cause(
        "no_kv_memory",
        r"No available memory for the cache blocks",
        needle="No available memory for the cache",
        stage="kv_cache",
        remedy="nothing is left for the KV cache after the weights: raise gpu-memory-utilization (not on unified "
        "memory), "
        "or use a smaller model or draft",
    ),
    _cause(
        "no_kv_memory",
        rf"(?:memory reserved for KV Cache is|Available KV cache memory:) (?P<left>-{_GIB[2:]})\s?GiB",
        needle="KV ",
        stage="kv_cache",
        remedy="{left} GiB are left for the KV cache after the weights: raise gpu-memory-utilization (not on "
        "unified memory), "
        "or use a smaller model or draft",
    ),
    _cause(
        "no_kv_memory",
        r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(?P<now>[\d.]+)\. Raise "
        r"--mem-fraction-static above (?P<least>[\d.]+)",
        needle="leave no GPU memory",
        stage="kv_cache",
        remedy="the weights leave no memory for the KV cache: raise --mem-fraction-static from {now} to above {least}",
    ),
    _cause(
        "gpu_memory_busy",
        r"Free memory on device (?:\S+ )?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired "
        r"GPU memory "
        r"utilization \((?P<part>[\d.]+), (?P<wanted>[\d.]+) GiB\)",
        needle="on startup is less than",
        retry=AFTER_MEMORY,
        stage="load",
        remedy="only {free} of {total} GiB were free, and {wanted} are wanted: something else holds {held} GiB; "
        "wait until "
        "it is gone, or stop it",
    ),
    _cause(
        "gpu_memory_busy",
        r"Error in memory profiling\. Initial free memory",
        needle="Error in memory profiling",
        retry=SAME,
        stage="kv_cache",
        remedy="another process gave memory back while vLLM was measuring it: try again",
    ),
    _cause(
        "kv_pool_too_large",
        r"Available memory on node \d+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on kv cache allocation is less "
        r"than requested "
        r"memory for kv \((?P<wanted>[\d.]+) GiB\)",
        needle="less than requested memory for kv",
        stage="kv_cache",
        remedy="a KV cache of {wanted} GiB was asked for, and {free} of {total} GiB are there: lower it",
    ),
    _cause(
        "gpu_memory_busy",
        r"Available memory .*?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*?less than",
        needle="Available memory ",
        retry=AFTER_MEMORY,
        stage="load",
        remedy="only {free} of {total} GiB are available: stop what holds the rest, raise the container's memory, "
        "or ask for less",
    ),
    _cause(
        "gpu_oom",
        r"Failed to load model - not enough GPU memory",
        needle="Failed to load model",
        stage="load",
        remedy="the weights do not fit: lower gpu-memory-utilization, use smaller weights, or more GPUs",
    ),
    _cause(
        "gpu_oom",
        r"(?:CUDA|HIP|XPU) out of memory|(?:CUDA|HIP) error: out of memory|\bOutOfMemoryError\b|not enough GPU "
        r"memory\. Try "
        r"lowering|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED",
        needle="",
        remedy="the accelerator's memory ran out: lower gpu-memory-utilization, max-num-seqs or the draft length, "
        "or use smaller weights",
    ),
)

HARDWARE = (
    _cause(
        "gpu_arch_unsupported",
        r"no kernel image is available|Value '(?P<arch>sm_\w+)' is not defined|This kernel only supports "
        r"(?P<only>sm\w+)"
        r"|No supported CUDA architectures found|provided PTX was compiled with an unsupported toolchain"
        r"|is not compatible with the current PyTorch installation",
        needle="",
        remedy="this image has no kernels for this GPU: use an image that is built for it",
    ),
    _cause(
        "gpu_arch_unsupported",
        r"quantization method \S+ is not supported for the current GPU\. Minimum capability: (?P<least>\d+)",
        needle="not supported for the current GPU",
        remedy="this GPU cannot do the model's quantisation (it needs compute capability {least}): use another "
        "checkpoint",
    ),
    _cause(
        "image_arch_mismatch",
        r"exec format error|cannot execute binary file|Illegal instruction",
        needle="",
        stage="launch",
        remedy="the image is built for another processor: pull the one for this box (arm64 or amd64)",
    ),
    _cause(
        "cuda_init_failed",
        r"NVIDIA driver on your system is too old \(found version (?P<found>\d+)|Found no NVIDIA driver"
        r"|No CUDA GPUs are available|CUDA driver version is insufficient|CUDA unknown error|CUDA initialization"
        r"|Failed to infer device type|unsatisfied condition: cuda|nvidia-container-cli|could not select device driver"
        r"|CUDA error: (?:initialization error|system not yet initialized|invalid device ordinal)",
        needle="",
        remedy="the engine gets no usable GPU: check driver, container.gpus and the NVIDIA Container Toolkit",
    ),
    _cause(
        "shm_too_small",
        r"creating shared memory segment|No space left on device.*(?:shm|semaphore)|\bBus error\b|unable to "
        r"(?:open|write) shared memory",
        needle="",
        remedy="/dev/shm is too small: set container.shm_size, or container.ipc: host",
    ),
    _cause(
        "disk_full",
        r"\[Errno 28\] No space left on device|No space left on device \(os error 28\)",
        needle="No space left",
        weight=HINT,
        remedy="a disk (or /dev/shm) is full: make room",
    ),
    _cause(
        "nccl_error",
        r"NCCL error|DistBackendError|unhandled (?:system|cuda) error \(run with NCCL_DEBUG",
        needle="",
        retry=SAME,
        weight=HINT,
        remedy="the GPUs could not talk to each other: NCCL_DEBUG=INFO in engine.env tells why",
    ),
)

PLACES = (
    _cause(
        "port_in_use",
        r"\[Errno (?:98|48|10048)\].*[Aa]ddress already in use|error while attempting to bind on address|port is "
        r"already allocated"
        r"|Port is already in use|at \d+ is not available in \d+ seconds",
        needle="",
        retry=SAME,
        remedy="something else listens on the engine's port: stop it, or set engine.port to another one (0 takes a "
        "free one)",
    ),
    _cause(
        "container_start_failed",
        r"\"?(?P<what>[\w./-]+)\"?: executable file not found|exec: \"(?P<exec>[^\"]+)\".*no such file|OCI runtime "
        r"create failed"
        r"|failed to create (?:task|shim)|error mounting|bind source path does not exist",
        needle="",
        stage="launch",
        remedy="the container could not start: check the image, its entry point, mounts and engine.command",
    ),
    _cause(
        "model_missing",
        r"Repo id must be in the form|Invalid repository ID or local directory specified|RepositoryNotFoundError"
        r"|is not a local folder and is not a valid model identifier|does not appear to have a file named config\.json"
        r"|RevisionNotFoundError|Entry Not Found for url",
        needle="",
        stage="config",
        remedy="the model (or draft) is not there: check the path as seen inside the container, its mount, or the "
        "repository's name",
    ),
    _cause(
        "model_missing",
        r"couldn't connect to 'https?://[^']+' to load the files|LocalEntryNotFoundError|offline mode is enabled",
        needle="",
        stage="config",
        remedy="the model is not in the cache and the hub cannot be reached: mount the cache, or allow the network",
    ),
    _cause(
        "model_access_denied",
        r"GatedRepoError|You are trying to access a gated repo|Access to model .* is restricted|401 Client Error|403 "
        r"Client Error",
        needle="",
        stage="config",
        remedy="the hub refuses the model: give a token that may read it (engine.env: HF_TOKEN: {{from_env: "
        "HF_TOKEN}})",
    ),
    _cause(
        "model_files_incomplete",
        r"ReasoningConfig: failed to tokenize reasoning strings|Cannot find any model weights "
        r"with|SafetensorError|MetadataIncompleteBuffer"
        r"|Following weights were not initialized from checkpoint|There is no module or parameter named"
        r"|Can't load tokenizer|Error no file named",
        needle="",
        stage="load",
        remedy="the model's files are incomplete or of another model: fetch them again (tokenizer files too), check "
        "the draft's path",
    ),
    _cause(
        "draft_arch_unsupported",
        r"(?:SpeculativeConfig .*)Model architectures \[(?P<what>[^\]]*)\] (?:are not supported|failed to be inspected)"
        r"|Model architectures \[(?P<draft>[^\]]*(?:DFlash|DSpark|Eagle|MTP|Draft|Medusa)[^\]]*)\] (?:are not "
        r"supported|failed)",
        needle="Model architectures ",
        stage="config",
        remedy="this release does not know the draft's architecture {what}{draft}: use a newer image, or a draft "
        "made for this method",
    ),
    _cause(
        "model_arch_unsupported",
        r"Model architectures \[(?P<what>[^\]]*)\] (?:are not supported|failed to be inspected)",
        needle="Model architectures ",
        stage="config",
        remedy="this release does not know the architecture {what}: use a newer image, or another checkpoint",
    ),
)

GENERIC = (
    _cause(
        "bad_flag",
        r"validation errors? for (?P<where>\w+) Value error, (?P<what>.{1,300}?)(?: \[type=|$)",
        needle="Value error, ",
        stage="config",
        remedy="{where} refuses the settings: {what}",
    ),
    _cause(
        "graph_capture_failed",
        r"Capture cuda graph failed",
        needle="Capture cuda graph failed",
        weight=HINT,
        stage="warmup",
        remedy="CUDA graphs could not be captured: the line behind it says why; lower --mem-fraction-static or "
        "--cuda-graph-max-bs",
    ),
    _cause(
        "engine_stalled",
        r"No available shared memory broadcast block found in \d+ seconds",
        needle="No available shared memory broadcast",
        retry=SAME,
        weight=CONSEQUENCE,
        remedy="the engine's processes wait for each other: a stall, or a very long compilation",
    ),
    _cause(
        "killed",
        r"Failed core proc\(s\): \{[^}]*: -9|died (?:unexpectedly|during initialization) \(exit code: -9\)|exit "
        r"code:? -9\b",
        needle="-9",
        retry=AFTER_MEMORY,
        weight=HINT,
        remedy="a process of the engine was killed (SIGKILL) and no line tells by whom: look for the kernel's OOM "
        "killer in dmesg",
    ),
    _cause(
        "engine_died",
        r"EngineDeadError|EngineCore encountered an issue|Engine core proc .* died unexpectedly|Worker proc .* died "
        r"unexpectedly"
        r"|Received sigquit from a child process|scheduler (?:is dead|died)|engine core exited unexpectedly",
        needle="",
        retry=SAME,
        weight=CONSEQUENCE,
        remedy="a process of the engine died, and no line tells why",
    ),
    _cause(
        "unknown_engine_init",
        r"Engine core initialization failed|EngineCore failed to start|Engine process failed to start|WorkerProc "
        r"(?:failed to start"
        r"|initialization failed)|Initialization failed\. (?:Please see|warmup error)",
        needle="",
        weight=CONSEQUENCE,
        retry=SAME,
        remedy="the engine did not start, and no line tells why: its own memory limit and dmesg (OOM killer) are "
        "the next places to look",
    ),
)

CAUSES: tuple[Cause, ...] = (*ARGUMENTS, *DRAFTS, *MEMORY, *HARDWARE, *PLACES, *GENERIC)

HARMLESS = (
    "Retrying with a new port",
    "If out-of-memory error occurs during cudagraph capture",
    "NV_ERR_NO_MEMORY",
    "[Errno 24] Too many open files`. Consider",
    "using the V1 model runner instead",
    "If OOM'ed, check the difference",
)
"""Sentences of healthy boots that look like failures."""

"""Causes that are about memory: of the accelerator, for the weights, the KV cache, the graphs.

Source:
    vLLM v1/core/kv_cache_utils.py, v1/worker/gpu_worker.py, worker/worker.py; SGLang srt/model_executor; torch, NCCL, level_zero.
"""

from __future__ import annotations

from nightsweep.engine.causes import Cause, cause
from nightsweep.plan.words import AFTER_MEMORY, SAME

_GIB = r"-?\d+(?:\.\d+)?"

MEMORY: tuple[Cause, ...] = (
    cause(
        "kv_too_small",
        r"max seq len \((?P<length>\d+)\), \(?(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the "
        r"available "
        r"KV cache memory \((?P<available>[\d.]+) GiB\)(?:.*?maximum model length is (?P<fits>\d+))?",
        needle="KV cache is needed",
        stage="kv_cache",
        remedy="kv_too_small",
    ),
    cause(
        "kv_too_small",
        r"(?<![\d.])(?P<needed>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache",
        needle="KV cache is needed",
        stage="kv_cache",
        remedy="kv_too_small",
    ),
    cause(
        "kv_too_small",
        r"model's max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in "
        r"KV cache "
        r"\((?P<fits>\d+)\)",
        needle="can be stored in KV cache",
        stage="kv_cache",
        remedy="kv_too_small",
    ),
    cause(
        "kv_too_small",
        r"Cannot auto-fit max_model_len: not enough GPU memory",
        needle="Cannot auto-fit",
        stage="kv_cache",
        remedy="no context length fits beside the weights: raise gpu-memory-utilization or use a smaller model",
    ),
    cause(
        "kv_too_small",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        needle="Not enough memory. Please",
        stage="kv_cache",
        remedy="the KV pool does not fit: raise --mem-fraction-static, or lower --context-length",
    ),
    cause(
        "kv_too_small",
        r"(?:Not enough GPU memory for hybrid|Hybrid \(mamba/linear-attention\) state cache is too small)",
        needle="mamba/linear-attention",
        stage="kv_cache",
        remedy="the hybrid state cache does not fit: lower --max-running-requests or the draft length, or raise "
        "--mem-fraction-static",
    ),
    cause(
        "no_kv_memory",
        r"No available memory for the cache blocks",
        needle="No available memory for the cache",
        stage="kv_cache",
        remedy="nothing is left for the KV cache after the weights: raise gpu-memory-utilization (not on unified "
        "memory), "
        "or use a smaller model or draft",
    ),
    cause(
        "no_kv_memory",
        rf"(?:memory reserved for KV Cache is|Available KV cache memory:) (?P<left>-{_GIB[2:]})\s?GiB",
        needle="KV ",
        stage="kv_cache",
        remedy="{left} GiB are left for the KV cache after the weights: raise gpu-memory-utilization (not on "
        "unified memory), "
        "or use a smaller model or draft",
    ),
    cause(
        "no_kv_memory",
        r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(?P<now>[\d.]+)\. Raise "
        r"--mem-fraction-static above (?P<least>[\d.]+)",
        needle="leave no GPU memory",
        stage="kv_cache",
        remedy="the weights leave no memory for the KV cache: raise --mem-fraction-static from {now} to above {least}",
    ),
    cause(
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
    cause(
        "gpu_memory_busy",
        r"Error in memory profiling\. Initial free memory",
        needle="Error in memory profiling",
        retry=SAME,
        stage="kv_cache",
        remedy="another process gave memory back while vLLM was measuring it: try again",
    ),
    cause(
        "kv_pool_too_large",
        r"Available memory on node \d+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on kv cache allocation is less "
        r"than requested "
        r"memory for kv \((?P<wanted>[\d.]+) GiB\)",
        needle="less than requested memory for kv",
        stage="kv_cache",
        remedy="a KV cache of {wanted} GiB was asked for, and {free} of {total} GiB are there: lower it",
    ),
    cause(
        "gpu_memory_busy",
        r"Available memory .{0,100}?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).{0,200}?less than",
        needle="Available memory ",
        retry=AFTER_MEMORY,
        stage="load",
        remedy="only {free} of {total} GiB are available: stop what holds the rest, raise the container's memory, "
        "or ask for less",
    ),
    cause(
        "gpu_oom",
        r"out of memory occurred when warming up sampler with (?P<requests>\d+) dummy requests",
        needle="when warming up sampler",
        stage="warmup",
        remedy="the accelerator's memory ran out at the sampler's warm-up with {requests} requests: lower max-num-seqs, or "
        "gpu-memory-utilization",
    ),
    cause(
        "gpu_oom",
        r"Failed to load model - not enough GPU memory",
        needle="Failed to load model",
        stage="load",
        remedy="the weights do not fit: lower gpu-memory-utilization, use smaller weights, or more GPUs",
    ),
    cause(
        "gpu_oom",
        r"(?:^|: )(?:CUDA|HIP|XPU) out of memory(?=[.:,;!]|$)|(?:CUDA|HIP)(?: driver| runtime)? error: out of memory"
        r"|\bOutOfMemoryError(?=[:()'\",]|$)|not enough GPU "
        r"memory\. Try "
        r"lowering|cudaErrorMemoryAllocation|CUBLAS_STATUS_ALLOC_FAILED"
        r"|UR_RESULT_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY|Cuda failure (?:\d+ )?'out of memory'",
        words="memory OutOfMemoryError cudaErrorMemoryAllocation ALLOC MEMORY",
        remedy="the accelerator's memory ran out: lower gpu-memory-utilization, max-num-seqs or the draft length, "
        "or use smaller weights",
    ),
)

"""vLLM's boot sentences by first word, 0.6.0 to 0.33.0: patterns whose named groups are facts.

Source:
    Format strings of vLLM: v1/worker/gpu_model_runner.py, v1/worker/gpu/model_runner.py, v1/worker/gpu_worker.py,
    v1/core/kv_cache_utils.py, v1/engine/core.py, model_executor/model_loader, compilation/, platforms/, worker/worker.py,
    executor/, entrypoints/.
"""

from __future__ import annotations

import re

from nightsweep.engine.collect import Rule, rule

NUM = r"-?\d[\d,]*(?:\.\d+)?"
ATTENTION = re.compile(r"attn|attention|flash|xformers|sdpa|pallas|triton|mla|ipex|rocm|aiter|flex", re.I)

KV_LINE = rule(
    rf"(?P<kv_device>\w+(?: \+ \w+)?) KV cache size: (?P<kv_tokens>[\d,]+) tokens"
    rf"(?:, Maximum concurrency for (?P<max_concurrency_tokens>[\d,]+) tokens per request: (?P<max_concurrency>{NUM})x)?",
    text="kv_device",
    counts="kv_tokens max_concurrency_tokens",
)

RULES: dict[str, tuple[Rule, ...]] = {
    "▄▄": (rule(r".*\bversion (?P<engine_version>\d\S*)", text="engine_version"),),
    "█▄█▀": (rule(r".*\bmodel\s+(?P<model>\S.*?)\s*$", text="model"),),
    "vLLM": (
        rule(
            r"vLLM (?:API )?server version (?P<engine_version>\d[^\s,…]*?(?=[\s,…]|\.\.|$))"
            r"(?:, serving model (?P<model>\S+?)(?=\s|\.\.|…|$))?",
            text="engine_version model",
        ),
    ),
    "vllm": (
        rule(
            r"vllm cache_config_info with initialization after num_gpu_blocks is: (?P<gpu_blocks>\d+)",
            counts="gpu_blocks",
        ),
    ),
    "Starting": (
        rule(r"Starting to load model (?P<load_model>\S+?)\.\.\.", text="load_model"),
        rule(r"Starting vLLM (?:API )?server(?: \d+)? on (?P<serving_address>\S+)", text="serving_address"),
    ),
    "Model": (
        rule(rf"Model loading took (?P<weights>{NUM}) Gi?B(?: memory)? and (?P<weights_seconds>{NUM}) seconds"),
        rule(r"Model Runner V2 .*using the V1 model runner instead", also={"model_runner": "V1"}),
    ),
    "model": (
        rule(
            rf"model weights take (?P<weights>{NUM})GiB; non_torch_memory takes (?P<non_torch_memory>{NUM})GiB; "
            rf"PyTorch activation peak memory takes (?P<activation_peak>{NUM})GiB; "
            rf"the rest of the memory reserved for KV Cache is (?P<kv_cache>{NUM})GiB"
        ),
    ),
    "Memory": (rule(rf"Memory profiling takes (?P<profiling_seconds>{NUM}) seconds"),),
    "the": (
        rule(
            rf"the current vLLM instance can use total_gpu_memory \((?P<total_memory>{NUM})GiB\) "
            rf"x gpu_memory_utilization \((?P<memory_utilization>{NUM})\)"
        ),
    ),
    "Setting": (rule(r"Setting attention block size to (?P<block_size>\d+) tokens", counts="block_size"),),
    "Padding": (rule(rf"Padding mamba page size by (?P<mamba_padding_percent>{NUM})%"),),
    "Available": (rule(rf"Available KV cache memory: (?P<kv_cache>{NUM}) GiB"),),
    "Initial": (
        rule(
            rf"Initial free memory (?P<free_memory_at_start>{NUM}) GiB, reserved (?P<kv_cache>{NUM}) GiB memory "
            r"for KV Cache as specified by (?:the )?kv_cache_memory",
            also={"kv_cache_pinned": True},
        ),
        rule(rf"Initial profiling/warmup run took (?P<profiling_seconds>{NUM}) s"),
    ),
    "Explicitly": (rule(rf"Explicitly set \((?P<kv_cache>{NUM})/{NUM}\) GiB for KV cache"),),
    "#": (
        rule(
            r"# (?P<kv_device>\w+) blocks: (?P<gpu_blocks>\d[\d,]*\d|\d)(?:, # CPU blocks: (?P<swap_blocks>\d[\d,]*\d|\d))?",
            text="kv_device",
            counts="gpu_blocks swap_blocks",
        ),
    ),
    "Maximum": (
        rule(
            rf"Maximum concurrency for (?P<max_concurrency_tokens>[\d,]+) tokens per request: "
            rf"(?P<max_concurrency>{NUM})x",
            counts="max_concurrency_tokens",
        ),
    ),
    "Overriding": (
        rule(
            r"Overriding num_gpu_blocks=\d+ with num_gpu_blocks_override=(?P<gpu_blocks_override>\d+)",
            counts="gpu_blocks_override",
        ),
        rule(
            r"Overriding draft model max model len from \d+ to (?P<draft_max_model_len>\d+)",
            counts="draft_max_model_len",
        ),
    ),
    "Graph": (
        rule(
            rf"Graph capturing finished in (?P<graph_capture_seconds>{NUM}) secs(?:, took (?P<graph_memory>{NUM}) GiB)?"
        ),
    ),
    "Estimated": (rule(rf"Estimated CUDA graph memory: (?P<graph_memory_estimate>{NUM}) GiB total"),),
    "CUDA": (
        rule(
            rf"CUDA graph pool memory: (?P<graph_memory>{NUM}) GiB \(actual\), "
            rf"(?P<graph_memory_estimate>{NUM}) GiB \(estimated\)"
        ),
        rule(
            r"CUDA graph memory profiling is enabled.*?The current --gpu-memory-utilization="
            rf"(?P<memory_utilization>{NUM})(?=\s).*?increase --gpu-memory-utilization to "
            r"(?P<memory_utilization_suggested>\d+\.\d+)"
        ),
    ),
    "Capturing": (
        rule(r"Capturing model for (?P<speculator>\w+) speculator", text="speculator"),
        rule(r"Capturing model for speculator", also={"speculator": "autoregressive"}),
    ),
    "torch.compile": (
        rule(rf"torch\.compile (?:takes|took) (?P<compile_seconds>{NUM}) s in total"),
        rule(
            rf"torch\.compile and initial profiling/warmup run together took (?P<compile_and_profiling_seconds>{NUM}) s"
        ),
    ),
    "Directly": (rule(r"Directly load ", also={"compile_cache": "hit"}),),
    "Compiling": (rule(r"Compiling a graph for ", also={"compile_cache": "miss"}),),
    "init": (
        rule(
            rf"init engine \(profile, create kv cache, warmup model\) took (?P<init_seconds>{NUM}) s(?:econds)?"
            rf"(?: \(compilation: (?P<init_compile_seconds>{NUM}) s)?"
        ),
    ),
    "Free": (
        rule(
            rf"Free memory on device (?:\S+ )?\((?P<free_memory_at_start>{NUM})/(?P<total_memory>{NUM}) GiB\) on startup\."
            rf" Desired GPU memory utilization is \((?P<memory_utilization>{NUM}), {NUM} GiB\)\."
            rf".*?(?<![\d.,])(?P<activation_peak>{NUM}) GiB for peak activation"
            rf"(?:.*?(?<![\d.,])(?P<graph_memory>{NUM}) GiB for CUDAGraph memory)?"
            rf"(?:.*?Current kv cache memory in use is (?P<kv_cache_in_use>{NUM}) GiB)?"
        ),
    ),
    "rank": (rule(r"rank \d+ in world size (?P<world_size>\d+) is assigned", counts="world_size"),),
    "Asynchronous": (rule(r"Asynchronous scheduling is (?P<async_scheduling>\w+)", text="async_scheduling"),),
    "Async": (rule(r"Async scheduling not supported", also={"async_scheduling": "disabled"}),),
    "Auto-fit": (rule(r"Auto-fit max_model_len: reduced from \d+ to (?P<max_model_len>\d+)", counts="max_model_len"),),
    "The": (
        rule(
            r"The draft model's max_model_len \((?P<draft_max_model_len>\d+)\) is smaller .*reducing max_model_len to "
            r"(?P<max_model_len>\d+)",
            counts="draft_max_model_len max_model_len",
        ),
    ),
    "Application": (rule(r"Application startup complete\.", also={"ready": True}),),
    "Selected": (
        rule(
            r"Selected (?P<quantization_kernel>[\w.]+) for (?P<quantization_layer>\w+)",
            text="quantization_kernel quantization_layer",
        ),
    ),
}

USING: tuple[Rule, ...] = (
    rule(r"Using V2 Model Runner", also={"model_runner": "V2"}),
    rule(r"Using (?P<attention_backend>\w+) attention backend out of potential backends", text="attention_backend"),
    rule(r"Using FlashAttention version (?P<flash_attention_version>\d+)", counts="flash_attention_version"),
    rule(r"Using (?P<gdn_prefill_kernel>[\w/ .-]+?) GDN prefill kernel", text="gdn_prefill_kernel"),
    rule(
        r"Using (?P<quantization_kernel>[\w.]+) for (?P<quantization_layer>\w+ GEMM|CompressedTensors\w+|Auto(?:GPTQ|AWQ)\w+"
        r"|\w*LinearMethod\w*|ModelOpt\w*)",
        text="quantization_kernel quantization_layer",
    ),
    rule(r"Using '?(?P<moe_backend>[\w.]+)'? (?:[\w-]+ )*MoE backend", text="moe_backend"),
    rule(r"Using (?P<kv_layout>\w+) KV cache layout", text="kv_layout"),
    rule(
        r"Using (?:AttentionBackendEnum\.)?(?P<attention_backend>[\w .]+?) backend"
        r"(?: with \w+ KV cache layout)?(?: on V1 engine)?(?: by default)?\.?\s*$",
        text="attention_backend",
    ),
)

DEVICES = ("GPU", "CPU", "XPU", "TPU", "HPU", "NPU", "ROCm", "Neuron", "MPS")

"""How each release words a fact or a failure, and what carriers put around it: one table, every row through every carrier.

Source:
    Format strings of vLLM 0.6.0 to 0.33.0 and SGLang 0.4.0 to 0.5.23; libraries' own messages.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.values import BootFacts

OLD = "INFO 09-04 12:00:00 model_runner.py:915] "  # to 0.7.3
MID = "INFO 04-10 12:00:00 [gpu_model_runner.py:1347] "  # 0.8 to 0.30
PREFIXED = "(EngineCore_DP0 pid=134) INFO 11-29 15:46:02 [core.py:402] "  # 0.10.2 to 0.17.1
NEW = "(EngineCore pid=134) INFO 11-29 15:46:02 [core.py:402] "  # 0.18.1 on
WORKER = "(Worker_TP0 pid=134) INFO 11-29 15:46:02 [gpu_worker.py:402] "
SGL = "[2026-11-29 15:00:00] "
SGL_TP = "[2026-11-29 15:00:00 TP0] "
SGL_DP = "[2026-11-29 15:00:00 DP0 TP0 EP0] "

VLLM: list[tuple[str, dict[str, Any]]] = [
    # engine and version
    (OLD + "vLLM API server version 0.6.6.post1", {"engine_version": "0.6.6.post1"}),
    (MID + "vLLM API server version 0.10.2rc3.dev12+gabc123", {"engine_version": "0.10.2rc3.dev12+gabc123"}),
    (NEW + "vLLM server version 0.33.0, serving model org/m", {"engine_version": "0.33.0", "model": "org/m"}),
    (MID + "Initializing a V0 LLM engine (v0.8.5.post1) with config: model='m'", {"engine_generation": "V0"}),
    (OLD + "Initializing an LLM engine (v0.6.3) with config: model='m'", {"engine_version": "0.6.3"}),
    # weights
    (OLD + "Loading model weights took 14.9595 GB", {"weights": 14.9595}),
    (MID + "Model loading took 14.9595 GB and 3.106979 seconds", {"weights": 14.9595, "weights_seconds": 3.106979}),
    (MID + "Model loading took 21.9705 GiB and 30.511223 seconds", {"weights": 21.9705}),
    (NEW + "Model loading took 24.9 GiB memory and 42.528694 seconds", {"weights": 24.9, "weights_seconds": 42.528694}),
    (NEW + "Model loading took 110 GiB memory and 42.528694 seconds", {"weights": 110.0}),
    (NEW + "Starting to load model org/m...", {"load_model": "org/m"}),
    (OLD + "Loading weights took 2.63 seconds", {"weights_read_seconds": 2.63}),
    # KV cache
    (NEW + "Available KV cache memory: 36.00 GiB", {"kv_cache": 36.0}),
    (WORKER + "Available KV cache memory: 5.1 GiB", {"kv_cache": 5.1}),
    (
        NEW
        + "Initial free memory 117.31 GiB, reserved 36.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes "
        "config and skipped memory profiling. This does not respect the gpu_memory_utilization config.",
        {"kv_cache": 36.0},
    ),
    (OLD + "# GPU blocks: 27896, # CPU blocks: 2048", {"gpu_blocks": 27896, "kv_tokens": None}),
    (OLD + "# cuda blocks: 27000, # CPU blocks: 2048", {"gpu_blocks": 27000, "kv_tokens": None}),
    (MID + "# GPU blocks: 127626", {"gpu_blocks": 127626, "kv_tokens": None}),
    (MID + "GPU KV cache size: 1,014,892 tokens", {"kv_tokens": 1014892}),
    (
        MID + "Maximum concurrency for 262,144 tokens per request: 3.87x",
        {"max_concurrency": 3.87, "max_concurrency_tokens": 262144},
    ),
    (
        NEW + "GPU KV cache size: 813,427 tokens, Maximum concurrency for 262,144 tokens per request: 3.10x",
        {"kv_tokens": 813427, "max_concurrency": 3.1, "max_concurrency_tokens": 262144},
    ),
    (
        NEW + "XPU KV cache size: 74,880 tokens, Maximum concurrency for 32,768 tokens per request: 2.29x",
        {"kv_tokens": 74880, "kv_device": "XPU"},
    ),
    (
        NEW + "GPU + host KV cache size: 2,000,000 tokens, Maximum concurrency for 262,144 tokens per request: 7.63x",
        {"kv_tokens": 2000000, "max_concurrency": 7.63},
    ),
    (OLD + "Maximum concurrency for 2048 tokens per request: 997.08x", {"max_concurrency_tokens": 2048}),
    # graphs, compilation, init
    (OLD + "Graph capturing finished in 15 secs.", {"graph_capture_seconds": 15.0}),
    (MID + "Graph capturing finished in 26 secs, took 0.45 GiB", {"graph_capture_seconds": 26.0, "graph_memory": 0.45}),
    (MID + "torch.compile takes 45.81 s in total", {"compile_seconds": 45.81}),
    (NEW + "torch.compile took 22.10 s in total", {"compile_seconds": 22.1}),
    (NEW + "[backbone] torch.compile took 22.10 s in total", {"compile_seconds": 22.1}),
    (
        NEW + "[dflash_head] torch.compile took 4.10 s in total",
        {"compile_seconds": None, "compile_seconds[dflash_head]": 4.1},
    ),
    (
        NEW + "[backbone] torch.compile and initial profiling/warmup run together took 31.50 s in total",
        {"compile_and_profiling_seconds": 31.5, "compile_seconds": None},
    ),
    (
        MID + "init engine (profile, create kv cache, warmup model) took 90.84 seconds",
        {"init_seconds": 90.84, "init_compile_seconds": None},
    ),
    (NEW + "init engine (profile, create kv cache, warmup model) took 20.12 s", {"init_seconds": 20.12}),
    (
        NEW + "init engine (profile, create kv cache, warmup model) took 20.12 s (compilation: 11.40 s)",
        {"init_seconds": 20.12, "compile_seconds": 11.4},
    ),
    (
        NEW + "init engine (profile, create kv cache, warmup model) took 20.12 s "
        "(compilation: 11.40 s — language_model: 9.10 s, encoder: 2.30 s)",
        {"init_seconds": 20.12, "compile_seconds": 11.4},
    ),
    # runner, attention, kernels
    (WORKER + "Using V2 Model Runner", {"model_runner": "V2"}),
    (
        NEW.replace("INFO", "WARNING") + "Model Runner V2 does not yet support ngram/ngram_gpu speculative decoding; "
        "using the V1 model runner instead.",
        {"model_runner": "V1"},
    ),
    (
        NEW.replace("INFO", "WARNING") + "Model Runner V2 requires Triton; using the V1 model runner instead.",
        {"model_runner": "V1"},
    ),
    (MID + "Using Flash Attention backend on V1 engine.", {"attention_backend": "Flash Attention"}),
    (OLD + "Using Flash Attention backend.", {"attention_backend": "Flash Attention"}),
    (OLD + "Using XFormers backend.", {"attention_backend": "XFormers"}),
    (
        MID + "Using FlashInfer backend with HND KV cache layout on V1 engine by default.",
        {"attention_backend": "FlashInfer"},
    ),
    (MID + "Using Triton backend on V1 engine.", {"attention_backend": "Triton"}),
    (MID + "Using FlashMLA backend on V1 engine.", {"attention_backend": "FlashMLA"}),
    (MID + "Using Cutlass MLA backend on V1 engine.", {"attention_backend": "Cutlass MLA"}),
    (
        NEW + "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER'].",
        {"attention_backend": "FLASH_ATTN"},
    ),
    (
        NEW + "Using FLASHINFER attention backend out of potential backends: ('FLASHINFER',)",
        {"attention_backend": "FLASHINFER"},
    ),
    (NEW + "Using AttentionBackendEnum.FLASHINFER backend.", {"attention_backend": "FLASHINFER"}),
    (NEW + "Using CutlassNvFp4LinearKernel for NVFP4 GEMM", {"quantization_kernel": "CutlassNvFp4LinearKernel"}),
    (
        PREFIXED + "Using NvFp4LinearBackend.VLLM_CUTLASS for NVFP4 GEMM",
        {"quantization_kernel": "NvFp4LinearBackend.VLLM_CUTLASS"},
    ),
    (NEW + "Using MarlinMxFp4LinearKernel for MXFP4 GEMM", {"quantization_kernel": "MarlinMxFp4LinearKernel"}),
    (NEW + "Using MarlinLinearKernel for CompressedTensorsWNA16", {"quantization_kernel": "MarlinLinearKernel"}),
    (
        NEW + "Selected CutlassFP8ScaledMMLinearKernel for ModelOptFp8LinearMethod",
        {"quantization_kernel": "CutlassFP8ScaledMMLinearKernel"},
    ),
    # layout and length
    (
        NEW + "Setting attention block size to 1568 tokens to ensure that attention page size is >= mamba page size.",
        {"block_size": 1568},
    ),
    (
        NEW + "Auto-fit max_model_len: reduced from 262144 to 131072 to fit in available GPU memory",
        {"max_model_len": 131072},
    ),
    (NEW + "Using max model len 262144", {"max_model_len": 262144}),
    (
        NEW.replace("INFO", "WARNING")
        + "The draft model's max_model_len (4096) is smaller than the target model's (32768) and "
        "the V2 model runner can't skip speculation for longer sequences; reducing max_model_len to 4096.",
        {"max_model_len": 4096},
    ),
    # engine's echo of speculation
    (
        NEW + "Initializing a V1 LLM engine (v0.28.0) with config: model='m', speculative_config=SpeculativeConfig("
        "method='dflash', model='z-lab/d', num_spec_tokens=7), tokenizer='m', max_seq_len=262144, tensor_parallel_size=1",
        {
            "engine_version": "0.28.0",
            "speculative_method": "dflash",
            "speculative_model": "z-lab/d",
            "speculative_tokens": 7,
            "max_model_len": 262144,
        },
    ),
    ("(APIServer pid=1) INFO:     Application startup complete.", {"ready": True}),
    ("INFO:     Application startup complete.", {"ready": True}),
]

SGLANG: list[tuple[str, dict[str, Any]]] = [
    (
        SGL_TP + "Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=7.1 GB, mem usage=15.20 GB.",
        {"weights": 15.2},
    ),
    (
        SGL + "Load weight end. elapsed=31.20 s, type=Qwen3_5ForConditionalGeneration, quant=modelopt_fp4, bits=4, "
        "avail mem=9.02 GB, mem usage=20.11 GB.",
        {"weights": 20.11, "weights_seconds": 31.2},
    ),
    (
        SGL + "Load weight end. elapsed=3.20 s, type=DSparkDraftModel, avail mem=9.02 GB, mem usage=1.45 GB.",
        {"draft_weights": 1.45, "weights": None},
    ),
    (SGL + "Load weight end. Committed real weights after CUDA graph capture in 3.21 s (1.2 GB/s)", {"weights": None}),
    (
        SGL_TP + "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB",
        {"kv_tokens": 367404, "kv_cache": 16.46},
    ),
    (SGL_TP + "KV Cache is allocated. #tokens: 314304, KV size: 29.32 GB", {"kv_tokens": 314304, "kv_cache": 29.32}),
    (
        SGL_DP + "KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 55285, K size: 1.10 GB, V size: 1.10 GB",
        {"kv_tokens": 55285, "kv_cache": 2.2},
    ),
    (
        SGL + "Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 55285, K size: 1.10 GB, V size: 1.10 GB",
        {"kv_tokens": 55285},
    ),
    (
        SGL + "SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 9000, K size: 0.10 GB, V size: 0.10 GB",
        {"kv_tokens": None},
    ),
    (
        SGL + "Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 55285, KV size: 2.20 GB, "
        "avail mem=1.02 GB",
        {"kv_tokens": 55285, "kv_cache": 2.2},
    ),
    (
        SGL + "max_total_num_tokens=34377, max_prefill_tokens=16384, max_running_requests=48, context_len=65536",
        {"kv_tokens": 34377},
    ),
    (
        SGL
        + "max_total_num_tokens=55285, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=48, "
        "context_len=65536, available_gpu_mem=2.10 GB",
        {"kv_tokens": 55285, "max_running_requests": 48, "max_model_len": 65536, "free_memory_after_boot": 2.1},
    ),
    (
        SGL + "Capture cuda graph end. Time elapsed: 12.34 s. mem usage=0.91 GB. avail mem=3.05 GB.",
        {"graph_capture_seconds": 12.34},
    ),
    (
        SGL + "Capture cuda graph end. Time elapsed: 12.34 s. avail mem=3.05 GB. mem usage=0.91 GB.",
        {"graph_capture_seconds": 12.34},
    ),
    (
        SGL + "Capture target decode CUDA graph end. elapsed=9.31 s, mem usage=0.91 GB, avail mem=3.05 GB.",
        {"graph_capture_seconds": 9.31},
    ),
    (
        SGL
        + "Capture target verify CUDA graph end. elapsed=9.31 s, bs=[1, 2, 4], mem usage=0.91 GB, avail mem=3.05 GB.",
        {"graph_capture_seconds": 9.31},
    ),
    (
        SGL + "Capture draft decode CUDA graph end. elapsed=1.31 s, mem usage=0.01 GB, avail mem=3.05 GB.",
        {"graph_capture_seconds": None, "draft_graph_capture_seconds": 1.31},
    ),
    (SGL + "Attention backend not set. Use flashinfer backend by default.", {"attention_backend": "flashinfer"}),
    (SGL + "Attention backend not explicitly specified. Use fa3 backend by default.", {"attention_backend": "fa3"}),
    (SGL + "Attention backend not specified. Use triton backend by default.", {"attention_backend": "triton"}),
    (
        SGL + "Using hybrid attention backend for decode and prefill: decode_backend=flashinfer, prefill_backend=fa3.",
        {"attention_backend": "flashinfer"},
    ),
    (
        SGL + "Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.10GB, ssm_state size: 1.20GB "
        "intermediate_ssm_state_cache size: 0.40GB intermediate_conv_window_cache size: 0.01GB",
        {"mamba_cache_size": 48, "mamba_ssm_state": 1.2},
    ),
    (
        SGL + "Engine startup timings (s): load_weight=33.10, kv_cache_allocation=0.52, scheduler_e2e=61.20, "
        "cuda_graph={'decode': 9.3}, tokenizer_e2e=70.10",
        {"init_seconds": 61.2, "load_seconds": 33.1},
    ),
    (
        SGL
        + "Draft model quantization (None) differs from main model quantization (modelopt_fp4). Using draft model's detected "
        "quantization: None",
        {"draft_quantization": "None"},
    ),
    (SGL + "The server is fired up and ready to roll!", {"ready": True}),
]

ROWS = [("vllm", line, facts) for line, facts in VLLM] + [("sglang", line, facts) for line, facts in SGLANG]


def value_of(facts: BootFacts, name: str) -> Any:
    """A field of the facts, else the first statement of that name."""
    if name in facts.__dataclass_fields__:
        return getattr(facts, name)
    return next((fact.value for fact in facts.facts if fact.name == name), None)


def stated(texts: list[str], kind: str, wanted: dict[str, Any]) -> dict[str, Any]:
    facts = read(texts, kind=kind)
    return {name: value_of(facts, name) for name in wanted}


def escaped(text: str) -> str:
    return json.dumps(text)


CARRIERS = {
    "compose": lambda line: f"vllm-1  | {line}",
    "compose, aligned": lambda line: f"vllm  | {line}",
    "compose with a project": lambda line: f"night-sweep_engine.1  | {line}",
    "compose with times": lambda line: f"vllm-1  | 2026-11-29T15:46:02.306389859Z {line}",
    "journald": lambda line: f"Nov 29 16:00:01 host docker[123]: {line}",
    "journald, iso": lambda line: f"2026-11-29T16:00:01+0100 host docker[123]: {line}",
    "journald, microseconds": lambda line: f"2026-11-29T16:00:01.123456+01:00 spark-1 vllm[123]: {line}",
    "kubectl": lambda line: f"2026-11-29T16:00:01.306389859Z {line}",
    "kubectl, prefixed": lambda line: f"[pod/vllm-0/vllm] {line}",
    "cri": lambda line: f"2026-11-29T16:15:34.306389859Z stdout F {line}",
    "ray": lambda line: f"(EngineCore pid=1, ip=10.0.0.2) {line}",
    "ray worker": lambda line: f"(RayWorkerWrapper pid=771, ip=10.0.0.2) {line}",
    "ray with repeats": lambda line: f"(EngineCore pid=1, ip=10.0.0.2) {line} [repeated 3x across cluster]",
    "quoted": lambda line: f"> {line}",
    "quoted twice": lambda line: f"> > {line}",
    "a list item": lambda line: f"  {line}",
    "coloured": lambda line: f"\x1b[0;36m(x pid=7)\x1b[0;0m {line}",
    "coloured level": lambda line: line.replace("INFO", "\x1b[32mINFO\x1b[0m", 1),
    "carriage return": lambda line: f"{line}\r",
    "behind a bar": lambda line: f"Capturing CUDA graphs:  97%|#### | 34/35 [00:01<00:00, 24.1it/s]\r{line}",
    "stacked": lambda line: f"Nov 29 16:00:01 host docker-compose[77]: vllm-1  | > {line}",
    "docker json": lambda line: (
        f'{{"log":{escaped(line + chr(10))},"stream":"stdout","time":"2026-11-29T15:46:02.3Z"}}'
    ),
    "fluentd": lambda line: f'{{"container_name":"/vllm","source":"stderr","log":{escaped(line)}}}',
    "journald json": lambda line: f'{{"PRIORITY":"6","_PID":"123","MESSAGE":{escaped(line)}}}',
    "syslog": lambda line: f"<30>Nov 29 16:00:01 host docker[123]: {line}",
    "systemd, unit name": lambda line: f"Nov 29 16:00:01 gb10-box vllm-qwen.service[4242]: {line}",
    "seconds": lambda line: f"   12.166 {line}",
}


@pytest.mark.parametrize(("kind", "line", "facts"), ROWS, ids=[f"{kind}-{line[-60:]}" for kind, line, _ in ROWS])
def test_a_release_wording_states_its_facts_and_no_other(kind: str, line: str, facts: dict[str, Any]) -> None:
    assert stated([line], kind, facts) == facts


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
def test_no_carrier_changes_a_fact(carrier: str) -> None:
    wrong = {}
    for kind, line, facts in ROWS:
        found = stated([CARRIERS[carrier](line)], kind, facts)
        if found != facts:
            wrong[line] = found
    assert wrong == {}


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
def test_the_engine_is_told_from_a_carried_log_alone(carrier: str) -> None:
    for kind, rows in (("vllm", VLLM), ("sglang", SGLANG)):
        assert read([CARRIERS[carrier](line) for line, _ in rows]).engine == kind


@pytest.mark.parametrize(("kind", "line", "facts"), ROWS, ids=[f"{kind}-{line[-60:]}" for kind, line, _ in ROWS])
def test_a_line_that_was_cut_or_abridged_states_a_part_or_nothing_and_never_another_value(
    kind: str, line: str, facts: dict[str, Any]
) -> None:
    own_dots = "load_model"  # "Starting to load model X..." are the engine's own dots
    whole = {name: value for name, value in facts.items() if value is not None and name != own_dots}
    for end in range(len(line)):
        for text in (line[:end] + "...", line[:end] + "…", line[:end] + " ... [truncated]"):
            found = stated([text], kind, whole)
            odd = {name: value for name, value in found.items() if value is not None and value != whole[name]}
            assert odd == {}, text

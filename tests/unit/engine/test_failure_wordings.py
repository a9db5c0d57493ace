"""Each class of failure in the words of several releases and libraries, alone and amid what comes before and after it."""

from __future__ import annotations

import re

import pytest

from nightsweep.engine.failures import classify, verdict
from tests.unit.engine.data import evidence
from tests.unit.engine.test_wordings import CARRIERS

ERR = "(EngineCore pid=134) ERROR 11-29 15:46:02 [core.py:1510] "
ERR_OLD = "ERROR 04-10 12:00:00 [core.py:390] "
WARN = "(EngineCore pid=134) WARNING 11-29 15:46:02 [x.py:1] "
INFO = "(EngineCore pid=134) INFO 11-29 15:46:02 [x.py:1] "
SGL = "[2026-11-29 15:00:00] "
ARCH = "Model architectures ['%s'] are not supported for now. Supported architectures: dict_keys(['LlamaForCausalLM'])"
VALUE = "pydantic_core._pydantic_core.ValidationError: 1 validation error for %s"

FAILURES: list[tuple[str, str]] = [
    ("bad_flag", "vllm: error: unrecognized arguments: --no-such-flag 3"),
    ("bad_flag", "api_server.py: error: unrecognized arguments: --speculative-config"),
    ("bad_flag", "launch_server.py: error: unrecognized arguments: --speculative-dspark-block-size 7"),
    ("bad_flag", "vllm serve: error: argument --kv-cache-dtype: invalid choice: 'fp7' (choose from 'auto', 'fp8')"),
    ("bad_flag", "vllm serve: error: argument --max-model-len: invalid human_readable_int_or_auto value: '12x'"),
    ("bad_flag", "vllm serve: error: argument --port: expected one argument"),
    (
        "bad_flag",
        f"{VALUE % 'SpeculativeConfig'}\nnum_spec_tokens\n  Unexpected keyword argument [type=unexpected_keyword_argument]",
    ),
    (
        "bad_flag",
        f"{VALUE % 'SpeculativeConfig'}\nmethod\n  Input should be 'ngram', 'medusa' or 'eagle' [type=literal_error]",
    ),
    (
        "bad_flag",
        f"{VALUE % 'SpeculativeConfig'}\n  Value error, synthetic_acceptance_rates must have length 5, "
        "got [0.7]. [type=value_error]",
    ),
    (
        "bad_flag",
        f"{VALUE % 'SpeculativeConfig'}\n  Value error, Batch-size ranges must be non-overlapping and sorted. [type=v]",
    ),
    (
        "bad_flag",
        f"{VALUE % 'SpeculativeConfig'}\n  Value error, 'tensor_parallel_size' is not a valid argument in the "
        "speculative_config. "
        "Please pass 'draft_tensor_parallel_size' instead. [type=value_error]",
    ),
    (
        "bad_flag",
        "ValueError: User-specified max_model_len (262144) is greater than the derived max_model_len "
        "(max_position_embeddings=32768 or model_max_length=None in model's config.json).",
    ),
    (
        "bad_flag",
        "TypeError: SpeculativeConfig.__init__() got an unexpected keyword argument 'draft_model_name_or_path'",
    ),
    ("bad_flag", "TypeError: EngineArgs.__init__() got an unexpected keyword argument 'foo'"),
    ("unsupported_combination", f"{ERR_OLD}NotImplementedError: Unsupported speculative method: 'mtp'"),
    ("unsupported_combination", "ValueError: num_speculative_tokens:5 must be divisible by n_predict=3"),
    ("unsupported_combination", "ValueError: Model Runner V2 does not yet support: speculative method 'ngram'"),
    ("unsupported_combination", "ValueError: Model Runner V1 does not support: dspark"),
    ("unsupported_combination", f"{SGL}ValueError: EAGLE is not supported in attention backend torch_native"),
    (
        "unsupported_combination",
        f"{SGL}ValueError: Gemma4AssistantForCausalLM draft requires --speculative-algorithm NEXTN or EAGLE, got DFLASH",
    ),
    (
        "unsupported_combination",
        "ValueError: Speculative decoding is currently not supported with Flex Attention backend.",
    ),
    (
        "draft_config_error",
        "ValueError: Target and draft model should have the same vocabulary size. Target model vocab_size=32768. "
        "Draft model vocab_size=32000. Using models with different tokenizers can cause out-of-bounds errors.",
    ),
    ("draft_arch_unsupported", "ValueError: " + ARCH % "DFlash2DraftModel"),
    (
        "draft_arch_unsupported",
        f"{VALUE % 'SpeculativeConfig'}\n  Value error, {ARCH % 'FooForCausalLM'} [type=value_error]",
    ),
    ("draft_arch_unsupported", f"{SGL}ValueError: {ARCH % 'DSparkQwen3ForCausalLM'}"),
    (
        "model_arch_unsupported",
        f"{VALUE % 'ModelConfig'}\n  Value error, {ARCH % 'Qwen3_8ForCausalLM'} [type=value_error]",
    ),
    ("model_arch_unsupported", "ValueError: " + ARCH % "Gemma9ForCausalLM"),
    (
        "model_arch_unsupported",
        "ValueError: The checkpoint you are trying to load has model type `qwen3_8` but Transformers does not recognize this "
        "architecture. This could be because of an issue with the checkpoint, or because your version is out of date.",
    ),
    ("model_missing", "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/nope/missing'."),
    (
        "model_missing",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name'",
    ),
    ("model_missing", "ValueError: Invalid repository ID or local directory specified: '/models/nope'."),
    (
        "model_missing",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
    ),
    ("model_missing", "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. (Request ID: Root=1-2)"),
    (
        "model_missing",
        "OSError: org/nope is not a local folder and is not a valid model identifier listed on 'https://hf.co/models'",
    ),
    (
        "model_missing",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
    ),
    (
        "model_missing",
        "OSError: /models/x does not appear to have a file named config.json. Checkout '/models/x' for files.",
    ),
    ("model_access_denied", "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-2)"),
    ("model_access_denied", "OSError: You are trying to access a gated repo.\nMake sure to have access to it"),
    (
        "model_access_denied",
        "Access to model meta-llama/x is restricted. You must have access to it and be authenticated",
    ),
    ("model_files_incomplete", f"{ERR}RuntimeError: Cannot find any model weights with `/models/x`"),
    (
        "model_files_incomplete",
        f"{ERR}safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    ),
    (
        "model_files_incomplete",
        f"{ERR}safetensors._safetensors_rust.SafetensorError: Error while deserializing header: invalid JSON",
    ),
    (
        "model_files_incomplete",
        f"{ERR}ValueError: Following weights were not initialized from checkpoint: {{'model.layers.0.mlp.w'}}",
    ),
    ("model_files_incomplete", f"{ERR}ValueError: There is no module or parameter named 'fc' in LlamaForCausalLM"),
    (
        "model_files_incomplete",
        "OSError: Can't load tokenizer for '/models/x'. If you were trying to load it from hf.co, make sure",
    ),
    ("draft_quant_mismatch", f"{ERR}AttributeError: 'QKVParallelLinear' object has no attribute 'weight_scale'"),
    ("draft_quant_mismatch", f"{SGL}ValueError: Cannot find the config file for awq"),
    (
        "kv_too_small",
        f"{ERR_OLD}ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB KV cache is "
        "needed, "
        "which is larger than the available KV cache memory (3.71 GiB). Based on the available memory,  Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
    ),
    (
        "kv_too_small",
        f"{ERR}ValueError: To serve at least one request with the model's max seq len (2048), 0.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (0.00 GiB).",
    ),
    (
        "kv_too_small",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache "
        "(21216). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
    ),
    (
        "kv_too_small",
        f"{ERR}ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even one token",
    ),
    ("kv_too_small", f"{SGL}RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."),
    (
        "kv_too_small",
        f"{SGL}RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "self.server_args.mem_fraction_static=0.5",
    ),
    (
        "kv_too_small",
        f"{SGL}RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
        "max_mamba_cache_size=0. Try: (1) reduce --max-running-requests, (2) increase --mem-fraction-static",
    ),
    (
        "no_kv_memory",
        f"{ERR}ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    ),
    (
        "no_kv_memory",
        f"{SGL}ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.5. Raise "
        "--mem-fraction-static above 0.713 (minimum viable = 1 - available/pre = 0.7130).",
    ),
    ("no_kv_memory", f"{INFO}Available KV cache memory: -1.37 GiB"),
    (
        "gpu_oom",
        f"{ERR}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 31.36 GiB",
    ),
    (
        "gpu_oom",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity)",
    ),
    (
        "gpu_oom",
        f"{ERR}RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please try lowering",
    ),
    (
        "gpu_oom",
        f"{ERR}RuntimeError: Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization",
    ),
    ("gpu_oom", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB."),
    ("gpu_oom", f"{SGL}Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 1.00 GiB."),
    ("gpu_oom", f"{ERR}RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    (
        "gpu_memory_busy",
        f"{ERR_OLD}ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization "
        "(0.95, 45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ),
    (
        "gpu_memory_busy",
        f"{ERR}ValueError: Free memory on device cuda:0 (38.77/139.8 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 125.82 GiB). Decrease GPU memory utilization",
    ),
    (
        "gpu_memory_busy",
        f"{ERR}AssertionError: Error in memory profiling. Initial free memory 30.1 GiB, current free memory 31.2 GiB.",
    ),
    ("port_in_use", "OSError: [Errno 98] Address already in use"),
    (
        "port_in_use",
        "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
    ),
    (
        "port_in_use",
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): [errno 98] address already in use",
    ),
    ("port_in_use", f"{SGL}RuntimeError: Port is already in use. dist_init_port=25001"),
    ("port_in_use", f"{SGL}ValueError: server port at 30000 is not available in 20 seconds. python3 -m sglang (pid 7)"),
    ("port_in_use", "OSError: [Errno 48] Address already in use"),
    ("gpu_arch_unsupported", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    (
        "gpu_arch_unsupported",
        "CUDA error (/workspace/.deps/vllm-flash-attn-src/hopper/flash_fwd.h:199): device kernel image is invalid",
    ),
    ("engine_died", "CUDA error (/workspace/csrc/attention/fwd.cu:88): unspecified launch failure"),
    ("gpu_arch_unsupported", "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"),
    ("gpu_arch_unsupported", "RuntimeError: No supported CUDA architectures found for major versions [10]."),
    ("gpu_arch_unsupported", "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain."),
    (
        "gpu_arch_unsupported",
        "ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. Minimum capability: 100. "
        "Current capability: 89.",
    ),
    ("image_arch_mismatch", "exec /usr/bin/python3: exec format error"),
    ("image_arch_mismatch", "standard_init_linux.go:228: exec user process caused: exec format error"),
    ("image_arch_mismatch", "bash: /usr/local/bin/vllm: cannot execute binary file: Exec format error"),
    ("cuda_init_failed", "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)."),
    (
        "cuda_init_failed",
        "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
    ),
    ("cuda_init_failed", "RuntimeError: Found no NVIDIA driver on your system."),
    ("cuda_init_failed", "RuntimeError: No CUDA GPUs are available"),
    (
        "cuda_init_failed",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
    ),
    ("cuda_init_failed", "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment"),
    ("nccl_error", f"{ERR}RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"),
    (
        "nccl_error",
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77",
    ),
    (
        "shm_too_small",
        "gb10:7:99 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-4R1 (size 9637888)",
    ),
    ("shm_too_small", "Bus error (core dumped)"),
    ("disk_full", "OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub'"),
    (
        "killed",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_0': -9}",
    ),
    (
        "killed",
        f"{SGL}Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a common cause is",
    ),
    ("killed", f"{ERR}Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."),
    (
        "unknown_engine_init",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ),
    ("unknown_engine_init", "RuntimeError: Engine process failed to start. See stack trace for the root cause."),
    ("unknown_engine_init", "Exception: WorkerProc initialization failed due to an exception in a background process."),
    ("container_start_failed", 'exec: "vllm": executable file not found in $PATH: unknown'),
    (
        "container_start_failed",
        'OCI runtime create failed: runc create failed: unable to start container process: exec: "x"',
    ),
    (
        "container_start_failed",
        "docker: Error response from daemon: invalid mount config: bind source path does not exist: /srv/hf",
    ),
    (
        "image_missing",
        "docker: Error response from daemon: manifest for vllm/vllm-openai:v9 not found: manifest unknown",
    ),
    ("image_missing", "Error: No such image: vllm/vllm-openai:v9"),
    ("missing_package", "ModuleNotFoundError: No module named 'arctic_inference'"),
    ("gpu_arch_unsupported", "nvcc fatal   : Unsupported gpu architecture 'compute_121a'"),
    (
        "gpu_arch_unsupported",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has 7.5.",
    ),
    (
        "unsupported_combination",
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).",
    ),
    (
        "draft_quant_mismatch",
        f"{INFO}Loading drafter model...\nRuntimeError: The size of tensor a (5120) must match the size of tensor b (4096)",
    ),
    (
        "draft_quant_mismatch",
        f"{INFO}Loading weights took 2.10 seconds\nKeyError: 'layers.0.self_attn.qkv_proj.weight_packed'",
    ),
    ("host_lost", "NVRM: Xid (PCI:0000:01:00): 79, pid=7, name=python3, GPU has fallen off the bus."),
    ("host_lost", "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"),
    ("host_lost", f"{ERR}RuntimeError: CUDA error: unspecified launch failure: GPU is lost"),
    (
        "host_oom_killed",
        "[ 1234.5] Memory cgroup out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:131072000kB",
    ),
    ("host_oom_killed", "kernel: Out of memory: Kill process 4711 (python3) score 900 or sacrifice child"),
    ("host_oom_killed", "systemd[1]: vllm.service: A process of this unit has been killed by the OOM killer."),
    ("host_oom_killed", "systemd[1]: vllm.service: Failed with result 'oom-kill'."),
    ("gpu_oom", f"{ERR}RuntimeError: CUDA driver error: out of memory"),
    ("gpu_oom", f"{ERR}RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"),
    ("gpu_oom", f"{ERR}Cuda failure 2 'out of memory'"),
    (
        "unsupported_combination",
        "ValueError: World size (4) is larger than the number of available GPUs (1) in this node. If this is intentional",
    ),
    (
        "unsupported_combination",
        f"{VALUE % 'VllmConfig'}\n  Value error, Speculative decoding with draft model is not supported yet. [type=value_error]",
    ),
    ("unsupported_combination", "NotImplementedError: Speculative decoding is not yet supported on this platform."),
    (
        "bad_flag",
        f"{VALUE % 'ModelConfig'}\n  Value error, Unknown quantization method: fp3. Must be one of ['awq']. [type=v]",
    ),
    (
        "bad_flag",
        "ValueError: The repository /models/foo contains custom code which must be executed to correctly load the model.",
    ),
    (
        "port_in_use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ),
    (
        "port_in_use",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    ),
    ("engine_died", f"{ERR}torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("engine_died", f"{ERR}RuntimeError: CUDA error: device-side assert triggered"),
    ("engine_died", "!!!!!!! Segfault encountered !!!!!!!"),
    (
        "engine_died",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -11}",
    ),
    (
        "cuda_init_failed",
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver",
    ),
]

HEALTHY = [
    INFO + "If out-of-memory error occurs during cudagraph capture, consider decreasing `gpu_memory_utilization`",
    "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAlloc",
    WARN + "Address already in use. Retrying with a new port.",
    INFO + "Free memory on device (91.64/94.97 GiB) on startup. Desired GPU memory utilization is (0.91, 86.42 GiB).",
    WARN
    + "Found ulimit of 1024 and failed to automatically increase with error current limit exceeds maximum limit. This can cause "
    "fd limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n",
    WARN + "Model Runner V2 does not yet support speculative method 'draft_model'; using the V1 model runner instead.",
    INFO + "Unable to import vllm._C: ImportError('x'). FlashInfer not available, falling back.",
    WARN + "Failed to import from vllm._C: ModuleNotFoundError(\"No module named 'vllm._C'\")",
    "Exception ignored in: <function Foo.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    '  File "x.py", line 1\nAttributeError: x',
    WARN
    + "Possibly too large swap space. 4.00 GiB out of the 7.6 GiB total CPU memory is allocated for the swap space.",
    "-> also Fehler? CUDA out of memory hatten wir früher bei 0.95, jetzt nicht mehr",
    "we had CUDA out of memory before, and an OutOfMemoryError now and then",
    "maybe it was killed by the OOM killer of the kernel",
    "[TensorRT-LLM][WARNING] Skipping tactic 12: [TensorRT-LLM][ERROR] CUDA runtime error in cudaMalloc: out of memory",
    SGL + "Ignore import error when loading sglang.srt.models.x: No module named 'y'",
]
READY = "(APIServer pid=1) INFO:     Application startup complete."
SGL_READY = SGL + "The server is fired up and ready to roll!"
LAST = (
    "(APIServer pid=1) Traceback (most recent call last):\n"
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)


def lines(text: str) -> list[str]:
    return text.split("\n")


@pytest.mark.parametrize(("kind", "text"), FAILURES, ids=[f"{kind}-{text[-50:]}" for kind, text in FAILURES])
def test_a_failure_is_classed_by_its_own_words(kind: str, text: str) -> None:
    failure = classify(evidence(lines(text), exit_code=1))
    assert failure.kind == kind
    assert verdict(lines(text)).state == "failed"


@pytest.mark.parametrize(
    ("kind", "text"),
    [row for row in FAILURES if row[0] not in ("unknown_engine_init", "killed")],
    ids=lambda value: value[-50:],
)
def test_what_an_engine_says_last_does_not_hide_the_cause(kind: str, text: str) -> None:
    failure = classify(evidence([*lines(text), *lines(LAST)], exit_code=1))
    assert failure.kind == kind


@pytest.mark.parametrize("carrier", CARRIERS, ids=str)
def test_no_carrier_hides_a_cause(carrier: str) -> None:
    wrong = {}
    for kind, text in FAILURES:
        found = classify(evidence([CARRIERS[carrier](line) for line in lines(text)], exit_code=1)).kind
        if found != kind:
            wrong[text] = (kind, found)
    assert wrong == {}


@pytest.mark.parametrize("text", HEALTHY, ids=lambda text: text[:60])
@pytest.mark.parametrize("ready", [READY, SGL_READY])
def test_an_alarming_line_of_a_healthy_boot_is_no_failure(text: str, ready: str) -> None:
    assert verdict(lines(text)).state != "failed"
    not_yet = SGL in text and ready == READY  # SGLang's HTTP server is up before SGLang is ready
    assert verdict([*lines(text), ready]).state == ("unknown" if not_yet else "healthy")


@pytest.mark.parametrize("text", HEALTHY, ids=lambda text: text[:60])
def test_an_alarming_line_takes_no_blame_for_what_came_after(text: str) -> None:
    failure = classify(evidence([*lines(text), "OSError: [Errno 98] Address already in use"], exit_code=1))
    assert failure.kind == "port_in_use"


def test_what_a_failure_says_is_a_remedy_without_holes() -> None:
    for _, text in FAILURES:
        failure = classify(evidence(lines(text), exit_code=1))
        assert failure.remedy
        assert not re.search(r"\{\w*\}|\*\*\*", failure.remedy.replace("core proc(s): {}", "")), failure.remedy
        assert failure.lines
        assert failure.retry in ("never", "same", "after_memory")


def test_a_refused_request_is_no_failure_of_an_engine_that_serves() -> None:
    refused = (
        "ValueError: The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
    )
    too_long = "ValueError: This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"
    unknown_model = (
        "OSError: x is not a local folder and is not a valid model identifier listed on 'https://hf.co/models'"
    )
    for said in (refused, too_long, unknown_model):
        assert verdict([READY, said]).state == "healthy"


def test_sglangs_http_server_is_not_sglang_ready() -> None:
    boot = [SGL + "max_total_num_tokens=55285, max_prefill_tokens=16384", "INFO:     Application startup complete."]
    assert verdict(boot).state == "unknown"
    assert verdict([*boot, SGL_READY]).state == "healthy"
    taken = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use"
    failure = classify(evidence([*boot, taken], exit_code=1))
    assert (failure.kind, failure.stage) == ("port_in_use", "warmup")

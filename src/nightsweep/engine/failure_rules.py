"""Sentences by which engines, their libraries and their carriers say why they failed.

Each cause has a class, a stage where the sentence itself tells it, an advice, and a remedy with the sentence's own numbers.
Of one line's causes the first in the table counts; of a log's, the most telling kind, and of those the first.

Source:
    vLLM v1/core/kv_cache_utils.py, v1/worker, config/, engine/arg_utils.py, v1/executor; SGLang srt/managers/scheduler.py,
    srt/model_executor; measured on vLLM 0.26.0 and 0.32.0.
"""

from __future__ import annotations

from nightsweep.engine.causes import CONSEQUENCE, HINT, Causes, cause
from nightsweep.engine.failure_rules_box import HARDWARE, PLACES
from nightsweep.engine.failure_rules_memory import MEMORY
from nightsweep.plan.words import AFTER_MEMORY, SAME

ARGUMENTS = (
    cause(
        "bad_flag",
        r"(?:^|(?<=[\w. ]: ))error: (?P<what>(?:unrecognized arguments|argument |the following arguments|ambiguous "
        r"option|unknown).*)",
        needle="error: ",
        stage="arguments",
        remedy="the engine refuses its command line ({what}): mend args or speculative in the sweep file",
    ),
    cause(
        "bad_flag",
        r"No such command '(?P<what>[^']*)'",
        needle="No such command",
        stage="arguments",
        remedy="the image's entry point takes {what!r} for a subcommand: set container.entrypoint or engine.command",
    ),
    cause(
        "bad_flag",
        r"(?<!\S)(?P<key>\S+) *Unexpected keyword argument",
        needle="Unexpected keyword argument",
        stage="config",
        remedy="this release does not know the key {key}: `nightsweep plan` names the nearest known one",
    ),
    cause(
        "bad_flag",
        r"Input should be (?P<what>.{0,200})",
        needle="Input should be ",
        stage="config",
        remedy="a setting has a value that this release does not know; it takes {what}",
    ),
    cause(
        "bad_flag",
        r"'SpeculativeConfig' object has no attribute '(?P<what>\w+)'",
        needle="'SpeculativeConfig' object has no",
        stage="config",
        remedy="this release stumbles over the speculative settings: a key is misnamed or not supported here",
    ),
    cause(
        "bad_flag",
        r"(?<!\w)(?P<where>\w*(?:Config|Args))\.__(?:init|new)__\(\) got an unexpected keyword argument '(?P<key>\w+)'",
        needle="unexpected keyword argument",
        stage="config",
        remedy="this release does not know the key {key} ({where}): `nightsweep plan` names the nearest known one",
    ),
    cause(
        "bad_flag",
        r"(?<![\w-])(?P<what>--[\w-]+ can only be (?:set|used) with --[\w-]+)",
        needle="can only be ",
        stage="config",
        remedy="{what}; under MTP with rope scaling, set max_model_len inside `speculative` as well",
    ),
    cause(
        "bad_flag",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\(max_position_embeddings=(?P<most>[\d.]+)",
        needle="User-specified max_model_len",
        stage="config",
        remedy="max-model-len {asked} is more than the model's {most}: lower it",
    ),
    cause(
        "bad_flag",
        r"VLLM_\w+ '?(?P<what>\S+?)'? appears to be a URI|Invalid value '(?P<value>[^']*)' for VLLM_\w+",
        needle="VLLM_",
        stage="config",
        remedy="an environment variable VLLM_* holds something else (a container or service named vllm injects "
        "such): rename it",
    ),
    cause(
        "bad_flag",
        r"(?P<what>(?:num_speculative_tokens was provided but|num_speculative_tokens must be provided"
        r"|synthetic_acceptance_\w+ must"
        r"|(?<![\w='.])[\w='.]* ?requires exactly one of synthetic_acceptance|Batch-size ranges must"
        r"|The first batch-size range must"
        r"|'\w+' is not a valid argument in the speculative_config).{0,200}?)(?: \[type=|$)",
        words="provided must requires argument",
        stage="config",
        remedy="the speculative settings do not fit together: {what}",
    ),
)

DRAFTS = (
    cause(
        "draft_config_error",
        r"Target and draft model should have the same vocabulary size\. Target model vocab_size=(?P<target>\d+)\. "
        r"Draft model vocab_size=(?P<draft>\d+)",
        needle="same vocabulary size",
        stage="config",
        remedy="the draft's vocabulary ({draft}) is not the target's ({target}): use a draft made for this target",
    ),
    cause(
        "unsupported_combination",
        r"num_speculative_tokens:? ?(?P<k>\d+) must be divisible by n_predict=(?P<n>\d+)",
        needle="must be divisible by n_predict",
        stage="config",
        remedy="num_speculative_tokens {k} must be a multiple of the draft's n_predict {n}",
    ),
    cause(
        "unsupported_combination",
        r"Unsupported speculative method: '(?P<method>[^']*)'",
        needle="Unsupported speculative method",
        stage="config",
        remedy="method {method!r} does not go with this model (or this release): use another method or a checkpoint "
        "that has it",
    ),
    cause(
        "unsupported_combination",
        r"(?P<what>(?:number of attention heads|vocab(?:ulary)? size|intermediate size"
        r"|hidden size).{0,80} must be divisible by "
        r"tensor parallel size(?: \(\d+\))?)",
        needle="divisible by",
        stage="config",
        remedy="{what}: choose another tensor-parallel-size",
    ),
    cause(
        "unsupported_combination",
        r"(?:speculative_)?draft_tensor_parallel_size=?(?P<what>\d+) cannot be other value",
        needle="draft_tensor_parallel_size",
        stage="config",
        remedy="draft_tensor_parallel_size must be 1 or the target's",
    ),
    cause(
        "draft_quant_mismatch",
        r"(?P<what>(?:KeyError|AttributeError)\b.{0,300}?(?:weight|input|block|w13|w2)_\w{0,80}?scale\w*['\"]?"
        r"|Cannot find the config file for \w+)",
        words="KeyError AttributeError config",
        stage="load",
        remedy="weights and quantisation do not agree ({what}): set the draft's own quantization (SGLang: "
        "draft_model_quantization), or take an unquantised draft",
    ),
    cause(
        "draft_quant_mismatch",
        r"expected mat1 and mat2 to have the same dtype",
        needle="mat1 and mat2",
        weight=HINT,
        remedy="the quantised draft meets layers of another type: take an unquantised draft or a release that "
        "supports it",
    ),
    cause(
        "unsupported_combination",
        r"Model Runner V[12] does not (?:yet )?support: ?(?P<what>.*)",
        needle="Model Runner V",
        stage="config",
        remedy="the forced model runner does not support {what}: unset VLLM_USE_V2_MODEL_RUNNER",
    ),
    cause(
        "unsupported_combination",
        r"^(?>.*?(?:Error|Exception): )(?P<what>.*(?:not (?:yet )?supported (?:in|with|by|for) (?:speculative|attention "
        r"backend|the V[12]|"
        r"Flex Attention|MTP|EAGLE)|requires --speculative-algorithm|is (?:currently )?not supported with "
        r"speculative).*)",
        words="supported algorithm",
        stage="config",
        remedy="the engine does not support this combination: {what}",
    ),
)

GENERIC = (
    cause(
        "bad_flag",
        r"contains custom code which must be executed|Please pass the argument `trust_remote_code=True`",
        words="custom pass",
        stage="config",
        remedy="the model brings code of its own: set trust-remote-code, if you trust it",
    ),
    cause(
        "bad_flag",
        r"(?P<what>Unknown quantization method: .{1,200}?)(?: \[type=|$)",
        needle="Unknown quantization method",
        stage="config",
        remedy="{what}: this release does not know it: mend quantization, or use a newer image",
    ),
    cause(
        "unsupported_combination",
        r"World size \((?P<want>\d+)\) is larger than the number of available GPUs \((?P<have>\d+)\)",
        needle="is larger than the number of available",
        stage="config",
        remedy="{want} GPUs are asked for, and {have} are there: lower tensor-parallel-size (and "
        "pipeline-parallel-size), or give "
        "the container more (container.gpus)",
    ),
    cause(
        "unsupported_combination",
        r"(?P<what>Speculative decoding .{0,80}?not (?:yet )?supported.{0,160}?)\.?(?: \[type=|$)",
        needle="Speculative decoding ",
        stage="config",
        remedy="the engine does not support this combination: {what}",
    ),
    cause(
        "bad_flag",
        r"validation errors? for (?P<where>\w+) Value error, (?P<what>.{1,300}?)(?: \[type=|$)",
        needle="Value error, ",
        stage="config",
        remedy="{where} refuses the settings: {what}",
    ),
    cause(
        "graph_capture_failed",
        r"Capture cuda graph failed",
        needle="Capture cuda graph failed",
        weight=HINT,
        stage="warmup",
        remedy="CUDA graphs could not be captured: the line behind it says why; lower --mem-fraction-static or "
        "--cuda-graph-max-bs",
    ),
    cause(
        "engine_stalled",
        r"No available shared memory broadcast block found in \d+ seconds?\b",
        needle="No available shared memory broadcast",
        retry=SAME,
        weight=CONSEQUENCE,
        remedy="the engine's processes wait for each other: a stall, or a very long compilation",
    ),
    cause(
        "killed",
        r"Failed core proc\(s\): \{[^}]{0,500}: -9|died (?:unexpectedly|during initialization) \(exit code: -9\)|exit "
        r"code:? -9\b",
        needle="-9",
        retry=AFTER_MEMORY,
        weight=HINT,
        remedy="a process of the engine was killed (SIGKILL) and no line tells by whom: look for the kernel's OOM "
        "killer in dmesg",
    ),
    cause(
        "engine_died",
        r"CUDA error: an illegal (?:memory access|instruction)|device-side assert triggered|CUDA error: misaligned address",
        words="illegal assert misaligned",
        retry=SAME,
        weight=HINT,
        remedy="a kernel of the engine went wrong on the GPU: try another attention backend, no CUDA graphs "
        "(enforce-eager) or "
        "another image; CUDA_LAUNCH_BLOCKING=1 in engine.env names the kernel",
    ),
    cause(
        "engine_died",
        r"^CUDA error \([^()]{1,300}:\d{1,6}\): \S",
        needle="CUDA error (",
        retry=SAME,
        weight=HINT,
        remedy="a kernel of the engine's libraries (FlashAttention and its kin end the process by themselves) failed on the "
        "GPU: try another attention backend, of the draft too (speculative.attention_backend), or another image",
    ),
    cause(
        "engine_died",
        r"Failed core proc\(s\): \{[^}]{0,500}: -(?:11|6)\b|exit code:? -11\b|Segfault encountered|^Segmentation fault"
        r"|Fatal Python error: (?:Segmentation fault|Aborted)",
        words="core code Segfault Segmentation Fatal",
        retry=SAME,
        weight=HINT,
        remedy="a process of the engine crashed (a segmentation fault or abort, not a kill): a fault of the image, "
        "its libraries or "
        "the driver: try another image or attention backend",
    ),
    cause(
        "killed",
        r"^[\w.-]{1,80} exited with code 137\b",
        needle=" exited with code 137",
        retry=SAME,
        weight=CONSEQUENCE,
        remedy="the container was killed (SIGKILL) and no line tells by whom: the kernel's OOM killer would stand "
        "in dmesg; an "
        "operator or watchdog may be it too",
    ),
    cause(
        "engine_died",
        r"EngineDeadError|EngineCore encountered (?:an issue|a fatal error)|Scheduler hit an exception"
        r"|Engine core proc .{1,200}? died unexpectedly|Worker proc .{1,200}? died "
        r"unexpectedly"
        r"|Received sigquit from a child process|scheduler (?:is dead|died)|engine core exited unexpectedly",
        words="EngineDeadError EngineCore Scheduler unexpectedly sigquit scheduler",
        retry=SAME,
        weight=CONSEQUENCE,
        remedy="a process of the engine died, and no line tells why",
    ),
    cause(
        "unknown_engine_init",
        r"Engine core initialization failed|EngineCore failed to start|Engine process failed to start|WorkerProc "
        r"(?:failed to start"
        r"|initialization failed)|Initialization failed\. (?:Please see|warmup error)|Timed out waiting for engines to send",
        words="initialization Initialization start failed engines",
        weight=CONSEQUENCE,
        retry=SAME,
        remedy="the engine did not start, and no line tells why: its own memory limit and dmesg (OOM killer) are "
        "the next places to look",
    ),
)

WHILE_THE_DRAFT_LOADS = (
    cause(
        "draft_quant_mismatch",
        r"KeyError: '[\w.]{0,200}?layers\.[\w.]{1,200}'|size mismatch for|The size of tensor a|shape mismatch"
        r"|^AssertionError\b"
        r"|shapes cannot be multiplied",
        words="KeyError mismatch tensor AssertionError shapes",
        stage="load",
        weight=HINT,
        remedy="the draft's weights do not fit the layers that the engine built for it: set the draft's own "
        "quantization, or "
        "take an unquantised draft made for this target",
    ),
)
"""Errors that say something only while the draft's weights are read."""

CAUSES = Causes((*ARGUMENTS, *DRAFTS, *MEMORY, *HARDWARE, *PLACES, *GENERIC))
CAUSES_IN_DRAFT = Causes((*CAUSES.table, *WHILE_THE_DRAFT_LOADS))

REMEDIES_SGLANG = {
    "gpu_oom": "the accelerator's memory ran out: lower --mem-fraction-static (while graphs are captured also "
    "--cuda-graph-max-bs), --max-running-requests or the draft length, or use smaller weights",
}
"""Remedies in SGLang's own flags, by class."""

HARMLESS = (
    "min_p and logit_bias",
    "Retrying with a new port",
    "If out-of-memory error occurs during cudagraph capture",
    "NV_ERR_NO_MEMORY",
    "[Errno 24] Too many open files`. Consider",
    "using the V1 model runner instead",
    "If OOM'ed, check the difference",
)
"""Sentences of healthy boots that look like failures."""

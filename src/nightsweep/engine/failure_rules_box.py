"""Causes that lie outside the engine's settings: the box, its GPUs, its disks, its network, the files of the model.

Source:
    torch, transformers, huggingface_hub, NCCL, nvidia-container-toolkit, Docker, vLLM model_executor/models/registry.py.
"""

from __future__ import annotations

from nightsweep.engine.causes import HINT, Cause, cause
from nightsweep.plan.words import SAME

HARDWARE: tuple[Cause, ...] = (
    cause(
        "host_oom_killed",
        r"[Oo]ut of memory: Kill(?:ed)? process \d+ \((?P<who>[^)\n]{1,60})\)"
        r"|oom-kill:constraint=\w+,.{0,400}?task=(?P<task>[^,\n]{1,60})",
        words="Kill Killed oom",
        remedy="the kernel's OOM killer ended it ({who}{task}): the memory limit of container or box was reached: "
        "raise it, or "
        "ask for less",
    ),
    cause(
        "host_oom_killed",
        r"process of this unit has been killed by the OOM killer|Failed with result 'oom-kill'",
        words="OOM oom",
        remedy="the kernel's OOM killer ended it: the memory limit of service or box was reached: raise it, or ask for less",
    ),
    cause(
        "host_lost",
        r"fallen off the bus|Unable to determine the device handle|GPU is lost|GPU_IS_LOST|GPU requires reset",
        words="bus handle lost LOST reset",
        retry=SAME,
        remedy="the box lost its GPU: look into dmesg for NVRM Xid lines; it will need a reset or a reboot",
    ),
    cause(
        "gpu_arch_unsupported",
        r"no kernel image is available|device kernel image is invalid|Value '(?P<arch>sm_\w+)' is not defined"
        r"|This kernel only supports "
        r"(?P<only>sm\w+)"
        r"|No supported CUDA architectures found|provided PTX was compiled with an unsupported toolchain"
        r"|is not compatible with the current PyTorch installation|Unsupported gpu architecture '(?P<gpu>\w+)'"
        r"|is only supported on GPUs with compute capability",
        words="kernel sm kernels architectures PTX compatible architecture capability",
        remedy="this image has no kernels for this GPU: use an image that is built for it",
    ),
    cause(
        "gpu_arch_unsupported",
        r"quantization method \S+ is not supported for the current GPU\. Minimum capability: (?P<least>\d+)",
        needle="not supported for the current GPU",
        remedy="this GPU cannot do the model's quantisation (it needs compute capability {least}): use another "
        "checkpoint",
    ),
    cause(
        "image_arch_mismatch",
        r"exec format error|cannot execute binary file|Illegal instruction",
        words="exec cannot Illegal",
        stage="launch",
        remedy="the image is built for another processor: pull the one for this box (arm64 or amd64)",
    ),
    cause(
        "cuda_init_failed",
        r"unsatisfied condition: cuda ?>= ?(?P<least>\d+(?:\.\d+)?)",
        needle="unsatisfied condition: cuda",
        stage="launch",
        remedy="the image needs a driver for CUDA {least} or newer: update the box's NVIDIA driver, or take an "
        "image for an older "
        "CUDA",
    ),
    cause(
        "cuda_init_failed",
        r"NVIDIA driver on your system is too old \(found version (?P<found>\d+)|CUDA driver version is insufficient",
        words="NVIDIA insufficient",
        remedy="the box's NVIDIA driver is too old for this image: update the driver, or take an image for an older CUDA",
    ),
    cause(
        "cuda_init_failed",
        r"Found no NVIDIA driver|No CUDA GPUs are available|cudaGetDeviceCount\(\)"
        r"|CUDA unknown error|CUDA initialization"
        r"|Failed to infer device type|unsatisfied condition: cuda|nvidia-container-cli|could not select device driver"
        r"|CUDA error: (?:initialization error|system not yet initialized|invalid device ordinal)",
        words="NVIDIA CUDA cudaGetDeviceCount device unsatisfied nvidia",
        remedy="the engine gets no usable GPU: check driver, container.gpus and the NVIDIA Container Toolkit",
    ),
    cause(
        "shm_too_small",
        r"creating shared memory segment|No space left on device.{0,300}?(?:shm|semaphore)|\bBus error\b|unable to "
        r"(?:open|write) shared memory",
        words="shared shm semaphore Bus",
        remedy="/dev/shm is too small: set container.shm_size, or container.ipc: host",
    ),
    cause(
        "disk_full",
        r"\[Errno 28\] No space left on device|No space left on device \(os error 28\)",
        needle="No space left",
        weight=HINT,
        remedy="a disk (or /dev/shm) is full: make room",
    ),
    cause(
        "nccl_error",
        r"NCCL error|DistBackendError|unhandled (?:system|cuda) error \(run with NCCL_DEBUG",
        words="NCCL DistBackendError unhandled",
        retry=SAME,
        weight=HINT,
        remedy="the GPUs could not talk to each other: NCCL_DEBUG=INFO in engine.env tells why",
    ),
)

PLACES: tuple[Cause, ...] = (
    cause(
        "port_in_use",
        r"\[Errno (?:98|48|10048)\].{0,300}?[Aa]ddress already in use|error while attempting to bind on address|port is "
        r"already allocated"
        r"|Port is already in use|at \d+ is not available in \d+ seconds",
        words="address Address bind port Port available",
        retry=SAME,
        remedy="something else listens on the engine's port: stop it, or set engine.port to another one (0 takes a "
        "free one)",
    ),
    cause(
        "container_start_failed",
        r"[\w./-]\"?: executable file not found|exec: \"[^\"]{1,300}\".{0,300}?no such file|error mounting"
        r"|bind source path does not exist",
        words="executable exec mounting bind",
        stage="launch",
        remedy="the container could not start: check the image, its entry point, mounts and engine.command",
    ),
    cause(
        "container_start_failed",
        r"OCI runtime create failed|failed to create (?:task|shim)",
        words="OCI task shim",
        weight=HINT,
        stage="launch",
        remedy="the container could not start: check the image, its entry point, mounts and engine.command",
    ),
    cause(
        "port_in_use",
        r"server socket has failed to (?:bind|listen).{0,300}?(?:errno: (?:98|48)\b|EADDRINUSE|ddress already in use)",
        needle="server socket has failed",
        retry=SAME,
        remedy="something else listens on the port by which the engine's processes meet: stop it, or set MASTER_PORT or "
        "VLLM_PORT (SGLang: --nccl-port) to another one",
    ),
    cause(
        "image_missing",
        r"manifest (?:for \S+ )?(?:not found|unknown)|No such image|pull access denied"
        r"|repository does not exist or may require|is not here and could not be pulled",
        words="manifest image pull repository",
        stage="launch",
        remedy="the image is not here and cannot be pulled: check its name and tag, and the login to its registry",
    ),
    cause(
        "missing_package",
        r"^ModuleNotFoundError: No module named '(?P<what>[\w.]+)'",
        needle="No module named",
        weight=HINT,
        remedy="this image lacks the Python package {what}: use an image that has it",
    ),
    cause(
        "model_missing",
        r"Repo id must be in the form|Invalid repository ID or local directory specified|RepositoryNotFoundError"
        r"|is not a local folder and is not a valid model identifier|does not appear to have a file named config\.json"
        r"|RevisionNotFoundError|Entry Not Found for url",
        words="Repo repository RepositoryNotFoundError identifier config RevisionNotFoundError Entry",
        stage="config",
        remedy="the model (or draft) is not there: check the path as seen inside the container, its mount, or the "
        "repository's name",
    ),
    cause(
        "model_missing",
        r"couldn't connect to 'https?://[^']+' to load the files|LocalEntryNotFoundError|offline mode is enabled",
        words="connect LocalEntryNotFoundError offline",
        stage="config",
        remedy="the model is not in the cache and the hub cannot be reached: mount the cache, or allow the network",
    ),
    cause(
        "model_access_denied",
        r"GatedRepoError|You are trying to access a gated repo|Access to model .{1,200}? is restricted|401 Client Error|403 "
        r"Client Error",
        words="GatedRepoError gated restricted Client",
        stage="config",
        remedy="the hub refuses the model: give a token that may read it (engine.env: HF_TOKEN: {{from_env: "
        "HF_TOKEN}})",
    ),
    cause(
        "model_files_incomplete",
        r"ReasoningConfig: failed to tokenize reasoning strings|Cannot find any model weights "
        r"with|SafetensorError|MetadataIncompleteBuffer"
        r"|Following weights were not initialized from checkpoint|There is no module or parameter named"
        r"|Can't load tokenizer|Error no file named",
        words="ReasoningConfig weights SafetensorError MetadataIncompleteBuffer module tokenizer file",
        stage="load",
        remedy="the model's files are incomplete or of another model: fetch them again (tokenizer files too), check "
        "the draft's path",
    ),
    cause(
        "draft_arch_unsupported",
        r"SpeculativeConfig .{0,400}?Model architectures \[(?P<what>[^\]]{0,300})\] (?:are not supported"
        r"|failed to be inspected)"
        r"|Model architectures \[(?P<draft>[^\]]{0,200}?(?:DFlash|DSpark|Eagle|MTP|Draft|Medusa)[^\]]{0,200})\] (?:are not "
        r"supported|failed)",
        needle="Model architectures ",
        stage="config",
        remedy="this release does not know the draft's architecture {what}{draft}: use a newer image, or a draft "
        "made for this method",
    ),
    cause(
        "model_arch_unsupported",
        r"model type `(?P<what>[^`]*)` but Transformers does not recognize this architecture",
        needle="does not recognize this",
        stage="config",
        remedy="this image's transformers does not know the model type {what}: use a newer image, or another checkpoint",
    ),
    cause(
        "model_arch_unsupported",
        r"Model architectures \[(?P<what>[^\]]{0,300})\] (?:are not supported|failed to be inspected)",
        needle="Model architectures ",
        stage="config",
        remedy="this release does not know the architecture {what}: use a newer image, or another checkpoint",
    ),
)

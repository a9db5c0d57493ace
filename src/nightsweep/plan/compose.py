"""Writes a sweep file from what a container says of itself, so that nobody retypes a production command."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from nightsweep.plan.commandline import Served, read_command
from nightsweep.plan.feasible import LENGTHS, SEATS, whole
from nightsweep.plan.mistakes import looks_like_token, looks_secret
from nightsweep.plan.model import ContainerSpec, EnvValue, SamplingSpec, SecretRef

# Variables that images set for themselves; a container's variables and its image's come in one list.
_IMAGE_ENV = re.compile(
    r"(PATH|LD_LIBRARY_PATH|LIBRARY_PATH|HOME|HOSTNAME|PWD|SHLVL|TERM|TZ|LANG|LC_\w+|DEBIAN_FRONTEND|container|"
    r"(NV|CUDA|CUDNN|CUBLAS|NPP|NSIGHT|NVIDIA|NVJPEG|OPENMPI|OPENUCX|UCC|HPCX|TRT|TENSORRT|DALI|RDMACORE|MOFED|GDRCOPY|"
    r"POLYGRAPHY|TRANSFORMER_ENGINE|MODEL_OPT|COCOAPI|PYTORCH|PYTHON|UV|PIP|GPG|BASH|JUPYTER|RAPIDS|"
    r"NVM|TRITON_\w+_PATH)_\w+|NCCL_VERSION|VLLM_USAGE_SOURCE|VLLM_BUILD_\w+|_CUDA_COMPAT_\w+|USE_EXPERIMENTAL_\w+|"
    r"TORCH_CUDA_ARCH_LIST|TORCH_ALLOW_TF32_\w+|ROCM_PATH|PYTHON\w*|GPG_KEY)"
)
_KEPT_ENV = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"})
_IMAGE_WORKDIRS = ("/vllm-workspace", "/sgl-workspace", "/sgl-workspace/sglang", "/workspace", "/app")
_ANONYMOUS_VOLUME = re.compile(r"[0-9a-f]{64}:")
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*")
_NOT_PLAIN = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_STREAMS = (1, 2, 4, 8, 16)
_PROMPTS = (12000, 1000, 250, 50)


def sweep_file_text(
    *,
    container_name: str,
    image: str,
    entrypoint: Sequence[str],
    command: Sequence[str],
    env: Mapping[str, EnvValue] | None = None,
    container: ContainerSpec | None = None,
    ports: Mapping[int, int] | None = None,
    restart_policy: str = "no",
    name: str | None = None,
) -> str:
    """Return a sweep file for the engine that a container runs: as it runs now, without speculation, and a grid to uncomment.

    Args:
        env: The container's variables; secrets as `SecretRef`. A value that looks secret is made one here as well.
        ports: Container port -> host port.
        restart_policy: As Docker names it; told in a comment, for the sweep's own engines have none.
        name: The sweep's name; None makes one from the container's.

    Raises:
        InvalidPlan: No vLLM or SGLang can be seen in the container's command.
    """
    known = dict(env or {})
    plain = {key: value for key, value in known.items() if isinstance(value, str) and not _secret(key, value)}
    served = read_command(entrypoint=entrypoint, command=command, env=plain, image=image)
    kept = {**_environment(known), **_environment(served.env), **{key: SecretRef(key) for key in served.secrets}}
    lines = [
        f"# Written from the container {container_name}"
        + (f" (restart policy {restart_policy})." if restart_policy else "."),
        "# Check it, then: nightsweep plan THIS_FILE",
        *(f"# note: {note}" for note in served.notes),
        f"name: {_flow(name or f'{container_name}-sweep')}",
        f"production: {{container: {_flow(container_name)}}}  # stopped for the sweep, never removed; started again",
        *_engine_lines(served, image=image, env=kept, container=container or ContainerSpec(), ports=ports or {}),
        *_config_lines(served),
        *_probe_lines(served),
        'schedule: {cron: "30 22 * * *", timezone: UTC, until: "07:00"}  # set your own time zone',
    ]
    return "\n".join(lines) + "\n"


def _environment(env: Mapping[str, EnvValue]) -> dict[str, EnvValue]:
    out: dict[str, EnvValue] = {}
    for name, value in env.items():
        if name not in _KEPT_ENV and _IMAGE_ENV.fullmatch(name):
            continue
        out[name] = SecretRef(name) if isinstance(value, SecretRef) or _secret(name, value) else value
    return out


def _secret(name: str, value: str) -> bool:
    switch = value.lower() in ("", "0", "1", "true", "false")
    return (looks_secret(name) and not switch) or looks_like_token(value)


def _engine_lines(
    served: Served, *, image: str, env: Mapping[str, EnvValue], container: ContainerSpec, ports: Mapping[int, int]
) -> list[str]:
    lines = ["engine:", f"  kind: {served.kind}", "  host: docker", f"  image: {_flow(image)}"]
    lines.append(f"  model: {_flow(served.model)}")
    if served.model_revision:
        lines.append(f"  model_revision: {_flow(served.model_revision)}")
    lines.append(f"  served_name: {_flow(served.served_name or served.model)}")
    if served.prefix:
        lines.append(f"  command: {_flow(list(served.prefix))}")
    lines += _block("args", served.args)
    lines += _block("env", {name: _env_value(value) for name, value in env.items()})
    lines += _block("container", _container(container, entrypoint=served.entrypoint))
    lines.append(f"  port: {_port(served, ports=ports)}")
    lines.append("  boot_timeout: 20m")
    return lines


def _env_value(value: EnvValue) -> Any:
    return {"from_env": value.from_env} if isinstance(value, SecretRef) else value


def _port(served: Served, *, ports: Mapping[int, int]) -> int:
    inside = served.port or (30000 if served.kind == "sglang" else 8000)
    return ports.get(inside) or next(iter(ports.values()), None) or inside


def _container(container: ContainerSpec, *, entrypoint: tuple[str, ...] | None) -> dict[str, Any]:
    unset = ContainerSpec()
    out: dict[str, Any] = {}
    for one in fields(container):
        value = getattr(container, one.name)
        if value != getattr(unset, one.name) and one.name not in ("init", "entrypoint"):
            out[one.name] = list(value) if isinstance(value, tuple) else value
    if out.get("workdir") in _IMAGE_WORKDIRS:
        del out["workdir"]
    out["volumes"] = [volume for volume in container.volumes if not _ANONYMOUS_VOLUME.match(volume)]
    if entrypoint is not None:
        out["entrypoint"] = list(entrypoint)
    for key in ("shm_size", "memory"):
        if key in out:
            out[key] = _size(out[key])
    return {key: value for key, value in out.items() if value != []}


def _size(count: int) -> int | str:
    for unit, factor in (("G", 1024**3), ("M", 1024**2)):
        if count % factor == 0:
            return f"{count // factor}{unit}"
    return count


def _config_lines(served: Served) -> list[str]:
    lines = ["configs:"]
    if served.speculative:
        lines += [
            "  - name: as it runs now",
            f"    speculative: {_flow(served.speculative)}",
            "  - name: no speculation",
        ]
    else:
        lines.append("  - name: as it runs now")
    method, length = (
        ("algorithm", "num_draft_tokens") if served.kind == "sglang" else ("method", "num_speculative_tokens")
    )
    grid = {key: value for key, value in served.speculative.items() if key != length} or {method: "ngram"}
    if served.kind == "sglang" and not served.speculative:
        grid = {method: "NGRAM"}
    now = served.speculative.get(length)
    lengths = sorted({value for value in (2, 3, 4, 5, now) if isinstance(value, int) and value != now})
    return [
        *lines,
        "  # A grid asks every combination; effects interact. Uncomment and edit:",
        f'  # - name: "{grid.get(method, "speculative")} k={{{length}}}"',
        f"  #   speculative: {_flow(grid)}",
        f"  #   grid: {{{length}: {lengths}}}",
    ]


def _probe_lines(served: Served) -> list[str]:
    limit = whole(served.args.get(SEATS[served.kind]))
    length = whole(served.args.get(LENGTHS[served.kind]))
    most = limit or _STREAMS[-1]
    prompt = next((tokens for tokens in _PROMPTS if length is None or tokens < length), 1)
    lines = [
        "probe:",
        "  prompts: code  # code | prose | tools | random-ids, or a JSONL file",
        f"  concurrency: {[streams for streams in _STREAMS if streams <= most]}",
        "  temperature: [0.7, 1.0]",
        "  window: 40s",
        "  repeats: 3",
        f"  prefill: {{tokens: {prompt}, repeats: 3}}",
    ]
    if length is not None and length < 4 * SamplingSpec.max_tokens:  # room for the prompts, too
        lines.append(f"  sampling: {{max_tokens: {max(length // 4, 1)}}}  # the context holds {length:,} tokens")
    return lines


def _block(key: str, values: Mapping[str, Any]) -> list[str]:
    if not values:
        return []
    return [f"  {key}:", *(f"    {_flow(name)}: {_flow(value)}" for name, value in values.items())]


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style; texts are quoted unless they can be nothing else."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(str(key))}: {_flow(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(member) for member in value) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
        return value
    return json.dumps(value, ensure_ascii=False)

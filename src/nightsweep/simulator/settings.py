"""The command line: vLLM's own arguments as far as they matter here, and the simulator's.

An argument that vLLM does not know ends with vLLM's text on stderr and exit code 2, before any log line.
Source: argparse failures of `vllm serve` 0.32.0.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from nightsweep.simulator.faults import Fault, UnknownFault, catalogue, parse_fault
from nightsweep.simulator.profile import ProfileError, load_profile, profile_names

_TAKEN = (  # arguments of vLLM that are accepted and change nothing here
    "--dtype", "--quantization", "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size",
    "--kv-cache-dtype", "--tokenizer", "--tokenizer-mode", "--revision", "--code-revision", "--tokenizer-revision",
    "--seed", "--generation-config", "--override-generation-config", "--tool-call-parser", "--reasoning-parser",
    "--block-size", "--attention-backend", "--limit-mm-per-prompt", "--chat-template", "--download-dir", "--load-format",
    "--swap-space", "--max-log-len", "--uvicorn-log-level", "--root-path", "--compilation-config", "--hf-overrides",
    "--mamba-ssm-cache-dtype", "--chat-template-content-format", "--max-num-partial-prefills", "--cpu-offload-gb",
    "--long-prefill-token-threshold", "--scheduling-policy", "--distributed-executor-backend", "--config-format",
    "--default-chat-template-kwargs", "--mm-processor-kwargs", "--allowed-local-media-path", "--additional-config",
)  # fmt: skip
_TAKEN_FLAGS = (
    "--trust-remote-code", "--enforce-eager", "--enable-auto-tool-choice", "--disable-log-requests",
    "--enable-log-requests", "--no-enable-log-requests", "--enable-chunked-prefill", "--no-enable-chunked-prefill",
    "--async-scheduling", "--no-async-scheduling", "--enable-sleep-mode", "--language-model-only", "--enable-mfu-metrics",
    "--disable-uvicorn-access-log", "--disable-custom-all-reduce", "--enable-expert-parallel", "--skip-mm-profiling",
)  # fmt: skip
_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_USAGE = (
    "usage: vllm [-h] [-v]\n"
    "            {chat,complete,serve,launch,bench,collect-env,run-batch}\n"
    "            ...\n"
)  # fmt: skip


@dataclass(frozen=True)
class SimSettings:
    """One start of the simulator.

    Attributes:
        speed: Simulated seconds that pass in a real one, while serving.
        boot_speed: The same for the boot.
        seed: Of content: how hard each prompt is to draft for, how long its answer is.
        luck: Seed of the draws at each step; None lets every boot have its own.
        journal: Whether every step and event is noted, to be asked for at /sim/journal.
        non_default: Arguments as given, for the log.
    """

    model: str
    served_names: tuple[str, ...]
    host: str
    port: int
    max_model_len: int | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    kv_cache_memory_bytes: int | None
    gpu_memory_utilization: float
    prefix_caching: bool
    prompt_details: bool
    log_stats: bool
    api_key: str | None
    speculative: dict[str, Any] | None
    profile: str
    speed: float
    boot_speed: float
    seed: int
    luck: int | None
    journal: bool
    faults: tuple[Fault, ...]
    non_default: dict[str, Any]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"usage: {self.prog} [model_tag] [options]\n{self.prog}: error: {message}\n")
        raise SystemExit(2)


def read_settings(arguments: Sequence[str]) -> SimSettings:
    """Return the settings of a command line; ends the process with code 2 where vLLM would."""
    given = list(arguments[1:] if arguments[:1] == ["serve"] else arguments)
    parser = _parser()
    values, unknown = parser.parse_known_args(given)
    if unknown:
        refuse_arguments(unknown)
    model = values.model_tag or values.model or "simulated-model"
    names = tuple(values.served_model_name or (model,))
    return SimSettings(
        model=model,
        served_names=names,
        host=values.host,
        port=values.port,
        max_model_len=values.max_model_len,
        max_num_seqs=values.max_num_seqs,
        max_num_batched_tokens=values.max_num_batched_tokens,
        kv_cache_memory_bytes=values.kv_cache_memory_bytes,
        gpu_memory_utilization=values.gpu_memory_utilization,
        prefix_caching=values.enable_prefix_caching,
        prompt_details=values.enable_prompt_tokens_details,
        log_stats=not values.disable_log_stats,
        api_key=values.api_key,
        speculative=values.speculative_config,
        profile=values.sim_profile,
        speed=values.sim_speed,
        boot_speed=values.sim_boot_speed or values.sim_speed,
        seed=values.sim_seed,
        luck=values.sim_luck,
        journal=values.sim_journal,
        faults=tuple(fault for group in values.sim_fault for fault in group),
        non_default=_non_default(parser, values, model, names),
    )


def refuse_arguments(unknown: Sequence[str]) -> NoReturn:
    """End as vLLM does for arguments that it does not know."""
    sys.stderr.write(f"{_USAGE}vllm: error: unrecognized arguments: {' '.join(unknown)}\n")
    raise SystemExit(2)


def _non_default(
    parser: argparse.ArgumentParser, values: argparse.Namespace, model: str, names: tuple[str, ...]
) -> dict[str, Any]:
    plain = {
        key: value
        for key, value in vars(values).items()
        if value != parser.get_default(key) and not key.startswith("sim_") and key != "api_key"
    }
    plain["model"] = model
    if names != (model,):
        plain["served_model_name"] = list(names)
    return plain


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="vllm serve",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Nightsweep's simulated engine: an OpenAI-compatible server shaped like vLLM. "
        "Nothing measured on it is a real engine's number.",
        epilog=catalogue() + "\n\nAFTER and SECONDS are real seconds; AFTER counts from the first generation request.",
    )
    parser.add_argument("model_tag", nargs="?", help="the model to pretend to serve")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--max-model-len", type=human_int)
    parser.add_argument("--max-num-seqs", type=int)
    parser.add_argument("--max-num-batched-tokens", type=human_int)
    parser.add_argument("--kv-cache-memory-bytes", "--kv-cache-memory", type=human_int)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.92)
    parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--enable-prompt-tokens-details", action="store_true")
    parser.add_argument("--disable-log-stats", action="store_true")
    parser.add_argument("--api-key", default=os.environ.get("VLLM_API_KEY"))  # as vLLM takes it
    parser.add_argument("--speculative-config", "-sc", type=_json_object)
    for name in _TAKEN:
        parser.add_argument(name, default=None, help=argparse.SUPPRESS)
    for name in _TAKEN_FLAGS:
        parser.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    _add_own(parser.add_argument_group("the simulator's own"))
    return parser


def _add_own(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sim-profile",
        default="gb10",
        type=_profile_name,
        metavar="NAME",
        help=f"the box: {', '.join(profile_names())}, or a .json file (default gb10)",
    )
    group.add_argument("--sim-speed", type=_positive, default=1.0, help="simulated seconds in a real one (default 1)")
    group.add_argument("--sim-boot-speed", type=_positive, help="the same for the boot (default: as --sim-speed)")
    group.add_argument("--sim-seed", type=int, default=0, help="seed of what hangs on a prompt's content (default 0)")
    group.add_argument("--sim-luck", type=int, help="seed of the draws at each step (default: every boot its own)")
    group.add_argument("--sim-journal", action="store_true", help="note every step and event, for GET /sim/journal")
    group.add_argument(
        "--sim-fault",
        action="append",
        nargs="+",
        type=_fault,
        default=[],
        metavar="NAME[:ARGS]",
        help="a fault, repeatable; see below",
    )


def human_int(text: str) -> int:
    """Return a number such as 32768, 32k (thousand) or 36G (2**30), as vLLM reads it."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])?", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"Argument type must be an integer or a number with a suffix, found {text!r}")
    return int(float(match[1]) * _FACTORS[match[2]]) if match[2] else int(float(match[1]))


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"Value {text} cannot be converted to <function loads at 0x7f8fd9699080>."
        ) from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to <function loads at 0x7f8fd9699080>.")
    return value


def _positive(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, found {text}")
    return value


def _profile_name(text: str) -> str:
    try:
        load_profile(text)
    except ProfileError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _fault(text: str) -> Fault:
    try:
        return parse_fault(text)
    except UnknownFault as error:
        raise argparse.ArgumentTypeError(str(error)) from None

"""SGLang: command line, readiness, log, counters, identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightsweep.engine import applied, failures, identity, speculative_sglang
from nightsweep.engine.bootlog import Reader
from nightsweep.engine.bootlog_sglang import SglangLog
from nightsweep.engine.dialects import sglang_dialect
from nightsweep.engine.flags import canonical, tokens
from nightsweep.engine.values import (
    Applied,
    BootFacts,
    BootFailure,
    Dialect,
    FailureEvidence,
    Readiness,
    ServedIdentity,
)
from nightsweep.plan.model import EngineConfig
from nightsweep.units import Seconds

_OURS = ("model", "model-path", "served-model-name", "host", "port")
LAUNCH = ("python3", "-m", "sglang.launch_server")


class SglangEngine:
    """What is known of SGLang; see `ports.Engine`."""

    kind = "sglang"

    def command(self, config: EngineConfig, *, listen_host: str, port: int) -> tuple[str, ...]:
        """Return the command line of a config; `--enable-metrics` is added, because without it no counter can be read.

        Source:
            SGLang `sglang.launch_server`; its official image has no entry point that serves.
        """
        spec = config.engine
        prefix = spec.command
        if not prefix and not (spec.host == "docker" and spec.container.entrypoint):
            prefix = LAUNCH
        named = {canonical(name) for name in spec.args}
        revision: tuple[str, ...] = ()
        if spec.model_revision is not None and "revision" not in named:
            revision = ("--revision", spec.model_revision)
        metrics = () if "enable-metrics" in named else ("--enable-metrics",)
        return (
            *prefix,
            "--model-path",
            spec.model,
            "--served-model-name",
            spec.served_name,
            "--host",
            listen_host,
            "--port",
            str(port),
            *revision,
            *metrics,
            *tokens(spec.args, negate=False, without=_OURS),
            *speculative_sglang.flags(config.speculative),
        )

    def warnings(self, config: EngineConfig) -> tuple[str, ...]:
        """Return what a user should know before trying this config."""
        return speculative_sglang.warnings(config)

    def readiness(self) -> Readiness:
        """Return how to tell that SGLang is ready.

        `/health` answers 503 while it starts and generates a token when asked, so it is asked less often than vLLM's.
        """
        return Readiness(path="/health", poll=_HEALTH_POLL)

    def log_reader(self) -> Reader:
        """Return a fresh reader for one boot's log."""
        return Reader(SglangLog())

    def classify(self, evidence: FailureEvidence) -> BootFailure:
        """Return why a boot failed."""
        return failures.classify(evidence, kind=self.kind)

    def dialect(self, version: str | None) -> Dialect:
        """Return where this version keeps its counters."""
        return sglang_dialect(version)

    def identity_paths(self) -> Mapping[str, str]:
        """Return the paths to ask for identity; the older and the newer name of the same answer are both asked."""
        return {"models": "/v1/models", "server_info": "/server_info", "get_server_info": "/get_server_info"}

    def identity(self, answers: Mapping[str, Any]) -> ServedIdentity:
        """Return the identity told by the JSON answers of `identity_paths`."""
        names, longest, first = identity.served_models(answers.get("models"))
        told = answers.get("server_info") or answers.get("get_server_info")
        info: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        version = info.get("version") if isinstance(info.get("version"), str) else None
        if longest is None and isinstance(info.get("context_length"), int):
            longest = info["context_length"]
        return ServedIdentity(
            served_names=names,
            version=version,
            max_model_len=longest,
            simulated=identity.says_simulated(version, info, first),
            process_start=identity.process_start(answers),
            extra={key: value for key, value in info.items() if _worth_keeping(key, value)},
        )

    def identity_problem(self, config: EngineConfig, served: ServedIdentity, facts: BootFacts) -> str | None:
        """Return why what answers is not this config as booted; None when all agrees."""
        return identity.problem(config, served, facts, length_names=("context-length",))

    def proof(
        self, config: EngineConfig, facts: BootFacts, served: ServedIdentity, *, page: str, answers: Mapping[str, Any]
    ) -> Applied:
        """Return what of the config was not applied as asked, and what else the engine tells of itself once it is ready."""
        return applied.proof(config, facts, served, page=page, answers=answers)


def _worth_keeping(key: str, value: Any) -> bool:
    """Whether an answer's field tells what was applied: speculative settings and the model, never a key or token."""
    if not isinstance(value, str | int | float | bool):
        return False
    return key.startswith("speculative_") or key in ("model_path", "attention_backend", "max_total_num_tokens")


_HEALTH_POLL = Seconds(1.0)

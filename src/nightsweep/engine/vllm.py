"""vLLM: command line, readiness, log, counters, identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nightsweep.engine import applied, failures, identity, speculative_vllm
from nightsweep.engine.bootlog import Reader
from nightsweep.engine.bootlog_vllm import VllmLog
from nightsweep.engine.dialects import vllm_dialect
from nightsweep.engine.flags import canonical, compact_json, tokens
from nightsweep.engine.values import (
    Applied,
    BootFacts,
    BootFailure,
    Dialect,
    FailureEvidence,
    Readiness,
    ServedIdentity,
)
from nightsweep.engine.versions import image_version
from nightsweep.plan.model import EngineConfig, EngineSpec

_OURS = ("model", "served-model-name", "host", "port")
_POSITIONAL_SINCE = (0, 10, 0)


class VllmEngine:
    """What is known of vLLM; see `ports.Engine`."""

    kind = "vllm"

    def command(self, config: EngineConfig, *, listen_host: str, port: int) -> tuple[str, ...]:
        """Return the command line of a config.

        Source:
            vLLM `vllm serve`; `--speculative-config` takes JSON.
        """
        spec = config.engine
        ours = (*_OURS, *(("speculative-config",) if config.speculative is not None else ()))
        revision: tuple[str, ...] = ()
        if spec.model_revision is not None and "revision" not in {canonical(name) for name in spec.args}:
            revision = ("--revision", spec.model_revision)
        speculative: tuple[str, ...] = ()
        if config.speculative is not None:
            speculative = ("--speculative-config", compact_json(config.speculative))
        return (
            *spec.command,
            *_model(spec),
            "--served-model-name",
            spec.served_name,
            "--host",
            listen_host,
            "--port",
            str(port),
            *revision,
            *tokens(spec.args, negate=True, without=ours),
            *speculative,
        )

    def warnings(self, config: EngineConfig) -> tuple[str, ...]:
        """Return what a user should know before trying this config."""
        return speculative_vllm.warnings(config)

    def readiness(self) -> Readiness:
        """Return how to tell that vLLM is ready: it refuses connections until everything, warm-up included, is done."""
        return Readiness(path="/health")

    def log_reader(self) -> Reader:
        """Return a fresh reader for one boot's log."""
        return Reader(VllmLog())

    def classify(self, evidence: FailureEvidence) -> BootFailure:
        """Return why a boot failed."""
        return failures.classify(evidence, kind=self.kind)

    def dialect(self, version: str | None) -> Dialect:
        """Return where this version keeps its counters."""
        return vllm_dialect(version)

    def identity_paths(self) -> Mapping[str, str]:
        """Return the paths to ask for identity."""
        return {"models": "/v1/models", "version": "/version"}

    def identity(self, answers: Mapping[str, Any]) -> ServedIdentity:
        """Return the identity told by the JSON answers of `identity_paths`."""
        names, longest, first = identity.served_models(answers.get("models"))
        told = answers.get("version")
        version = told.get("version") if isinstance(told, Mapping) else None
        version = version if isinstance(version, str) else None
        return ServedIdentity(
            served_names=names,
            version=version,
            max_model_len=longest,
            simulated=identity.says_simulated(version, told, first),
            process_start=identity.process_start(answers),
            extra={key: first[key] for key in ("root", "owned_by") if isinstance(first.get(key), str)},
        )

    def identity_problem(self, config: EngineConfig, served: ServedIdentity, facts: BootFacts) -> str | None:
        """Return why what answers is not this config as booted; None when all agrees."""
        return identity.problem(config, served, facts, length_names=("max-model-len",))

    def proof(
        self, config: EngineConfig, facts: BootFacts, served: ServedIdentity, *, page: str, answers: Mapping[str, Any]
    ) -> Applied:
        """Return what of the config was not applied as asked, and what else the engine tells of itself once it is ready."""
        return applied.proof(config, facts, served, page=page, answers=answers)


def _model(spec: EngineSpec) -> tuple[str, ...]:
    """Return how this start takes its model: `vllm serve MODEL`, or `--model MODEL` for the API server's own module.

    The official image started that module until `vllm serve` took its place; old releases of it know no positional model.
    """
    version = image_version(spec.image)
    module = any("api_server" in word for word in spec.command)
    old_image = spec.host == "docker" and not spec.command and version is not None and version < _POSITIONAL_SINCE
    if module or (old_image and spec.container.entrypoint is None):
        return ("--model", spec.model)
    return (spec.model,)

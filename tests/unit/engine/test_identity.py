"""What answers must be what was booted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.engine.identity import tokens_of
from nightsweep.engine.registry import engine_for
from nightsweep.engine.values import BootFacts, ServedIdentity
from nightsweep.plan.model import EngineConfig, EngineSpec

MODELS = {"data": [{"id": "m", "max_model_len": 8192, "root": "org/m"}]}
CONFIG = EngineConfig(
    name="c",
    engine=EngineSpec(kind="vllm", host="docker", model="org/m", served_name="m", args={"max-model-len": 8192}),
    speculative=None,
    document={},
    fingerprint="f" * 64,
)
SERVED = ServedIdentity(served_names=("m",), version="0.28.0", max_model_len=8192)


def problem(identity: ServedIdentity, *, logged: str | None = "0.28.0", **spec: Any) -> str | None:
    config = replace(CONFIG, engine=replace(CONFIG.engine, **spec))
    return engine_for("vllm").identity_problem(config, identity, BootFacts(engine_version=logged))


def test_a_vllm_engine_tells_name_version_context_and_start() -> None:
    answers = {"models": MODELS, "version": {"version": "0.32.0+cpu"}, "metrics": {"process_start": 1795968965.65}}
    identity = engine_for("vllm").identity(answers)
    assert identity == ServedIdentity(("m",), "0.32.0+cpu", 8192, False, 1795968965.65, {"root": "org/m"})


def test_a_sglang_engine_tells_its_version_by_either_path_and_no_secret() -> None:
    info = {"version": "0.5.23", "context_length": 4096, "api_key": "s3cret", "speculative_num_draft_tokens": 8}
    for path in ("server_info", "get_server_info"):
        identity = engine_for("sglang").identity({"models": {"data": [{"id": "m"}]}, path: info})
        assert (identity.version, identity.max_model_len) == ("0.5.23", 4096)
        assert identity.extra == {"speculative_num_draft_tokens": 8}


@pytest.mark.parametrize(
    "answers", [{}, {"models": None}, {"models": {"data": "x"}, "version": 3}, {"models": {"data": [{}]}}]
)
def test_answers_of_any_shape_are_no_error(answers: dict[str, Any]) -> None:
    for kind in ("vllm", "sglang"):
        assert engine_for(kind).identity(answers).version is None


def test_what_agrees_is_no_problem() -> None:
    assert problem(SERVED) is None
    assert problem(replace(SERVED, version="0.28.0+cpu")) is None
    assert problem(SERVED, logged=None) is None
    assert problem(SERVED, logged="0.28.0+cpu") is None


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        (replace(SERVED, served_names=("other",)), "it serves other, not m"),
        (replace(SERVED, served_names=()), "no served model"),
        (replace(SERVED, version="0.27.1"), "the boot log says 0.28.0"),
        (replace(SERVED, max_model_len=4096), "only 4,096 tokens, but 8,192 were asked for"),
        (replace(SERVED, simulated=True), "set engine.simulated: true"),
    ],
)
def test_what_does_not_agree_is_told(identity: ServedIdentity, told: str) -> None:
    assert told in (problem(identity) or "")


def test_a_real_engine_under_a_simulated_config_is_a_problem_too() -> None:
    assert "does not say that it is simulated" in (problem(SERVED, simulated=True) or "")
    assert problem(replace(SERVED, simulated=True), simulated=True) is None


def test_a_simulated_engine_says_so_in_its_version() -> None:
    told = engine_for("vllm").identity({"models": MODELS, "version": {"version": "0.28.0+simulated"}})
    assert told.simulated


@pytest.mark.parametrize(
    ("value", "tokens"),
    [(8192, 8192), ("8192", 8192), ("256k", 256000), ("256K", 262144), ("auto", None), (-1, None), (True, None)],
)
def test_a_configured_length_is_read_as_the_engine_reads_it(value: Any, tokens: int | None) -> None:
    assert tokens_of(value) == tokens

"""`nightsweep new` writes a sweep file from a container that it only looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nightsweep.cli.new import Access, command
from nightsweep.errors import ContainerMissing, NotAnEngine
from nightsweep.plan.model import ContainerSpec, SecretRef
from nightsweep.plan.sweepfile import load
from nightsweep.ports import ForeignContainer, Secret


def a_container(**changes: Any) -> ForeignContainer:
    facts: dict[str, Any] = {
        "name": "vllm-qwen",
        "id": "f" * 64,
        "running": True,
        "image": "vllm/vllm-openai:v0.28.0",
        "image_digest": "sha256:" + "a" * 64,
        "command": ("org/m", "--max-model-len", "8192", "--port", "8000"),
        "entrypoint": ("vllm", "serve"),
        "env_names": ("HF_TOKEN", "PATH"),
        "ports": {8000: 8080},
        "container": ContainerSpec(gpus="all", ipc="host", volumes=("/srv/hf:/root/.cache/huggingface",)),
        "restart_policy": "unless-stopped",
        "env": {"HF_TOKEN": Secret("hf_AbCdEfGhIjKlMnOp"), "PATH": "/usr/bin"},
    }
    return ForeignContainer(**{**facts, **changes})


def call(*words: str, found: ForeignContainer | None = None) -> Result:
    def foreign(name: str) -> ForeignContainer:
        if found is None or name != found.name:
            raise ContainerMissing(name=name)
        return found

    return CliRunner().invoke(command, list(words), obj=Access(foreign=foreign))


def test_the_file_is_written_to_standard_output_and_loads() -> None:
    result = call("--from-container", "vllm-qwen", found=a_container())

    assert result.exit_code == 0, result.output
    plan = load(result.stdout)
    engine = plan.configs[0].engine
    assert plan.name == "vllm-qwen-sweep"
    assert plan.production is not None
    assert plan.production.container == "vllm-qwen"
    assert (engine.image, engine.model, engine.port) == ("vllm/vllm-openai:v0.28.0", "org/m", 8080)
    assert engine.env == {"HF_TOKEN": SecretRef("HF_TOKEN")}
    assert engine.container.volumes == ("/srv/hf:/root/.cache/huggingface",)
    assert "hf_AbC" not in result.output


def test_a_file_is_written_and_the_next_step_said(tmp_path: Path) -> None:
    output = tmp_path / "sweep.yaml"

    result = call("--from-container", "vllm-qwen", "-o", str(output), "--name", "mine", found=a_container())

    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"next: nightsweep plan {output}" in result.stderr
    assert load(output.read_text(encoding="utf-8")).name == "mine"


def test_a_file_that_is_there_is_not_overwritten_unasked(tmp_path: Path) -> None:
    output = tmp_path / "sweep.yaml"
    output.write_text("mine", encoding="utf-8")

    refused = call("--from-container", "vllm-qwen", "-o", str(output), found=a_container())
    kept = output.read_text(encoding="utf-8")
    forced = call("--from-container", "vllm-qwen", "-o", str(output), "--force", found=a_container())

    assert (refused.exit_code, kept, forced.exit_code) == (2, "mine", 0)
    assert "--force overwrites it" in refused.stderr


def test_a_container_without_an_engine_is_refused_by_its_name() -> None:
    result = call(
        "--from-container", "web", found=a_container(name="web", image="nginx", entrypoint=(), command=("nginx",))
    )

    assert isinstance(result.exception, NotAnEngine)
    assert "container web runs no engine" in str(result.exception)


def test_a_container_that_is_not_there_is_an_error_of_the_host() -> None:
    assert isinstance(call("--from-container", "nobody").exception, ContainerMissing)


def test_the_container_must_be_named() -> None:
    result = call()

    assert result.exit_code == 2
    assert "--from-container" in result.stderr


@pytest.mark.parametrize("words", [["--help"]])
def test_help_shows_an_example(words: list[str]) -> None:
    assert "nightsweep new --from-container vllm-qwen -o sweep.yaml" in call(*words).stdout

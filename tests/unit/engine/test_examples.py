"""Every lever is in an example that plans without a warning; every version guard warns below its release and not at it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nightsweep.cli.plan import command
from nightsweep.engine import speculative_sglang, speculative_vllm
from nightsweep.engine.registry import engine_for
from nightsweep.engine.speculative import Span
from nightsweep.engine.versions import Version, release
from tests.unit.engine.test_commands import a_config

EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))


def planned(path: Path) -> dict[str, Any]:
    done = CliRunner().invoke(command, [str(path), "--json", "--no-history"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


PLANS = {path.name: planned(path) for path in FILES}
CONFIGS = [config for plan in PLANS.values() if not plan["simulated"] for config in plan["configs"]]


def with_settings(kind: str, **wanted: Any) -> list[dict[str, Any]]:
    """Configs of an engine whose speculative settings hold these."""
    return [
        config
        for config in CONFIGS
        if config["kind"] == kind and wanted.items() <= (config["speculative"] or {}).items()
    ]


@pytest.mark.parametrize("name", PLANS)
def test_an_example_plans_without_a_warning(name: str) -> None:
    assert PLANS[name]["warnings"] == []
    assert PLANS[name]["windows"] > 0


def test_the_list_of_examples_is_whole() -> None:
    listed = re.findall(r"^\| \[([\w.-]+)\]\(\1\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == [path.name for path in FILES]


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_no_speculation_is_among_the_configs_of_both_engines(kind: str) -> None:
    assert any(config["kind"] == kind and config["speculative"] is None for config in CONFIGS)


@pytest.mark.parametrize("method", ["mtp", "dflash", "eagle3", "ngram", "suffix", "draft_model"])
def test_every_method_of_vllm_that_the_reports_name_is_in_an_example(method: str) -> None:
    assert with_settings("vllm", method=method)


def test_dflash2_is_asked_at_four_depths_with_both_methods_of_sampling_in_all_combinations() -> None:
    asked = {
        (
            c["speculative"]["num_speculative_tokens"],
            c["speculative"]["draft_sample_method"],
            c["speculative"]["rejection_sample_method"],
        )
        for c in with_settings("vllm", method="dflash")
    }
    assert asked == {
        (k, s, r) for k in (4, 5, 6, 7) for s in ("greedy", "probabilistic") for r in ("standard", "block")
    }


def test_a_schedule_by_batch_size_and_several_images_are_in_examples() -> None:
    assert any("num_speculative_tokens_per_batch_size" in (config["speculative"] or {}) for config in CONFIGS)
    assert len({config["image"] for config in PLANS["images.yaml"]["configs"]}) > 1


@pytest.mark.parametrize("algorithm", ["NEXTN", "EAGLE3", "DSPARK"])
def test_every_algorithm_of_sglang_that_the_reports_name_is_in_an_example(algorithm: str) -> None:
    assert with_settings("sglang", algorithm=algorithm)


def test_both_dspark_drafters_carry_the_quantisation_flag_that_they_need() -> None:
    commands = [" ".join(config["command"]) for config in with_settings("sglang", algorithm="DSPARK")]
    assert any("--speculative-draft-model-quantization modelopt_fp4" in words for words in commands)
    assert any("--speculative-draft-model-quantization unquant" in words for words in commands)


def test_draft_lengths_are_planned_in_one_unit_whatever_the_engine_counts() -> None:
    (window,) = with_settings("sglang", algorithm="EAGLE3", num_draft_tokens=8)
    (block, *_) = with_settings("sglang", algorithm="DSPARK", dspark_block_size=7)
    (k, *_) = with_settings("vllm", method="dflash", num_speculative_tokens=7)
    assert [config["draft_tokens_per_step"] for config in (window, block, k)] == [7, 7, 7]
    shown = CliRunner().invoke(command, [str(EXAMPLES / "sglang-eagle.yaml"), "--no-history"]).output
    assert re.search(r"EAGLE-3 window 8 +\w+ +7 ", shown)


# --- guards ------------------------------------------------------------------------------------------------------


def below(version: Version) -> str:
    major, minor, patch = version
    return release((major, minor, patch - 1) if patch else (major, minor - 1, 99))


def guards(table: dict[str, Span], settings: Any, kind: str) -> list[Any]:
    """(kind, settings, image release, what is said or None) for each release boundary of a table."""
    rows = []
    engine = "vLLM" if kind == "vllm" else "SGLang"
    for name, span in table.items():
        if span.since > (0, 0, 0):
            said = f"needs {engine} {release(span.since)} or newer, and the image is {below(span.since)}"
            rows.append(pytest.param(kind, settings(name), below(span.since), said, id=f"{kind}-{name}-before"))
            rows.append(pytest.param(kind, settings(name), release(span.since), None, id=f"{kind}-{name}-at"))
        if span.gone is not None:
            said = f"is gone since {engine} {release(span.gone)}"
            rows.append(pytest.param(kind, settings(name), release(span.gone), said, id=f"{kind}-{name}-gone"))
    return rows


GUARDS = [
    *guards(speculative_vllm.KEYS, lambda name: {name: "x"}, "vllm"),
    *guards(speculative_vllm.METHODS, lambda name: {"method": name, "model": "m"}, "vllm"),
    *guards(speculative_vllm.REJECTION, lambda name: {"rejection_sample_method": name}, "vllm"),
    *guards(speculative_vllm.DRAFT_SAMPLING, lambda name: {"draft_sample_method": name}, "vllm"),
    *guards({**speculative_sglang.KEYS, **speculative_sglang.UNPREFIXED}, lambda name: {name: "x"}, "sglang"),
    *guards(speculative_sglang.ALGORITHMS, lambda name: {"algorithm": name}, "sglang"),
]


@pytest.mark.parametrize(("kind", "settings", "image", "said"), GUARDS)
def test_a_guard_warns_below_its_release_and_not_at_it(
    kind: str, settings: dict[str, Any], image: str, said: str | None
) -> None:
    warnings = engine_for(kind).warnings(a_config(settings, kind=kind, image=f"org/engine:v{image}"))
    (name,) = list(settings.values())[:1] if "x" not in settings.values() else list(settings)
    about = [
        warning for warning in warnings if repr(name) in warning and (" or newer" in warning or "is gone" in warning)
    ]
    if said is None:
        assert about == []
    else:
        assert any(said in warning for warning in about), warnings

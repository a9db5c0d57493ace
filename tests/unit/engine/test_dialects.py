"""Counters by release: sums over engines, not over ranks; what is missing has a reason and is never 0."""

from __future__ import annotations

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.dialects import select, sglang_dialect, vllm_dialect
from nightsweep.engine.second_source import disagreement, from_metrics, from_server_info
from nightsweep.engine.values import BootFacts, Dialect, Unavailable
from nightsweep.engine.versions import image_version, parse_version
from nightsweep.units import Tokens
from tests.unit.engine.data import page


def because(dialect: Dialect, name: str) -> str:
    entry = dialect.series[name]
    assert isinstance(entry, Unavailable)
    return entry.because


@pytest.mark.parametrize("version", ["0.26.0", None, "0.32.0+cpu", "0.28.0+simulated", "0.26.1rc0+glm53.flash"])
def test_a_recorded_page_is_read_by_every_fitting_dialect(version: str | None) -> None:
    values = select(page("vllm-0.26.0-cuda-eagle5pb-after.txt"), vllm_dialect(version))
    assert values["generation_tokens"] == 148073
    assert values["drafts"] == 37778
    assert values["draft_tokens"] == 5 * values["drafts"]
    assert values["accepted_tokens"] == 110316 == sum(values[f"accepted_per_position[{i}]"] for i in range(5))
    assert "accepted_per_position[5]" not in values
    assert values["steps"] == 11273
    assert (values["running"], values["waiting"]) == (0, 0)


def test_without_speculation_there_are_no_draft_counters() -> None:
    values = select(page("vllm-0.26.0-cuda-none_warm-after.txt"), vllm_dialect("0.26.0"))
    assert not {"drafts", "draft_tokens", "accepted_tokens"} & set(values)


def test_the_synthetic_rates_of_a_real_engine_come_out_of_its_counters() -> None:
    before, after = (
        select(page(f"vllm-0.32.0-cpu-P-synth-t1-{edge}.txt"), vllm_dialect("0.32.0")) for edge in ("before", "after")
    )
    drafts = after["drafts"] - before.get("drafts", 0)
    first = after["accepted_per_position[0]"] - before.get("accepted_per_position[0]", 0)
    assert 0.5 < first / drafts < 1.0


def test_engines_are_summed_and_ranks_are_not() -> None:
    dialect = sglang_dialect("0.5.23")
    name = "sglang:realtime_tokens_total"
    rows = [
        (name, {"mode": "decode", "dp_rank": dp, "tp_rank": tp, "model_name": "m"}, value)
        for dp, tp, value in (("0", "0", 10.0), ("0", "1", 10.0), ("1", "2", 5.0), ("1", "3", 0.0))
    ]
    assert select(rows, dialect)["generation_tokens"] == 15.0


def test_what_is_not_finite_or_merely_looks_alike_is_left_out() -> None:
    rows = [
        ("vllm:generation_tokens_total", {"engine": "0"}, float("nan")),
        ("vllm:generation_tokens_total_extra", {}, 3.0),
        ("vllm:iteration_tokens_total_sum", {}, 7.0),
    ]
    assert select(rows, vllm_dialect("0.28.0")) == {}


def test_the_older_name_is_taken_when_the_newer_is_not_there() -> None:
    old = [("vllm:time_per_output_token_seconds_count", {}, 3.0), ("vllm:gpu_prefix_cache_hits_total", {}, 4.0)]
    values = select(old, vllm_dialect("0.9.0"))
    assert (values["itl_count"], values["prefix_cache_hits"]) == (3.0, 4.0)


@pytest.mark.parametrize(
    ("dialect", "name", "reason"),
    [
        (sglang_dialect("0.5.6"), "generation_tokens", "since 0.5.7"),
        (sglang_dialect("0.5.23"), "drafts", "no counters of drafts"),
        (sglang_dialect(None), "steps", "no counter of engine steps"),
        (vllm_dialect("0.8.0"), "drafts", "since 0.8.5"),
        (vllm_dialect("0.8.5.post1"), "prefix_cache_hits", "in blocks"),
        (vllm_dialect("0.15.1"), "prompt_tokens_computed", "since 0.16.0"),
    ],
)
def test_a_counter_that_a_release_lacks_is_unavailable_with_the_reason(
    dialect: Dialect, name: str, reason: str
) -> None:
    assert reason in because(dialect, name)


def test_the_kv_budget_of_the_metrics_agrees_with_the_boot_log() -> None:
    budget = from_metrics(page("vllm-0.26.0-cuda-eagle5pb-boot.txt"))
    assert budget is not None
    assert budget.tokens == 785552
    assert budget.max_concurrency == pytest.approx(23.97, abs=0.01)
    line = "GPU KV cache size: 785,552 tokens, Maximum concurrency for 32,768 tokens per request: 23.97x"
    assert disagreement(read([line], kind="vllm"), budget) is None
    assert "785,552" in (disagreement(BootFacts(kv_tokens=Tokens(700000)), budget) or "")
    assert disagreement(BootFacts(), None) is None


def test_sglangs_server_info_tells_its_pool() -> None:
    budget = from_server_info({"internal_states": [{"memory_usage": {"token_capacity": 55285}}]})
    assert budget is not None
    assert budget.tokens == 55285
    assert from_server_info({"internal_states": []}) is None
    assert from_server_info(["nonsense"]) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.32.0+cpu", (0, 32, 0)),
        ("v0.28.0", (0, 28, 0)),
        ("0.26.1rc0+glm53.flash.nvfp4", (0, 26, 1)),
        ("0.5.10.post2", (0, 5, 10)),
        ("0.1.dev19043+gfa033bd4e.d20260813", None),
        ("latest", None),
        (None, None),
    ],
)
def test_a_version_is_read_by_its_release(text: str | None, version: tuple[int, int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.28.0-cu130", (0, 28, 0)),
        ("registry.lan:5000/vllm/vllm-openai:v0.28.0@sha256:00", (0, 28, 0)),
        ("registry.lan:5000/vllm/vllm-openai", None),
        ("vllm/vllm-openai:latest", None),
        (None, None),
    ],
)
def test_an_image_tells_a_release_only_by_its_tag(image: str | None, version: tuple[int, int, int] | None) -> None:
    assert image_version(image) == version

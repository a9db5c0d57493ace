"""`compare`, `effects` and `cells --pooled` on rows of a real PostgreSQL, as a user calls them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from nightsweep.cli.cells import command as cells
from nightsweep.cli.compare import command as compare
from nightsweep.cli.effects import command as effects
from nightsweep.errors import NotComparable, NotFound, SeveralConfigs
from nightsweep.plan.sweepfile import load
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import (
    EVENING,
    OWNER,
    TTL,
    Night,
    a_box,
    a_handle,
    a_ready,
    a_window,
    some_conditions,
    stopped,
)

from .test_reading import call, program

FILE = """
name: rules
engine: {kind: vllm, host: docker, image: "vllm/vllm-openai:v0.28.0", model: org/model, served_name: m}
configs:
  - name: "{draft_sample_method}/{rejection_sample_method}"
    speculative: {method: dflash, model: org/draft, num_speculative_tokens: 5}
    grid:
      draft_sample_method: [greedy, probabilistic]
      rejection_sample_method: [standard, block]
probe: {prompts: code, concurrency: [1, 8], temperature: [0.7], window: 40s, repeats: 3}
"""

RATES = {0: (28.5, 27.9, 29.3), 1: (23.1, 22.4, 23.5), 2: (35.6, 36.4, 36.9), 3: (29.3, 28.8, 30.1)}
"""Single-stream tokens / second of each config, in the file's order: greedy, greedy with block, probabilistic, both."""
LONE = {(3, 8): 178.5}


@pytest.fixture
def night(store: PostgresStore) -> Night:
    """Four configs measured three times at one stream and at eight, but for one that has a lone run there."""
    plan = load(FILE, source="rules.yaml")
    box_id = store.box_id(a_box())
    sweep_id = store.open_sweep(plan, box_id=box_id, file_text=FILE)
    lease = store.claim(sweep_id, owner=OWNER, ttl=TTL)
    night = Night(store, plan, box_id, sweep_id, lease, boot_id=0)
    for number, rates in RATES.items():
        up(night, number)
        for index, rate in enumerate(rates):
            keep(night, number, rate, index=index)
            if (number, 8) not in LONE:
                keep(night, number, 5 * rate, index=index, concurrency=8)
        if (number, 8) in LONE:
            keep(night, number, LONE[number, 8], concurrency=8)
        store.end_boot(lease, night.boot_id, stopped(), at=EVENING + timedelta(hours=number + 1))
    return night


def up(night: Night, number: int, *, key: str = "boot") -> None:
    night.boot(f"{key}-{number}", config=number, at=EVENING + timedelta(hours=number))
    night.store.boot_started(night.lease, night.boot_id, a_handle(f"{key}-{number}"))
    night.store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)


def keep(
    night: Night,
    number: int,
    rate: float,
    *,
    index: int = 0,
    concurrency: int = 1,
    at: datetime = EVENING,
    **conditions: Any,
) -> None:
    box = {"box": "f" * 64, "config": night.plan.configs[number].fingerprint}
    night.keep(
        a_window(rate, concurrency=concurrency, started=at),
        index=index,
        concurrency=concurrency,
        config=number,
        conditions=some_conditions(**box, **conditions),
    )


def document(command: click.Command, *words: str, queries: Queries) -> Mapping[str, Any]:
    result = call(command, *words, "--json", queries=queries)
    assert result.exception is None, result.output
    found: Mapping[str, Any] = json.loads(result.stdout)
    return found


def test_what_differs_stands_above_and_every_cell_has_ratio_interval_and_verdict(
    night: Night, queries: Queries
) -> None:
    shown = call(compare, "greedy/standard", "probabilistic/standard", queries=queries).output
    assert shown.index("speculative.draft_sample_method: greedy -> probabilistic") < shown.index("B against A")
    assert "Nothing else differs in the conditions that were stored." in shown
    assert "3 in 1 boot: 27.9–29.3" in shown
    found = document(compare, "greedy/standard", "probabilistic/standard", queries=queries)
    assert [(one["concurrency"], one["verdict"]) for one in found["cells"]] == [(1, "better"), (8, "better")]
    first = found["cells"][0]
    assert first["ratio"] == pytest.approx(36.3 / 28.5667, rel=1e-3)
    assert first["ratio_low"] < first["ratio"] < first["ratio_high"]
    assert first["a_tokens_per_second"]["n"] == 3
    assert first["pooled"]["a"]["test"]["p_spread"] is not None or first["pooled"]["a"]["test"]["reason"]


def test_a_lone_run_decides_nothing(night: Night, queries: Queries) -> None:
    (cell,) = document(compare, "greedy/standard", "probabilistic/block", "--at", "c=8,T=0.7", queries=queries)["cells"]
    assert cell["verdict"] == "undecided"
    assert cell["why"] == "B rests on one run, and one run is not a measurement"
    assert cell["windows_needed"] >= 1


def test_a_config_is_found_by_fingerprint_and_inside_a_sweep(night: Night, queries: Queries) -> None:
    fingerprint = night.plan.configs[1].fingerprint[:12]
    rows = call(compare, "sweep:rules/greedy/standard", fingerprint, "--csv", queries=queries).output.splitlines()
    assert rows[0].startswith("concurrency,temperature,a_tokens_per_second_mean,")
    assert rows[1].startswith("1,0.7,28.5")


def test_a_name_that_fits_several_or_none_is_an_error_that_helps(night: Night, queries: Queries) -> None:
    several = call(compare, "greedy*", "probabilistic/block", queries=queries).exception
    assert isinstance(several, SeveralConfigs)
    assert "greedy/standard" in str(several)
    assert "greedy/block" in str(several)
    none = call(compare, "greedy/blok", "probabilistic/block", queries=queries).exception
    assert isinstance(none, NotFound)
    assert "did you mean 'greedy/block'" in str(none)
    assert call(compare, "a", "b", "--same-within", "300%", queries=queries).exit_code == 2
    assert call(compare, "a", "b", "--at", "x=1", queries=queries).exit_code == 2


def test_across_other_prompts_is_refused_with_what_to_do(
    night: Night, queries: Queries, database_url: str, tmp_path: Path
) -> None:
    again(night, prompts="b" * 64)
    words = ("compare", "sweep:rules/greedy/standard", "sweep:again/probabilistic/standard")
    refused = program(*words, url=database_url, home=tmp_path)
    assert refused.returncode == 2
    assert "prompts (" in refused.stderr
    assert "--across" in refused.stderr
    told = program(*words, "--across", url=database_url, home=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert "(!)" in told.stdout
    assert isinstance(call(compare, *words[1:], queries=queries).exception, NotComparable)


def again(night: Night, *, configs: Sequence[int] = (2,), **conditions: Any) -> None:
    """Measure the third config once more, or others, with one stream in a sweep of its own and under other conditions."""
    plan = load(FILE.replace("name: rules", "name: again"), source="again.yaml")
    night.store.release(night.lease, state="done", note="")
    sweep_id = night.store.open_sweep(plan, box_id=night.box_id, file_text=FILE)
    lease = night.store.claim(sweep_id, owner=OWNER, ttl=TTL)
    later = Night(night.store, plan, night.box_id, sweep_id, lease, boot_id=0)
    for number in configs:
        up(later, number, key="again")
        for index, rate in enumerate((30.0, 31.0)):
            keep(later, number, rate, index=index, at=EVENING + timedelta(days=1), **conditions)
        later.store.end_boot(lease, later.boot_id, stopped(), at=EVENING + timedelta(hours=number + 1))


def test_the_conditions_that_both_have_are_taken_and_the_rest_is_said(night: Night, queries: Queries) -> None:
    again(night, engine_version="0.29.0")
    shown = call(compare, "greedy/standard", "probabilistic/standard", queries=queries).output
    assert "B: 2 windows under other conditions left out (they differ in engine_version)." in shown
    across = call(compare, "sweep:rules/greedy/standard", "sweep:again/probabilistic/standard", queries=queries).output
    assert "engine_version: 0.28.0 -> 0.29.0" in across
    assert "2 things differ at once" in across


def test_the_newest_conditions_that_have_the_cells_asked_for_are_taken(night: Night, queries: Queries) -> None:
    again(night, configs=(0, 2), engine_version="0.29.0")
    pair = ("greedy/standard", "probabilistic/standard")
    newest = document(compare, *pair, queries=queries)
    assert [(one["concurrency"], one["a_tokens_per_second"]["n"]) for one in newest["cells"]] == [(1, 2)]
    older = document(compare, *pair, "--at", "c=8,T=0.7", queries=queries)
    assert [(one["concurrency"], one["b_tokens_per_second"]["n"]) for one in older["cells"]] == [(8, 3)]
    assert older["a"]["left_out_for"] == ["engine_version"]
    raised = call(compare, "sweep:again/greedy/standard", pair[1], "--at", "c=16", queries=queries).exception
    assert "A as asked has it nowhere, B as asked has it nowhere" in str(raised)


def test_one_config_in_two_sweeps_has_each_sweep_s_own_pooled_rate(night: Night, queries: Queries) -> None:
    again(night)
    name = "probabilistic/standard"
    found = document(compare, f"sweep:rules/{name}", f"sweep:again/{name}", queries=queries)
    one, eight = found["cells"]
    assert (one["a_tokens_per_second"]["n"], one["b_tokens_per_second"]["n"]) == (3, 2)
    assert (one["pooled"]["b"]["test"]["reason"], eight["b_tokens_per_second"]) == (
        "one concurrency only: there is nothing to pool",
        None,
    )
    assert (eight["pooled"]["b"], eight["pooled"]["ratio"]) == (None, None)


def test_the_grid_s_settings_are_told_apart_with_their_interaction(night: Night, queries: Queries) -> None:
    shown = call(effects, "rules", "--at", "c=1", queries=queries).output
    assert "draft_sample_method=probabilistic and rejection_sample_method=block" in shown
    found = document(effects, "rules", "--at", "c=1", queries=queries)
    by_kind = {(one["kind"], one["change"]): one for one in found["effects"]}
    assert by_kind["alone", "draft_sample_method=probabilistic"]["ratio"] == pytest.approx(36.3 / 28.5667, rel=1e-3)
    assert by_kind["main", "rejection_sample_method=block"]["stands"] is True
    assert not found["missing"]


def test_a_missing_corner_is_named_with_the_lines_that_fill_it(night: Night, queries: Queries) -> None:
    for number in range(3):
        up(night, number, key="more")
        for index in range(2):
            keep(night, number, 200.0 + 10 * number + index, index=index, concurrency=16)
    shown = call(effects, "rules", "--at", "c=16", queries=queries).output
    assert "one factor at a time cannot tell whether settings interact" in shown
    assert (
        "1 corner of the grid not measured: draft_sample_method=probabilistic, rejection_sample_method=block" in shown
    )
    assert '      grid:\n        draft_sample_method: ["probabilistic"]\n' in shown
    assert "grid:" not in call(effects, "rules", "--config", "*standard", queries=queries).output
    assert isinstance(call(effects, "rules", "--at", "c=3", queries=queries).exception, NotFound)


def test_the_pooled_rate_stands_beside_the_plain_mean(night: Night, queries: Queries) -> None:
    shown = call(cells, "--pooled", queries=queries).output
    assert "test of pooling" in shown
    found = document(cells, "--pooled", queries=queries)
    assert {one["config"] for one in found["pooled"]} == {config.name for config in night.plan.configs}
    assert all("test" in one["pooled_rate_tokens_per_second"] for one in found["pooled"])
    assert "pooled" not in document(cells, queries=queries)

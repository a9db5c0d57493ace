"""A stored plan is the plan that was stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightsweep.plan.kept import plan_in
from nightsweep.plan.model import SamplingSpec, SweepPlan
from nightsweep.plan.sweepfile import load
from nightsweep.store.codec import plain

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))

EVERYTHING = """
name: everything
box: {name: spark-1, memory_bandwidth: 273 GB/s}
engine:
  kind: vllm
  image: vllm/vllm-openai:v0.28.0
  model: org/target
  served_name: m
  env: {HF_TOKEN: {from_env: HF_TOKEN}, TZ: UTC}
  args: {max-num-seqs: 16, gpu-memory-utilization: 0.9, enable-prefix-caching: false}
  container: {gpus: all, volumes: ["/models:/models:ro"], ulimits: ["memlock=-1"], entrypoint: [vllm, serve]}
configs:
  - name: "off"
    speculative: null
  - name: "mtp k={num_speculative_tokens}"
    speculative: {method: mtp}
    grid: {num_speculative_tokens: [1, 2]}
probe:
  concurrency: [1, 16]
  temperature: [0, 0.7]
  window: 40s
  repeats: 3
  boots: 3
  api_key: {from_env: KEY}
  sampling: {top_p: 0.95, seed: 7}
  prefill: {tokens: [2048, 12000], repeats: 2}
  single_batch: {runs: 2}
production: {container: prod, idle_for: 2m}
schedule: {cron: "0 1 * * *", timezone: Europe/Berlin, until: "07:00", priority: 3}
control: {config: "off", every: 2}
expect:
  - {config: "mtp k=1", acceptance_length: [1.5, 2.0]}
"""


def _stored(plan: SweepPlan) -> Any:
    return json.loads(json.dumps(plain(plan)))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_read_back_as_it_was(path: Path) -> None:
    plan = load(path.read_text(), source=path.name)
    assert plan_in(_stored(plan)) == plan


def test_a_file_with_every_section_is_read_back_as_it_was() -> None:
    plan = load(EVERYTHING)
    found = plan_in(_stored(plan))
    assert found == plan
    assert found is not None and found.control is not None and found.expect and found.production and found.schedule
    assert repr(found) == repr(plan)  # types too: 40.0 and 40 are equal


def test_what_an_older_program_did_not_know_has_its_default() -> None:
    plan = load(EVERYTHING)
    document = _stored(plan)
    del document["probe"]["sampling"]["min_p"], document["decide"]
    found = plan_in(document)
    assert found == plan
    assert found is not None and found.probe.sampling.min_p == SamplingSpec().min_p


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document["probe"].update(of_a_later_program=1),
        lambda document: document.update(configs=[]),
        lambda document: document.update(configs="all"),
        lambda document: document["probe"].update(concurrency=None),
        lambda document: document["probe"].update(temperature=["warm"]),
        lambda document: document["probe"].update(repeats="3"),
        lambda document: document.pop("name"),
        lambda document: document["configs"][0].update(engine=None),
        lambda document: document.clear(),
    ],
)
def test_a_document_that_is_no_plan_of_this_program_is_none(damage: Any) -> None:
    document = _stored(load(EVERYTHING))
    damage(document)
    assert plan_in(document) is None
    assert plan_in({"imported": True}) is None

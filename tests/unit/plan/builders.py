"""Sweep files and plans that name only what a test is about."""

from __future__ import annotations

from nightsweep.errors import InvalidPlan
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.sweepfile import load

FILE = """\
name: depth
engine:
  kind: vllm
  host: docker
  image: vllm/vllm-openai:v0.28.0
  model: org/target
  args: {max-model-len: 8192}
  env: {HF_TOKEN: {from_env: HF_TOKEN}}
  boot_timeout: 20m
configs:
  - name: plain
  - name: "k={num_speculative_tokens}"
    speculative: {method: dflash, model: org/draft}
    grid:
      num_speculative_tokens: [4, 5]
probe:
  concurrency: [1, 4]
  temperature: [0.7, 1.0]
  window: 40s
  repeats: 3
schedule: {cron: "30 22 * * *", timezone: Europe/Amsterdam, until: "07:00"}
"""


def a_file(*changes: tuple[str, str]) -> str:
    """Return the file with texts replaced; each must be there."""
    text = FILE
    for old, new in changes:
        assert old in text, f"not in the file: {old}"
        text = text.replace(old, new, 1)
    return text


def a_plan(*changes: tuple[str, str]) -> SweepPlan:
    return load(a_file(*changes), source="sweep.yaml")


def problems_of(text: str) -> tuple[str, ...]:
    """Return the mistakes that a file is refused for."""
    try:
        load(text, source="sweep.yaml")
    except InvalidPlan as error:
        problems = error.facts["problems"]
        assert isinstance(problems, tuple)
        return problems
    raise AssertionError("the file was taken")


def a_night(*, configs: int = 2, concurrency: int = 2, temperatures: int = 2, repeats: int = 3, boots: int = 1) -> str:
    """Return a file of so many configs, cells and boots, with prefill."""
    listed = "\n".join(
        f"  - {{name: c{each}, speculative: {{method: mtp, num_speculative_tokens: {each + 1}}}}}"
        for each in range(configs)
    )
    degrees = [round(0.1 * each, 2) for each in range(temperatures)]
    return f"""\
name: night
engine: {{kind: vllm, host: process, model: org/target}}
configs:
{listed}
probe:
  concurrency: {[each + 1 for each in range(concurrency)]}
  temperature: {degrees}
  repeats: {repeats}
  boots: {boots}
  prefill: {{tokens: 1000, repeats: 2}}
"""

"""A slipped zero is refused before it is expanded."""

from __future__ import annotations

import time

import pytest

from nightsweep.errors import InvalidPlan
from nightsweep.plan.sweepfile import load

FILE = """\
name: endless
engine: {{kind: vllm, host: process, model: m, served_name: m}}
configs: [{{name: a}}, {{name: b, args: {{x: 1}}}}]
probe:
  concurrency: [1, 2]
  temperature: [0.7]
  repeats: {repeats}
  boots: {boots}
"""


@pytest.mark.parametrize(("repeats", "boots"), [(100_000_000, 1), (10**18, 10**9), (50_001, 1)])
def test_more_windows_than_anybody_could_measure_are_refused_at_once(repeats: int, boots: int) -> None:
    began = time.monotonic()
    with pytest.raises(
        InvalidPlan, match=r":7: probe\.repeats: found 2 configs x .*; allowed: at most 200,000 in one sweep"
    ):
        load(FILE.format(repeats=repeats, boots=boots), source="endless.yaml")
    assert time.monotonic() - began < 2.0


def test_a_long_sweep_is_a_sweep() -> None:
    assert load(FILE.format(repeats=50_000, boots=1)).probe.repeats == 50_000


def test_a_process_with_another_mistake_is_not_accused_of_an_image() -> None:
    text = FILE.format(repeats=1, boots=1).replace("kind: vllm", "kind: vlm")
    with pytest.raises(InvalidPlan) as raised:
        load(text, source="f.yaml")
    assert [problem.split(":")[1] for problem in raised.value.facts["problems"]] == ["2"]
    assert "image" not in str(raised.value)

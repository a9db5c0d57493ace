"""What a sweep file names is checked with the file, and told with the line that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightsweep import wiring
from nightsweep.errors import InvalidPlan

FILE = """\
name: f
engine: {kind: vllm, host: process, model: m, served_name: m}
configs: [{name: a}]
probe:
  concurrency: [1]
  temperature: [0.7]
  prompts: mine.jsonl
"""


def test_a_prompt_file_that_is_not_there_is_told_with_line_and_key(tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match=r"f\.yaml:7: probe\.prompts: .*mine\.jsonl.*use one of code, prose"):
        wiring.load_plan(FILE, source="f.yaml", base=tmp_path)


def test_a_prompt_file_that_is_no_text_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(InvalidPlan, match=r"f\.yaml:7: probe\.prompts: .*no UTF-8 text"):
        wiring.load_plan(FILE, source="f.yaml", base=tmp_path)


def test_a_wrong_line_of_a_prompt_file_is_told_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"prompt": "fine"}\n{"promt": "x"}\n')
    with pytest.raises(InvalidPlan, match=r"f\.yaml:7: probe\.prompts: .*mine\.jsonl:2: found promt"):
        wiring.load_plan(FILE, source="f.yaml", base=tmp_path)


def test_a_file_of_one_prompt_for_many_streams_is_a_warning_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"prompt": "hello"}\n')
    plan, prompts = wiring.load_plan(FILE, source="f.yaml", base=tmp_path)
    assert len(prompts) == 1
    (warning,) = plan.warnings
    assert warning.startswith("f.yaml:7: probe.prompts: 1 different prompt for 1 stream")


def test_the_folder_that_relative_paths_are_taken_from_is_of_the_plan_and_of_no_fingerprint(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    for folder in (tmp_path, other):
        (folder / "mine.jsonl").write_text('{"prompt": "hello"}\n')
    plan, _ = wiring.load_plan(FILE, source="f.yaml", base=tmp_path)
    moved, _ = wiring.load_plan(FILE, source="f.yaml", base=other)
    assert (plan.base, moved.base) == (str(tmp_path), str(other))
    assert plan.fingerprint == moved.fingerprint

"""What `decisions` writes, to a file or to standard output; options that would do nothing are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from nightsweep.cli.decide import command as decide
from nightsweep.cli.decisions import command as decisions
from tests.component.cli.test_decisions import Desk, desk

__all__ = ["desk"]


@pytest.fixture
def decided(desk: Desk) -> Desk:
    desk.depth()
    desk.five_is_the_block()
    return desk


@pytest.mark.parametrize("words", [("show", "1"), ("show", "1", "--json"), ("show", "1", "--reask"), ("export", "1")])
def test_a_file_has_what_standard_output_would_have(decided: Desk, tmp_path: Path, words: tuple[str, ...]) -> None:
    file = tmp_path / "written"
    result = decided.call(decisions, *words, "-o", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"wrote {file}\n")
    assert file.read_text(encoding="utf-8") == decided.call(decisions, *words).stdout != ""


def test_a_sweep_file_in_json_is_refused(decided: Desk) -> None:
    refused = decided.call(decisions, "show", "1", "--reask", "--json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--reask writes a sweep file, which is YAML" in refused.stderr


@pytest.mark.parametrize("option", ["--json", "--all"])
def test_an_option_of_the_list_before_another_command_is_refused(decided: Desk, option: str) -> None:
    refused = decided.call(decisions, option, "show", "1")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"{option} before show is of the list" in refused.stderr


@pytest.mark.parametrize("words", [("show", "1"), ("show", "1", "--reask"), ("export", "1", "--as", "yaml")])
def test_a_standard_output_without_some_characters_has_question_marks_for_them(
    desk: Desk, words: tuple[str, ...]
) -> None:
    desk.depth()
    chosen = ("--choose", "DFlash2 k=5", "--fallback", "MTP k=3", "--question", "κ is five")
    desk.call(decide, "dflash2-depth", *chosen)
    said = CliRunner(charset="latin-1").invoke(decisions, list(words), obj=desk.reach)
    assert said.exception is None
    assert "? is five" in said.stdout

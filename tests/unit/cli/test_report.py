"""`nightsweep report` with plots: one HTML page, Markdown with a folder of pictures, and what happens without matplotlib."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from nightsweep.cli.report import command as report
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import COLD

from .calling import call, seed_queries

needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")


def one_config(*, simulated: bool = False) -> FakeQueries:
    """The seed night's first config at one temperature: few plots, quickly drawn."""
    queries = seed_queries(simulated=simulated)
    rows = [row for row in queries.window_rows if row.config == "mtp k=3" and row.temperature == COLD]
    return replace(queries, window_rows=rows)


@needs_matplotlib
def test_a_page_has_its_plots_inside_and_markdown_beside_it_and_the_text_has_none(tmp_path: Path) -> None:
    page, beside, text = (tmp_path / name for name in ("night.html", "my night.md", "text.md"))
    words = ("--html", str(page), "--markdown", str(beside), "-o", str(text))
    result = call(report, "dflash2-depth", *words, queries=one_config(simulated=True))
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr.splitlines() == [f"wrote {path}" for path in (text, page, beside)]
    inside = page.read_text(encoding="utf-8")
    assert inside.count("<svg ") == inside.count("<figure ") == 7
    assert "SIMULATED" in inside
    named = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", beside.read_text(encoding="utf-8"))
    assert len(named) == 7 == len(list((tmp_path / "my night-plots").iterdir()))
    for name in named:
        assert (tmp_path / unquote(name)).read_text(encoding="utf-8").startswith("<svg")
        assert " " not in name
    assert "![" not in text.read_text(encoding="utf-8")


def test_without_matplotlib_the_report_is_whole_but_for_the_plots_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    page, text = tmp_path / "night.html", tmp_path / "night.md"
    result = call(report, "1", "--html", str(page), "--markdown", str(text), queries=seed_queries())
    assert result.exit_code == 0, result.output
    assert "warning: drawing the plots needs matplotlib: pip install 'nightsweep[report]'" in result.stderr
    assert "`pip install 'nightsweep[report]'`" in text.read_text(encoding="utf-8")
    found = page.read_text(encoding="utf-8")
    assert "<code>pip install &#39;nightsweep[report]&#39;</code>" in found
    assert "<figure" not in found
    assert "34.8 (3: 31.5–39.7)" in found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["night.html", "night.md"]


def test_a_dash_is_standard_output_for_the_text_and_no_file_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plain = call(report, "1", queries=one_config())
    assert call(report, "1", "-o", "-", queries=one_config()).stdout == plain.stdout
    beside = call(report, "1", "-o", "-", "--html", "night.html", queries=one_config())
    assert (beside.stdout, beside.exit_code) == (plain.stdout, 0)
    refused = call(report, "1", "--html", "-", queries=one_config())
    assert refused.exit_code == 2
    assert "it needs a file: name one" in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["night.html"]


@pytest.mark.parametrize("option", ["--html", "--markdown", "-o"])
def test_a_directory_that_is_not_there_is_told_before_anything_is_read(option: str, tmp_path: Path) -> None:
    queries = seed_queries()
    result = call(report, "1", option, str(tmp_path / "none" / "night"), queries=queries)
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert queries.opened == 0


@needs_matplotlib
def test_a_folder_of_pictures_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "night-plots").write_text("a file is in the way")
    result = call(report, "1", "--markdown", str(tmp_path / "night.md"), queries=one_config())
    assert result.exception is not None
    assert "night-plots cannot be written" in str(result.exception)

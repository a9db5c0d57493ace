"""The files themselves: nothing of the machine they were written on, nothing missing that a page names."""

from __future__ import annotations

import os
import re
import socket
import stat
from pathlib import Path

import pytest

from .tree import ROOT, pyproject, text, tracked

# Put together from halves, so that this file does not find itself.
FOREIGN = {
    "a home folder of somebody": re.compile("/" + r"root/|/" + r"home/(?!user\b|you\b|nightsweep\b)\w+/"),
    "a scratch folder": re.compile("/" + r"tmp/ns\b"),
    "a working folder": re.compile("/" + r"work/(main|shared)\b"),
    "a Python of one machine": re.compile(r"\.py" + r"env/"),
    "a package registry": re.compile(
        "|".join(
            ("files.python" + "hosted", "pypi" + r"\.org/simple", "deb" + r"\.debian\.org", "registry" + r"\.npmjs")
        )
    ),
}
# Recorded outputs of engines, and what an image looks like inside, are as they were.
RECORDED = ("tests/data/",)
INSIDE_AN_IMAGE = re.compile("/" + r"root/\.(cache|triton)\b")


def _suspects() -> list[tuple[Path, str]]:
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        content = None if name.startswith(RECORDED) or name == "LICENSE" else text(path)
        if content is not None:
            found.append((path, content))
    return found


@pytest.mark.parametrize("what", FOREIGN)
def test_no_tracked_file_names_a_place_of_the_machine_it_was_written_on(what: str) -> None:
    hits = []
    for path, content in _suspects():
        for number, line in enumerate(content.splitlines(), start=1):
            if FOREIGN[what].search(INSIDE_AN_IMAGE.sub("", line)):
                hits.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not hits, "\n".join(hits)


def test_no_tracked_file_names_this_host() -> None:
    host = socket.gethostname()
    if len(host) < 6 or host in ("localhost", "runner", "builder"):
        pytest.skip(f"the host's name {host!r} is an ordinary word")
    pattern = re.compile(rf"\b{re.escape(host)}\b")
    hits = [str(path.relative_to(ROOT)) for path, content in _suspects() if pattern.search(content)]
    assert not hits


def test_no_tracked_file_is_larger_than_a_megabyte() -> None:
    large = [str(path.relative_to(ROOT)) for path in tracked() if path.stat().st_size > 1024 * 1024]
    assert not large


def test_what_is_run_by_hand_can_be_executed() -> None:
    not_executable = [
        str(path.relative_to(ROOT))
        for path in tracked()
        if path.stat().st_mode & stat.S_IXUSR == 0 and (text(path) or "").startswith("#!")
    ]
    assert not not_executable


def test_every_relative_link_of_a_page_leads_somewhere() -> None:
    link = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)]*)?\)")
    dead = []
    for path in tracked():
        if path.suffix != ".md" or "tests/data" in path.as_posix():
            continue
        targets = link.findall(path.read_text(encoding="utf-8"))
        dead += [
            f"{path.relative_to(ROOT)}: {target}"
            for target in targets
            if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists()
        ]
    assert not dead, "\n".join(dead)


def test_every_example_that_a_page_names_is_there() -> None:
    named = re.compile(r"\bexamples/[\w./-]+\.(?:ya?ml|jsonl)")
    missing = []
    for path in tracked():
        if path.suffix == ".md" or path.name == "Makefile" or "cli" in path.parts:
            examples = named.findall(text(path) or "")
            missing += [f"{path.relative_to(ROOT)}: {name}" for name in examples if not (ROOT / name).exists()]
    assert not missing, "\n".join(missing)


def test_the_changelog_has_the_version_of_the_package() -> None:
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/nightsweep/__init__.py").read_text()).group(1)  # type: ignore[union-attr]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert re.search(r"^## \[Unreleased\]$", changelog, re.MULTILINE)


def test_every_decision_is_listed_and_has_its_three_parts() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    pages = sorted(path for path in folder.glob("[0-9]*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    for page in pages:
        content = page.read_text(encoding="utf-8")
        assert f"]({page.name})" in listed, page.name
        for part in ("## Context", "## Decision", "## Consequences"):
            assert part in content, f"{page.name} has no {part}"


def test_the_packages_that_everything_stands_on_are_dependencies() -> None:
    names = {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower() for line in pyproject()["project"]["dependencies"]}
    assert {"prefect", "docker", "httpx", "sqlalchemy", "psycopg", "prometheus-api-client"} <= names


def test_a_development_tool_is_no_dependency_of_the_product() -> None:
    project = pyproject()["project"]
    names = {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower() for line in project["dependencies"]}
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "import-linter", "pre-commit"}
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.skipif(not os.access(ROOT, os.W_OK), reason="a read-only checkout has no ignored files to check")
def test_data_and_environments_are_ignored_by_git() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert {".venv/", "/.nightsweep/", "bench-results/", "__pycache__/"} <= set(ignored)

"""`docs/mistakes-of-others.md` names tests that there are."""

from __future__ import annotations

import re

from .tree import ROOT

PAGE = (ROOT / "docs" / "mistakes-of-others.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what ")]


def _names() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)}


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - _names() == set()


def test_every_mistake_has_a_test_or_a_reason() -> None:
    assert len(ROWS) >= 30
    for row in ROWS:
        assert len(row.split(" | ")[1]) > 30, row

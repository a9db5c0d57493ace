"""What the tests of the house look at: the files of the repository, as git (or a source archive) has them."""

from __future__ import annotations

import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


@cache
def tracked() -> tuple[Path, ...]:
    """Files under version control that exist; in an unpacked archive without git, the files of the source folders."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        folders = ("src", "flows", "migrations", "examples", "deploy", "tests", "docs", "benchmarks", ".ci")
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        paths += [path for path in ROOT.iterdir() if path.is_file()]
    return tuple(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def text(path: Path) -> str | None:
    """The text of a file, or None when it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def pyproject() -> dict[str, Any]:
    """The project's metadata and tool settings."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)

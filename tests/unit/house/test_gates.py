"""The gates: `make check` holds the import contracts, and the contracts hold what the house style says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .tree import ROOT, pyproject, text, tracked


def _prerequisites(target: str) -> list[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(target)}:([^#\n]*)", makefile, re.MULTILINE)
    assert found, f"no target {target}"
    return found.group(1).split()


def _recipe(target: str) -> str:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert found, f"no recipe of {target}"
    return found.group(1)


def test_make_check_runs_every_gate() -> None:
    recipes = " ".join(_recipe(gate) for gate in _prerequisites("check"))
    for gate in ("ruff format --check", "ruff check", "mypy", "lint-imports", "$(PYTEST)"):
        assert gate in recipes, gate


@pytest.mark.parametrize("target", ["demo", "test", "check", "bench", "test-docker", "test-real", "chaos", "clean"])
def test_every_promised_target_says_what_it_does(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE)


def test_the_layers_are_those_of_the_picture() -> None:
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["type"] == "layers")["layers"]
    order = [part.strip(" ()").removeprefix("nightsweep.") for layer in layers for part in layer.split("|")]
    for above, below in [
        ("flows", "wiring"),
        ("cli", "wiring"),
        ("wiring", "sweep"),
        ("sweep", "ports"),
        ("store", "ports"),
        ("ports", "analysis"),
        ("analysis", "measurement"),
        ("measurement", "engine"),
        ("engine", "plan"),
        ("plan", "errors"),
    ]:
        assert order.index(above) < order.index(below), f"{above} must lie above {below}"
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert not [part for part in order if part not in picture]


def test_every_package_has_a_place_in_a_contract() -> None:
    named = str(pyproject()["tool"]["importlinter"]["contracts"])
    parts = {
        path.stem if path.is_file() else path.name
        for path in (ROOT / "src" / "nightsweep").iterdir()
        if not path.name.startswith(("_", ".")) and (path.is_file() or (path / "__init__.py").exists())
    }
    assert not [part for part in sorted(parts) if f"nightsweep.{part}" not in named]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("plan/model.py", "import nightsweep.sweep", "Imports point down only"),
        ("measurement/values.py", "import httpx", "The lower half is pure"),
        ("sweep/__init__.py", "import sqlalchemy", "Only the store speaks SQL"),
        ("cli/__init__.py", "import prefect", "Nothing but flows imports Prefect"),
        ("simulator/__init__.py", "import nightsweep.plan", "The simulator stands alone"),
    ],
)
def test_an_import_that_points_up_is_refused(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copytree(ROOT / "flows", tmp_path / "flows", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    spoiled = tmp_path / "src" / "nightsweep" / module
    spoiled.write_text(spoiled.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    answer = _lint_in(tmp_path)
    assert answer.returncode != 0
    assert re.search(rf"{contract}.*BROKEN", answer.stdout), answer.stdout + answer.stderr


def _lint_in(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts on a copy: its folders come before the installed package."""
    code = (
        "import sys; sys.path[:0] = ['src', '.']\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(config_filename='pyproject.toml', no_cache=True))\n"
    )
    pytest.importorskip("importlinter")
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def test_ci_asks_for_a_docker_engine_in_words_that_its_script_knows() -> None:
    asked = re.findall(r"NIGHTSWEEP_DOCKERD_\w+=\w+", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    script = (ROOT / "tests" / "dockerkit" / "dockerd.sh").read_text(encoding="utf-8")
    assert asked
    assert not [word for word in asked if word not in script]


def test_pre_commit_uses_the_tools_of_make_check() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    entries = " ".join(hook["entry"] for hook in hooks)
    for tool in ("ruff format", "ruff check", "mypy", "lint-imports"):
        assert tool in entries


SHELL = [path for path in tracked() if re.match(r"#!.*\b(ba)?sh\b", (text(path) or "")[:40])]


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_shell_script_parses_and_stops_at_the_first_error(script: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    parsed = subprocess.run([bash, "-n", str(script)], capture_output=True, text=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
    assert re.search(r"^set -[a-z]*u", script.read_text(encoding="utf-8"), re.MULTILINE), "set -u is missing"

"""The command line as a whole: each command has a module, answers --help with an example, and is cheap to ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nightsweep.cli import COMMANDS, root

from .tree import ROOT


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_help_with_an_example(name: str) -> None:
    answer = CliRunner().invoke(root, [name, "--help"])
    assert answer.exit_code == 0, answer.output
    assert "Example" in answer.output
    assert f"nightsweep {name}" in answer.output


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_module_of_its_own_in_the_package(name: str) -> None:
    module, help_line = COMMANDS[name]
    assert (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").exists()
    assert help_line.endswith(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_says_what_it_does(name: str) -> None:
    command = root.get_command(click.Context(root), name)
    assert command is not None
    commands = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    silent = [
        f"{one.name} {option.opts[0]}"
        for one in commands
        for option in one.params
        if isinstance(option, click.Option) and not option.help and not option.hidden
    ]
    assert not silent


def test_the_list_of_commands_is_shown_without_importing_any() -> None:
    code = (
        "import sys; from nightsweep.cli import root\n"
        "try: root(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'prefect', 'sqlalchemy', 'docker', 'httpx', 'pydantic', 'yaml', 'rich'} & set(sys.modules)\n"
        "mine = {name for name in sys.modules if name.startswith('nightsweep.cli.')}\n"
        "assert not heavy and not mine, (heavy, mine)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert name in done.stdout


HEAVY = [
    "alembic",
    "apprise",
    "docker",
    "httpx",
    "jinja2",
    "numpy",
    "pandas",
    "prefect",
    "psutil",
    "psycopg",
    "pyarrow",
    "pydantic",
    "requests",
    "ruptures",
    "scipy",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "yaml",
]


@pytest.mark.parametrize("half", [0, 1])
def test_help_of_a_command_imports_nothing_that_takes_long(half: int) -> None:
    code = (
        "import sys; from nightsweep.cli import root\n"
        "for name in sys.argv[2:]:\n"
        "    try: root([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "    heavy = set(sys.argv[1].split(',')) & set(sys.modules)\n"
        "    assert not heavy, (name, sorted(heavy))\n"
    )
    asked = [sys.executable, "-c", code, ",".join(HEAVY), *list(COMMANDS)[half::2]]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


def test_an_unknown_command_is_a_usage_error() -> None:
    answer = CliRunner().invoke(root, ["sweeep"])
    assert answer.exit_code == 2
    assert "No such command" in answer.output


@pytest.mark.parametrize("module", ["nightsweep", "nightsweep.cli"])
def test_python_runs_it_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nightsweep, version ")

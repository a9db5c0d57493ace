"""The commands' table: which of them may live for a night, and what that changes."""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from nightsweep import cli

WAITS = ("while True", "cli.following", "cli.running", "cli.stopping")
"""Marks of a module whose command waits for something."""


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(cli.COLLECT_AFTER)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_that_may_live_for_a_night_looks_for_garbage_as_often_as_python_does(name: str) -> None:
    """Otherwise its connections, closed and forgotten, pile up: a service grew by 3 MB a minute."""
    found = cli.root.get_command(click.Context(cli.root), name)
    assert found is not None
    assert gc.get_threshold()[0] == (cli.USUAL[0] if name in cli.LASTING else cli.COLLECT_AFTER)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_that_waits_is_among_those_that_last(name: str) -> None:
    text = inspect.getsource(importlib.import_module(cli.COMMANDS[name][0]))
    if any(mark in text for mark in WAITS):
        assert name in cli.LASTING


def test_an_id_that_no_database_holds_is_a_mistake_of_use() -> None:
    from nightsweep.cli.decisions import command

    result = CliRunner().invoke(command, ["show", "99999999999999999999"])
    assert result.exit_code == 2
    assert "is not in the range" in result.output

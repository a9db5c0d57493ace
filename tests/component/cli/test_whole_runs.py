"""Where only another client's whole runs are, each command says so and what takes them; a decision on them is told as one."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import sqlalchemy as sa

from nightsweep.cli.compare import command as compare
from nightsweep.cli.decide import command as decide
from nightsweep.cli.decisions import command as decisions
from nightsweep.cli.effects import command as effects
from nightsweep.cli.history import command as history
from nightsweep.errors import NotFound
from nightsweep.store.postgres import PostgresStore

from .test_importing import HEADER, Desk, a_table

WHOLE = HEADER.replace("decode_rate", "whole_run_rate") + ",speculative.num_speculative_tokens"
CHOICE = ("spring", "--choose", "k5", "--fallback", "k3")


@pytest.fixture
def spring(engine: sa.Engine, store: PostgresStore, tmp_path: Path) -> Desk:
    """Two configs, each of three whole runs."""
    desk = Desk(engine, store)
    rates = {3: (100.0, 101.0, 102.0), 5: (140.0, 141.0, 142.0)}
    lines = [f"k{k},vllm,org/model,box-a,1,0.7,{rate},2026-05-12,{k}" for k, some in rates.items() for rate in some]
    desk.bring(a_table(tmp_path, *lines, header=WHOLE))
    return desk


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (decide, CHOICE, "6 whole runs of another client are there: --whole-runs takes them"),
        (compare, ("k3", "k5"), "3 whole runs of another client are there: --whole-runs takes them"),
        (effects, ("spring",), "6 whole runs of another client are there: this command takes decode windows only"),
        (history, ("k3",), "`nightsweep cells --whole-runs` lists them"),
    ],
)
def test_a_command_that_finds_no_decode_window_says_that_whole_runs_are_there(
    spring: Desk, command: click.Command, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(NotFound) as raised:
        spring.call(command, *words)
    assert said in str(raised.value)


def test_a_decision_on_whole_runs_says_of_what_it_is_and_warns_of_the_import(spring: Desk) -> None:
    said = spring.call(decide, *CHOICE, "--whole-runs").stdout
    assert "evidence, rate over a whole run in tokens/s" in said
    assert "WARNING: 6 of 6 rows were not measured here (imported:csv)" in said
    assert "against k3 at 1 stream, T=0.7: better x1.396" in said
    (one,) = spring.listed(decisions)["decisions"]
    assert (one["kind"], one["evidence"][0]["n"]) == ("whole_run", 3)

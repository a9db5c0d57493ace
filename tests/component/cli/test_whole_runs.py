"""Where only runs of another kind are, each command says so and what takes them; a decision on them is told as one."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import sqlalchemy as sa

from nightsweep.cli.cells import command as cells
from nightsweep.cli.compare import command as compare
from nightsweep.cli.decide import command as decide
from nightsweep.cli.decisions import command as decisions
from nightsweep.cli.effects import command as effects
from nightsweep.cli.history import command as history
from nightsweep.errors import NotFound
from nightsweep.store.postgres import PostgresStore

from .test_importing import HEADER, PUBLISHED, Desk, a_table

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


ALONE = ("dspark-5090", "--choose", "DSpark NVFP4 (retrained)", "--fallback", "built-in MTP")


@pytest.fixture
def dspark(engine: sa.Engine, store: PostgresStore) -> Desk:
    """The published single-batch runs: four configs, each run twice."""
    desk = Desk(engine, store)
    desk.bring(PUBLISHED / "dspark-5090.csv")
    return desk


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (decide, ALONE, "8 single-batch runs are there: --single-batch takes them"),
        (decide, (*ALONE, "--whole-runs"), "8 single-batch runs are there: --single-batch takes them"),
        (compare, ("DSpark BF16", "none"), "2 single-batch runs are there: --single-batch takes them"),
        (effects, ("dspark-5090",), "`nightsweep compare --single-batch` compares them"),
        (
            history,
            ("none",),
            "2 single-batch runs are there: this command takes decode windows only; `nightsweep cells` ",
        ),
    ],
)
def test_a_command_that_finds_no_decode_window_says_that_single_batch_runs_are_there(
    dspark: Desk, command: click.Command, words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(NotFound) as raised:
        dspark.call(command, *words)
    assert said in str(raised.value)


def test_an_option_of_a_kind_that_is_not_there_is_said_to_be_left_out(desk_of_windows: Desk) -> None:
    with pytest.raises(NotFound, match="2 decode windows are there: leave --single-batch out"):
        desk_of_windows.call(decide, "spring", "--choose", "k5", "--fallback", "k3", "--single-batch")
    both = desk_of_windows.call(
        decide, "spring", "--choose", "k5", "--fallback", "k3", "--single-batch", "--whole-runs"
    )
    assert (both.exit_code, "one kind of rate is taken at a time" in both.stderr) == (2, True)


@pytest.fixture
def desk_of_windows(engine: sa.Engine, store: PostgresStore, tmp_path: Path) -> Desk:
    desk = Desk(engine, store)
    lines = (f"k{k},vllm,org/model,box-a,1,0.7,{100 + k},2026-05-12,{k}" for k in (3, 5))
    desk.bring(a_table(tmp_path, *lines, header=WHOLE.replace("whole_run_rate", "decode_rate")))
    return desk


def test_a_decision_on_single_batch_runs_says_of_what_it_is(dspark: Desk) -> None:
    said = dspark.call(decide, *ALONE, "--single-batch").stdout
    assert "evidence, decode rate of one request alone (single-batch runs) in tokens/s" in said
    assert "against built-in MTP at 1 stream, T=?: better x1.497" in said
    assert "the prompt set" not in said
    (one,) = dspark.listed(decisions)["decisions"]
    assert (one["kind"], {cell["n"] for cell in one["evidence"]}) == ("single_batch", {2})


def test_a_file_that_cannot_be_asked_again_says_why(engine: sa.Engine, store: PostgresStore, tmp_path: Path) -> None:
    desk = Desk(engine, store)
    lines = (f"k{k},sglang,org/model,box-a,1,0.7,{100 + k},2026-05-12,mtp,{k}" for k in (3, 5))
    header = f"{HEADER},speculative.method,speculative.num_speculative_tokens"
    desk.bring(a_table(tmp_path, *lines, header=header))
    desk.call(decide, *CHOICE)
    with pytest.raises(NotFound, match=r"SGLang's word for `method` is `algorithm`.*; write one by hand"):
        desk.call(decisions, "show", "1", "--reask")


def test_a_decision_on_whole_runs_says_of_what_it_is_and_warns_of_the_import(spring: Desk) -> None:
    said = spring.call(decide, *CHOICE, "--whole-runs").stdout
    assert "evidence, rate over a whole run in tokens/s" in said
    assert "WARNING: 6 of 6 rows were not measured here (imported:csv)" in said
    assert "against k3 at 1 stream, T=0.7: better x1.396" in said
    (one,) = spring.listed(decisions)["decisions"]
    assert (one["kind"], one["evidence"][0]["n"]) == ("whole_run", 3)


@pytest.mark.parametrize("imported", [(), ("--imported",)])
def test_groups_of_whole_runs_are_called_so_and_never_a_decode_rate(spring: Desk, imported: tuple[str, ...]) -> None:
    words = ("--whole-runs", "--group-by", "concurrency", *imported)
    table = spring.call(cells, *words).stdout
    assert "Whole runs by concurrency" in table
    headings, note = table.replace("\n", " ").split("* all output tokens by the whole time", 1)
    assert "over the" in headings
    assert "decode" not in headings
    assert "no decode rate" in note
    (group,) = spring.listed(cells, *words)["groups"]
    assert (group["kind"], group["whole_run_rate_tokens_per_second"]["n"]) == ("whole_run", 6)
    header = spring.call(cells, *words, "--csv").stdout.splitlines()[0]
    assert "whole_run_rate_tokens_per_second_mean" in header
    for told in (" ".join(group), header):
        assert "decode_rate" not in told
    for listed in (words, ("--whole-runs", *imported)):
        chosen = spring.call(cells, *listed, "--columns", "whole_run_rate,cv", "--sort", "-n", "--csv").stdout
        assert chosen.startswith("whole_run_rate_tokens_per_second_mean,whole_run_rate_tokens_per_second_cv\n")


def test_groups_of_whole_runs_that_are_not_there_are_called_so_too(desk_of_windows: Desk) -> None:
    said = desk_of_windows.call(cells, "--whole-runs", "--group-by", "concurrency", "--no-imported").stdout
    assert said == "no whole runs match --no-imported\n"


def test_no_rate_is_pooled_of_whole_runs(engine: sa.Engine, store: PostgresStore, tmp_path: Path) -> None:
    desk = Desk(engine, store)
    lines = (
        f"k{k},vllm,org/model,box-a,{c},0.7,{c * (100 + k + i)},2026-05-12,{k},{2.5 + i / 10}"
        for k in (3, 5)
        for c in (1, 8)
        for i in range(3)
    )
    desk.bring(a_table(tmp_path, *lines, header=f"{WHOLE},acceptance_length"))
    found = desk.listed(compare, "k3", "k5", "--whole-runs")["cells"]
    assert [(one["pooled"]["a"], one["pooled"]["ratio"]) for one in found] == [(None, None)] * 2

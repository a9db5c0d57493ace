"""A decision is asked again: of a sweep that decides by itself, and of one whose changes were accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from nightsweep.cli.decisions import command as decisions
from nightsweep.cli.plan import command as plan_command
from nightsweep.plan.sweepfile import load
from nightsweep.store.postgres import PostgresStore
from tests.component.cli.test_decisions import BOX, DEPTH, FILE, PROMPTS, Desk
from tests.storekit.byhand import enter


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> Desk:
    return Desk(engine, store)


def decides(**changed: str) -> str:
    """Return the depth sweep as one that decides by itself, with these keys of its `repeats`."""
    keys = {"between": '["MTP k=3", "DFlash2 k=[457]"]', "objective": "{concurrency: {1: 3, 4: 1}}", **changed}
    repeats = ", ".join(("mode: decide", *(f"{key}: {value}" for key, value in keys.items() if value)))
    return FILE.replace("[1, 2, 4, 8, 16]", "[1, 4]").replace("repeats: 1", f"repeats: {{{repeats}}}")


NEW_CONFIGS = [f"DFlash2 k={k} (draft_sample_method=probabilistic, rejection_sample_method=block)" for k in (7, 5, 4)]


@pytest.mark.parametrize(
    ("changed", "at", "contenders", "shares"),
    [
        ({}, (), [*NEW_CONFIGS, "DFlash2 k=5", "MTP k=3"], "c=1 T=0.70 75%, c=4 T=0.70 25%"),
        ({"between": ""}, (), [*NEW_CONFIGS, "DFlash2 k=5", "MTP k=3"], "c=1 T=0.70 75%, c=4 T=0.70 25%"),
        (
            {"between": '["MTP k=3", "DFlash2 k=4", "DFlash2 k=5"]', "incumbent": "MTP k=3"},
            (),
            [*NEW_CONFIGS[1:], "DFlash2 k=5", "MTP k=3"],
            "c=1 T=0.70 75%, c=4 T=0.70 25%",
        ),
        ({"incumbent": "MTP k=3"}, ("--at", "c=4"), [*NEW_CONFIGS, "DFlash2 k=5", "MTP k=3"], None),
    ],
)
def test_a_sweep_that_decides_by_itself_is_asked_again_between_its_own_configs_as_it_was_weighed(
    desk: Desk,
    tmp_path: Path,
    changed: dict[str, str],
    at: tuple[str, ...],
    contenders: list[str],
    shares: str | None,
) -> None:
    decided = enter(desk.store, decides(**changed), DEPTH, box=BOX, prompts_hash=PROMPTS)
    desk.five_is_the_block(*at)
    desk.rule()
    for later in (None, decides(**{**changed, "objective": "{concurrency: {4: 1}}"})):
        if later is not None:  # the same sweep, whose file weighs otherwise from now on
            assert enter(desk.store, later, {}, box=BOX, prompts_hash=PROMPTS) == decided
        again = tmp_path / "again.yaml"
        desk.call(decisions, "show", "1", "--reask", "-o", str(again))
        plan = load(again.read_text())
        assert plan.decide is not None
        assert [plan.config(one).name for one in plan.decide.between] == contenders
        planned = CliRunner().invoke(plan_command, [str(again)])
        assert planned.exit_code == 0, planned.output
        serves = "; MTP k=3 serves now" if "incumbent" in changed else ""
        assert f"decision between {len(contenders)} configs{serves}:" in planned.output
        assert [line.strip() for line in planned.output.splitlines() if "objective:" in line] == (
            [f"- objective: {shares}"] if shares else []
        )
        assert ("its sweep's file weighs otherwise by now" in again.read_text()) == (later is not None)


def test_the_weights_that_were_decided_by_come_back_exactly_and_of_an_older_decision_by_their_words(
    desk: Desk, engine: sa.Engine
) -> None:
    weighed = decides(objective="{concurrency: {1: 0.123456789, 4: 0.987654321}}")
    decided = enter(desk.store, weighed, DEPTH, box=BOX, prompts_hash=PROMPTS)
    desk.five_is_the_block()
    desk.rule()
    later = decides(objective="{concurrency: {4: 1}}")
    assert enter(desk.store, later, {}, box=BOX, prompts_hash=PROMPTS) == decided
    exactly = [[1, 0.7, 0.123456789], [4, 0.7, 0.987654321]]
    assert desk.listed()[0]["rule"]["weights"] == exactly
    assert asked_weights(desk) == exactly
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE decisions SET evidence = evidence #- '{rule,weights}'"))
    assert "weights" not in desk.listed()[0]["rule"]
    assert asked_weights(desk) == [[1, 0.7, 1.0], [4, 0.7, 8.0]]


def asked_weights(desk: Desk) -> list[list[float]]:
    """Return what the sweep that asks again weighs: streams, temperature, weight."""
    plan = load(desk.call(decisions, "show", "1", "--reask").stdout)
    assert plan.decide is not None
    return [[streams, float(degree), weight] for streams, degree, weight in plan.decide.weights]


def test_what_was_accepted_is_said_where_it_is_asked_again(desk: Desk) -> None:
    desk.depth()
    desk.five_is_the_block()
    desk.prompts = "f" * 64
    desk.call(decisions, "accept", "1", "--reason", "a typo in one prompt")
    text = desk.call(decisions, "show", "1", "--reask").stdout
    assert "# Nothing has changed that was not accepted: this repeats the evidence." in text
    (accepted,) = [line for line in text.splitlines() if line.startswith("# Accepted, so not asked here: prompts: was")]
    assert accepted.endswith(": a typo in one prompt")


@pytest.mark.parametrize("words", [("accept", "1", "--reason"), ("retire", "1", "--why")])
def test_a_reason_that_is_empty_is_no_reason(desk: Desk, words: tuple[str, ...]) -> None:
    desk.depth()
    desk.five_is_the_block()
    desk.prompts = "f" * 64
    for empty in ("", "  "):
        refused = desk.call(decisions, *words, empty)
        assert refused.exit_code == 2
        assert f"Invalid value for '{words[-1]}': it is empty: say why in a few words" in refused.stderr
    assert desk.listed()[0]["state"] == "questioned"

"""What `decide` and `decisions` are asked for in words: patterns, cells, names of several configs, and what is no question."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from nightsweep.cli.decide import command as decide
from nightsweep.cli.decisions import command as decisions
from nightsweep.errors import CannotAskAgain
from nightsweep.store.postgres import PostgresStore
from tests.component.cli.test_decisions import BOX, DEPTH, FILE, PROMPTS, Desk, serving
from tests.storekit.builders import EVENING
from tests.storekit.byhand import enter

CHOSEN = ("--choose", "DFlash2 k=5", "--fallback", "MTP k=3")
OLD = """\
configs:
  - name: MTP k=3 old
    image: vllm/vllm-openai:v0.27.1
    speculative: {method: mtp, num_speculative_tokens: 3}
"""
TWO_CALLED_MTP = FILE.replace("configs:\n", OLD)


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> Desk:
    return Desk(engine, store)


def also(desk: Desk, name: str, *changed: tuple[str, str], **given: Any) -> int:
    """Enter the depth sweep again, under another name and otherwise changed."""
    text = FILE.replace("dflash2-depth", name)
    for old, new in changed:
        assert old in text
        text = text.replace(old, new)
    return enter(desk.store, text, DEPTH, **{"box": BOX, "prompts_hash": PROMPTS, **given})


# --- patterns and cells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--among", "dflesh*"), "'dflesh*' fits no config with that name. There are: 'MTP k=3', 'DFlash2 k=7'"),
        (("--among", "DFlash2 *", "--among", "eagle"), "'eagle' fits no config"),
        (("--among", "dflash2 k=7"), "Did you mean `DFlash2 k=7`? There are: 'MTP k=3'"),
        (("--at", "c=3"), "no window of this sweep is at c=3. There are: c=1,T=0.7; c=2,T=0.7; c=4,T=0.7"),
        (("--at", "c=1", "--at", "c=2,T=1.0"), "no window of this sweep is at c=2,T=1.0. There are: c=1,T=0.7"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_what_there_is_and_nothing_is_kept(
    desk: Desk, words: tuple[str, ...], said: str
) -> None:
    desk.depth()
    answer = desk.call(decide, "dflash2-depth", *CHOSEN, *words)
    assert answer.exit_code == 2
    assert f"Invalid value for {words[-2]}: " in answer.stderr
    assert said in answer.stderr
    assert desk.listed() == []


def test_a_pattern_that_fits_only_what_was_not_measured_in_these_cells_is_refused(desk: Desk) -> None:
    enter(desk.store, FILE, {**DEPTH, "DFlash2 k=7": {16: [192.6]}}, box=BOX, prompts_hash=PROMPTS)
    few = ("dflash2-depth", *CHOSEN, "--among", "*k=7", "--at")
    answer = desk.call(decide, *few, "c=1")
    assert answer.exit_code == 2
    assert "'*k=7' fits no config with a clean window in these cells" in answer.stderr
    assert desk.call(decide, *few, "c=16").exit_code == 0
    assert [cell["config"] for cell in desk.listed()[0]["evidence"]] == ["MTP k=3", "DFlash2 k=7", "DFlash2 k=5"]


def test_a_config_that_is_called_as_a_pattern_is_meant_by_its_name(desk: Desk) -> None:
    text = FILE.replace("name: DFlash2 k={num_speculative_tokens}", "name: DFlash2 [{num_speculative_tokens}]")
    named = {name.replace("k=", "[") + "]" if "k=7" in name or "D" in name else name: of for name, of in DEPTH.items()}
    enter(desk.store, text, named, box=BOX, prompts_hash=PROMPTS)
    chosen = ("--choose", "DFlash2 [5]", "--fallback", "MTP k=3", "--among", "DFlash2 [4]")
    assert desk.call(decide, "dflash2-depth", *chosen).exit_code == 0
    assert {cell["config"] for cell in desk.listed()[0]["evidence"]} == {"DFlash2 [5]", "DFlash2 [4]", "MTP k=3"}


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ((), "num_speculative_tokens: 4, 5 or 7 (5 chosen)"),
        (("--among", "DFlash2 *"), "num_speculative_tokens: 4, 5 or 7 (5 chosen)"),
        (("--among", "DFlash2 k=7"), "num_speculative_tokens: 5 or 7 (5 chosen)"),
        (("--among", "*"), "method: mtp or dflash (dflash chosen); num_speculative_tokens: 3, 4, 5 or 7 (5 chosen)"),
        (("--among", "MTP*"), "method: mtp or dflash (dflash chosen); num_speculative_tokens: 3 or 5 (5 chosen)"),
    ],
)
def test_the_question_is_among_what_was_named_also_of_other_methods(
    desk: Desk, words: tuple[str, ...], question: str
) -> None:
    desk.depth()
    assert desk.call(decide, "dflash2-depth", *CHOSEN, *words).exit_code == 0
    asked = desk.listed()[0]["question"].split("; ")
    assert [part for part in asked if part.split(":")[0] in ("method", "num_speculative_tokens")] == question.split(
        "; "
    )


# --- several configs of one name -------------------------------------------------------------------------------------


def test_of_configs_of_one_name_fingerprints_and_what_differs_are_told(desk: Desk) -> None:
    enter(desk.store, TWO_CALLED_MTP, {**DEPTH, "MTP k=3 old": {1: [19.0]}}, box=BOX, prompts_hash=PROMPTS)
    with desk.engine.begin() as connection:  # as imports bring them: a file's rows are called as it calls them
        connection.execute(sa.text("UPDATE sweep_configs SET name = 'MTP k=3' WHERE name = 'MTP k=3 old'"))
        connection.execute(sa.text("UPDATE sweeps SET file_text = ''"))
        found = "SELECT left(hash, 12), doc->>'image' FROM configs WHERE name LIKE 'MTP%' ORDER BY 2"
        (old, old_image), (new, new_image) = connection.execute(sa.text(found)).all()
    answer = desk.call(decide, "dflash2-depth", *CHOSEN)
    assert answer.exit_code == 2
    assert "'MTP k=3' fits 2 configs; name one, the beginning of its fingerprint will do:" in answer.stderr
    assert f"{old}  MTP k=3  (1 window; image {old_image})" in answer.stderr
    assert f"{new}  MTP k=3  (5 windows; image {new_image})" in answer.stderr
    assert desk.call(decide, "dflash2-depth", "--choose", "DFlash2 k=5", "--fallback", old[:8]).exit_code == 0


# --- what is the same question ---------------------------------------------------------------------------------------


def test_only_a_decision_that_answers_all_of_another_one_retires_it(desk: Desk) -> None:
    desk.depth()
    also(desk, "model", ("unsloth/Qwen3.8-27B-NVFP4", "org/another"))
    also(desk, "warm", ("temperature: [0.7]", "temperature: [0.65]"), temperature="0.65")

    def said(*words: str) -> list[str]:
        lines = desk.call(decide, *words, *CHOSEN).stdout.splitlines()
        return [line.split(":")[0] for line in lines if "asked the same" in line]

    assert said("dflash2-depth", "--at", "c=1") == []
    assert said("model", "--at", "c=1") == []
    assert said("warm", "--at", "c=1") == []
    assert said("dflash2-depth", "--at", "c=2") == []
    assert said("dflash2-depth", "--at", "c=1") == ["decision 1 asked the same"]
    assert said("dflash2-depth", "--at", "c=1", "--at", "c=2") == [
        f"decision {one} asked the same" for one in (5, 4, 1)
    ], "it has the cells of all three"
    assert said("dflash2-depth", "--at", "c=16") == []
    later = {"at": EVENING + timedelta(days=1), "version": "0.29.0", "digest": "sha256:029"}
    also(desk, "newer", ("v0.28.0", "v0.29.0"), **later)
    assert said("newer", "--at", "c=16") == ["decision 7 asked the same"], "again, under another premise"


# --- choice and fallback ---------------------------------------------------------------------------------------------


def test_what_choice_and_fallback_differ_in_besides_the_question_is_told_and_kept(desk: Desk) -> None:
    enter(desk.store, TWO_CALLED_MTP, {**DEPTH, "MTP k=3 old": {1: [19.0]}}, box=BOX, prompts_hash=PROMPTS)
    old = ("--choose", "DFlash2 k=5", "--fallback", "MTP k=3 old", "--at", "c=1")
    said = desk.call(decide, "dflash2-depth", *old).stdout
    assert "choice and fallback differ in 3 things besides what was decided" in said
    assert "image: vllm/vllm-openai:v0.28.0 (choice), vllm/vllm-openai:v0.27.1 (fallback)" in said
    assert "speculative.num_speculative_tokens" not in said.split("choice and fallback differ")[1].split("premises")[0]
    kept = {each["name"]: (each["chosen"], each["fallback"]) for each in desk.listed()[0]["fallback_differs"]}
    assert kept == {
        "image": ("vllm/vllm-openai:v0.28.0", "vllm/vllm-openai:v0.27.1"),
        "speculative.method": ("dflash", "mtp"),
        "speculative.model": ("org/qwen-dflash2", "absent"),
    }
    assert "image: vllm/vllm-openai:v0.28.0 (choice)" in desk.call(decisions, "show", "1").stdout
    with desk.engine.begin() as connection:  # as it was kept before this was looked at
        connection.execute(sa.text("UPDATE decisions SET evidence = evidence - 'apart'"))
    assert desk.listed()[0]["fallback_differs"] == []


def test_of_a_fallback_that_differs_in_the_question_alone_nothing_is_said(desk: Desk) -> None:
    desk.depth()
    words = ("--choose", "DFlash2 k=5", "--fallback", "DFlash2 k=4")
    assert "besides what was decided" not in desk.call(decide, "dflash2-depth", *words).stdout


def test_conditions_that_choice_and_fallback_do_not_share_are_told(desk: Desk) -> None:
    desk.depth()
    with desk.engine.begin() as connection:
        older = (
            'UPDATE conditions SET doc = doc || \'{"engine_version": "0.27.1"}\' '
            "WHERE doc->>'config' = (SELECT hash FROM configs WHERE name = 'MTP k=3')"
        )
        connection.execute(sa.text(older))
    said = desk.call(decide, "dflash2-depth", *CHOSEN, "--at", "c=1").stdout
    assert "engine_version: 0.28.0 (choice), 0.27.1 (fallback)" in said


# --- retired, and not to be asked again ------------------------------------------------------------------------------


def test_changes_of_a_retired_decision_cannot_be_accepted(desk: Desk) -> None:
    desk.depth()
    desk.five_is_the_block()
    desk.prompts = "f" * 64
    desk.call(decisions, "retire", "1", "--why", "asked again")
    answer = desk.call(decisions, "accept", "1", "--reason", "so")
    assert answer.exit_code == 2
    assert "decision 1 is retired (asked again), and nothing of it is in force" in answer.stderr
    assert "`nightsweep decide` keeps the choice as a new one" in answer.stderr
    (one,) = desk.listed()
    assert [change["accepted"] for change in one["changes"]] == [None]


def test_a_decision_that_no_file_can_ask_again_is_said_by_its_number(desk: Desk) -> None:
    desk.production = serving()
    desk.depth()
    desk.five_is_the_block()
    desk.production = replace(serving(), command=("--model", "org/other"))
    with pytest.raises(CannotAskAgain) as raised:
        desk.call(decisions, "show", "1", "--reask")
    said = str(raised.value)
    assert said.startswith(
        "no sweep file was written that asks decision 1 (of sweep dflash2-depth) again: production.model: was "
    )
    assert said.endswith("write the file by hand")

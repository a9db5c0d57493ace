"""A newer engine, image or weights question a decision, wherever they were seen: in a boot that came up, or in a file."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightsweep.cli.decide import command as decide
from nightsweep.cli.decisions import command as decisions
from nightsweep.plan.sweepfile import load
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.component.cli import test_decisions, test_importing
from tests.component.cli.test_decisions import DEPTH, FILE
from tests.component.cli.test_importing import HEADER, a_table
from tests.storekit.builders import EVENING
from tests.storekit.byhand import enter

ENGINE = (
    f"{HEADER},image,image_digest,engine_version,weights_gib,boot,speculative.method,speculative.num_speculative_tokens"
)


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> test_importing.Desk:
    return test_importing.Desk(engine, store)


@pytest.fixture
def measuring(engine: sa.Engine, store: PostgresStore) -> test_decisions.Desk:
    return test_decisions.Desk(engine, store)


def rows(
    date: str, image: str = "image:1", digest: str = "aa", version: str = "0.28.0", weights: str = "20.0"
) -> list[str]:
    engine = f"{image},{digest},{version},{weights},1,mtp"
    return [f"k{k},vllm,m,b,1,0.7,{40 + k + more},{date},{engine},{k}" for k in (3, 5) for more in (0, 0.2)]


def bring(desk: test_importing.Desk, folder: Path, name: str, lines: list[str], *words: str) -> None:
    desk.bring(a_table(folder, *lines, name=f"{name}.csv", header=ENGINE), *words)


def decided(desk: test_importing.Desk, folder: Path, date: str = "2026-05-12") -> None:
    bring(desk, folder, "im1", rows(date))
    desk.call(decide, "im1", "--choose", "k5", "--fallback", "k3")
    assert judged(desk) == ("standing", {})


def judged(desk: test_importing.Desk | test_decisions.Desk) -> tuple[str, dict[str, tuple[Any, Any]]]:
    (one,) = desk.listed(decisions)["decisions"] if isinstance(desk, test_importing.Desk) else desk.listed()
    changed = {change["premise"]: (change["old"], change["new"]) for change in one["changes"]}
    return one["state"], changed


NEWER = {"image": "image:2", "digest": "bb", "version": "0.29.0", "weights": "20.5"}
ALL_NEW = {
    "config.image": ("image:1", "image:2"),
    "image_digest": ("aa", "bb"),
    "engine_version": ("0.28.0", "0.29.0"),
    "weights_gib": (20.0, 20.5),
}


def test_a_newer_engine_that_is_imported_questions_it_by_every_premise_and_is_asked_again(
    desk: test_importing.Desk, tmp_path: Path
) -> None:
    decided(desk, tmp_path)
    bring(desk, tmp_path, "im2", rows("2026-06-12", **NEWER))
    assert judged(desk) == ("questioned", ALL_NEW)
    assert "engine_version: was 0.28.0, is 0.29.0 (import im2, 2026-06-12)" in desk.call(decisions, "show", 1).output
    text = desk.call(decisions, "show", 1, "--reask").stdout
    assert "Nothing has changed" not in text
    assert {config.engine.image for config in load(text).configs} == {"image:2"}
    assert [one.decision.decision_id for one in Queries(desk.engine).questioned("b", simulated=False)] == [1]


@pytest.mark.parametrize(
    ("newer", "changed"),
    [
        ({"image": "image:2"}, ["config.image"]),
        ({"image": "elsewhere/image:1", "digest": ""}, ["config.image"]),
        ({"digest": "bb"}, ["image_digest"]),
        ({"version": "0.29.0"}, ["engine_version"]),
        ({"weights": "20.5"}, ["weights_gib"]),
        ({"image": "image:2", "digest": "", "version": "", "weights": "20.5"}, ["config.image", "weights_gib"]),
        ({"image": "", "digest": "", "version": "", "weights": ""}, []),
    ],
)
def test_each_thing_that_a_file_tells_of_an_engine_questions_by_itself(
    desk: test_importing.Desk, tmp_path: Path, newer: dict[str, str], changed: list[str]
) -> None:
    decided(desk, tmp_path)
    if newer == {"image": "image:2"}:
        newer = {**newer, "digest": ""}
    bring(desk, tmp_path, "im2", rows("2026-06-12", **newer))
    assert list(judged(desk)[1]) == changed


def test_the_same_image_by_another_name_is_the_same_image(desk: test_importing.Desk, tmp_path: Path) -> None:
    decided(desk, tmp_path)
    bring(desk, tmp_path, "im2", rows("2026-06-12", image="mirror/image:1"))
    assert judged(desk) == ("standing", {})


def test_a_file_that_tells_nothing_of_the_engine_takes_nothing_back(desk: test_importing.Desk, tmp_path: Path) -> None:
    decided(desk, tmp_path)
    bring(desk, tmp_path, "im2", rows("2026-06-12", **NEWER))
    bring(desk, tmp_path, "im3", rows("2026-07-12", "", "", "", ""))
    assert judged(desk) == ("questioned", ALL_NEW)
    bring(desk, tmp_path, "im4", rows("2026-08-12"))
    assert judged(desk) == ("standing", {}), "back on the old engine"


def test_older_rows_other_models_and_flagged_ones_question_nothing(desk: test_importing.Desk, tmp_path: Path) -> None:
    decided(desk, tmp_path)
    bring(desk, tmp_path, "older", rows("2026-04-12", **NEWER))
    bring(desk, tmp_path, "model", [line.replace("vllm,m,b", "vllm,m2,b") for line in rows("2026-06-12", **NEWER)])
    bring(desk, tmp_path, "box", [line.replace("vllm,m,b", "vllm,m,b2") for line in rows("2026-06-12", **NEWER)])
    bring(desk, tmp_path, "failed", rows("2026-06-13", **NEWER))
    with desk.engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE windows SET flags = '{request_failed}' WHERE cell_id IN (SELECT cells.id FROM cells "
                "JOIN sweeps ON sweeps.id = cells.sweep_id WHERE sweeps.name = 'failed')"
            )
        )
    assert judged(desk) == ("standing", {})


def test_rows_that_are_added_to_the_decisions_own_sweep_later_question_it_and_its_own_rows_do_not(
    desk: test_importing.Desk, tmp_path: Path
) -> None:
    both = [*rows("2026-05-12"), *rows("2026-05-20", **NEWER)]  # one file, two engines: the choice is among the first
    other = [line.replace("k3,", "k3 new,").replace("k5,", "k5 new,") for line in both[4:]]
    bring(desk, tmp_path, "im1", [*both[:4], *other])
    desk.call(decide, "im1", "--choose", "k5", "--fallback", "k3", "--among", "k3", "--among", "k5")
    assert judged(desk) == ("standing", {})
    bring(desk, tmp_path, "more", rows("2026-06-12", **NEWER), "--name", "im1")
    assert judged(desk)[0] == "questioned"


def test_rows_of_one_boot_are_judged_by_their_own_dates_and_engines(desk: test_importing.Desk, tmp_path: Path) -> None:
    decided(desk, tmp_path)
    bring(desk, tmp_path, "im2", [*rows("2026-04-12"), *rows("2026-06-12", version="0.29.0")])
    assert judged(desk) == ("questioned", {"engine_version": ("0.28.0", "0.29.0")})


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        ("2026-05-12", "", "its rows have no date"),
        ("", "2026-05-12", "what the decision rests on has no date"),
        ("", "", "its rows have no date"),
    ],
)
def test_of_rows_without_a_date_nobody_knows_whether_they_are_newer_and_that_is_said(
    desk: test_importing.Desk, tmp_path: Path, first: str, then: str, why: str
) -> None:
    decided(desk, tmp_path, first)
    bring(desk, tmp_path, "same", [line.replace("40.", "41.") for line in rows(then)])
    bring(desk, tmp_path, "im2", rows(then, **NEWER))
    assert judged(desk) == ("standing", {})
    (one,) = desk.listed(decisions)["decisions"]
    (said,) = [skipped for skipped in one["skipped"] if skipped.startswith("import ")]
    told = "engine_version 0.29.0, image_digest bb, config.image image:2, weights_gib 20.5"
    assert said == f"import im2: {told}: {why}, so nobody knows whether that is newer; skipped"


def test_an_engine_that_was_not_held_fixed_is_not_judged_and_another_one_is_said(
    desk: test_importing.Desk, tmp_path: Path
) -> None:
    two = rows("2026-05-12", image="")
    bring(desk, tmp_path, "im1", [line.replace(",aa,0.28.0,", ",,0.27.1,") if "k3" in line else line for line in two])
    desk.call(decide, "im1", "--choose", "k5", "--fallback", "k3")

    def said() -> list[str]:
        (one,) = desk.listed(decisions)["decisions"]
        return [skipped for skipped in one["skipped"] if skipped.startswith("engine_version")]

    bring(desk, tmp_path, "im2", rows("2026-06-12", version="0.27.1"))
    assert said() == []
    bring(desk, tmp_path, "im3", rows("2026-07-12", version="0.29.0"))
    why = "engine_version: was not held fixed (0.27.1, 0.28.0), so it is not judged; is 0.29.0 (import im3, 2026-07-12)"
    assert said() == [why]
    assert judged(desk) == ("standing", {})


def test_facts_of_a_box_that_a_newer_file_says_question_what_was_imported(
    desk: test_importing.Desk, tmp_path: Path
) -> None:
    def table(name: str, date: str, driver: str) -> None:
        lines = [f"{line},{driver}" for line in rows(date)]
        desk.bring(a_table(tmp_path, *lines, name=f"{name}.csv", header=f"{ENGINE},box.driver"))

    table("im1", "2026-05-12", "580.95")
    desk.call(decide, "im1", "--choose", "k5", "--fallback", "k3")
    table("older", "2026-04-12", "570.10")
    assert judged(desk) == ("standing", {})
    table("im2", "2026-06-12", "590.10")
    assert judged(desk)[1] == {"box.driver": (580.95, 590.1)}


# --- measured here ---------------------------------------------------------------------------------------------------


LATER = EVENING + timedelta(days=3)
NEW_IMAGE = FILE.replace("v0.28.0", "v0.29.0").replace("dflash2-depth", "later")


def test_a_newer_boot_of_the_same_configs_on_another_image_questions_it(measuring: test_decisions.Desk) -> None:
    measuring.depth()
    measuring.five_is_the_block()
    found = {"box": test_decisions.BOX, "prompts_hash": test_decisions.PROMPTS, "at": LATER}
    later = enter(measuring.store, NEW_IMAGE, DEPTH, digest="sha256:029", **found)
    image = ("vllm/vllm-openai:v0.28.0", "vllm/vllm-openai:v0.29.0")
    assert judged(measuring) == (
        "questioned",
        {"image_digest": ("sha256:028", "sha256:029"), "config.image": image},
    )
    with measuring.engine.begin() as connection:
        failed = "UPDATE boots SET ready_at = NULL, state = 'failed', failure_kind = 'oom' WHERE sweep_id = :sweep"
        connection.execute(sa.text(failed), {"sweep": later})
    assert judged(measuring) == ("standing", {}), "none of them came up"


def test_boots_of_the_own_sweep_and_older_ones_question_nothing(measuring: test_decisions.Desk) -> None:
    found = {"box": test_decisions.BOX, "prompts_hash": test_decisions.PROMPTS}
    older = FILE.replace("v0.28.0", "v0.27.1").replace("dflash2-depth", "older")
    two = FILE.replace(
        "grid: {num_speculative_tokens: [7, 5, 4]}",
        "grid: {num_speculative_tokens: [7, 5, 4]}\n  - name: nightly\n    image: vllm/vllm-openai:nightly",
    )
    enter(measuring.store, two, {**DEPTH, "nightly": {1: [30.0]}}, **found)
    enter(measuring.store, older, DEPTH, version="0.27.1", digest="sha256:027", at=EVENING - timedelta(days=9), **found)
    with measuring.engine.begin() as connection:
        nightly = (
            "UPDATE boots SET engine_version = '0.30', started_at = started_at + interval '1 minute' "
            "WHERE config_id = (SELECT id FROM configs WHERE name = 'nightly')"
        )
        connection.execute(sa.text(nightly))
    measuring.five_is_the_block()
    assert judged(measuring) == ("standing", {})


def test_what_an_older_sweep_saw_of_the_box_questions_nothing(
    measuring: test_decisions.Desk, desk: test_importing.Desk, tmp_path: Path
) -> None:
    measuring.depth(at=EVENING - timedelta(days=90))
    with measuring.engine.begin() as connection:
        connection.execute(sa.text("UPDATE sweeps SET started_at = :at"), {"at": EVENING - timedelta(days=90)})
    lines = [f"k{k},vllm,m,spark-1,1,0.7,{40 + k},2026-10-12,595,{k}" for k in (3, 5)]
    header = f"{HEADER},box.driver,speculative.num_speculative_tokens"
    desk.bring(a_table(tmp_path, *lines, name="im1.csv", header=header))
    desk.call(decide, "im1", "--choose", "k5", "--fallback", "k3")
    assert judged(desk) == ("standing", {})
    measuring.depth(box=replace(test_decisions.BOX, fingerprint="d" * 64), at=EVENING)
    with measuring.engine.begin() as connection:
        newest = "UPDATE sweeps SET started_at = :at WHERE id = (SELECT max(id) FROM sweeps)"
        connection.execute(sa.text(newest), {"at": EVENING})
    assert judged(desk)[1] == {"box.driver": (595, "580.95")}

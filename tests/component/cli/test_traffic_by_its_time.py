"""What a sweep was measured beside goes by when it was read: through deaths, other names, imports and quiet nights."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from nightsweep.cli.decide import command as decide
from nightsweep.cli.importing import Reach as ImportReach
from nightsweep.cli.importing import command as import_
from nightsweep.measurement.traffic import ENOUGH, Traffic
from nightsweep.store.decisions import Decisions
from nightsweep.store.imports import Imports
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.store.readings import KEPT, telling
from tests.component.cli.test_decisions import (
    BOX,
    DEPTH,
    FILE,
    PROMPTS,
    Desk,
    another_night,
    premises_of_traffic,
    served,
)
from tests.storekit.builders import EVENING, TTL, a_production
from tests.storekit.byhand import enter

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ID = "0123456789abcdef" * 4


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> Desk:
    return Desk(engine, store)


def counted(prompt: float, *, at: datetime, requests: int = 400, **more: Any) -> Traffic:
    made = requests * 300.0
    return Traffic(at, requests=requests, prompt_tokens=requests * prompt, generation_tokens=made, **more)


def takes_down(desk: Desk, sweep: int, traffic: Traffic | None, *, container_id: str = ID) -> int:
    """Have a sweep open the intent, and die."""
    lease = desk.store.claim(sweep, owner="guard:1:1:1", ttl=TTL)
    production = replace(a_production(), id=container_id)
    intent = desk.store.open_intent(lease, production, restore_by=None, traffic=traffic)
    desk.store.release(lease, state="done", note="")
    return intent


def a_night(desk: Desk, name: str, *, at: datetime) -> int:
    """Store a sweep whose windows were measured then."""
    return enter(desk.store, FILE.replace("dflash2-depth", name), DEPTH, box=BOX, prompts_hash=PROMPTS, at=at)


def means(desk: Desk, *sweeps: int, container: str = "vllm-qwen") -> list[float | str | None]:
    """Return the mean prompts that sweeps were measured beside, or why they are not known."""
    found = [Decisions(desk.engine).traffic(sweep, container) for sweep in sweeps]
    return [one if isinstance(one, str) else one.traffic.unknown or one.traffic.mean_prompt_tokens for one in found]


# --- an intent that is taken over ------------------------------------------------------------------------------------


def test_production_that_ran_again_and_is_taken_down_again_is_known_by_its_newest_count(desk: Desk) -> None:
    first, second = a_night(desk, "first", at=EVENING), a_night(desk, "second", at=EVENING + DAY)
    intent = takes_down(desk, first, counted(1200.0, at=EVENING))
    newest = counted(3000.0, at=EVENING + DAY, requests=60)
    for _ in range(2):  # a commit whose answer was lost is sent again
        assert takes_down(desk, second, newest) == intent
    (row,) = Queries(desk.engine).productions(second)
    assert row.traffic == newest
    assert means(desk, first, second) == [1200.0, 3000.0]
    third = a_night(desk, "third", at=EVENING + 2 * DAY)
    takes_down(desk, third, counted(9000.0, at=EVENING + 2 * DAY))
    assert means(desk, first, second, third) == [1200.0, 3000.0, 9000.0]


@pytest.mark.parametrize(
    "later",
    [
        None,
        counted(9000.0, at=EVENING + DAY, requests=ENOUGH - 1),
        Traffic(EVENING + DAY, problem="it was paused"),
        Traffic(EVENING + DAY, requests=400),
    ],
)
def test_a_count_stays_with_its_own_time_where_the_next_sweep_cannot_count(desk: Desk, later: Traffic | None) -> None:
    first, second = a_night(desk, "first", at=EVENING), a_night(desk, "second", at=EVENING + DAY)
    told = counted(1200.0, at=EVENING)
    takes_down(desk, first, told)
    takes_down(desk, second, later)
    (row,) = Queries(desk.engine).productions(second)
    assert row.traffic == told
    assert means(desk, first, second) == [1200.0, 1200.0]


def test_a_count_takes_the_place_of_a_reason(desk: Desk) -> None:
    first, second = a_night(desk, "first", at=EVENING), a_night(desk, "second", at=EVENING + DAY)
    takes_down(desk, first, Traffic(EVENING, problem="it was paused"))
    takes_down(desk, second, counted(3000.0, at=EVENING + DAY))
    assert means(desk, second) == [3000.0]


def test_an_intent_that_nobody_closes_keeps_the_last_few_counts_alone(desk: Desk) -> None:
    sweeps = [a_night(desk, f"night-{night}", at=EVENING + night * DAY) for night in range(KEPT + 3)]
    for night, sweep in enumerate(sweeps):
        takes_down(desk, sweep, counted(1000.0 + night, at=EVENING + night * DAY))
    nothing = "nothing of vllm-qwen was recorded on this box by then; a sweep that takes it down does"
    assert means(desk, *sweeps) == [nothing, nothing, *(1000.0 + night for night in range(2, KEPT + 3))]


def test_a_decision_is_not_born_questioned_by_its_own_night(desk: Desk) -> None:
    served(desk, a_night(desk, "before", at=EVENING - DAY), prompt=500.0, at=-DAY)
    first = desk.depth(at=EVENING + HOUR)
    takes_down(desk, first, counted(1200.0, at=EVENING))
    takes_down(desk, a_night(desk, "second", at=EVENING + DAY), None)  # it finds production down
    desk.five_is_the_block("--at", "c=1")
    assert premises_of_traffic(desk)["traffic.prompt_tokens"] == 1200.0
    assert desk.listed()[0]["state"] == "standing"
    takes_down(desk, a_night(desk, "third", at=EVENING + 2 * DAY), counted(3000.0, at=EVENING + 2 * DAY))
    assert desk.changed() == {"traffic.prompt_tokens": (1200.0, 3000.0)}


def test_what_was_read_before_the_evidence_questions_nothing(desk: Desk) -> None:
    served(desk, a_night(desk, "before", at=EVENING - DAY), prompt=500.0, at=-DAY)
    first = desk.depth(at=EVENING + HOUR)
    desk.five_is_the_block("--at", "c=1")
    assert premises_of_traffic(desk)["traffic.prompt_tokens"] == 500.0
    served(desk, first, prompt=1200.0, at=timedelta())  # it came into the database after the decision
    assert desk.changed() == {}
    another_night(desk, prompt=1200.0)
    assert set(desk.changed()) == {"traffic.prompt_tokens"}


def test_a_sweep_that_goes_on_later_is_measured_beside_the_newest_before_its_last_window(desk: Desk) -> None:
    sweep = desk.depth(at=EVENING + HOUR)
    served(desk, sweep, prompt=1200.0)
    served(desk, sweep, prompt=3000.0, at=5 * DAY)
    assert means(desk, sweep) == [1200.0], "that night measured nothing"
    with desk.engine.begin() as connection:
        later = sa.text("UPDATE windows SET started_at = :at WHERE id = (SELECT max(id) FROM windows)")
        connection.execute(later, {"at": EVENING + 5 * DAY + HOUR})
    assert means(desk, sweep) == [3000.0]


# --- a container by its id -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [ID, ID[:12], ID[:6], "/vllm-qwen"])
def test_production_that_the_file_names_by_its_id_has_the_traffic_of_its_name(desk: Desk, word: str) -> None:
    takes_down(desk, desk.depth(), counted(1200.0, at=EVENING))
    desk.five_is_the_block("--at", "c=1", "--production", word)
    assert premises_of_traffic(desk)["traffic.prompt_tokens"] == 1200.0
    another_night(desk, prompt=3000.0)
    assert set(desk.changed()) == {"traffic.prompt_tokens"}


@pytest.mark.parametrize("word", [ID[:5], "abcdef", "vllm", "vllm_qwen", "0123%", ID.upper()])
def test_a_word_that_is_no_id_is_no_other_container(desk: Desk, word: str) -> None:
    sweep = desk.depth()
    takes_down(desk, sweep, counted(1200.0, at=EVENING))
    assert means(desk, sweep, container=word) == [
        f"nothing of {word} was recorded on this box by then; a sweep that takes it down does"
    ]


def test_a_name_goes_before_an_id_that_begins_like_it(desk: Desk) -> None:
    sweep = desk.depth()
    served(desk, sweep, container="0123456", prompt=500.0)
    takes_down(desk, sweep, counted(1200.0, at=EVENING))
    assert means(desk, sweep, container="0123456") == [500.0]
    assert means(desk, sweep, container="01234567") == [1200.0]


# --- imports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dates", "mean"),
    [
        (("", ""), "some of its rows have no date: nobody knows what they were measured beside"),
        (("2026-12-05", ""), "some of its rows have no date: nobody knows what they were measured beside"),
        (("2026-12-05", "2026-12-05"), 1200.0),
        (
            ("2026-05", "2026-05"),
            "nothing of vllm-qwen was recorded on this box by then; a sweep that takes it down does",
        ),
    ],
)
def test_an_import_was_measured_beside_what_was_read_before_its_dates(
    desk: Desk, tmp_path: Path, dates: tuple[str, str], mean: Any
) -> None:
    served(desk, desk.depth(), prompt=1200.0)
    lines = ["config,engine,model,box,concurrency,temperature,decode_rate,date,speculative.num_speculative_tokens"]
    lines += [f"k{k},vllm,m,{BOX.name},1,0.7,{20 + k},{date},{k + 1}" for k, date in enumerate(dates)]
    (tmp_path / "spring.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    reached = ImportReach(lambda: nullcontext(Imports(desk.engine)), lambda: EVENING + 30 * DAY)
    brought = CliRunner().invoke(import_, [str(tmp_path / "spring.csv")], obj=reached)
    assert brought.exit_code == 0, brought.output
    sweep = Queries(desk.engine).sweep_of("spring").sweep_id
    assert means(desk, sweep) == [mean]
    chosen = ("--choose", "k1", "--fallback", "k0", "--production", "vllm-qwen")
    answer = desk.call(decide, "spring", *chosen)
    said = " ".join(answer.output.split())
    assert (f"so it is no premise ({mean})" in said) is isinstance(mean, str), said


# --- nights that tell nothing ----------------------------------------------------------------------------------------


def test_a_decision_stays_questioned_through_any_number_of_quiet_nights(desk: Desk) -> None:
    served(desk, desk.depth())
    desk.five_is_the_block("--at", "c=1")
    another_night(desk, prompt=3000.0)
    quiet = a_night(desk, "quiet", at=EVENING)
    for night in range(61):
        served(desk, quiet, prompt=1200.0, requests=ENOUGH - 1, at=(4 + night) * DAY)
    assert set(desk.changed()) == {"traffic.prompt_tokens"}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"requests": ENOUGH},
        {"requests": ENOUGH - 1},
        {"requests": 0},
        {"requests": None},
        {"prompt_tokens": None},
        {"prompt_tokens": 0.0},
        {"generation_tokens": None},
        {"problem": "it was paused"},
        {"problem": ""},
        {"request_seconds": None, "engine": None},
    ],
)
def test_the_database_and_the_rules_agree_on_what_tells_a_mean(desk: Desk, change: dict[str, Any]) -> None:
    traffic = replace(counted(1200.0, at=EVENING), **change)
    intent = takes_down(desk, desk.depth(), traffic)
    with desk.engine.connect() as connection:
        column: sa.Column[Any] = sa.column("traffic", sa.dialects.postgresql.JSONB)  # type: ignore[assignment]
        wanted = sa.select(telling(column)).select_from(sa.table("production_intents")).where(sa.column("id") == intent)
        assert connection.scalar(wanted) is (traffic.unknown is None)

"""The reading side, on rows that the store wrote."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from nightsweep.analysis.values import Filters
from nightsweep.errors import NotFound
from nightsweep.measurement.traffic import Traffic
from nightsweep.plan.expand import with_prompts_hash
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.model import SecretRef
from nightsweep.plan.sweepfile import load
from nightsweep.ports import Secret
from nightsweep.store.filters import UnknownOperator
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.units import Seconds
from tests.storekit.builders import (
    EVENING,
    OWNER,
    TTL,
    Night,
    a_box,
    a_config,
    a_handle,
    a_night,
    a_plan,
    a_prefill,
    a_production,
    a_ready,
    a_window,
    failed,
    some_conditions,
    some_facts,
    some_lines,
    some_numbers,
    stopped,
)

CONFIGS = (
    a_config("dflash k=5"),
    a_config("dflash k=7", k=7),
    a_config("mtp [k=3]", k=3, method="mtp"),
    a_config("no speculation", k=None, image="vllm/vllm-openai:v0.27.1"),
)


@pytest.fixture
def night(store: PostgresStore) -> Night:
    """Return a night with one clean window of each config, at 1 stream and 0.7."""
    night = a_night(store, a_plan(*CONFIGS))
    for number, config in enumerate(CONFIGS):
        night.boot(f"key-{number}", config=number, at=EVENING + timedelta(minutes=number))
        assert config.engine.image is not None
        handle = a_handle(f"key-{number}", digest=f"sha256:{config.engine.image[-1]}", refs=(config.engine.image,))
        store.boot_started(night.lease, night.boot_id, handle)
        store.boot_ready(night.lease, night.boot_id, a_ready(400.0 + 10 * number), at=EVENING)
        night.keep(a_window(20.0 + number), config=number)
        store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING + timedelta(hours=1))
    return night


def names(queries: Queries, **filters: Any) -> list[str]:
    return [row.config for row in queries.windows(Filters(**filters))]


# --- windows


def test_a_window_comes_back_with_its_numbers_and_what_names_it(night: Night, queries: Queries) -> None:
    row = queries.windows(Filters())[0]
    numbers = some_numbers(20.0)
    assert (row.sweep_id, row.sweep_name, row.config) == (night.sweep_id, "night", "dflash k=5")
    assert row.config_fingerprint == CONFIGS[0].fingerprint
    assert (row.concurrency, row.temperature, row.repeat, row.attempt) == (1, Decimal("0.70"), 0, 1)
    assert (row.decode_rate, row.positions, row.step_time) == (20.0, numbers.positions, numbers.step_time)
    assert (row.ttft_p50, row.tpot_p50, row.e2e_p50) == (0.19, 0.19, None)
    assert (row.flags, row.box, row.simulated, row.engine_version) == ((), "box-a", False, "0.28.0")
    assert row.conditions == fingerprint(some_conditions())
    assert (row.notes, row.not_applied) == ((), ("enable-x: this model has none",))
    assert row.started == EVENING


def test_windows_come_in_the_plans_order(night: Night, queries: Queries) -> None:
    assert names(queries) == [config.name for config in CONFIGS]


def test_flagged_windows_are_listed_only_when_asked_for(night: Night, queries: Queries) -> None:
    night.boot("again")
    night.keep(a_window(flags=("foreign_load",)), index=1)
    assert len(queries.windows(Filters())) == 4
    flagged = [row for row in queries.windows(Filters(with_flagged="yes")) if row.flags]
    assert [(row.flags, row.flag_details) for row in flagged] == [
        (("foreign_load",), {"foreign_load": "why foreign_load"})
    ]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ((("method", "=", "dflash"),), ["dflash k=5", "dflash k=7"]),
        ((("speculative.method", "=", "mtp"),), ["mtp [k=3]"]),
        ((("num_speculative_tokens", "=", 7),), ["dflash k=7"]),
        ((("num_speculative_tokens", "=", "7"),), ["dflash k=7"]),
        ((("num_speculative_tokens", ">=", 5),), ["dflash k=5", "dflash k=7"]),
        ((("num_speculative_tokens", "<", "5"),), ["mtp [k=3]"]),
        ((("method", "=", "dflash"), ("num_speculative_tokens", ">", 5)), ["dflash k=7"]),
        ((("method", "!=", "dflash"),), ["mtp [k=3]", "no speculation"]),
        ((("method", "=", None),), ["no speculation"]),
        ((("method", "!=", None),), ["dflash k=5", "dflash k=7", "mtp [k=3]"]),
        ((("method", ">", "dflash"),), ["mtp [k=3]"]),
        ((("args.max-model-len", "<=", 4096.0),), [config.name for config in CONFIGS]),
        ((("args.max-model-len", "=", 4096),), [config.name for config in CONFIGS]),
        ((("no.such.key", "=", 1),), []),
        ((("no.such.key", ">", 1),), []),
        ((("method", "=", "'; DROP TABLE windows; --"),), []),
    ],
)
def test_any_key_of_the_config_can_be_asked_for(
    where: tuple[tuple[str, str, Any], ...], found: list[str], night: Night, queries: Queries
) -> None:
    assert names(queries, where=where) == found


def test_a_comparison_that_there_is_not_names_those_there_are(queries: Queries) -> None:
    with pytest.raises(UnknownOperator, match=r"'~': use one of =, !=, >=, <=, >, <"):
        queries.windows(Filters(where=(("method", "~", "x"),)))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("dflash*", ["dflash k=5", "dflash k=7"]),
        ("*k=[57]", ["dflash k=5", "dflash k=7"]),
        ("*k=[!57]*", ["mtp [k=3]"]),
        ("mtp [k=3]", ["mtp [k=3]"]),
        ("dflash k=?", ["dflash k=5", "dflash k=7"]),
        (CONFIGS[2].fingerprint[:10], ["mtp [k=3]"]),
        ("dflash", []),
        (".*", []),
        ("a%", []),
    ],
)
def test_configs_are_found_by_pattern_or_by_the_beginning_of_their_fingerprint(
    pattern: str, found: list[str], night: Night, queries: Queries
) -> None:
    assert names(queries, config=pattern) == found


def test_cells_boxes_images_and_times_narrow_the_answer(night: Night, queries: Queries) -> None:
    night.boot("again")
    night.keep(a_window(concurrency=4, started=EVENING + timedelta(hours=2)), concurrency=4, temperature="1.0")
    assert len(names(queries, concurrency=(4,))) == 1
    assert len(names(queries, concurrency=(1, 4))) == 5
    assert len(names(queries, temperature=(Decimal("1"),))) == 1
    assert len(names(queries, temperature=(Decimal("0.7"),))) == 4
    assert names(queries, image="*v0.27*") == ["no speculation"]
    assert len(names(queries, since=EVENING + timedelta(hours=1))) == 1
    assert (len(names(queries, box="box-*")), names(queries, box="box-b")) == (5, [])
    assert (len(names(queries, sweep=night.sweep_id)), names(queries, sweep=4711)) == (5, [])


def test_what_a_simulated_engine_gave_is_called_so(store: PostgresStore, queries: Queries) -> None:
    config = replace(a_config(), engine=replace(a_config().engine, simulated=True))
    a_night(store, a_plan(config)).keep()
    assert [row.simulated for row in queries.windows(Filters())] == [True]
    assert [row.simulated for row in queries.boots(Filters())] == [True]


def test_notes_stand_beside_numbers_that_are_clean(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    night.keep(replace(a_window(), notes=("nothing that the drafter proposed was accepted",)))
    [row] = queries.windows(Filters())
    assert (row.flags, row.notes) == ((), ("nothing that the drafter proposed was accepted",))


# --- one window, whole


def test_everything_that_was_seen_of_a_window_comes_back_as_it_was(night: Night, queries: Queries) -> None:
    night.boot("again", at=EVENING - timedelta(minutes=7))
    result = a_window(concurrency=4)
    stored = queries.raw_window(night.keep(result, concurrency=4))
    assert stored.raw == result.raw
    assert stored.conditions == some_conditions()
    assert stored.seconds_since_boot == 420.0
    assert stored.position_in_night == 5


def test_a_windows_place_in_the_night_goes_on_over_boots_and_begins_anew_when_the_sweep_is_taken_up_again(
    store: PostgresStore, queries: Queries
) -> None:
    night = a_night(store)
    kept = [night.keep(index=0)]
    night.boot("failed at once")
    night.boot("up again")
    kept.append(night.keep(index=1))
    night.boot("and once more")
    kept.append(night.keep(concurrency=4))
    store.release(night.lease, state="paused", note="")
    night.lease = store.claim(night.sweep_id, owner=night.lease.owner, ttl=TTL)
    night.boot("the next night")
    kept += [night.keep(index=1, concurrency=4), night.keep(index=0, temperature="1.0")]
    assert [queries.raw_window(one).position_in_night for one in kept] == [1, 2, 3, 1, 2]


def test_a_window_that_saw_nothing_comes_back_too(night: Night, queries: Queries) -> None:
    night.boot("again")
    seen = a_window(flags=("engine_exited",))
    nan = {"running": float("inf"), "waiting": float("-inf")}
    raw = replace(seen.raw, before=replace(seen.raw.before, values=nan), after=None, requests=(), samples=())  # type: ignore[type-var]
    result = replace(seen, raw=replace(raw, ended_early="engine_exited", detail="gone \x00 with a NUL"), numbers=None)
    stored = queries.raw_window(night.keep(result, index=1)).raw
    assert stored.before is not None
    assert (stored.before.values, stored.after, stored.requests) == (nan, None, ())
    assert stored.detail == "gone \ufffd with a NUL"


def test_a_window_that_is_not_there_is_not_found(queries: Queries) -> None:
    with pytest.raises(NotFound):
        queries.raw_window(4711)


# --- prefills, boots, logs


def test_prefills_come_back(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    night.keep_prefill()
    night.keep_prefill(a_prefill(None, flags=("cache_hit",)), index=1)
    [row] = queries.prefills(Filters())
    assert (row.config, row.repeat, row.rate, row.ttft, row.cached_tokens) == ("dflash k=5", 0, 2000.0, 1.0, 0)
    assert len(queries.prefills(Filters(with_flagged="yes"))) == 2
    assert queries.prefills(Filters(imported=True)) == []
    assert len(queries.prefills(Filters(imported=False))) == 1


def test_a_boot_comes_back_with_its_facts(night: Night, queries: Queries) -> None:
    row = queries.boots(Filters(config="dflash k=5"))[-1]
    facts = some_facts()
    assert (row.state, row.cold_start, row.exit_code) == ("stopped", 400.0, 0)
    assert (row.weights, row.kv_tokens, row.max_concurrency) == (facts.weights, facts.kv_tokens, 3.2)
    assert (row.engine, row.engine_version, row.windows) == ("vllm", "0.28.0", 1)
    assert (row.image, row.image_digest) == ("vllm/vllm-openai:v0.28.0", "sha256:0")
    assert row.facts["facts"][0]["line"] == "Model loading took 24.92 GiB"
    assert row.command == ("vllm", "serve", "org/model")
    assert row.not_applied == ("enable-x: this model has none",)


def test_a_failed_boot_says_why(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    store.end_boot(night.lease, night.boot_id, failed(), at=EVENING)
    [row] = queries.boots(Filters())
    assert (row.state, row.failure_kind, row.failure_stage, row.retry) == ("failed", "bad_flag", "arguments", "never")
    assert row.failure_lines == ("error: unrecognized arguments: --no-such",)
    assert (row.cold_start, row.weights, row.facts) == (None, None, {})


def test_what_the_log_said_before_readiness_is_not_wiped_out_by_an_ending_that_knows_less(
    store: PostgresStore, queries: Queries
) -> None:
    night = a_night(store)
    store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)
    store.end_boot(night.lease, night.boot_id, failed("same"), at=EVENING)
    assert queries.boots(Filters())[0].weights == some_facts().weights


def test_an_image_keeps_every_name_that_it_went_by(store: PostgresStore, engine: sa.Engine) -> None:
    night = a_night(store)
    for refs in (("b:1", "a:1"), ("b:1",), ("c:1",)):
        store.boot_started(night.lease, night.boot_id, a_handle(refs=refs))
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT refs FROM images")) == ["a:1", "b:1", "c:1"]


def test_a_log_is_read_as_lines_or_as_text(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    store.add_log(night.boot_id, 0, some_lines("one", "two"))
    assert queries.boot_log(night.boot_id) == list(some_lines("one", "two"))
    assert queries.boot_log_text(night.boot_id) == "one\ntwo"
    assert queries.boot_log(night.boot("silent")) == []
    with pytest.raises(NotFound):
        queries.boot_log(4711)


# --- sweeps and events


def test_a_sweep_says_how_far_it_is(night: Night, store: PostgresStore, queries: Queries) -> None:
    night.boot("again")
    night.keep(a_window(flags=("aborted",)), index=1)
    store.end_boot(night.lease, night.boot_id, failed(), at=EVENING)
    store.event("boot", "boots dflash k=5", sweep_id=night.sweep_id)
    store.note_prefect_run(night.sweep_id, "some-flow-run")
    [row] = queries.sweeps(limit=5)
    assert (row.state, row.owner, row.box, row.simulated) == ("running", OWNER, "box-a", False)
    assert (row.repeats_planned, row.repeats_clean, row.windows_flagged) == (4 * 4 * 2, 4, 1)
    assert (row.boots_failed, row.configs, row.phase) == (1, 4, "boots dflash k=5")
    assert row.prefect_run == "some-flow-run"
    store.release(night.lease, state="partial", note="the night is over")
    done = queries.sweep_of("night")
    assert (done.state, done.note, done.owner, done.phase) == ("partial", "the night is over", None, None)
    assert done.ended is not None


def test_more_repeats_in_the_file_are_more_repeats_planned(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    store.open_sweep(a_plan(repeats=5), box_id=night.box_id, file_text="name: night # more\n")
    assert queries.sweep_of("night").repeats_planned == 2 * 2 * 5
    text, document = queries.plan_of(night.sweep_id)
    assert (text, document["probe"]["repeats"]) == ("name: night # more\n", 5)


def test_repeats_that_were_lowered_again_are_counted_as_they_are_planned_now(
    store: PostgresStore, queries: Queries
) -> None:
    night = a_night(store, a_plan(repeats=3))
    for index in range(3):
        night.keep(index=index)
    assert queries.sweep_of("night").repeats_clean == 3
    store.open_sweep(a_plan(repeats=1), box_id=night.box_id, file_text="")
    row = queries.sweep_of("night")
    assert (row.repeats_clean, row.repeats_planned) == (1, 4)


def test_a_sweep_whose_holder_died_is_not_called_running(night: Night, engine: sa.Engine, queries: Queries) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sweeps SET lease_until = now() - interval '1 second'"))
    assert queries.sweep_of("night").state == "interrupted"


def test_a_sweep_is_found_by_id_uuid_or_name_and_the_newest_of_a_name_first(
    store: PostgresStore, queries: Queries, engine: sa.Engine
) -> None:
    box_id = store.box_id(a_box())
    first = store.open_sweep(a_plan(), box_id=box_id, file_text="")
    second = store.open_sweep(a_plan(a_config(k=7)), box_id=box_id, file_text="")
    with engine.connect() as connection:
        uuid = connection.scalar(sa.text("SELECT uuid::text FROM sweeps WHERE id = :id"), {"id": first})
    assert queries.sweep_of("night").sweep_id == second
    assert queries.sweep_of(str(first)).sweep_id == first
    assert queries.sweep_of(str(uuid)).sweep_id == first
    assert [row.sweep_id for row in queries.sweeps(limit=1)] == [second]
    for unknown in ("nights", "4711", "9" * 40):
        with pytest.raises(NotFound):
            queries.sweep_of(unknown)


def test_a_plan_is_what_is_stored_of_it_whatever_its_file_says_to_this_program(
    night: Night, queries: Queries, engine: sa.Engine
) -> None:
    found = queries.sweep_plan(night.sweep_id)
    assert found is not None
    assert found == a_plan(*found.configs)
    assert queries.written_plan(night.sweep_id) is None


def test_a_plan_that_cannot_be_read_again_is_absent(night: Night, queries: Queries, engine: sa.Engine) -> None:
    of_later = sa.text("UPDATE sweeps SET plan = jsonb_set(plan, '{probe,of_a_later_program}', '1') WHERE id = :id")
    with engine.begin() as connection:
        connection.execute(of_later, {"id": night.sweep_id})
    assert queries.sweep_plan(night.sweep_id) is None


def test_events_come_newest_first(night: Night, store: PostgresStore, queries: Queries) -> None:
    for number in range(3):
        store.event("note", f"event {number}", sweep_id=night.sweep_id)
    store.event("note", "of no sweep")
    assert [event.message for event in queries.events(night.sweep_id, limit=2)] == ["event 2", "event 1"]
    assert queries.events()[0].message == "of no sweep"
    with pytest.raises(NotFound):
        store.event("note", "lost", sweep_id=4711)


def test_the_history_of_a_box_is_its_median_cold_starts(night: Night, store: PostgresStore, queries: Queries) -> None:
    night.boot("again")
    store.boot_ready(night.lease, night.boot_id, a_ready(500.0), at=EVENING)
    history = queries.history(night.box_id)
    assert history[CONFIGS[0].fingerprint] == 450.0
    assert history[CONFIGS[3].fingerprint] == 430.0
    assert history["*"] == 420.0
    assert queries.history(4711) == {}


# --- secrets


def test_no_secret_reaches_the_database(store: PostgresStore, engine: sa.Engine) -> None:
    night = a_night(store)
    assert SecretRef("HF_TOKEN") in night.plan.configs[0].engine.env.values()
    config = night.plan.configs[0]
    command = (
        "vllm",
        "serve",
        "--api-key",
        "sk-very-secret",
        "--hf-token=hf_very_secret",
        "--max-num-batched-tokens",
        "8192",
    )
    store.begin_boot(night.lease, config, boot_round=0, boot_key="s", command=command, at=EVENING)
    store.open_intent(night.lease, a_production(), restore_by=None)
    store.event("note", "a value", data={"key": Secret("sk-very-secret")})
    with engine.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        dump = "".join(str(connection.execute(sa.text(f"SELECT t::text FROM {name} t")).all()) for name in tables)
    assert "very" not in dump
    assert "8192" in dump


def test_a_claim_by_another_holder_is_seen(
    night: Night, store: PostgresStore, engine: sa.Engine, queries: Queries
) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE sweeps SET lease_until = now() - interval '1 second'"))
    store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL)
    assert (queries.sweep_of("night").state, queries.sweep_of("night").owner) == ("running", "box-b:2:2:two")


SWEEP_FILE = """
name: night
engine:
  kind: vllm
  host: process
  model: org/model
  served_name: m
configs:
  - name: "ngram k={num_speculative_tokens}"
    speculative: {method: ngram}
    grid: {num_speculative_tokens: [3, 5]}
probe:
  concurrency: [1, 4]
  temperature: [0.7]
  window: 4s
  repeats: 2
"""


def test_a_plan_is_read_again_from_its_file_with_the_prompts_it_was_measured_on(
    store: PostgresStore, queries: Queries
) -> None:
    plan = with_prompts_hash(load(SWEEP_FILE, source="test"), "b" * 64)
    sweep_id = store.open_sweep(plan, box_id=store.box_id(a_box()), file_text=SWEEP_FILE)
    assert queries.sweep_plan(sweep_id) == plan


def test_a_warm_up_that_the_file_leaves_to_a_default_is_the_one_that_was_planned(
    store: PostgresStore, queries: Queries
) -> None:
    plan = load(SWEEP_FILE, source="test")
    then = with_prompts_hash(replace(plan, probe=replace(plan.probe, warmup=Seconds(7.0))), "b" * 64)
    sweep_id = store.open_sweep(then, box_id=store.box_id(a_box()), file_text=SWEEP_FILE)
    assert queries.sweep_plan(sweep_id) == then


def test_what_was_taken_down_is_read_with_when_it_went_when_it_came_back_and_what_was_checked(
    store: PostgresStore, queries: Queries
) -> None:
    night = a_night(store)
    intent = store.open_intent(night.lease, a_production(), restore_by=EVENING + timedelta(hours=8))
    for stage in ("stopped", "restore_started"):
        store.mark_intent(intent, stage=stage)
    (down,) = queries.productions(night.sweep_id)
    assert (down.container, down.outcome, down.closed) == ("vllm-qwen", None, None)
    assert down.opened <= down.stopped <= down.restore_started  # type: ignore[operator]
    store.close_intent(intent, outcome="restored", checks={"ready": "/health", "token": "served"})
    (back,) = queries.productions(night.sweep_id)
    assert (back.outcome, back.checks["token"], back.restore_by) == ("restored", "served", EVENING + timedelta(hours=8))
    assert back.closed is not None
    assert queries.productions(night.sweep_id + 1) == []


def test_what_a_later_sweep_took_over_is_still_the_dead_ones_with_who_has_it_and_when_it_came_back(
    store: PostgresStore, queries: Queries, engine: sa.Engine
) -> None:
    dead = a_night(store)
    intent = store.open_intent(dead.lease, a_production(), restore_by=None, record={"id": "one"})
    store.release(dead.lease, state="failed", note="")
    later = a_night(store, a_plan(name="later"))
    assert store.open_intent(later.lease, replace(a_production(), id="two"), restore_by=None, record={}) == intent
    (was,), (now,) = queries.productions(dead.sweep_id), queries.productions(later.sweep_id)
    assert (was.taken_over_by, was.fares, was.taken_over is not None) == (later.sweep_id, "taken over", True)
    assert (now.taken_over_by, now.fares) == (None, "down")
    store.open_intent(
        later.lease, replace(a_production(), id="two"), restore_by=None, record={"id": "two"}, replaces=True
    )
    with engine.connect() as connection:
        row = connection.execute(sa.text("SELECT container_id, facts FROM production_intents")).one()
    assert (row.container_id, row.facts["record"]) == ("two", {"id": "two"})
    ((replaced,), (taken,)) = row.facts["replaced"], row.facts["taken_over"]
    assert (replaced["record"], replaced["container_id"]) == ({"id": "one"}, a_production().id)
    assert taken["sweep_id"] == dead.sweep_id, "the same sweep again is no taking over"
    store.close_intent(intent, outcome="restored")
    (was,) = queries.productions(dead.sweep_id)
    assert (was.taken_over_by, was.fares, was.closed is not None) == (later.sweep_id, "serves", True)


def test_what_production_had_served_is_kept_with_its_intent_and_a_first_reason_stays(
    store: PostgresStore, queries: Queries
) -> None:
    night = a_night(store)
    first = Traffic(EVENING, engine="vllm", since=EVENING - timedelta(hours=9), requests=40, prompt_tokens=4e4)
    store.open_intent(night.lease, a_production("silent"), restore_by=None)
    store.open_intent(night.lease, a_production("silent"), restore_by=None, traffic=first)
    for traffic in (first, replace(first, requests=1), None):
        store.open_intent(night.lease, a_production(), restore_by=None, traffic=traffic)
    assert [row.traffic for row in queries.productions(night.sweep_id)] == [first, first]
    store.open_intent(night.lease, a_production("never"), restore_by=None)
    assert queries.productions(night.sweep_id)[-1].traffic is None
    odd = replace(
        first, version="0.28\x00", problem="cannot read \ud800"
    )  # what a server says of itself keeps no intent off
    store.open_intent(night.lease, a_production("odd"), restore_by=None, traffic=odd)
    assert queries.productions(night.sweep_id)[-1].traffic is not None

"""The store's contract: one suite, on PostgreSQL and on the store in memory that the loop's tests use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

import pytest
import sqlalchemy as sa

from nightsweep.engine.values import Applied, LogLine
from nightsweep.errors import BootAlreadyEnded, BoxBusy, LeaseLost, NotFound, RepeatAlreadyStored
from nightsweep.plan.expect import Prediction
from nightsweep.plan.fit import Longest
from nightsweep.plan.reuse import Kept, Link
from nightsweep.ports import Store
from nightsweep.store.owner import new_owner, owner_is_dead
from nightsweep.store.postgres import PostgresStore
from nightsweep.units import Seconds
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore
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
    begin,
    failed,
    some_conditions,
    some_lines,
    some_numbers,
    stopped,
)


@dataclass
class Subject:
    """A store, a way to let every lease run out, and a way to look at what became of boots and logs."""

    store: Store
    expire: Callable[[], None]
    boot_state: Callable[[int], str]
    log: Callable[[int], list[str]]
    events: Callable[[], list[str]]
    planned: Callable[[int], int]


def _postgres(engine: sa.Engine) -> Subject:
    from nightsweep.store.queries import Queries

    queries = Queries(engine)

    def expire() -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE sweeps SET lease_until = now() - interval '1 second'"))

    def boot_state(boot_id: int) -> str:
        with engine.connect() as connection:
            return str(connection.scalar(sa.text("SELECT state FROM boots WHERE id = :id"), {"id": boot_id}))

    return Subject(
        store=PostgresStore(engine, patience=Seconds(0.0)),
        expire=expire,
        boot_state=boot_state,
        log=lambda boot_id: [line.text for line in queries.boot_log(boot_id)],
        events=lambda: [event.message for event in reversed(queries.events())],
        planned=lambda sweep_id: {row.sweep_id: row.repeats_planned for row in queries.sweeps()}[sweep_id],
    )


def _fake() -> Subject:
    clock = FakeClock()
    store = FakeStore(clock, owner_is_dead=owner_is_dead)
    return Subject(
        store=store,
        expire=lambda: clock.advance(TTL + 1.0),
        boot_state=lambda boot_id: store.boots[boot_id].state,
        log=lambda boot_id: [line.text for line in store.log_of(boot_id)],
        events=lambda: [event.message for event in store.events],
        planned=lambda sweep_id: store.sweeps[sweep_id].repeats_planned,
    )


@pytest.fixture(params=["postgres", "fake"])
def subject(request: pytest.FixtureRequest) -> Subject:
    return _fake() if request.param == "fake" else _postgres(request.getfixturevalue("engine"))


@pytest.fixture
def store(subject: Subject) -> Store:
    return subject.store


def a_dead_owner() -> str:
    """Return the owner string of a process of this machine that has ended."""
    code = "from nightsweep.store.owner import new_owner; print(new_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# --- boxes and sweeps


def test_a_box_is_one_row_however_often_it_is_named(store: Store) -> None:
    assert store.box_id(a_box()) == store.box_id(replace(a_box(), facts={"accelerator": "GB10", "driver": "new"}))


def test_a_simulated_box_is_never_the_real_one(store: Store) -> None:
    assert store.box_id(a_box()) != store.box_id(a_box(simulated=True))


def test_opening_the_same_plan_again_is_the_same_sweep(store: Store) -> None:
    box_id = store.box_id(a_box())
    first = store.open_sweep(a_plan(), box_id=box_id, file_text="a")
    assert store.open_sweep(a_plan(repeats=5), box_id=box_id, file_text="b") == first


def test_another_name_or_other_configs_make_another_sweep(store: Store) -> None:
    box_id = store.box_id(a_box())
    plans = (a_plan(), a_plan(name="other"), a_plan(a_config(k=7)))
    assert len({store.open_sweep(plan, box_id=box_id, file_text="") for plan in plans}) == 3


def test_a_new_sweep_holds_nothing(store: Store) -> None:
    sweep_id = store.open_sweep(a_plan(), box_id=store.box_id(a_box()), file_text="")
    held = store.stored(sweep_id)
    assert (dict(held.windows), dict(held.prefills), dict(held.failed_boots)) == ({}, {}, {})


def test_asking_about_a_sweep_that_is_not_there_says_so(store: Store) -> None:
    with pytest.raises(NotFound):
        store.stored(4711)
    with pytest.raises(NotFound):
        store.claim(4711, owner=OWNER, ttl=TTL)
    with pytest.raises(NotFound):
        store.wish_stop(4711, wish="finish")
    with pytest.raises(NotFound):
        store.plan_repeats(4711, 12)


def test_what_a_decision_asks_for_by_now_stands_until_the_sweep_is_opened_again(subject: Subject) -> None:
    night = a_night(subject.store)
    planned = subject.planned(night.sweep_id)
    subject.store.plan_repeats(night.sweep_id, planned + 5)
    assert subject.planned(night.sweep_id) == planned + 5
    subject.store.open_sweep(a_plan(), box_id=night.box_id, file_text="")
    assert subject.planned(night.sweep_id) == planned


# --- leases and fences


def test_a_live_holder_keeps_everybody_else_off_the_box(store: Store) -> None:
    night = a_night(store)
    other = store.open_sweep(a_plan(name="other"), box_id=night.box_id, file_text="")
    for sweep_id in (night.sweep_id, other):
        with pytest.raises(BoxBusy) as refused:
            store.claim(sweep_id, owner="box-b:2:2:two", ttl=TTL)
        assert refused.value.facts["owner"] == OWNER


def test_the_same_owner_cannot_run_a_second_sweep_on_the_box(store: Store) -> None:
    night = a_night(store)
    other = store.open_sweep(a_plan(name="other"), box_id=night.box_id, file_text="")
    with pytest.raises(BoxBusy):
        store.claim(other, owner=OWNER, ttl=TTL)


def test_two_boxes_run_at_the_same_time(store: Store) -> None:
    a_night(store)
    a_night(store, box=a_box("box-b"), owner="box-b:2:2:two")


def test_a_claim_whose_answer_was_lost_is_claimed_again_by_the_same_owner(store: Store) -> None:
    night = a_night(store)
    again = store.claim(night.sweep_id, owner=OWNER, ttl=TTL)
    assert again.fence == night.lease.fence + 1


def test_a_lease_that_ran_out_is_taken_over_and_its_boots_are_lost(subject: Subject) -> None:
    night = a_night(subject.store)
    subject.expire()
    taken = subject.store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL)
    assert taken.fence > night.lease.fence
    assert subject.boot_state(night.boot_id) == "lost"


def test_another_sweep_may_take_the_box_once_the_lease_ran_out(subject: Subject) -> None:
    night = a_night(subject.store)
    other = subject.store.open_sweep(a_plan(name="other"), box_id=night.box_id, file_text="")
    subject.expire()
    subject.store.claim(other, owner="box-b:2:2:two", ttl=TTL)
    with pytest.raises(LeaseLost):
        night.keep()


def test_a_holder_on_this_machine_whose_process_is_dead_is_taken_over_at_once(store: Store) -> None:
    night = a_night(store, owner=a_dead_owner())
    assert store.claim(night.sweep_id, owner=new_owner(), ttl=TTL).fence == night.lease.fence + 1


def test_a_holder_on_this_machine_whose_process_lives_is_left_alone(store: Store) -> None:
    night = a_night(store, owner=new_owner())
    with pytest.raises(BoxBusy):
        store.claim(night.sweep_id, owner=new_owner(), ttl=TTL)


def test_a_clock_that_is_set_forward_takes_no_box_from_a_holder_that_lives_on_this_machine(subject: Subject) -> None:
    night = a_night(subject.store, owner=new_owner())
    subject.expire()
    with pytest.raises(BoxBusy):
        subject.store.claim(night.sweep_id, owner=new_owner(), ttl=TTL)
    subject.store.renew(night.lease, ttl=TTL)
    assert night.keep() > 0


def test_a_pid_that_belongs_to_another_process_by_now_is_a_dead_holder(store: Store) -> None:
    host, _, _, mark = new_owner().split(":")
    night = a_night(store, owner=f"{host}:{os.getppid()}:1:{mark}")
    assert store.claim(night.sweep_id, owner=new_owner(), ttl=TTL).fence == night.lease.fence + 1


def test_renewing_keeps_the_lease(subject: Subject) -> None:
    night = a_night(subject.store)
    subject.expire()
    subject.store.renew(night.lease, ttl=TTL)
    with pytest.raises(BoxBusy):
        subject.store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL)


def test_a_holder_that_overslept_may_still_store_when_nobody_took_over(subject: Subject) -> None:
    night = a_night(subject.store)
    subject.expire()
    assert night.keep() > 0


def test_every_write_of_a_holder_that_lost_its_sweep_is_refused(subject: Subject) -> None:
    store = subject.store
    night = a_night(store)
    subject.expire()
    store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL)
    late: list[Callable[[], object]] = [
        lambda: store.renew(night.lease, ttl=TTL),
        lambda: store.release(night.lease, state="done", note=""),
        lambda: begin(store, night.lease, night.plan.configs[0], key="late"),
        lambda: store.boot_started(night.lease, night.boot_id, a_handle()),
        lambda: store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING),
        lambda: store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING),
        night.keep,
        night.keep_prefill,
        lambda: store.open_intent(night.lease, a_production(), restore_by=None),
    ]
    for write in late:
        with pytest.raises(LeaseLost):
            write()
    assert dict(store.stored(night.sweep_id).windows) == {}


def test_a_released_sweep_can_be_claimed_by_anybody(store: Store) -> None:
    night = a_night(store)
    store.release(night.lease, state="partial", note="the night is over")
    assert store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL).fence == night.lease.fence + 1


def test_releasing_twice_is_releasing_once(store: Store) -> None:
    night = a_night(store)
    store.release(night.lease, state="done", note="")
    store.release(night.lease, state="done", note="")
    with pytest.raises(LeaseLost):
        store.release(night.lease, state="failed", note="")


def test_a_wish_to_stop_is_heard_and_forgotten_at_the_next_start(store: Store) -> None:
    night = a_night(store)
    assert store.stop_wish(night.sweep_id) is None
    store.wish_stop(night.sweep_id, wish="finish")
    assert store.stop_wish(night.sweep_id) == "finish"
    store.release(night.lease, state="cancelled", note="")
    store.wish_stop(night.sweep_id, wish="finish")
    store.claim(night.sweep_id, owner=OWNER, ttl=TTL)
    assert store.stop_wish(night.sweep_id) is None


def test_a_wish_to_stop_outlives_the_holder_that_died(subject: Subject) -> None:
    night = a_night(subject.store)
    subject.store.wish_stop(night.sweep_id, wish="finish")
    subject.expire()
    subject.store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL)
    assert subject.store.stop_wish(night.sweep_id) == "finish"


# --- boots


def test_a_boot_goes_from_starting_over_ready_to_stopped(subject: Subject) -> None:
    night = a_night(subject.store)
    assert subject.boot_state(night.boot_id) == "starting"
    subject.store.boot_started(night.lease, night.boot_id, a_handle())
    subject.store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)
    assert subject.boot_state(night.boot_id) == "ready"
    for _ in range(2):
        subject.store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING)
    assert subject.boot_state(night.boot_id) == "stopped"


def test_beginning_the_same_boot_again_is_the_same_boot(subject: Subject) -> None:
    night = a_night(subject.store)
    first = night.boot("key-2")
    assert night.boot("key-2") == first
    assert subject.boot_state(first) == "starting"


def test_beginning_a_boot_closes_the_one_that_was_forgotten(subject: Subject) -> None:
    night = a_night(subject.store)
    forgotten, fresh = night.boot_id, night.boot("key-2")
    assert (subject.boot_state(forgotten), subject.boot_state(fresh)) == ("lost", "starting")


def test_a_boot_that_was_closed_as_lost_may_still_say_how_it_ended(subject: Subject) -> None:
    night = a_night(subject.store)
    forgotten = night.boot_id
    night.boot("key-2")
    subject.store.end_boot(night.lease, forgotten, failed("same"), at=EVENING)
    assert subject.boot_state(forgotten) == "failed"


def test_a_second_different_ending_of_a_boot_is_refused(store: Store) -> None:
    night = a_night(store)
    store.end_boot(night.lease, night.boot_id, failed(), at=EVENING)
    with pytest.raises(BootAlreadyEnded):
        store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING)
    with pytest.raises(BootAlreadyEnded):
        store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)


def test_failed_boots_are_listed_with_their_advice_oldest_first(store: Store) -> None:
    night = a_night(store)
    store.end_boot(night.lease, night.boot_id, failed("same"), at=EVENING)
    night.boot("key-2")
    store.end_boot(night.lease, night.boot_id, failed("never"), at=EVENING)
    night.boot("key-3")
    store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING)
    assert store.stored(night.sweep_id).failed_boots == {(night.plan.configs[0].fingerprint, 0): ("same", "never")}


def test_a_failure_that_nobody_classified_may_be_tried_again(store: Store) -> None:
    night = a_night(store)
    store.end_boot(night.lease, night.boot_id, replace(failed(), failure=None), at=EVENING)
    assert list(store.stored(night.sweep_id).failed_boots.values()) == [("same",)]


def test_a_boot_of_another_sweep_is_not_found(store: Store) -> None:
    first = a_night(store)
    second = a_night(store, box=a_box("box-b"), owner="box-b:2:2:two")
    with pytest.raises(NotFound):
        store.boot_started(second.lease, first.boot_id, a_handle())


def test_a_log_comes_back_in_order_whatever_was_in_it(subject: Subject) -> None:
    night = a_night(subject.store)
    subject.store.add_log(night.boot_id, 1, some_lines("third"))
    subject.store.add_log(night.boot_id, 0, (LogLine("first \x00 \ud83d"), LogLine("second é", 1.5, "stderr")))
    assert subject.log(night.boot_id) == ["first \x00 \ud83d", "second é", "third"]


def test_a_chunk_that_comes_again_with_more_lines_replaces_the_shorter_one(subject: Subject) -> None:
    night = a_night(subject.store)
    for lines in (("a", "b"), ("a", "b", "c"), ("a", "b")):
        subject.store.add_log(night.boot_id, 0, some_lines(*lines))
    assert subject.log(night.boot_id) == ["a", "b", "c"]


def test_a_log_of_a_boot_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        store.add_log(4711, 0, some_lines("a"))


# --- windows and prefills


def test_a_window_is_stored_under_the_plans_own_values(store: Store) -> None:
    night = a_night(store)
    night.keep(a_window(concurrency=4), concurrency=4, temperature="1")
    assert store.stored(night.sweep_id).windows == {(night.plan.configs[0].fingerprint, 4, "1.00", 0): (True, 1)}


def test_a_float_temperature_is_the_same_cell_as_its_decimal(store: Store) -> None:
    night = a_night(store)
    night.keep(a_window(flags=("aborted",)), temperature=str(Decimal("0.70")))
    night.keep(attempt=2, temperature=str(Decimal(str(0.7))))
    assert store.stored(night.sweep_id).windows == {(night.plan.configs[0].fingerprint, 1, "0.70", 0): (True, 2)}


def test_sending_the_same_window_again_stores_it_once(store: Store) -> None:
    night = a_night(store)
    assert night.keep() == night.keep()
    assert list(store.stored(night.sweep_id).windows.values()) == [(True, 1)]


def test_another_window_under_the_same_attempt_is_refused(store: Store) -> None:
    night = a_night(store)
    night.keep(a_window(30.0, flags=("preempted",)))
    with pytest.raises(RepeatAlreadyStored):
        night.keep(a_window(31.0, flags=("preempted",)))


def test_the_same_window_under_other_conditions_is_another_one_and_refused(store: Store) -> None:
    night = a_night(store)
    night.keep()
    with pytest.raises(RepeatAlreadyStored):
        night.keep(conditions=some_conditions(prompts="b" * 64))


def test_nothing_is_stored_after_a_clean_window_of_a_repeat(store: Store) -> None:
    night = a_night(store)
    night.keep()
    for result in (a_window(31.0), a_window(31.0, flags=("aborted",))):
        with pytest.raises(RepeatAlreadyStored):
            night.keep(result, attempt=2)


def test_a_flagged_window_is_kept_and_measured_again(store: Store) -> None:
    night = a_night(store)
    night.keep(a_window(flags=("foreign_load",)))
    assert list(store.stored(night.sweep_id).windows.values()) == [(False, 1)]
    night.keep(a_window(29.0), attempt=2)
    assert list(store.stored(night.sweep_id).windows.values()) == [(True, 2)]


def test_each_repeat_and_each_cell_stands_alone(store: Store) -> None:
    night = a_night(store)
    for index in (0, 1):
        for concurrency in (1, 4):
            night.keep(a_window(concurrency=concurrency), index=index, concurrency=concurrency)
    assert len(store.stored(night.sweep_id).windows) == 4


def test_a_window_without_numbers_needs_a_flag(store: Store) -> None:
    night = a_night(store)
    with pytest.raises(ValueError, match="flag"):
        night.keep(replace(a_window(), numbers=None))
    night.keep(replace(a_window(flags=("engine_exited",)), numbers=None))
    assert list(store.stored(night.sweep_id).windows.values()) == [(False, 1)]


def test_a_number_is_never_filed_under_a_config_whose_engine_did_not_give_it(store: Store) -> None:
    night = a_night(store, a_plan(a_config(), a_config("no speculation", k=None)))
    with pytest.raises(ValueError, match="config"):
        night.keep(config=1)


def test_a_window_survives_a_takeover_and_is_not_asked_for_again(subject: Subject) -> None:
    night = a_night(subject.store)
    night.keep()
    subject.expire()
    lease = subject.store.claim(night.sweep_id, owner="box-b:2:2:two", ttl=TTL)
    assert list(subject.store.stored(lease.sweep_id).windows.values()) == [(True, 1)]


def test_prefills_follow_the_same_rules(store: Store) -> None:
    night = a_night(store)
    night.keep_prefill(a_prefill(None, flags=("cache_hit",)))
    assert night.keep_prefill(attempt=2) == night.keep_prefill(attempt=2)
    with pytest.raises(RepeatAlreadyStored):
        night.keep_prefill(a_prefill(1900.0), attempt=3)
    with pytest.raises(ValueError, match="flag"):
        night.keep_prefill(a_prefill(None), index=1)
    assert store.stored(night.sweep_id).prefills == {(night.plan.configs[0].fingerprint, 2000, 0, 0): (True, 2)}


def test_each_prompt_length_and_load_counts_its_own_prefills(store: Store) -> None:
    night = a_night(store)
    config = night.plan.configs[0].fingerprint
    for tokens, load in ((2000, 0), (12000, 0), (2000, 4)):
        repeat = night.prefill_repeat(tokens=tokens, under_load=load)
        store.add_prefill(
            night.lease, night.boot_id, repeat, a_prefill(), attempt=1, conditions={"model": "m"}, at=EVENING
        )
    found = store.stored(night.sweep_id).prefills
    assert dict(found) == {(config, *key, 0): (True, 1) for key in ((2000, 0), (12000, 0), (2000, 4))}


def test_a_single_batch_run_and_a_window_of_the_same_cell_stand_apart(store: Store) -> None:
    night = a_night(store)
    night.keep(index=0, concurrency=1)
    repeat = night.repeat(0, concurrency=1)
    alone = replace(repeat, cell=replace(repeat.cell, kind="single_batch"))
    result = replace(a_window(), raw=replace(a_window().raw, seconds_asked=None))
    for _ in range(2):
        store.add_window(
            night.lease, night.boot_id, alone, result, attempt=1, conditions={"probe": "single_batch"}, at=EVENING
        )
    with pytest.raises(RepeatAlreadyStored):
        store.add_window(night.lease, night.boot_id, alone, a_window(31.0), attempt=2, conditions={}, at=EVENING)
    held = store.stored(night.sweep_id)
    assert (list(held.windows.values()), list(held.single_batches.values())) == ([(True, 1)], [(True, 1)])


# --- events and production


def test_what_a_decision_rests_on_is_every_clean_window_with_its_boot_and_its_repeat(store: Store) -> None:
    night = a_night(store)
    first = night.boot_id
    store.boot_ready(night.lease, first, replace(a_ready(), applied=Applied(not_applied=("block",))), at=EVENING)
    night.keep(a_window(30.0), index=0)
    night.keep(a_window(31.0, flags=("underfilled",)), index=1)
    second = night.boot()
    night.keep(a_window(32.0), index=1, attempt=2, temperature="1.0", conditions=some_conditions(image_digest="other"))
    one, other = store.drawn(night.sweep_id)
    config = night.plan.configs[0].fingerprint
    assert (one.place, one.boot_id, one.decode_rate) == ((config, 1, "0.70", 0), first, 30.0)
    assert (other.place, other.boot_id, other.decode_rate) == ((config, 1, "1.00", 1), second, 32.0)
    assert one.acceptance_length == some_numbers(30.0).acceptance_length
    assert (one.not_applied, other.not_applied) == (("block",), ())
    assert one.conditions != other.conditions
    with pytest.raises(NotFound):
        store.drawn(night.sweep_id + 1000)


def test_events_are_kept_in_order(subject: Subject) -> None:
    night = a_night(subject.store)
    subject.store.event("boot_ready", "up", sweep_id=night.sweep_id, boot_id=night.boot_id, data={"seconds": 1.5})
    subject.store.event("note", "for nobody in particular", level="warning")
    assert subject.events() == ["up", "for nobody in particular"]


def test_an_intent_stays_open_until_production_serves_again(store: Store) -> None:
    night = a_night(store)
    intent = store.open_intent(night.lease, a_production(), restore_by=EVENING + timedelta(hours=8))
    assert store.open_intents(night.box_id) == ((intent, "vllm-qwen"),)
    store.close_intent(intent, outcome="it did not answer within 1200 s")
    assert store.open_intents(night.box_id) == ((intent, "vllm-qwen"),)
    for _ in range(2):
        store.close_intent(intent, outcome="restored")
    assert store.open_intents(night.box_id) == ()


def test_an_intent_keeps_what_bringing_production_back_needs_and_what_was_checked_then(store: Store) -> None:
    night = a_night(store)
    record = {"url": "http://127.0.0.1:8000", "ready_timeout": 900.0, "command": ["--model", "m"]}
    intent = store.open_intent(night.lease, a_production(), restore_by=None, record=record)
    (found,) = store.owed(night.box_id)
    assert (found.intent_id, found.container, dict(found.record)) == (intent, "vllm-qwen", record)
    for stage in ("stopped", "stopped", "restore_started"):
        store.mark_intent(intent, stage=stage)
    store.close_intent(intent, outcome="it did not answer", checks={"token": "none"})
    assert [one.intent_id for one in store.owed(night.box_id)] == [intent]
    store.close_intent(intent, outcome="restored", checks={"token": "served"})
    assert store.owed(night.box_id) == ()
    with pytest.raises(NotFound):
        store.mark_intent(4711, stage="stopped")


def test_an_intent_that_is_open_already_is_not_opened_twice(store: Store) -> None:
    night = a_night(store)
    first = store.open_intent(night.lease, a_production(), restore_by=None)
    assert store.open_intent(night.lease, a_production(), restore_by=EVENING) == first
    other = store.open_intent(night.lease, a_production("vllm-small"), restore_by=None)
    assert store.open_intents(night.box_id) == ((first, "vllm-qwen"), (other, "vllm-small"))
    store.close_intent(first, outcome="restored")
    assert store.open_intent(night.lease, a_production(), restore_by=None) not in (first, other)


def test_an_open_intent_keeps_what_it_has_recorded_unless_it_is_told_that_another_container_takes_its_place(
    store: Store,
) -> None:
    night = a_night(store)
    first, second = {"id": "one", "image": "v1"}, {"id": "two", "image": "v2"}
    intent = store.open_intent(night.lease, a_production(), restore_by=None, record=first)
    store.open_intent(night.lease, a_production(), restore_by=None, record=second)
    assert [dict(one.record) for one in store.owed(night.box_id)] == [first]
    assert store.open_intent(night.lease, a_production(), restore_by=None, record=second, replaces=True) == intent
    assert [dict(one.record) for one in store.owed(night.box_id)] == [second]


def test_an_intent_that_is_not_there_cannot_be_closed(store: Store) -> None:
    with pytest.raises(NotFound):
        store.close_intent(4711, outcome="restored")


# --- how long starts took


def test_a_new_box_has_no_past_starts(store: Store) -> None:
    past = store.past_starts(store.box_id(a_box()))
    assert (past.engines, dict(past.restores)) == ((), {})


def test_past_starts_are_the_longest_of_each_config_with_their_number(store: Store) -> None:
    plan = a_plan(a_config(k=3), a_config(k=7))
    night = a_night(store, plan)
    for key, config, seconds in (("a", 0, 400.0), ("b", 0, 430.0), ("c", 1, 300.0)):
        boot = night.boot(key, config=config)
        store.boot_ready(night.lease, boot, a_ready(cold_start=seconds), at=EVENING)
        store.end_boot(night.lease, boot, stopped(), at=EVENING)
    store.end_boot(night.lease, night.boot("d", config=1), failed(), at=EVENING)
    found = {
        start.config: (start.longest.seconds, start.longest.count) for start in store.past_starts(night.box_id).engines
    }
    assert found == {plan.configs[0].fingerprint: (430.0, 2), plan.configs[1].fingerprint: (300.0, 1)}


def test_past_starts_of_the_box_outlive_a_new_driver_and_are_no_other_boxs(store: Store) -> None:
    night = a_night(store)
    store.boot_ready(night.lease, night.boot("a"), a_ready(cold_start=400.0), at=EVENING)
    newer = store.box_id(replace(a_box(), fingerprint="e" * 64))
    assert newer != night.box_id
    assert [start.longest.seconds for start in store.past_starts(newer).engines] == [400.0]
    assert store.past_starts(store.box_id(a_box("box-b"))).engines == ()
    assert store.past_starts(store.box_id(a_box(simulated=True))).engines == ()


def test_an_odd_start_long_ago_is_forgotten(store: Store) -> None:
    night = a_night(store)
    for number in range(21):
        boot = night.boot(f"key-{number}")
        store.boot_ready(night.lease, boot, a_ready(cold_start=9000.0 if number == 0 else 400.0), at=EVENING)
        store.end_boot(night.lease, boot, stopped(), at=EVENING)
    assert [start.longest for start in store.past_starts(night.box_id).engines] == [Longest(Seconds(400.0), 20)]


def test_restores_count_once_production_serves(store: Store) -> None:
    night = a_night(store)
    intent = store.open_intent(night.lease, a_production(), restore_by=None)
    store.mark_intent(intent, stage="restore_started")
    assert dict(store.past_starts(night.box_id).restores) == {}
    store.close_intent(intent, outcome="restored")
    other = store.open_intent(night.lease, a_production("by-hand"), restore_by=None)
    store.close_intent(other, outcome="restored")  # nobody saw its start
    restores = store.past_starts(night.box_id).restores
    assert [(name, each.count, each.seconds < 5.0) for name, each in restores.items()] == [("vllm-qwen", 1, True)]


# --- taken over from other sweeps


def a_changed_night(night: Night) -> Night:
    """Return the night of a sweep that has another config besides, on the same box."""
    night.store.release(night.lease, state="done", note="")
    return a_night(night.store, a_plan(a_config(k=7), *night.plan.configs, name="changed"))


def a_link(row: Kept, repeat: int | None = None) -> Link:
    return Link(row.kind, row.place, row.repeat if repeat is None else repeat, row.row_id, row.sweep_id)


def test_clean_measurements_of_the_boxs_sweeps_can_be_taken_over_and_flagged_ones_not(store: Store) -> None:
    night = a_night(store)
    window, prefill = night.keep(), night.keep_prefill()
    night.keep(a_window(flags=("underfilled",)), index=1)
    later = a_changed_night(night)
    found = store.reusable(later.sweep_id)
    config = night.plan.configs[0].fingerprint
    assert {(row.kind, row.place, row.row_id, row.sweep_id) for row in found.rows} == {
        ("decode", (config, 1, "0.70"), window, night.sweep_id),
        ("prefill", (config, 2000, "0"), prefill, night.sweep_id),
    }
    known = {name: value for name, value in some_conditions().items() if value is not None}
    for document in found.conditions.values():
        assert {name: value for name, value in document.items() if value is not None} == known
    assert set(found.conditions) == {row.conditions for row in found.rows}
    assert found.linked == frozenset()


def test_another_box_and_configs_of_no_concern_are_not_offered(store: Store) -> None:
    night = a_night(store)
    night.keep()
    store.release(night.lease, state="done", note="")
    elsewhere = a_night(store, a_plan(name="elsewhere"), box=a_box("box-b"))
    store.release(elsewhere.lease, state="done", note="")
    other = a_night(store, a_plan(a_config(k=7), name="other"))
    assert store.reusable(elsewhere.sweep_id).rows == ()
    assert store.reusable(other.sweep_id).rows == ()


def test_what_is_taken_over_is_stored_for_the_sweep_and_for_no_other(store: Store) -> None:
    night = a_night(store)
    night.keep(), night.keep_prefill()
    later = a_changed_night(night)
    rows = store.reusable(later.sweep_id).rows
    store.reuse(later.lease, [a_link(row, repeat=1) for row in rows])
    store.reuse(later.lease, [a_link(row, repeat=1) for row in rows])  # the same again changes nothing
    config = night.plan.configs[0].fingerprint
    held = store.stored(later.sweep_id)
    assert dict(held.windows) == {(config, 1, "0.70", 1): (True, 0)}
    assert dict(held.prefills) == {(config, 2000, 0, 1): (True, 0)}
    assert dict(held.single_batches) == {}
    assert dict(store.stored(night.sweep_id).windows) == {(config, 1, "0.70", 0): (True, 1)}
    assert store.reusable(later.sweep_id).linked == {(row.kind, row.row_id) for row in rows}
    assert list(store.reused_conditions(later.sweep_id, config)) == [rows[0].conditions]
    assert dict(store.reused_conditions(night.sweep_id, config)) == {}


def test_what_was_taken_over_can_be_given_back_by_its_conditions(store: Store) -> None:
    night = a_night(store)
    night.keep(), night.keep(index=1, conditions=some_conditions(engine_version="0.27.1")), night.keep_prefill()
    later = a_changed_night(night)
    rows = store.reusable(later.sweep_id).rows
    store.reuse(later.lease, [a_link(row) for row in rows])
    config = night.plan.configs[0].fingerprint
    old = next(row.conditions for row in rows if row.repeat == 1)
    assert store.withdraw_reused(later.lease, later.plan.configs[0].fingerprint, conditions=frozenset({old})) == 0
    assert store.withdraw_reused(later.lease, config, conditions=frozenset({old})) == 1
    assert set(store.stored(later.sweep_id).windows) == {(config, 1, "0.70", 0)}
    assert store.withdraw_reused(later.lease, config, conditions=frozenset(row.conditions for row in rows)) == 2
    assert (dict(store.stored(later.sweep_id).windows), dict(store.stored(later.sweep_id).prefills)) == ({}, {})


def test_a_dispossessed_holder_takes_nothing_over(store: Store) -> None:
    night = a_night(store)
    late = replace(night.lease, fence=night.lease.fence - 1)
    with pytest.raises(LeaseLost):
        store.reuse(late, [])
    with pytest.raises(LeaseLost):
        store.withdraw_reused(late, night.plan.configs[0].fingerprint, conditions=frozenset())


# --- expectations ------------------------------------------------------------------------------------------------


def test_expectations_are_taken_twice_and_by_the_current_holder_only(subject: Subject) -> None:
    night = a_night(subject.store)
    cell = night.repeat().cell
    one = Prediction(cell.config, cell.concurrency, cell.temperature, "decode_rate", "file", 20.0, 40.0)
    for _ in range(2):
        night.store.predict(night.lease, [one], at=EVENING)
    with pytest.raises(LeaseLost):
        night.store.predict(replace(night.lease, fence=night.lease.fence - 1), [one], at=EVENING)


def test_the_newest_boot_of_a_config_tells_its_weights(store: Store) -> None:
    night = a_night(store)
    assert store.past_residents(night.box_id) == {}
    store.boot_ready(night.lease, night.boot_id, a_ready(), at=EVENING)
    told = store.past_residents(night.box_id)
    assert {name: (one.weights, one.kv_tokens) for name, one in told.items()} == {
        night.plan.configs[0].fingerprint: (24.92, 838_501)
    }

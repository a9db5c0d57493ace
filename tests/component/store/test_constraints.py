"""What must never happen is refused by the database itself, by name, whatever a program does."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from nightsweep.store.postgres import PostgresStore
from nightsweep.store.session import constraint_of
from tests.storekit.builders import a_night, a_plan, a_prefill, a_window

COPY_WINDOW = """
INSERT INTO windows (cell_id, boot_id, conditions_id, repeat, attempt, fence, flags, content_hash, started_at, stored_at,
                     seconds_asked, decode_rate)
SELECT cell_id, boot_id, conditions_id, repeat, {attempt}, fence, {flags}, content_hash, started_at, stored_at,
       seconds_asked, {rate} FROM windows LIMIT 1
"""
NONE = "'{}'::text[]"

REFUSED = {
    "a second clean window of a repeat": (
        COPY_WINDOW.format(attempt=9, flags=NONE, rate="decode_rate"),
        "uq_windows_one_clean_per_repeat",
    ),
    "the same attempt twice": (
        COPY_WINDOW.format(attempt="attempt", flags="ARRAY['aborted']", rate="decode_rate"),
        "uq_windows_cell_id_repeat_attempt",
    ),
    "a window that is neither flagged nor has a rate": (
        COPY_WINDOW.format(attempt=9, flags=NONE, rate="NULL"),
        "ck_windows_clean_has_numbers",
    ),
    "a second clean prefill of a repeat": (
        "INSERT INTO prefills (sweep_id, config_id, boot_id, conditions_id, repeat, attempt, fence, content_hash, started_at,"
        " stored_at, source, rate, tokens, under_load) SELECT sweep_id, config_id, boot_id, conditions_id, repeat, 9, fence, '',"
        " started_at, stored_at, source, rate, tokens, under_load FROM prefills LIMIT 1",
        "uq_prefills_one_clean_per_repeat",
    ),
    "two live boots on a box": (
        "INSERT INTO boots (sweep_id, config_id, box_id, boot_round, attempt, boot_key, fence, simulated, started_at)"
        " SELECT sweep_id, config_id, box_id, boot_round, 9, 'other', fence, simulated, started_at FROM boots LIMIT 1",
        "uq_boots_one_live_per_box",
    ),
    "two running sweeps on a box": (
        "INSERT INTO sweeps (name, box_id, probe_id, plan_fingerprint, plan, file_text, repeats_planned, state, lease_owner)"
        " SELECT 'other', box_id, probe_id, plan_fingerprint, plan, file_text, 1, 'running', 'x' FROM sweeps LIMIT 1",
        "uq_sweeps_one_running_per_box",
    ),
    "a running sweep that nobody holds": (
        "UPDATE sweeps SET lease_owner = NULL",
        "ck_sweeps_running_is_leased",
    ),
    "a failed boot that does not say why": (
        "UPDATE boots SET state = 'failed', ended_at = now()",
        "ck_boots_failed_says_why",
    ),
    "a state that there is not": ("UPDATE sweeps SET state = 'fine', lease_owner = NULL", "ck_sweeps_state"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_the_database_refuses(what: str, engine: sa.Engine, store: PostgresStore) -> None:
    night = a_night(store, a_plan())
    night.keep(a_window())
    night.keep_prefill(a_prefill())
    statement, constraint = REFUSED[what]
    with pytest.raises(sa.exc.IntegrityError) as refused, engine.begin() as connection:
        connection.execute(sa.text(statement))
    assert constraint_of(refused.value) == constraint


def test_a_flagged_attempt_stands_beside_the_clean_one(engine: sa.Engine, store: PostgresStore) -> None:
    night = a_night(store)
    night.keep(a_window(flags=("aborted",)))
    night.keep(a_window(), attempt=2)
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT attempt, clean FROM windows ORDER BY attempt")).all()
    assert [tuple(row) for row in rows] == [(1, False), (2, True)]

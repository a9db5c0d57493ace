"""The tables. What must never happen is made impossible here, by constraint, not by care.

Content-addressed rows (configs, probes, conditions, images) are written once and pointed at. Everything that a number
depends on is a row or a column beside it. Units are in the column names: `_s` seconds, `_gib` GiB, `rate` tokens per
second; absent is NULL.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, UUID

from nightsweep.plan.words import DECODE, SINGLE_BATCH, WHOLE_RUN
from nightsweep.store.columns import born, column, document, identity, maybe, one_of, time, to, words
from nightsweep.store.columns import metadata as metadata
from nightsweep.store.schema_decisions import decision_windows as decision_windows
from nightsweep.store.schema_decisions import decisions as decisions
from nightsweep.store.schema_decisions import expectations as expectations
from nightsweep.store.schema_imports import imports as imports
from nightsweep.store.schema_nights import production_intents as production_intents
from nightsweep.store.schema_nights import schedules as schedules
from nightsweep.store.schema_reused import reused_prefills as reused_prefills
from nightsweep.store.schema_reused import reused_windows as reused_windows
from nightsweep.store.schema_summaries import boot_summaries as boot_summaries
from nightsweep.store.schema_summaries import cell_summaries as cell_summaries

HEAD = "0015"
"""The newest migration: what `migrate` brings a database to."""

LIVE_STATES = ("starting", "ready")
SWEEP_STATES = ("planned", "running", "done", "partial", "failed", "cancelled", "interrupted", "paused")
STOP_WISHES = ("finish", "drop", "pause")
CELL_KINDS = (DECODE, SINGLE_BATCH, WHOLE_RUN)
BOOT_STATES = (*LIVE_STATES, "stopped", "failed", "lost")

boxes = sa.Table(
    "boxes",
    metadata,
    identity(),
    column("name", sa.Text),
    column("fingerprint", sa.Text),
    column("simulated", sa.Boolean),
    document("facts"),
    born(),
    sa.UniqueConstraint("name", "fingerprint", "simulated"),
)

images = sa.Table(
    "images",
    metadata,
    identity(),
    column("digest", sa.Text, unique=True),
    words("refs"),
    maybe("engine", sa.Text),
    maybe("engine_version", sa.Text),
    born(),
)

configs = sa.Table(
    "configs",
    metadata,
    identity(),
    column("hash", sa.Text, unique=True),
    column("doc", JSONB),
    column("name", sa.Text),
    # Generated columns, not expression indexes: Alembic would report those as changed for ever.
    sa.Column(
        "method",
        sa.Text,
        sa.Computed(
            "COALESCE(doc #>> '{speculative,method}'::text[], doc #>> '{speculative,algorithm}'::text[])",
            persisted=True,
        ),
        nullable=True,
    ),
    sa.Column(
        "num_speculative_tokens",
        sa.Integer,
        sa.Computed(
            "CASE WHEN jsonb_typeof(doc #> '{speculative,num_speculative_tokens}'::text[]) = 'number'::text"
            " THEN (doc #>> '{speculative,num_speculative_tokens}'::text[])::numeric::integer ELSE NULL::integer END",
            persisted=True,
        ),
        nullable=True,
    ),
    born(),
    sa.Index("ix_configs_doc", "doc", postgresql_using="gin", postgresql_ops={"doc": "jsonb_path_ops"}),
    sa.Index(None, "method", "num_speculative_tokens"),
)

probes = sa.Table(
    "probes",
    metadata,
    identity(),
    column("hash", sa.Text, unique=True),
    column("doc", JSONB),
    born(),
)

conditions = sa.Table(
    "conditions",
    metadata,
    identity(),
    column("fingerprint", sa.Text, unique=True),
    column("doc", JSONB),
    born(),
)

sweeps = sa.Table(
    "sweeps",
    metadata,
    identity(),
    column("uuid", UUID(as_uuid=True), unique=True, server_default=sa.text("gen_random_uuid()")),
    column("name", sa.Text),
    to("boxes"),
    to("probes"),
    column("plan_fingerprint", sa.Text),
    column("plan", JSONB),
    column("file_text", sa.Text),
    column("repeats_planned", sa.Integer),
    column("state", sa.Text, server_default="planned"),
    maybe("lease_owner", sa.Text),
    time("lease_until"),
    column("fence", sa.BigInteger, server_default=sa.text("0")),
    maybe("stop_wish", sa.Text),
    maybe("prefect_run", sa.Text),
    maybe("note", sa.Text),
    born(),
    time("started_at"),
    time("ended_at"),
    sa.UniqueConstraint("box_id", "name", "plan_fingerprint"),
    one_of("state", SWEEP_STATES),
    one_of("stop_wish", STOP_WISHES),
    sa.CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL)", name="running_is_leased"),
    sa.Index("uq_sweeps_one_running_per_box", "box_id", unique=True, postgresql_where=sa.text("state = 'running'")),
    sa.Index(None, "name"),
)

sweep_configs = sa.Table(
    "sweep_configs",
    metadata,
    to("sweeps", primary_key=True),
    to("configs", primary_key=True),
    column("position", sa.Integer),
    column("name", sa.Text),
    document("grid_values"),
    sa.Index(None, "config_id"),
    sa.Index(None, "name"),
)

boots = sa.Table(
    "boots",
    metadata,
    identity(),
    to("sweeps"),
    to("configs"),
    to("boxes"),
    to("images", nullable=True),
    column("boot_round", sa.Integer),
    column("attempt", sa.Integer),
    column("boot_key", sa.Text, unique=True),
    column("fence", sa.BigInteger),
    words("command"),
    maybe("engine_id", sa.Text),
    document("host_facts"),
    column("simulated", sa.Boolean),
    column("state", sa.Text, server_default="starting"),
    time("started_at", nullable=False),
    time("ready_at"),
    time("ended_at"),
    maybe("exit_code", sa.Integer),
    maybe("oom_killed", sa.Boolean),
    maybe("cold_start_s", sa.Double),
    maybe("first_token_s", sa.Double),
    document("cache_state"),
    maybe("weights_gib", sa.Double),
    maybe("draft_weights_gib", sa.Double),
    maybe("kv_cache_gib", sa.Double),
    maybe("kv_tokens", sa.BigInteger),
    maybe("max_concurrency", sa.Double),
    maybe("max_concurrency_tokens", sa.BigInteger),
    maybe("engine", sa.Text),
    maybe("engine_version", sa.Text),
    document("facts"),
    document("identity"),
    document("applied"),
    maybe("failure_kind", sa.Text),
    maybe("failure_stage", sa.Text),
    words("failure_lines"),
    maybe("failure_remedy", sa.Text),
    maybe("failure_retry", sa.Text),
    sa.UniqueConstraint("sweep_id", "config_id", "boot_round", "attempt"),
    one_of("state", BOOT_STATES),
    sa.CheckConstraint("state <> 'failed' OR failure_kind IS NOT NULL", name="failed_says_why"),
    sa.CheckConstraint("(state IN ('starting', 'ready')) = (ended_at IS NULL)", name="ended_has_a_time"),
    sa.Index(
        "uq_boots_one_live_per_box",
        "box_id",
        unique=True,
        postgresql_where=sa.text("state IN ('starting', 'ready')"),
    ),
    sa.Index(None, "config_id", "started_at"),
)

boot_logs = sa.Table(
    "boot_logs",
    metadata,
    to("boots", primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True),
    column("n_lines", sa.Integer),
    column("n_bytes", sa.Integer),
    column("codec", sa.Text),
    column("data", BYTEA),
)

cells = sa.Table(
    "cells",
    metadata,
    identity(),
    to("sweeps"),
    to("configs"),
    column("concurrency", sa.Integer),
    # Two exact decimals: with floats, whether two temperatures are equal is a matter of luck.
    column("temperature", sa.Numeric(4, 2)),
    column("kind", sa.Text),
    sa.UniqueConstraint("sweep_id", "config_id", "kind", "concurrency", "temperature"),
    one_of("kind", CELL_KINDS),
    sa.CheckConstraint("concurrency > 0", name="concurrency"),
    sa.Index(None, "config_id", "concurrency", "temperature"),
)


def _measured_columns() -> list[sa.Column[Any]]:
    """Return what a window and a prefill have in common: when, under what, and how it may be told from another."""
    return [
        to("boots"),
        to("conditions"),
        column("repeat", sa.Integer),
        column("attempt", sa.Integer),
        column("fence", sa.BigInteger),
        words("flags"),
        document("flag_details"),
        column("content_hash", sa.Text),
        time("started_at", nullable=False),
        time("stored_at", nullable=False),
        maybe("position_in_night", sa.Integer),
        maybe("seconds_since_boot", sa.Double),
    ]


windows = sa.Table(
    "windows",
    metadata,
    identity(),
    to("cells"),
    *_measured_columns(),
    sa.Column(
        "clean",
        sa.Boolean,
        sa.Computed("cardinality(flags) = 0 AND decode_rate IS NOT NULL", persisted=True),
        nullable=False,
    ),
    maybe("seconds_asked", sa.Double),
    maybe("ramp_s", sa.Double),
    maybe("ended_early", sa.Text),
    maybe("detail", sa.Text),
    words("notes"),
    maybe("box", JSONB),
    maybe("seconds", sa.Double),
    maybe("generation_tokens", sa.BigInteger),
    maybe("decode_rate", sa.Double),
    maybe("acceptance_length", sa.Double),
    maybe("acceptance_rate", sa.Double),
    maybe("positions", ARRAY(sa.Double)),
    maybe("drafts", sa.BigInteger),
    maybe("draft_tokens", sa.BigInteger),
    maybe("accepted_tokens", sa.BigInteger),
    maybe("steps", sa.BigInteger),
    maybe("step_time_s", sa.Double),
    maybe("tokens_per_step_and_stream", sa.Double),
    maybe("own_tokens", sa.BigInteger),
    maybe("foreign_tokens", sa.BigInteger),
    maybe("occupancy", sa.Double),
    maybe("relative_uncertainty", sa.Double),
    maybe("ttft", JSONB),
    maybe("tpot", JSONB),
    maybe("e2e", JSONB),
    maybe("chunk_gap", JSONB),
    document("integrity"),
    document("sources"),
    document("unavailable"),
    document("facts"),
    sa.UniqueConstraint("cell_id", "repeat", "attempt"),
    sa.CheckConstraint("cardinality(flags) > 0 OR decode_rate IS NOT NULL", name="clean_has_numbers"),
    sa.Index(
        "uq_windows_one_clean_per_repeat",
        "cell_id",
        "repeat",
        unique=True,
        postgresql_where=sa.text("clean"),
        # The index alone answers means and ranges, and of which boots and when.
        postgresql_include=[
            "decode_rate",
            "acceptance_length",
            "step_time_s",
            "conditions_id",
            "boot_id",
            "started_at",
        ],
    ),
    sa.Index(None, "boot_id"),
    sa.Index(None, "started_at"),
)

readings = sa.Table(
    "readings",
    metadata,
    to("windows", primary_key=True),
    sa.Column("side", sa.Text, primary_key=True),
    column("at_monotonic_s", sa.Double),
    column("uncertainty_s", sa.Double),
    time("wall", nullable=False),
    document("values"),
    column("codec", sa.Text),
    column("n_bytes", sa.Integer),
    column("raw", BYTEA),
    one_of("side", ("before", "after")),
)

request_timings = sa.Table(
    "request_timings",
    metadata,
    to("windows", primary_key=True),
    column("n_requests", sa.Integer),
    column("codec", sa.Text),
    column("n_bytes", sa.Integer),
    column("data", BYTEA),
)

box_samples = sa.Table(
    "box_samples",
    metadata,
    to("windows", primary_key=True),
    column("n_samples", sa.Integer),
    column("codec", sa.Text),
    column("n_bytes", sa.Integer),
    column("data", BYTEA),
)

prefills = sa.Table(
    "prefills",
    metadata,
    identity(),
    to("sweeps"),
    to("configs"),
    *_measured_columns(),
    column("tokens", sa.BigInteger),
    column("under_load", sa.Integer),
    sa.Column(
        "clean", sa.Boolean, sa.Computed("cardinality(flags) = 0 AND rate IS NOT NULL", persisted=True), nullable=False
    ),
    maybe("prompt_tokens", sa.BigInteger),
    maybe("ttft_s", sa.Double),
    maybe("rate", sa.Double),
    maybe("cached_tokens", sa.BigInteger),
    maybe("engine_seconds", sa.Double),
    column("source", sa.Text),
    maybe("detail", sa.Text),
    document("facts"),
    sa.UniqueConstraint("sweep_id", "config_id", "tokens", "under_load", "repeat", "attempt"),
    sa.CheckConstraint("tokens > 0 AND under_load >= 0", name="tokens"),
    sa.CheckConstraint("cardinality(flags) > 0 OR rate IS NOT NULL", name="clean_has_numbers"),
    sa.Index(
        "uq_prefills_one_clean_per_repeat",
        "sweep_id",
        "config_id",
        "tokens",
        "under_load",
        "repeat",
        unique=True,
        postgresql_where=sa.text("clean"),
    ),
    sa.Index(None, "config_id"),
)

events = sa.Table(
    "events",
    metadata,
    identity(),
    column("event_key", UUID(as_uuid=True), unique=True),
    time("at", nullable=False),
    column("level", sa.Text),
    column("kind", sa.Text),
    column("message", sa.Text),
    to("sweeps", nullable=True),
    to("boots", nullable=True),
    document("data"),
    sa.Index(None, "sweep_id", "id"),
)

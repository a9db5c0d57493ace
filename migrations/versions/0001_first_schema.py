"""Everything that a sweep plans, boots and measures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "boxes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column(
            "facts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_boxes")),
        sa.UniqueConstraint("name", "fingerprint", "simulated", name=op.f("uq_boxes_name_fingerprint_simulated")),
    )
    op.create_table(
        "conditions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("doc", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conditions")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_conditions_fingerprint")),
    )
    op.create_table(
        "configs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("doc", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "method",
            sa.Text(),
            sa.Computed(
                "COALESCE(doc #>> '{speculative,method}'::text[], doc #>> '{speculative,algorithm}'::text[])",
                persisted=True,
            ),
            nullable=True,
        ),
        sa.Column(
            "num_speculative_tokens",
            sa.Integer(),
            sa.Computed(
                "CASE WHEN jsonb_typeof(doc #> '{speculative,num_speculative_tokens}'::text[]) = 'number'::text THEN (doc #>> '{speculative,num_speculative_tokens}'::text[])::numeric::integer ELSE NULL::integer END",
                persisted=True,
            ),
            nullable=True,
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_configs")),
        sa.UniqueConstraint("hash", name=op.f("uq_configs_hash")),
    )
    op.create_index(
        "ix_configs_doc",
        "configs",
        ["doc"],
        unique=False,
        postgresql_using="gin",
        postgresql_ops={"doc": "jsonb_path_ops"},
    )
    op.create_index(
        op.f("ix_configs_method_num_speculative_tokens"), "configs", ["method", "num_speculative_tokens"], unique=False
    )
    op.create_table(
        "images",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("refs", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("engine", sa.Text(), nullable=True),
        sa.Column("engine_version", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("digest", name=op.f("uq_images_digest")),
    )
    op.create_table(
        "probes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("doc", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_probes")),
        sa.UniqueConstraint("hash", name=op.f("uq_probes_hash")),
    )
    op.create_table(
        "sweeps",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("uuid", sa.UUID(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("box_id", sa.BigInteger(), nullable=False),
        sa.Column("probe_id", sa.BigInteger(), nullable=False),
        sa.Column("plan_fingerprint", sa.Text(), nullable=False),
        sa.Column("plan", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("file_text", sa.Text(), nullable=False),
        sa.Column("repeats_planned", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="planned", nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("fence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("prefect_run", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(state = 'running') = (lease_owner IS NOT NULL)", name=op.f("ck_sweeps_running_is_leased")),
        sa.CheckConstraint(
            "state IN ('planned', 'running', 'done', 'partial', 'failed', 'cancelled', 'interrupted')",
            name=op.f("ck_sweeps_state"),
        ),
        sa.ForeignKeyConstraint(["box_id"], ["boxes.id"], name=op.f("fk_sweeps_box_id")),
        sa.ForeignKeyConstraint(["probe_id"], ["probes.id"], name=op.f("fk_sweeps_probe_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
        sa.UniqueConstraint("box_id", "name", "plan_fingerprint", name=op.f("uq_sweeps_box_id_name_plan_fingerprint")),
        sa.UniqueConstraint("uuid", name=op.f("uq_sweeps_uuid")),
    )
    op.create_index(op.f("ix_sweeps_name"), "sweeps", ["name"], unique=False)
    op.create_index(
        "uq_sweeps_one_running_per_box",
        "sweeps",
        ["box_id"],
        unique=True,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "boots",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("box_id", sa.BigInteger(), nullable=False),
        sa.Column("image_id", sa.BigInteger(), nullable=True),
        sa.Column("boot_round", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("boot_key", sa.Text(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("command", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("engine_id", sa.Text(), nullable=True),
        sa.Column(
            "host_facts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), server_default="starting", nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("oom_killed", sa.Boolean(), nullable=True),
        sa.Column("cold_start_s", sa.Double(), nullable=True),
        sa.Column("first_token_s", sa.Double(), nullable=True),
        sa.Column(
            "cache_state",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("weights_gib", sa.Double(), nullable=True),
        sa.Column("draft_weights_gib", sa.Double(), nullable=True),
        sa.Column("kv_cache_gib", sa.Double(), nullable=True),
        sa.Column("kv_tokens", sa.BigInteger(), nullable=True),
        sa.Column("max_concurrency", sa.Double(), nullable=True),
        sa.Column("max_concurrency_tokens", sa.BigInteger(), nullable=True),
        sa.Column("engine", sa.Text(), nullable=True),
        sa.Column("engine_version", sa.Text(), nullable=True),
        sa.Column(
            "facts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "identity", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("failure_kind", sa.Text(), nullable=True),
        sa.Column("failure_stage", sa.Text(), nullable=True),
        sa.Column("failure_lines", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("failure_remedy", sa.Text(), nullable=True),
        sa.Column("failure_retry", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(state IN ('starting', 'ready')) = (ended_at IS NULL)", name=op.f("ck_boots_ended_has_a_time")
        ),
        sa.CheckConstraint("state <> 'failed' OR failure_kind IS NOT NULL", name=op.f("ck_boots_failed_says_why")),
        sa.CheckConstraint("state IN ('starting', 'ready', 'stopped', 'failed', 'lost')", name=op.f("ck_boots_state")),
        sa.ForeignKeyConstraint(["box_id"], ["boxes.id"], name=op.f("fk_boots_box_id")),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_boots_config_id")),
        sa.ForeignKeyConstraint(["image_id"], ["images.id"], name=op.f("fk_boots_image_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_boots_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_boots")),
        sa.UniqueConstraint("boot_key", name=op.f("uq_boots_boot_key")),
        sa.UniqueConstraint(
            "sweep_id",
            "config_id",
            "boot_round",
            "attempt",
            name=op.f("uq_boots_sweep_id_config_id_boot_round_attempt"),
        ),
    )
    op.create_index(op.f("ix_boots_config_id_started_at"), "boots", ["config_id", "started_at"], unique=False)
    op.create_index(
        "uq_boots_one_live_per_box",
        "boots",
        ["box_id"],
        unique=True,
        postgresql_where=sa.text("state IN ('starting', 'ready')"),
    )
    op.create_table(
        "cells",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("temperature", sa.Numeric(precision=4, scale=2), nullable=False),
        sa.CheckConstraint("concurrency > 0", name=op.f("ck_cells_concurrency")),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_cells_config_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_cells_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cells")),
        sa.UniqueConstraint(
            "sweep_id",
            "config_id",
            "concurrency",
            "temperature",
            name=op.f("uq_cells_sweep_id_config_id_concurrency_temperature"),
        ),
    )
    op.create_index(
        op.f("ix_cells_config_id_concurrency_temperature"),
        "cells",
        ["config_id", "concurrency", "temperature"],
        unique=False,
    )
    op.create_table(
        "production_intents",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("box_id", sa.BigInteger(), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("container_name", sa.Text(), nullable=False),
        sa.Column("container_id", sa.Text(), nullable=False),
        sa.Column("image", sa.Text(), nullable=False),
        sa.Column("image_digest", sa.Text(), nullable=True),
        sa.Column("entrypoint", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("command", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "facts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("restore_by", sa.DateTime(timezone=True), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["box_id"], ["boxes.id"], name=op.f("fk_production_intents_box_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_production_intents_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_production_intents")),
    )
    op.create_index(
        "uq_production_intents_one_open",
        "production_intents",
        ["box_id", "container_name"],
        unique=True,
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "sweep_configs",
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "grid_values",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_sweep_configs_config_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_sweep_configs_sweep_id")),
        sa.PrimaryKeyConstraint("sweep_id", "config_id", name=op.f("pk_sweep_configs")),
    )
    op.create_index(op.f("ix_sweep_configs_config_id"), "sweep_configs", ["config_id"], unique=False)
    op.create_table(
        "boot_logs",
        sa.Column("boot_id", sa.BigInteger(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("n_lines", sa.Integer(), nullable=False),
        sa.Column("n_bytes", sa.Integer(), nullable=False),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.Column("data", postgresql.BYTEA(), nullable=False),
        sa.ForeignKeyConstraint(["boot_id"], ["boots.id"], name=op.f("fk_boot_logs_boot_id")),
        sa.PrimaryKeyConstraint("boot_id", "seq", name=op.f("pk_boot_logs")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("event_key", sa.UUID(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=True),
        sa.Column("boot_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "data", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.ForeignKeyConstraint(["boot_id"], ["boots.id"], name=op.f("fk_events_boot_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_events_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.UniqueConstraint("event_key", name=op.f("uq_events_event_key")),
    )
    op.create_index(op.f("ix_events_sweep_id_id"), "events", ["sweep_id", "id"], unique=False)
    op.create_table(
        "prefills",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.BigInteger(), nullable=False),
        sa.Column("conditions_id", sa.BigInteger(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("flags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "flag_details",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position_in_night", sa.Integer(), nullable=True),
        sa.Column("seconds_since_boot", sa.Double(), nullable=True),
        sa.Column(
            "clean",
            sa.Boolean(),
            sa.Computed("cardinality(flags) = 0 AND rate IS NOT NULL", persisted=True),
            nullable=False,
        ),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("ttft_s", sa.Double(), nullable=True),
        sa.Column("rate", sa.Double(), nullable=True),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=True),
        sa.Column("engine_seconds", sa.Double(), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column(
            "facts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.CheckConstraint("cardinality(flags) > 0 OR rate IS NOT NULL", name=op.f("ck_prefills_clean_has_numbers")),
        sa.ForeignKeyConstraint(["boot_id"], ["boots.id"], name=op.f("fk_prefills_boot_id")),
        sa.ForeignKeyConstraint(["conditions_id"], ["conditions.id"], name=op.f("fk_prefills_conditions_id")),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_prefills_config_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_prefills_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prefills")),
        sa.UniqueConstraint(
            "sweep_id", "config_id", "repeat", "attempt", name=op.f("uq_prefills_sweep_id_config_id_repeat_attempt")
        ),
    )
    op.create_index(op.f("ix_prefills_config_id"), "prefills", ["config_id"], unique=False)
    op.create_index(
        "uq_prefills_one_clean_per_repeat",
        "prefills",
        ["sweep_id", "config_id", "repeat"],
        unique=True,
        postgresql_where=sa.text("clean"),
    )
    op.create_table(
        "windows",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("cell_id", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.BigInteger(), nullable=False),
        sa.Column("conditions_id", sa.BigInteger(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("flags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column(
            "flag_details",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position_in_night", sa.Integer(), nullable=True),
        sa.Column("seconds_since_boot", sa.Double(), nullable=True),
        sa.Column(
            "clean",
            sa.Boolean(),
            sa.Computed("cardinality(flags) = 0 AND decode_rate IS NOT NULL", persisted=True),
            nullable=False,
        ),
        sa.Column("seconds_asked", sa.Double(), nullable=False),
        sa.Column("ramp_s", sa.Double(), nullable=True),
        sa.Column("ended_early", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("generation_tokens", sa.BigInteger(), nullable=True),
        sa.Column("decode_rate", sa.Double(), nullable=True),
        sa.Column("acceptance_length", sa.Double(), nullable=True),
        sa.Column("acceptance_rate", sa.Double(), nullable=True),
        sa.Column("positions", postgresql.ARRAY(sa.Double()), nullable=True),
        sa.Column("drafts", sa.BigInteger(), nullable=True),
        sa.Column("draft_tokens", sa.BigInteger(), nullable=True),
        sa.Column("accepted_tokens", sa.BigInteger(), nullable=True),
        sa.Column("steps", sa.BigInteger(), nullable=True),
        sa.Column("step_time_s", sa.Double(), nullable=True),
        sa.Column("tokens_per_step_and_stream", sa.Double(), nullable=True),
        sa.Column("own_tokens", sa.BigInteger(), nullable=True),
        sa.Column("foreign_tokens", sa.BigInteger(), nullable=True),
        sa.Column("occupancy", sa.Double(), nullable=True),
        sa.Column("relative_uncertainty", sa.Double(), nullable=True),
        sa.Column("ttft", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("tpot", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("e2e", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("chunk_gap", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "integrity", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "sources", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column(
            "unavailable",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column(
            "facts", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.CheckConstraint(
            "cardinality(flags) > 0 OR decode_rate IS NOT NULL", name=op.f("ck_windows_clean_has_numbers")
        ),
        sa.ForeignKeyConstraint(["boot_id"], ["boots.id"], name=op.f("fk_windows_boot_id")),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_windows_cell_id")),
        sa.ForeignKeyConstraint(["conditions_id"], ["conditions.id"], name=op.f("fk_windows_conditions_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_windows")),
        sa.UniqueConstraint("cell_id", "repeat", "attempt", name=op.f("uq_windows_cell_id_repeat_attempt")),
    )
    op.create_index(op.f("ix_windows_boot_id"), "windows", ["boot_id"], unique=False)
    op.create_index(op.f("ix_windows_started_at"), "windows", ["started_at"], unique=False)
    op.create_index(
        "uq_windows_one_clean_per_repeat",
        "windows",
        ["cell_id", "repeat"],
        unique=True,
        postgresql_where=sa.text("clean"),
        postgresql_include=["decode_rate", "acceptance_length", "step_time_s", "conditions_id"],
    )
    op.create_table(
        "readings",
        sa.Column("window_id", sa.BigInteger(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("at_monotonic_s", sa.Double(), nullable=False),
        sa.Column("uncertainty_s", sa.Double(), nullable=False),
        sa.Column("wall", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "values", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'::jsonb"), nullable=False
        ),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.Column("n_bytes", sa.Integer(), nullable=False),
        sa.Column("raw", postgresql.BYTEA(), nullable=False),
        sa.CheckConstraint("side IN ('before', 'after')", name=op.f("ck_readings_side")),
        sa.ForeignKeyConstraint(["window_id"], ["windows.id"], name=op.f("fk_readings_window_id")),
        sa.PrimaryKeyConstraint("window_id", "side", name=op.f("pk_readings")),
    )
    op.create_table(
        "request_timings",
        sa.Column("window_id", sa.BigInteger(), nullable=False),
        sa.Column("n_requests", sa.Integer(), nullable=False),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.Column("n_bytes", sa.Integer(), nullable=False),
        sa.Column("data", postgresql.BYTEA(), nullable=False),
        sa.ForeignKeyConstraint(["window_id"], ["windows.id"], name=op.f("fk_request_timings_window_id")),
        sa.PrimaryKeyConstraint("window_id", name=op.f("pk_request_timings")),
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("request_timings")
    op.drop_table("readings")
    op.drop_index(
        "uq_windows_one_clean_per_repeat",
        table_name="windows",
        postgresql_where=sa.text("clean"),
        postgresql_include=["decode_rate", "acceptance_length", "step_time_s", "conditions_id"],
    )
    op.drop_index(op.f("ix_windows_started_at"), table_name="windows")
    op.drop_index(op.f("ix_windows_boot_id"), table_name="windows")
    op.drop_table("windows")
    op.drop_index("uq_prefills_one_clean_per_repeat", table_name="prefills", postgresql_where=sa.text("clean"))
    op.drop_index(op.f("ix_prefills_config_id"), table_name="prefills")
    op.drop_table("prefills")
    op.drop_index(op.f("ix_events_sweep_id_id"), table_name="events")
    op.drop_table("events")
    op.drop_table("boot_logs")
    op.drop_index(op.f("ix_sweep_configs_config_id"), table_name="sweep_configs")
    op.drop_table("sweep_configs")
    op.drop_index(
        "uq_production_intents_one_open", table_name="production_intents", postgresql_where=sa.text("closed_at IS NULL")
    )
    op.drop_table("production_intents")
    op.drop_index(op.f("ix_cells_config_id_concurrency_temperature"), table_name="cells")
    op.drop_table("cells")
    op.drop_index(
        "uq_boots_one_live_per_box", table_name="boots", postgresql_where=sa.text("state IN ('starting', 'ready')")
    )
    op.drop_index(op.f("ix_boots_config_id_started_at"), table_name="boots")
    op.drop_table("boots")
    op.drop_index("uq_sweeps_one_running_per_box", table_name="sweeps", postgresql_where=sa.text("state = 'running'"))
    op.drop_index(op.f("ix_sweeps_name"), table_name="sweeps")
    op.drop_table("sweeps")
    op.drop_table("probes")
    op.drop_table("images")
    op.drop_index(op.f("ix_configs_method_num_speculative_tokens"), table_name="configs")
    op.drop_index(
        "ix_configs_doc", table_name="configs", postgresql_using="gin", postgresql_ops={"doc": "jsonb_path_ops"}
    )
    op.drop_table("configs")
    op.drop_table("conditions")
    op.drop_table("boxes")

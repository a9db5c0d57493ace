"""Sums by cell and conditions, kept as windows are stored; views for people and dashboards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None

NUMBERS = {
    "decode_rate": "w.decode_rate",
    "acceptance_length": "w.acceptance_length",
    "acceptance_rate": "w.acceptance_rate",
    "step_time_s": "w.step_time_s",
    "tokens_per_step_and_stream": "w.tokens_per_step_and_stream",
    "occupancy": "w.occupancy",
    "streams_per_step": "(w.facts ->> 'streams_per_step')::float8",
    "report_rate": "(w.facts ->> 'report_rate')::float8",
    "ttft_p50_s": "(w.ttft ->> 'p50')::float8",
    "tpot_p50_s": "(w.tpot ->> 'p50')::float8",
}
CONTROL_ROUND = 1000
MOST_WORDS = 20
KEY = ("config_id", "kind", "concurrency", "temperature", "conditions_id", "box", "simulated")
KEY_SQL = "c.config_id, c.kind, c.concurrency, c.temperature, w.conditions_id, x.name, x.simulated OR b.simulated"
NAMES = [f"{name}_{part}" for name in NUMBERS for part in ("n", "boots", "mean", "m2", "min", "max")]
SOURCE = f"""windows w
    JOIN cells c ON c.id = w.cell_id
    JOIN boots b ON b.id = w.boot_id AND b.boot_round < {CONTROL_ROUND}
    JOIN boxes x ON x.id = b.box_id"""


def _words(old: str, new: str) -> str:
    """Return both lists as one, each word once, in their order, and not more than are worth reading."""
    return f"""(SELECT coalesce(array_agg(word ORDER BY place), '{{}}') FROM (
            SELECT word, min(place) AS place FROM unnest({old} || {new}) WITH ORDINALITY AS both_of(word, place)
            GROUP BY word ORDER BY min(place) LIMIT {MOST_WORDS}) AS kept)"""


def _listed(key: str) -> str:
    return f"ARRAY(SELECT jsonb_array_elements_text(coalesce(b.applied -> '{key}', '[]')))"


def _one(name: str, value: str) -> str:
    """Return the six columns of a number, of one window."""
    here = f"CASE WHEN w.clean THEN {value} END"
    boots = f"CASE WHEN {here} IS NULL OR earlier.{name} > 0 THEN 0 ELSE 1 END"
    return f"({here} IS NOT NULL)::int, {boots}, {here}, 0, {here}, {here}"


def _merged(name: str) -> str:
    """Return how a number takes up another value: means and squared deviations as B. P. Welford has them (1962)."""
    old, new = f"s.{name}", f"excluded.{name}"
    return f"""
        {name}_n = {old}_n + {new}_n,
        {name}_boots = {old}_boots + {new}_boots,
        {name}_mean = CASE WHEN {new}_n = 0 THEN {old}_mean WHEN {old}_n = 0 THEN {new}_mean
            ELSE {old}_mean + ({new}_mean - {old}_mean) / ({old}_n + 1) END,
        {name}_m2 = CASE WHEN {new}_n = 0 OR {old}_n = 0 THEN {old}_m2 + {new}_m2
            ELSE {old}_m2 + ({new}_mean - {old}_mean) ^ 2 * {old}_n / ({old}_n + 1) END,
        {name}_min = least({old}_min, {new}_min),
        {name}_max = greatest({old}_max, {new}_max)"""


def _trigger() -> str:
    seen = ", ".join(f"count({value.replace('w.', 'e.')}) AS {name}" for name, value in NUMBERS.items())
    return f"""
CREATE FUNCTION nightsweep_sum_up() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO cell_summaries AS s (
        {", ".join(KEY)}, first_window_id, newest_window_id, flagged, flag_counts, engine_versions, not_applied, notes,
        {", ".join(NAMES)})
    SELECT {KEY_SQL}, w.id, w.id, (cardinality(w.flags) > 0)::int,
        (SELECT coalesce(jsonb_object_agg(flag, 1), '{{}}') FROM unnest(w.flags) AS flag),
        CASE WHEN cardinality(w.flags) = 0 AND b.engine_version IS NOT NULL THEN ARRAY[b.engine_version] ELSE '{{}}' END,
        {_listed("not_applied")}, {_listed("notes")} || w.notes,
        {", ".join(_one(name, value) for name, value in NUMBERS.items())}
    FROM {SOURCE}
    CROSS JOIN LATERAL (SELECT {seen} FROM windows e
        WHERE e.boot_id = w.boot_id AND e.cell_id = w.cell_id AND e.conditions_id = w.conditions_id
            AND e.clean AND e.id <> w.id) AS earlier
    WHERE w.id = NEW.id
    ON CONFLICT ({", ".join(KEY)}) DO UPDATE SET
        first_window_id = least(s.first_window_id, excluded.first_window_id),
        newest_window_id = greatest(s.newest_window_id, excluded.newest_window_id),
        flagged = s.flagged + excluded.flagged,
        flag_counts = (SELECT coalesce(jsonb_object_agg(flag, times), '{{}}') FROM (
            SELECT key AS flag, sum(value::int) AS times FROM (SELECT * FROM jsonb_each_text(s.flag_counts)
                UNION ALL SELECT * FROM jsonb_each_text(excluded.flag_counts)) AS all_of GROUP BY key) AS counted),
        engine_versions = {_words("s.engine_versions", "excluded.engine_versions")},
        not_applied = {_words("s.not_applied", "excluded.not_applied")},
        notes = {_words("s.notes", "excluded.notes")},
        {",".join(_merged(name) for name in NUMBERS)};
    RETURN NULL;
END $body$;
CREATE TRIGGER sum_up AFTER INSERT ON windows FOR EACH ROW EXECUTE FUNCTION nightsweep_sum_up();
"""


def _all(name: str, value: str) -> str:
    clean = "FILTER (WHERE w.clean)"
    seen = f"count({value}) {clean}"
    boots = f"count(DISTINCT b.id) FILTER (WHERE w.clean AND {value} IS NOT NULL)"
    squares = f"coalesce(var_pop({value}) {clean} * {seen}, 0)"
    return f"{seen}, {boots}, avg({value}) {clean}, {squares}, min({value}) {clean}, max({value}) {clean}"


def _word_update(column: str, words: str, where: str) -> str:
    """Return the statement that collects a list of words of all windows of a summary, in the order of the windows."""
    matches = " AND ".join(f"s.{name} IS NOT DISTINCT FROM g.{name}" for name in KEY)
    return f"""
    UPDATE cell_summaries AS s SET {column} = (g.words)[1:{MOST_WORDS}] FROM (
        SELECT {", ".join(KEY)}, array_agg(word ORDER BY window_id, place) AS words FROM (
            SELECT {", ".join(KEY)}, word, min(window_id) AS window_id, min(place) AS place FROM (
                SELECT {KEY_SQL}, w.id, said.word, said.place FROM {SOURCE}
                CROSS JOIN LATERAL unnest({words}) WITH ORDINALITY AS said(word, place) WHERE {where}
            ) AS each ({", ".join(KEY)}, window_id, word, place) GROUP BY {", ".join(KEY)}, word
        ) AS distinct_of GROUP BY {", ".join(KEY)}
    ) AS g WHERE {matches};"""


def _rebuild() -> str:
    matches = " AND ".join(f"s.{name} IS NOT DISTINCT FROM g.{name}" for name in KEY)
    applied_notes = f"{_listed('notes')} || w.notes"
    return f"""
CREATE FUNCTION nightsweep_sum_up_again() RETURNS void LANGUAGE plpgsql AS $body$
BEGIN
    LOCK TABLE cell_summaries IN EXCLUSIVE MODE;
    DELETE FROM cell_summaries;
    INSERT INTO cell_summaries ({", ".join(KEY)}, first_window_id, newest_window_id, flagged, {", ".join(NAMES)})
    SELECT {KEY_SQL}, min(w.id), max(w.id), count(*) FILTER (WHERE cardinality(w.flags) > 0),
        {", ".join(_all(name, value) for name, value in NUMBERS.items())}
    FROM {SOURCE} GROUP BY 1, 2, 3, 4, 5, 6, 7;
    UPDATE cell_summaries AS s SET flag_counts = g.counts FROM (
        SELECT {", ".join(KEY)}, jsonb_object_agg(flag, times) AS counts FROM (
            SELECT {KEY_SQL}, flag, count(*) FROM {SOURCE} CROSS JOIN LATERAL unnest(w.flags) AS flag
            GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) AS each ({", ".join(KEY)}, flag, times) GROUP BY {", ".join(KEY)}
    ) AS g WHERE {matches};
    {_word_update("engine_versions", "ARRAY[b.engine_version]", "w.clean AND b.engine_version IS NOT NULL")}
    {_word_update("not_applied", _listed("not_applied"), "b.applied ? 'not_applied'")}
    {_word_update("notes", applied_notes, "b.applied ? 'notes' OR cardinality(w.notes) > 0")}
END $body$;
"""


def _spread(name: str) -> str:
    sd = f"sqrt(s.{name}_m2 / nullif(s.{name}_n - 1, 0))"
    return f"""
    s.{name}_n, s.{name}_boots, s.{name}_mean, s.{name}_min, s.{name}_max,
    {sd} AS {name}_sd, {sd} / nullif(abs(s.{name}_mean), 0) AS {name}_cv"""


def _views() -> tuple[str, ...]:
    shown = ("decode_rate", "acceptance_length", "acceptance_rate", "step_time_s", "ttft_p50_s", "tpot_p50_s")
    cells = f"""
CREATE VIEW cells_clean AS SELECT
    sc.name AS config, f.hash AS config_fingerprint, f.method, f.num_speculative_tokens, f.doc ->> 'image' AS image,
    s.concurrency, s.temperature, s.box, s.simulated, d.fingerprint AS conditions, s.flagged AS windows_flagged,
    s.engine_versions, s.not_applied, s.first_window_id, s.newest_window_id, newest.started_at AS newest_at,
    {",".join(_spread(name) for name in shown)}
FROM cell_summaries s
JOIN configs f ON f.id = s.config_id
JOIN conditions d ON d.id = s.conditions_id
JOIN windows newest ON newest.id = s.newest_window_id
JOIN cells c ON c.id = newest.cell_id
JOIN sweep_configs sc ON sc.sweep_id = c.sweep_id AND sc.config_id = c.config_id
WHERE s.kind = 'decode'"""
    windows = """
CREATE VIEW windows_flat AS SELECT
    w.id AS window_id, w.cell_id, w.started_at, w.clean, w.flags, p.id AS sweep_id, p.name AS sweep, w.boot_id, b.boot_round,
    sc.name AS config, f.hash AS config_fingerprint, f.method, f.num_speculative_tokens, f.doc ->> 'image' AS image,
    c.kind, c.concurrency, c.temperature, w.repeat, w.attempt, x.name AS box, x.simulated OR b.simulated AS simulated,
    b.engine, b.engine_version, d.fingerprint AS conditions, w.position_in_night, w.seconds_since_boot,
    w.seconds AS window_s, w.generation_tokens, w.decode_rate, w.decode_rate / c.concurrency AS decode_rate_per_stream,
    w.acceptance_length, w.acceptance_rate, w.positions, w.step_time_s, w.tokens_per_step_and_stream, w.occupancy,
    (w.ttft ->> 'p50')::float8 AS ttft_p50_s, (w.ttft ->> 'p99')::float8 AS ttft_p99_s,
    (w.tpot ->> 'p50')::float8 AS tpot_p50_s, (w.tpot ->> 'p99')::float8 AS tpot_p99_s, w.notes, w.box AS box_state
FROM windows w
JOIN cells c ON c.id = w.cell_id
JOIN sweeps p ON p.id = c.sweep_id
JOIN sweep_configs sc ON sc.sweep_id = c.sweep_id AND sc.config_id = c.config_id
JOIN configs f ON f.id = c.config_id
JOIN boots b ON b.id = w.boot_id
JOIN boxes x ON x.id = b.box_id
JOIN conditions d ON d.id = w.conditions_id"""
    boots = """
CREATE VIEW boots_flat AS SELECT
    b.id AS boot_id, b.started_at, b.ended_at, b.state, p.id AS sweep_id, p.name AS sweep, b.boot_round, b.attempt,
    sc.name AS config, f.hash AS config_fingerprint, f.method, f.num_speculative_tokens, f.doc ->> 'image' AS image,
    i.digest AS image_digest, b.engine, b.engine_version, x.name AS box, x.simulated OR b.simulated AS simulated,
    b.cold_start_s, b.first_token_s, b.weights_gib, b.draft_weights_gib, b.kv_cache_gib, b.kv_tokens,
    b.max_concurrency, b.max_concurrency_tokens, b.exit_code, b.oom_killed,
    b.failure_kind, b.failure_stage, b.failure_lines[1] AS failure_line, b.failure_remedy
FROM boots b
JOIN sweeps p ON p.id = b.sweep_id
JOIN sweep_configs sc ON sc.sweep_id = b.sweep_id AND sc.config_id = b.config_id
JOIN configs f ON f.id = b.config_id
JOIN boxes x ON x.id = b.box_id
LEFT JOIN images i ON i.id = b.image_id"""
    nights = """
CREATE VIEW nights AS SELECT
    p.id AS sweep_id, p.name AS sweep, x.name AS box, x.simulated, n.fence AS night, n.first_boot_at, n.last_boot_at,
    n.boots, n.boots_failed, coalesce(m.windows, 0) AS windows, coalesce(m.windows_clean, 0) AS windows_clean,
    m.first_window_at, m.last_window_at, m.window_s AS measured_s, n.cold_start_s
FROM (SELECT sweep_id, fence, min(started_at) AS first_boot_at, max(started_at) AS last_boot_at, count(*) AS boots,
        count(*) FILTER (WHERE state = 'failed') AS boots_failed, sum(cold_start_s) AS cold_start_s
    FROM boots GROUP BY sweep_id, fence) AS n
JOIN sweeps p ON p.id = n.sweep_id
JOIN boxes x ON x.id = p.box_id
LEFT JOIN LATERAL (SELECT count(*) AS windows, count(*) FILTER (WHERE w.clean) AS windows_clean,
        min(w.started_at) AS first_window_at, max(w.started_at) AS last_window_at, sum(w.seconds) AS window_s
    FROM windows w JOIN boots b ON b.id = w.boot_id WHERE b.sweep_id = n.sweep_id AND b.fence = n.fence) AS m ON true"""
    return cells, windows, boots, nights


def _number_columns() -> list[sa.Column[object]]:
    made: list[sa.Column[object]] = []
    for name in NUMBERS:
        made += [sa.Column(f"{name}_{part}", sa.Integer(), nullable=False) for part in ("n", "boots")]
        made += [
            sa.Column(f"{name}_{part}", sa.Double(), nullable=part != "m2") for part in ("mean", "m2", "min", "max")
        ]
    return made


def _words_column(name: str) -> sa.Column[object]:
    return sa.Column(name, postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False)


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "cell_summaries",
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("temperature", sa.Numeric(4, 2), nullable=False),
        sa.Column("conditions_id", sa.BigInteger(), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("first_window_id", sa.BigInteger(), nullable=False),
        sa.Column("newest_window_id", sa.BigInteger(), nullable=False),
        sa.Column("flagged", sa.Integer(), nullable=False),
        sa.Column("flag_counts", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        *(_words_column(name) for name in ("engine_versions", "not_applied", "notes")),
        *_number_columns(),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_cell_summaries_config_id")),
        sa.ForeignKeyConstraint(["conditions_id"], ["conditions.id"], name=op.f("fk_cell_summaries_conditions_id")),
        sa.PrimaryKeyConstraint(*KEY, name=op.f("pk_cell_summaries")),
    )
    op.create_index(op.f("ix_sweep_configs_name"), "sweep_configs", ["name"])
    op.execute(_trigger())
    op.execute(_rebuild())
    op.execute("SELECT nightsweep_sum_up_again()")
    for view in _views():
        op.execute(view)


def downgrade() -> None:
    """Take it back."""
    for view in ("nights", "boots_flat", "windows_flat", "cells_clean"):
        op.execute(f"DROP VIEW {view}")
    op.execute("DROP TRIGGER sum_up ON windows")
    op.execute("DROP FUNCTION nightsweep_sum_up()")
    op.execute("DROP FUNCTION nightsweep_sum_up_again()")
    op.drop_index(op.f("ix_sweep_configs_name"), table_name="sweep_configs")
    op.drop_table("cell_summaries")

"""How long typical questions take on a long history: a database of its own is filled by SQL, then asked, as program and as user.

    python -m benchmarks.history_size [--windows 1000000] [--runs 20]

A night is a sweep of 8 configs x 5 concurrencies x 2 temperatures x 3 repeats (240 windows), of 96 configs in turn, each under 4
conditions over the years. Windows have all their numbers; raw readings and logs are not made: no question here reads them.

A command's time on the wall is of this machine and its load; its CPU time is what a busy machine distorts least. Beside each stands,
as a yardstick from the same turns, the time of a Python that imports SQLAlchemy and psycopg and ends: every command does that, and it
tells a slow hour of the machine from a slow command. Commands run with compiled modules, as an installed package has them, also where
the environment forbids Python to write them. A command's peak memory is told as at least this benchmark's own, which a child begins
with.
"""

# ruff: noqa: E501 (statements of SQL)
from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from benchmarks.common import Figure, Section, machine, table, write
from nightsweep.analysis.over_time import KEYS
from nightsweep.analysis.values import Filters
from nightsweep.plan.fingerprint import config_document, fingerprint
from nightsweep.plan.model import EngineSpec
from nightsweep.plan.sweepfile import load
from nightsweep.store.codec import plain
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import connect
from nightsweep.store.queries import Queries

A_NIGHT = 240
CONFIGS = 96
A_SWEEP = 8
CONDITIONS = 4
IN_DATABASE, AS_COMMAND, MATRIX, MEMORY = 0.050, 0.7, 1.0, 300.0
GROUPS = MATRIX
"""A group over all is a summary of the whole matrix, too."""
DATABASE = "nightsweep"
YARDSTICK = ("-c", "import sqlalchemy, psycopg")
"""What every command must do, and nothing of ours."""
METHODS = ("dflash", "mtp", "eagle3", "draft_model", "ngram", "suffix")


def configs() -> list[dict[str, Any]]:
    """Return the configs: 6 methods x 8 depths x 2 images."""
    made = []
    for image in ("vllm/vllm-openai:v0.27.1", "vllm/vllm-openai:v0.28.0"):
        for method in METHODS:
            for depth in range(1, 9):
                spec = EngineSpec(
                    kind="vllm",
                    host="docker",
                    model="org/target",
                    served_name="m",
                    image=image,
                    args={"max-num-seqs": 16},
                )
                document = config_document(spec, {"method": method, "num_speculative_tokens": depth})
                made.append({"name": f"{method} k={depth}", "hash": fingerprint(document), "doc": document})
    return made


FILL = (
    "INSERT INTO boxes (name, fingerprint, simulated) VALUES ('spark-1', repeat('f', 64), false)",
    "INSERT INTO probes (hash, doc) VALUES ('probe', '{}')",
    "INSERT INTO images (digest, refs) VALUES ('sha256:27', '{vllm/vllm-openai:v0.27.1}'), ('sha256:28', '{vllm/vllm-openai:v0.28.0}')",
    """INSERT INTO conditions (fingerprint, doc) SELECT md5(c::text || ' ' || f.hash) || md5(f.hash || c::text),
        jsonb_build_object('driver', '580.' || c, 'config', f.hash, 'engine_version', '0.2' || (6 + c / 2))
    FROM configs f, generate_series(0, :conditions - 1) AS c ORDER BY f.id, c""",
    """INSERT INTO sweeps (name, box_id, probe_id, plan_fingerprint, plan, file_text, repeats_planned, state, created_at, started_at, ended_at)
    SELECT 'night-' || n, 1, 1, md5(n::text), '{}', 'name: night', :a_night, 'done', at, at, at + interval '8 hours'
    FROM generate_series(1, :nights) AS n, LATERAL (SELECT timestamptz '2026-11-28' - (:nights - n) * interval '1 day' AS at) AS t""",
    """INSERT INTO sweep_configs (sweep_id, config_id, position, name)
    SELECT s.id, f.id, p, f.name FROM sweeps s, generate_series(0, :a_sweep - 1) AS p
    JOIN LATERAL (SELECT 1) AS one ON true JOIN configs f ON true
    WHERE f.id = 1 + (s.id * :a_sweep + p) % :configs""",
    """INSERT INTO boots (sweep_id, config_id, box_id, image_id, boot_round, attempt, boot_key, fence, simulated, state, started_at,
        ready_at, ended_at, cold_start_s, engine, engine_version, applied)
    SELECT sc.sweep_id, sc.config_id, 1, 1 + (f.doc ->> 'image' LIKE '%0.28%')::int, 0, 1,
        'boot-' || sc.sweep_id || '-' || sc.config_id, 1, false, 'stopped', s.created_at + sc.position * interval '1 hour',
        s.created_at + sc.position * interval '1 hour', s.created_at + (sc.position + 1) * interval '1 hour',
        400 + random() * 20, 'vllm', '0.28.0', '{}'
    FROM sweep_configs sc JOIN sweeps s ON s.id = sc.sweep_id JOIN configs f ON f.id = sc.config_id ORDER BY sc.sweep_id, sc.position""",
    """INSERT INTO cells (sweep_id, config_id, kind, concurrency, temperature)
    SELECT b.sweep_id, b.config_id, 'decode', c, t FROM boots b, unnest(ARRAY[1, 2, 4, 8, 16]) AS c, unnest(ARRAY[0.7, 1.0]) AS t
    ORDER BY b.id, t, c""",
    """INSERT INTO windows (cell_id, boot_id, conditions_id, repeat, attempt, fence, flags, content_hash, started_at, stored_at,
        position_in_night, seconds_since_boot, seconds_asked, seconds, generation_tokens, decode_rate, acceptance_length, acceptance_rate,
        positions, drafts, draft_tokens, accepted_tokens, steps, step_time_s, tokens_per_step_and_stream, own_tokens, foreign_tokens,
        occupancy, relative_uncertainty, ttft, tpot, chunk_gap, facts)
    SELECT c.id, b.id, 1 + (b.config_id - 1) * :conditions + (c.sweep_id * :conditions / (:nights + 1)), r, 1, 1,
        CASE WHEN random() < 0.02 THEN '{foreign_load}'::text[] ELSE '{}' END, md5(c.id || ' ' || r),
        b.started_at + r * interval '40 seconds', b.started_at, 1, 100, 40, 40, 4000,
        c.concurrency * 20 * noise, 2.5 * noise, 0.3 * noise, ARRAY[0.75, 0.52, 0.23], 1600, 8000, 2400, 1600,
        0.05 + 0.002 * c.concurrency + random() * 0.0005, 2.5 * noise, 3990, 10, 0.99, 0.0001,
        jsonb_build_object('n', 5, 'mean', 0.2, 'p50', 0.19 * noise, 'p90', 0.3, 'p99', 0.31, 'minimum', 0.1, 'maximum', 0.32),
        jsonb_build_object('n', 5, 'mean', 0.02, 'p50', 0.02 / noise, 'p90', 0.03, 'p99', 0.03, 'minimum', 0.01, 'maximum', 0.03),
        jsonb_build_object('n', 900, 'mean', 0.02, 'p50', 0.02, 'p90', 0.03, 'p99', 0.03, 'minimum', 0.01, 'maximum', 0.03),
        jsonb_build_object('streams_per_step', c.concurrency, 'mean_running', c.concurrency)
    FROM cells c JOIN boots b ON b.sweep_id = c.sweep_id AND b.config_id = c.config_id, generate_series(0, 2) AS r,
        LATERAL (SELECT 1 + 0.2 * (random() - 0.5) + 0 * c.id + 0 * r AS noise) AS chance""",
)


def fill(engine: sa.Engine, *, windows: int) -> float:
    """Fill the database; return the seconds that the kept sums took to make anew."""
    known = {
        "nights": max(1, windows // A_NIGHT),
        "a_night": A_NIGHT,
        "a_sweep": A_SWEEP,
        "configs": CONFIGS,
        "conditions": CONDITIONS,
    }
    with engine.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("ALTER TABLE windows DISABLE TRIGGER USER"))
        put = sa.text("INSERT INTO configs (hash, doc, name) VALUES (:hash, :doc, :name)").bindparams(
            sa.bindparam("doc", type_=sa.JSON)
        )
        connection.execute(put, configs())
        for statement in FILL:
            text = sa.text(statement)
            connection.execute(text, {name: value for name, value in known.items() if name in text.compile().params})
        connection.execute(sa.text("ALTER TABLE windows ENABLE TRIGGER USER"))
        _plan_the_newest(connection, nights=known["nights"])
        begin = time.perf_counter()
        connection.execute(sa.text("SELECT nightsweep_sum_up_again()"))
        took = time.perf_counter() - begin
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("SET statement_timeout = 0"))
        connection.execute(sa.text("VACUUM ANALYZE"))
    return took


def _plan_the_newest(connection: sa.Connection, *, nights: int) -> None:
    """Give the newest sweep the file and plan that its configs and cells are of: what is left is told from them."""
    mine = sa.text(
        "SELECT f.name, f.doc FROM sweep_configs sc JOIN configs f ON f.id = sc.config_id WHERE sc.sweep_id = :id"
        " ORDER BY sc.position"
    )
    found = connection.execute(mine, {"id": nights}).all()
    entries = [
        {"name": row.name, "speculative": dict(row.doc["speculative"]), "grid": {"image": [row.doc["image"]]}}
        for row in found
    ]
    document = {
        "name": f"night-{nights}",
        "engine": {
            "kind": "vllm",
            "host": "docker",
            "model": "org/target",
            "served_name": "m",
            "args": {"max-num-seqs": 16},
        },
        "configs": entries,
        "probe": {"concurrency": [1, 2, 4, 8, 16], "temperature": [0.7, 1.0], "repeats": 3},
    }
    text = yaml.safe_dump(document, sort_keys=False)
    plan = load(text)
    known = {row[0] for row in connection.execute(sa.text("SELECT hash FROM configs"))}
    if not {config.fingerprint for config in plan.configs} <= known:
        raise RuntimeError("the newest night's file is of other configs than the database")
    put = sa.text("UPDATE sweeps SET file_text = :text, plan = :plan WHERE id = :id")
    connection.execute(
        put.bindparams(sa.bindparam("plan", type_=sa.JSON)), {"text": text, "plan": plain(plan), "id": nights}
    )


class Watch:
    """Server-side times: each statement of a block is run again under EXPLAIN ANALYZE, and what it says is kept."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._seen: list[tuple[str, Any]] = []
        sa.event.listen(engine, "before_cursor_execute", self._note)

    def _note(self, _c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH", "SET LOCAL")):
            self._seen.append((statement, parameters))

    def seconds(self, action: Callable[[], object]) -> float:
        """Return the planning and execution time of all that the action asked the server."""
        self._seen.clear()
        action()
        asked = list(self._seen)
        with self._engine.connect() as connection:
            return sum(_explained(connection, statement, parameters) for statement, parameters in asked)


def _explained(connection: sa.Connection, statement: str, parameters: Any) -> float:
    if statement.startswith("SET LOCAL"):
        connection.exec_driver_sql(statement)
        return 0.0
    found = connection.exec_driver_sql(
        "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + statement, parameters
    ).scalar_one()
    return float(found[0]["Planning Time"] + found[0]["Execution Time"]) / 1000.0


def questions(
    queries: Queries, *, nights: int
) -> dict[str, tuple[Callable[[], object], tuple[str, ...], float | None]]:
    """Return for each question: what is asked of the store, the command, and the database's target in seconds."""
    of_method = Filters(where=(("method", "=", "dflash"), ("num_speculative_tokens", "=", 5)), with_flagged="yes")
    newest = Filters(sweep=nights, with_flagged="no")
    a, b = _pair(queries, nights)

    def compared() -> object:
        asked = [replace(newest, config=name) for name in (a, b)]
        return [queries.pools(one) for one in asked], [queries.windows(one) for one in asked]

    def history() -> object:
        return queries.groups(Filters(config=a, concurrency=(1,), with_flagged="yes"), KEYS, numbers=("decode_rate",))

    def left() -> object:
        found = queries.sweep_of(f"night-{nights}")
        mine = Filters(sweep=found.sweep_id, with_flagged="yes")
        return queries.boots(mine), queries.windows(mine), queries.prefills(mine)

    table_words = ("cells", "--where", "method=dflash", "--where", "num_speculative_tokens=5")
    return {
        "table of a method and depth": (lambda: queries.cells(of_method), table_words, IN_DATABASE),
        "newest A against B": (compared, ("compare", a, b, "--sweep", f"night-{nights}"), IN_DATABASE),
        "history of a config at 1 stream": (history, ("history", a, "--at", "c=1", "--no-changes"), IN_DATABASE),
        "the same, with change points": (history, ("history", a, "--at", "c=1"), IN_DATABASE),
        "what is left": (left, ("status", f"night-{nights}"), IN_DATABASE),
        "groups over the whole history": (
            lambda: queries.groups(Filters(with_flagged="yes"), ("method", "concurrency")),
            ("cells", "--group-by", "method,concurrency"),
            GROUPS,
        ),
        "whole-matrix summary": (lambda: queries.cells(Filters(with_flagged="yes")), ("cells", "--csv"), MATRIX),
    }


def _pair(queries: Queries, nights: int) -> tuple[str, str]:
    names = list(dict.fromkeys(row.config for row in queries.windows(Filters(sweep=nights))))
    return names[0], names[1]


def _percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def _run(program: Sequence[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Return (seconds on the wall, CPU seconds of the program, its peak memory in MB)."""
    begin = time.perf_counter()
    started = subprocess.Popen(
        program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    _, status, used = os.wait4(started.pid, 0)
    took = time.perf_counter() - begin
    assert started.stderr is not None
    said = started.stderr.read().decode()
    started.stderr.close()
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode != 0:
        raise RuntimeError(f"{' '.join(program)}: {said}")
    return took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024.0


def measure(*, windows: int, runs: int, cluster: EmbeddedPostgres) -> Section:
    """Fill a database and ask everything."""
    engine = connect(cluster.url(DATABASE))
    upgrade(engine)
    begin = time.perf_counter()
    summed = fill(engine, windows=windows)
    filled = {"filled_s": round(time.perf_counter() - begin, 1), "summed_up_again_s": round(summed, 1)}
    try:
        return ask(engine, url=cluster.url(DATABASE), nights=max(1, windows // A_NIGHT), runs=runs, known=filled)
    finally:
        engine.dispose()


def ask(engine: sa.Engine, *, url: str, nights: int, runs: int, known: Mapping[str, Any]) -> Section:
    """Ask everything, in turns, so that a busy moment hits all alike; a first turn only fills caches."""
    queries, watch = Queries(engine), Watch(engine)
    asked = questions(queries, nights=nights)
    server: dict[str, list[float]] = {name: [] for name in asked}
    wall: dict[str, list[float]] = {name: [] for name in asked}
    used: dict[str, list[tuple[float, float]]] = {name: [] for name in asked}
    with tempfile.TemporaryDirectory(prefix="nightsweep-compiled-") as compiled:
        environment = {**os.environ, "NIGHTSWEEP_DATABASE_URL": url, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yardstick: list[tuple[float, float]] = []
        nightsweep = str(Path(sys.executable).parent / "nightsweep")
        for turn in range(runs + 1):
            alone, alone_cpu, _ = _run([sys.executable, *YARDSTICK], environment)
            if turn:
                yardstick.append((alone, alone_cpu))
            for name, (action, words, _target) in asked.items():
                in_database = watch.seconds(action)
                took, cpu, memory = _run([nightsweep, *words], environment)
                if turn:
                    server[name].append(in_database)
                    wall[name].append(took)
                    used[name].append((cpu, memory))
    figures = [
        figure
        for name, (_action, words, target) in asked.items()
        for figure in _figures(
            name, words, target, server=server[name], wall=wall[name], used=used[name], yardstick=yardstick
        )
    ]
    with engine.connect() as connection:
        counted = connection.execute(
            sa.text("SELECT (SELECT count(*) FROM windows), (SELECT count(*) FROM cell_summaries)")
        ).one()
        size = connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one()
    facts = {"windows": counted[0], "summaries": counted[1], "database_mb": round(size / 2**20), "runs": runs, **known}
    alone, alone_cpu = ([one[place] for one in yardstick] for place in (0, 1))
    facts |= {"yardstick_s": {"p95": _percentile(alone, 0.95), "least": min(alone), "cpu_least": min(alone_cpu)}}
    facts |= {"load_at_end": os.getloadavg()[0]}
    facts["own_peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return Section(name="history_size", figures=tuple(figures), facts=facts)


def _figures(
    name: str,
    words: Sequence[str],
    target: float | None,
    *,
    server: Sequence[float],
    wall: Sequence[float],
    used: Sequence[tuple[float, float]],
    yardstick: Sequence[tuple[float, float]],
) -> tuple[Figure, ...]:
    as_command = {None: None, MATRIX: MATRIX}.get(target, AS_COMMAND)
    return (
        Figure(f"{name}: p95 in the database", "s", _percentile(server, 0.95), tuple(server), target),
        Figure(
            f"{name}: p95 of `nightsweep {' '.join(words)}`",
            "s",
            _percentile(wall, 0.95),
            tuple(wall),
            as_command,
            beside=_percentile([took for took, _ in yardstick], 0.95),
            beside_name="p95 of `import sqlalchemy, psycopg`",
        ),
        Figure(
            f"{name}: CPU time, least",
            "s",
            min(cpu for cpu, _ in used),
            tuple(cpu for cpu, _ in used),
            beside=min(cpu for _, cpu in yardstick),
            beside_name="least CPU time of `import sqlalchemy, psycopg`",
        ),
        Figure(f"{name}: peak memory", "MB", max(memory for _, memory in used), target=MEMORY),
    )


def measured(*, windows: int = 1_000_000, runs: int = 20) -> Section:
    """Return the figures on a database of its own, which is gone afterwards."""
    home = Path(tempfile.mkdtemp(prefix="nightsweep-history-"))
    home.chmod(0o711)
    cluster = EmbeddedPostgres(home / "postgres")
    try:
        cluster.ensure()
        cluster.ensure_database(DATABASE)
        return measure(windows=windows, runs=runs, cluster=cluster)
    finally:
        with suppress(OSError):
            cluster.remove()
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    """Print the table; exit code 1 when a target is missed."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--windows", type=int, default=1_000_000)
    options.add_argument("--runs", type=int, default=20)
    chosen = options.parse_args()
    load = machine()["load_1min"]
    section = measured(windows=chosen.windows, runs=chosen.runs)
    write(section)
    print(table([section]))
    print(f"{section.facts}; load {load:.1f} at the start")
    return 1 if any(figure.met is False for figure in section.figures) else 0


if __name__ == "__main__":
    sys.exit(main())

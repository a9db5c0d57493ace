"""What going on costs: finding what is left of 10,000 cells, and a resumed sweep's way to its next window.

* What is left: half of 30,000 planned windows are in a PostgreSQL of the benchmark's own; asked for and compared with the plan,
  as the loop does before its first boot. Two shapes, as in `benchmarks.plan_10k`.
* A resume: a sweep on the simulated engine is killed (SIGKILL) in a window, and `nightsweep resume` called: from that call to the
  begin of the next window, less the engine's own start, timed apart. Once with the database running, once with the database
  killed as well, as after a power cut: then its recovery is in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import psycopg
import sqlalchemy as sa

from benchmarks import overhead
from benchmarks.common import Figure, Section, median_figure, table, write
from benchmarks.plan_10k import grid_file, listed_file
from nightsweep.host.process_records import EngineRecords
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.order import boot_tasks
from nightsweep.plan.sweepfile import load
from nightsweep.ports import BoxFacts
from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.migrate import upgrade
from nightsweep.store.postgres import PostgresStore, connect
from nightsweep.store.schema import boots, cells, conditions, configs, windows
from nightsweep.sweep.left import left_now
from nightsweep.units import Seconds

LOOKS, RESUMES = 7, 5
LEFT_TARGET = 0.2
RESUME_TARGET = 5.0
BOX = BoxFacts(name="bench", fingerprint="b" * 64, facts={})


# --- what is left ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def database() -> Iterator[sa.Engine]:
    """Yield a database of our own, gone with the block."""
    with tempfile.TemporaryDirectory(prefix="nsbench.") as folder:
        cluster = EmbeddedPostgres(Path(folder) / "postgres")
        cluster.ensure()
        try:
            cluster.ensure_database("nightsweep")
            engine = connect(cluster.url("nightsweep"))
            upgrade(engine)
            yield engine
            engine.dispose()
        finally:
            cluster.remove()


def half_stored(engine: sa.Engine, plan: SweepPlan) -> int:
    """Store the first half of a plan's windows, bare; return the sweep."""
    store = PostgresStore(engine)
    sweep_id = store.open_sweep(plan, box_id=store.box_id(BOX), file_text="")
    lease = store.claim(sweep_id, owner="bench:1:1:1", ttl=Seconds(3600.0))
    now = datetime.now(UTC)
    boot = store.begin_boot(lease, plan.configs[0], boot_round=0, boot_key=f"bench-{sweep_id}", command=(), at=now)
    repeats = [repeat for task in boot_tasks(plan) for repeat in task.repeats]
    with engine.begin() as connection:
        ids = {row.hash: row.id for row in connection.execute(sa.select(configs.c.hash, configs.c.id))}
        under = connection.execute(
            sa.insert(conditions).values(fingerprint=f"{sweep_id:064d}", doc={}).returning(conditions.c.id)
        ).scalar_one()
        places = {(ids[one.cell.config], one.cell.concurrency, one.cell.temperature) for one in repeats}
        rows = [
            {"sweep_id": sweep_id, "config_id": config, "concurrency": streams, "temperature": degree, "kind": "decode"}
            for config, streams, degree in places
        ]
        connection.execute(sa.insert(cells), rows)
        made = connection.execute(sa.select(cells).where(cells.c.sweep_id == sweep_id))
        cell_of = {(row.config_id, row.concurrency, row.temperature): row.id for row in made}
        measured = [
            {
                "cell_id": cell_of[(ids[one.cell.config], one.cell.concurrency, one.cell.temperature)],
                "boot_id": boot,
                "conditions_id": under,
                "repeat": one.index,
                "attempt": 1,
                "fence": lease.fence,
                "content_hash": "",
                "started_at": now,
                "stored_at": now,
                "decode_rate": 30.0,
            }
            for one in repeats[: len(repeats) // 2]
        ]
        connection.execute(sa.insert(windows), measured)
        connection.execute(sa.update(boots).where(boots.c.id == boot).values(state="stopped", ended_at=now))
    store.release(lease, state="partial", note="")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))
    return sweep_id


def left(*, looks: int = LOOKS) -> list[Figure]:
    """Time the question, on both shapes."""
    found = []
    with database() as engine:
        store = PostgresStore(engine)
        for name, text in (("1,000 configs x 10 cells", grid_file()), ("10,000 configs x 1 cell", listed_file())):
            plan = load(text)
            sweep_id = half_stored(engine, plan)
            asked, both = [], []
            for _ in range(looks):
                begin = time.perf_counter()
                store.stored(sweep_id)
                asked.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                stored, remaining = left_now(store, plan, sweep_id)
                both.append(time.perf_counter() - begin)
            windows_left = sum(len(task.repeats) for task in remaining)
            said = f"{len(stored.windows):,} windows stored, {windows_left:,} in {len(remaining):,} boots left"
            found += [
                median_figure(f"{name}: what is stored, from PostgreSQL", asked),
                median_figure(f"{name}: what is left", both, target=LEFT_TARGET, note=said),
            ]
    return found


# --- a resume ----------------------------------------------------------------------------------------------------


def file_of(name: str) -> str:
    """One config, windows long enough to be killed in, no warm-up."""
    document = json.loads(overhead.sweep_file())
    document |= {"name": name, "configs": document["configs"][:1]}
    document["probe"] |= {"concurrency": [1], "repeats": 3, "boots": 1}
    return json.dumps(document)


def nightsweep(home: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start the program."""
    program = str(Path(sys.executable).parent / "nightsweep")
    return subprocess.Popen(
        [program, *words],
        env=overhead.environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def windows_of(url: str) -> list[datetime]:
    """When each window began, in the order stored; none before the database has its tables."""
    with psycopg.connect(url) as connection, contextlib.suppress(psycopg.errors.UndefinedTable):
        return [row[0] for row in connection.execute("select started_at from windows order by id")]
    return []


def kill_in_a_window(home: Path, file: Path, *, url: str, before: int) -> None:
    """Run the file, and kill the run while its second window is measured; the engine lives on, for the resume to stop."""
    process = nightsweep(home, "run", str(file))
    try:
        end = time.monotonic() + 120.0
        while len(windows_of(url)) <= before:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the run to be killed measured no window")
            time.sleep(0.1)
    finally:
        process.kill()
        process.wait()


def kill_database(home: Path) -> None:
    """Kill the embedded server as a power cut would, and what it left of engines."""
    pid = int((EmbeddedPostgres(home / "postgres").data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    for process in (*psutil.Process(pid).children(recursive=True), psutil.Process(pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for record in EngineRecords(home / "engines").all():
        for engine in record.living():
            with contextlib.suppress(ProcessLookupError):
                os.kill(engine, signal.SIGKILL)


def resumed(home: Path, *, url: str, number: int, power_cut: bool, engine_start: float) -> float:
    """Return seconds from the call of `resume` to the begin of the next window, less the engine's own start."""
    file = home / f"bench-{number}.yaml"
    file.write_text(file_of(f"bench-{number}"), encoding="utf-8")
    before = len(windows_of(url))
    kill_in_a_window(home, file, url=url, before=before)
    if power_cut:
        kill_database(home)
    begin = datetime.now(UTC)
    process = nightsweep(home, "resume", f"bench-{number}")
    code = process.wait(timeout=180)
    if code != 0:
        raise RuntimeError(f"nightsweep resume ended with {code}")
    first = next(started for started in windows_of(url) if started >= begin)
    return (first - begin).total_seconds() - engine_start


def resumes(*, runs: int = RESUMES) -> list[Figure]:
    """Time resumes with the database there and gone, in turns."""
    samples: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="nsbench.") as folder:
        home = Path(folder)
        engine_start = overhead.engine_start_seconds()
        asked = "from nightsweep import wiring; print(wiring.database_url(wiring.settings()))"
        url = overhead._python(home, asked).replace("+psycopg", "")
        try:
            for number in range(runs):
                for power_cut in samples:
                    place = {"number": 2 * number + power_cut, "power_cut": power_cut}
                    samples[power_cut].append(resumed(home, url=url, engine_start=engine_start, **place))
        finally:
            overhead._python(home, "from nightsweep import wiring; wiring.cluster(wiring.settings()).stop()")
    beside = {"beside": engine_start, "beside_name": "the engine's own start, not in it"}
    return [
        median_figure("resume after kill -9, to the next window", samples[False], target=RESUME_TARGET, **beside),
        median_figure("the same, PostgreSQL killed too", samples[True], target=RESUME_TARGET, **beside),
    ]


def measure(*, runs: int = RESUMES) -> Section:
    """Both questions."""
    return Section(name="resume", figures=(*left(), *resumes(runs=runs)))


def main() -> int:
    """Print the table; exit code 1 when a target is missed."""
    section = measure()
    write(section)
    print(table([section]))
    return 1 if any(figure.met is False for figure in section.figures) else 0


if __name__ == "__main__":
    sys.exit(main())

"""No repeat is measured twice, whatever dies: several holders fight for one sweep, some are killed, some oversleep."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import sqlalchemy as sa

from tests.storekit.builders import a_box, a_plan

HOLDER = textwrap.dedent(
    """
    import os, random, signal, sys, time
    from datetime import UTC, datetime
    from nightsweep.errors import BoxBusy, LeaseLost
    from nightsweep.plan.remaining import remaining
    from nightsweep.store.owner import new_owner
    from nightsweep.store.postgres import PostgresStore, connect
    from nightsweep.units import Seconds
    from tests.storekit.builders import a_plan, a_window, some_conditions

    url, sweep_id, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    chance = random.Random(os.getpid())
    engine = connect(url)
    store, plan = PostgresStore(engine), a_plan(repeats=6)
    # "far" pretends to be on another machine: its death is not known, its lease has to run out.
    owner = ("elsewhere:1:1:" + new_owner()[-12:]) if kind == "far" else new_owner()

    def night():
        lease = store.claim(sweep_id, owner=owner, ttl=Seconds(0.5))
        held = store.stored(sweep_id)
        left = remaining(plan, windows=held.windows, prefills=held.prefills, failed_boots=held.failed_boots)
        todo = [(task, repeat) for task in left for repeat in task.repeats]
        if not todo:
            store.release(lease, state="done", note="")
            return True
        boot_id = store.begin_boot(lease, plan.configs[0], boot_round=0, boot_key=f"{owner}-{lease.fence}",
                                   command=(), at=datetime.now(UTC))
        for task, repeat in todo:
            store.renew(lease, ttl=Seconds(0.5))
            time.sleep(0.01)  # the measurement
            if kind != "steady" and chance.random() < 0.15:
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "steady" and chance.random() < 0.04:
                time.sleep(0.8)  # oversleeps its lease
            store.add_window(lease, boot_id, repeat, a_window(chance.random()), attempt=1,
                             conditions=some_conditions(), at=datetime.now(UTC))
        return False

    while True:
        try:
            if night():
                break
        except BoxBusy:
            time.sleep(0.05)
        except LeaseLost:
            print("refused", flush=True)
    engine.dispose()
    """
)


def test_holders_that_die_and_oversleep_store_every_repeat_once(database_url: str, engine: sa.Engine) -> None:
    from nightsweep.store.postgres import PostgresStore

    store = PostgresStore(engine)
    plan = a_plan(repeats=6)
    sweep_id = store.open_sweep(plan, box_id=store.box_id(a_box()), file_text="")

    def start(kind: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        command = [sys.executable, "-c", HOLDER, database_url, str(sweep_id), kind]
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)

    holders = [start(kind) for kind in ("near", "far", "steady")]
    killed = sum(holder.wait(timeout=120) == -9 for holder in holders)
    with engine.connect() as connection:
        rows = connection.execute(
            sa.text("SELECT cell_id, repeat, count(*) FILTER (WHERE clean) AS clean FROM windows GROUP BY 1, 2")
        ).all()
        state, fence = connection.execute(sa.text("SELECT state, fence FROM sweeps")).one()
        live = connection.scalar(sa.text("SELECT count(*) FROM boots WHERE state IN ('starting', 'ready')"))
    assert [row.clean for row in rows] == [1] * (4 * 6)
    assert (state, live) == ("done", 0)
    assert fence > killed

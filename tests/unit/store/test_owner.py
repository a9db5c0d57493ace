"""Who holds a lease, and whether that process is dead for certain."""

from __future__ import annotations

import os
import subprocess
import sys

from nightsweep.store.owner import new_owner, owner_is_dead


def test_we_are_alive_and_each_run_of_ours_has_a_name_of_its_own() -> None:
    first, second = new_owner(), new_owner()
    assert first != second
    assert not owner_is_dead(first)


def test_a_process_that_ended_is_dead_also_as_a_zombie() -> None:
    code = "from nightsweep.store.owner import new_owner; print(new_owner(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        process.stdout.read()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
        assert owner_is_dead(owner)
    assert owner_is_dead(owner)


def test_another_process_under_the_same_pid_does_not_keep_the_lease() -> None:
    host, pid, _, mark = new_owner().split(":")
    assert owner_is_dead(f"{host}:{pid}:1:{mark}")


def test_of_a_process_elsewhere_nothing_is_known() -> None:
    _, _, started, mark = new_owner().split(":")
    for owner in (f"elsewhere:999999:{started}:{mark}", "somebody", "a:b:c:d", ""):
        assert not owner_is_dead(owner)

"""Parts of the service that end by themselves: started again in place, and what they carried out is given time to end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from nightsweep.service.prefect_server import child
from nightsweep.service.stack import Part
from tests.component.sweep.kit import until

HELD = "import time; print('up', flush=True); time.sleep(60)"
ORDERLY = """
import os, subprocess, sys, time
parent = os.getpid()
flow = f"import os, time\\nwhile os.getppid() == {parent}: time.sleep(0.02)\\ntime.sleep(0.3)\\nopen(sys.argv[1], 'w')"
subprocess.Popen([sys.executable, "-c", "import sys\\n" + flow, sys.argv[1]])
time.sleep(60)
"""


def a_part(folder: Path, *, program: str = HELD, started: list[int]) -> Part:
    """Return a part that is a small program; the pids of its starts are noted."""

    @contextlib.contextmanager
    def start() -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-c", program, str(folder / "ended in order")]
        with child(command, env={"PATH": "/usr/bin"}, log=folder / "log") as process:
            started.append(process.pid)
            yield process

    return Part("a part", start)


def test_a_part_that_was_killed_is_started_again_and_none_is_left_at_the_end(tmp_path: Path) -> None:
    started: list[int] = []
    with a_part(tmp_path, started=started) as part:
        assert part.ended is None
        psutil.Process(started[0]).send_signal(signal.SIGKILL)
        until(lambda: part.ended is not None)
        assert part.ended == -signal.SIGKILL
        part.restart()
        assert part.ended is None
        assert len(set(started)) == 2
    assert not any(psutil.pid_exists(pid) for pid in started)


def test_what_a_killed_part_carried_out_is_given_time_to_end_in_order(tmp_path: Path) -> None:
    started: list[int] = []
    with a_part(tmp_path, program=ORDERLY, started=started) as part:
        until(lambda: not part.idle())
        until(lambda: "import os, time" in " ".join(psutil.Process(started[0]).children()[0].cmdline()))
        part.kill()
        part.restart()
        assert (tmp_path / "ended in order").exists()


def test_a_part_without_children_carries_nothing_out(tmp_path: Path) -> None:
    with a_part(tmp_path, started=[]) as part:
        assert part.idle()

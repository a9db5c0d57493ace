"""numpy as it is loaded here: without threads that spin beside a measurement, and without a trace in the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASKED = """
import os
from pathlib import Path
from nightsweep.analysis.numeric import np
assert float(np.ones((300, 300)).dot(np.ones((300, 300)))[0, 0]) == 300.0
print(len(list(Path("/proc/self/task").iterdir())), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.parametrize(("said", "found"), [(None, "1 None"), ("1", "1 1")])
def test_numpy_has_no_threads_of_its_own_and_children_inherit_nothing(said: str | None, found: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if said is not None:
        environment["OPENBLAS_NUM_THREADS"] = said
    answer = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == found


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has one thread anyhow")
def test_what_somebody_says_stands() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    answer = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "2 2"

"""The product as a user calls it, for the tests on a real engine: its command in a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .leftovers import Belongings

NAME = "real vLLM"
NIGHTSWEEP = Path(sys.executable).parent / "nightsweep"
ENABLED = os.environ.get("NIGHTSWEEP_TEST_REAL") == "1"
LIVE = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not ENABLED, reason="set NIGHTSWEEP_TEST_REAL=1 and NIGHTSWEEP_TEST_MODELS=DIR"),
]


def models() -> Path:
    """The folder with the models."""
    return Path(os.environ["NIGHTSWEEP_TEST_MODELS"]).resolve()


@dataclass(frozen=True)
class Swept:
    """A sweep that was run: what was there before, how the command ended, and the database while it lasts."""

    home: Path
    code: int
    before: Belongings = field(repr=False)
    output: str = field(repr=False)
    progress: str = field(repr=False)

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Call the product on the same home."""
        return nightsweep(self.home, *words)

    def database_url(self) -> str:
        """The URL of the embedded database."""
        return self.call("db", "url").stdout.strip()


def environment(home: Path) -> dict[str, str]:
    """Our environment with this home, and without a database of somebody else."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("NIGHTSWEEP_")}
    return {**ours, "NIGHTSWEEP_HOME": str(home), "NIGHTSWEEP_BOX": "live-test"}


def nightsweep(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Call the product."""
    return subprocess.run(
        [str(NIGHTSWEEP), *words],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def stop_database(home: Path) -> None:
    """Stop the embedded database of a home, as its owner would."""
    done = nightsweep(home, "db", "stop")
    assert done.returncode == 0, done.stderr


def sweep(home: Path, file: Path) -> tuple[int, str, str]:
    """Run a sweep, its progress shown as it comes; return exit code, output and progress.

    However the test ends, the product gets a SIGTERM and the time to end its engine.
    """
    progress = []
    with (home / "stdout").open("w+") as output:
        process = subprocess.Popen(
            [str(NIGHTSWEEP), "run", str(file)],
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            with process.stderr:
                for line in process.stderr:
                    print(line, end="", flush=True)
                    progress.append(line)
            code = process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(timeout=90)
        output.seek(0)
        return code, output.read(), "".join(progress)

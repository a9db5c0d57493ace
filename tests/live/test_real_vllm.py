"""A whole sweep on real vLLM in Docker, by calling the product as a user does; then facts are checked from outside.

Opt-in: NIGHTSWEEP_TEST_REAL=1 and NIGHTSWEEP_TEST_MODELS=DIR (`make test-real MODELS=DIR`; see README.md here).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .leftovers import Belongings, owned_containers, processes_of

HERE = Path(__file__).parent
NAME = "real vLLM"
NIGHTSWEEP = Path(sys.executable).parent / "nightsweep"
ENABLED = os.environ.get("NIGHTSWEEP_TEST_REAL") == "1"

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(not ENABLED, reason="set NIGHTSWEEP_TEST_REAL=1 and NIGHTSWEEP_TEST_MODELS=DIR"),
]


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


@pytest.fixture(scope="module")
def swept() -> Iterator[Swept]:
    """Run the sweep once; all tests of this module look at it."""
    assert owned_containers() == [], "engines of an earlier run are still here"
    before = Belongings.now()
    home = Path(tempfile.mkdtemp(prefix="nslive."))
    try:
        file = home / "real_sweep.yaml"
        models = str(Path(os.environ["NIGHTSWEEP_TEST_MODELS"]).resolve())
        file.write_text((HERE / "real_sweep.yaml").read_text().replace("@MODELS@", models).replace("@NAME@", NAME))
        code, output, progress = sweep(home, file)
        print(output)
        yield Swept(home=home, before=before, code=code, output=output, progress=progress)
    finally:
        stop_database(home)
        shutil.rmtree(home)


def test_the_sweep_is_done_and_shows_every_config(swept: Swept) -> None:
    assert swept.code == 0, swept.progress
    for config in ("none", "ngram k=4", "draft k=3", "synthetic k=4"):
        assert config in swept.output
    assert "simulated" not in swept.output.lower()


def test_stored_facts_agree_with_the_engines_own_log_and_counters(swept: Swept) -> None:
    script = HERE / "check_real_facts.py"
    done = subprocess.run(
        [sys.executable, str(script), swept.database_url(), "--sweep", NAME],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if line.startswith("FAIL"))


def test_the_history_can_be_asked_for_cells_and_boots(swept: Swept) -> None:
    cells = json.loads(swept.call("cells", "--json").stdout)["cells"]
    assert len(cells) == 16
    assert {cell["decode_rate_tokens_per_second"]["n"] for cell in cells} == {2}
    boots = swept.call("boots", "--json")
    assert boots.returncode == 0, boots.stderr
    assert "0.32.0" in boots.stdout


def test_the_same_call_again_measures_nothing_again(swept: Swept) -> None:
    again = swept.call("run", str(swept.home / "real_sweep.yaml"))
    assert again.returncode == 0, again.stderr
    assert "nothing was left" in again.stderr
    assert "booting" not in again.stderr


def test_a_report_has_boots_and_cells_with_their_run_counts(swept: Swept) -> None:
    done = swept.call("report", NAME)
    assert done.returncode == 0, done.stderr
    report = swept.home / "report.md"
    text = report.read_text() if report.exists() else done.stdout
    assert "synthetic k=4" in text
    assert "|" in text


def test_nothing_of_ours_is_left_on_the_machine(swept: Swept) -> None:
    """Runs last: afterwards the database is stopped."""
    stop_database(swept.home)
    assert owned_containers() == []
    after = Belongings.now()
    assert after.containers <= swept.before.containers
    assert after.volumes <= swept.before.volumes
    assert processes_of(str(swept.home)) == []
    assert not {port for port in after.ports - swept.before.ports if _ours(port)}


def _ours(port: tuple[str, int]) -> bool:
    """Whether a listening port is one of an engine or of this product (others come and go on a machine)."""
    import psutil

    for connection in psutil.net_connections("tcp"):
        if connection.status == "LISTEN" and (connection.laddr.ip, connection.laddr.port) == port:
            name = psutil.Process(connection.pid).name() if connection.pid else ""
            return name in ("docker-proxy", "postgres", "vllm", "nightsweep") or not name
    return False

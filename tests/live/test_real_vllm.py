"""A whole sweep on real vLLM in Docker, by calling the product as a user does; then facts are checked from outside.

Opt-in: NIGHTSWEEP_TEST_REAL=1 and NIGHTSWEEP_TEST_MODELS=DIR (`make test-real MODELS=DIR`; see README.md here).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from .leftovers import Belongings, owned_containers, processes_of
from .product import LIVE, NAME, Swept, stop_database

HERE = Path(__file__).parent
pytestmark = LIVE


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

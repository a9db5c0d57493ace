"""What goes wrong around a sweep costs a boot at most, and production is back, or was never touched."""

from __future__ import annotations

import sys
import uuid
from typing import Any

import pytest
import yaml
from sqlalchemy.engine import make_url

from nightsweep.errors import StoreReadOnly
from nightsweep.ports import Progress
from nightsweep.store.embedded import EmbeddedPostgres
from tests import dockerkit
from tests.component.production.conftest import SOURCE, Yard
from tests.component.production.test_on_docker import a_night, intents, wait_serving
from tests.component.sweep.kit import MTP, PLAIN, Bench
from tests.storekit.fixtures import run

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
]


def in_containers(text: str, *images: str) -> str:
    """Return the sweep file with each config's engine in a container of its own image."""
    given: dict[str, Any] = yaml.safe_load(text)
    given["engine"] |= {
        "host": "docker",
        "command": [sys.executable, "-m", "nightsweep.simulator"],
        "env": {"PYTHONPATH": str(SOURCE)},
        "image": images[0],
        "container": {"volumes": list(dockerkit.python_volumes(SOURCE))},
    }
    for config, image in zip(given["configs"], images, strict=True):
        config["image"] = image
    return yaml.safe_dump(given, sort_keys=False)


def test_an_image_that_vanishes_between_two_boots_fails_its_boot_and_the_sweep_goes_on(
    bench: Bench, yard: Yard
) -> None:
    production = yard.production()
    wait_serving(production)
    gone = f"nightsweep-test/gone:{uuid.uuid4().hex[:8]}"
    yard.client.images.get(yard.image).tag(gone)

    def hear(progress: Progress) -> None:
        if progress.phase == "ready" and yard.client.images.list(gone):
            yard.client.images.remove(gone)

    text = a_night(production, PLAIN, MTP, {"name": "last", "args": {"max-num-seqs": 64}})
    outcome = bench.play(in_containers(text, yard.image, gone, yard.image), hear=hear)
    assert (outcome.state, outcome.windows_done) == ("done", 2)
    boots = bench.boots()
    assert [boot.state for boot in boots if boot.config != "mtp"] == ["stopped", "stopped"]
    failed = [boot for boot in boots if boot.config == "mtp"]
    assert {boot.state for boot in failed} == {"failed"}
    assert {boot.failure_kind for boot in failed} == {"image_missing"}, failed[0].failure_lines
    assert any(gone in problem and "could not be pulled" in problem for problem in outcome.problems)
    assert yard.running(production)
    assert [intent.outcome for intent in intents(bench)] == ["restored"]


def test_a_database_that_takes_no_writes_is_told_before_production_is_touched(
    bench: Bench, yard: Yard, pg_cluster: EmbeddedPostgres
) -> None:
    production = yard.production()
    wait_serving(production)
    started = yard.client.api.inspect_container(production.id)["State"]["StartedAt"]
    name = make_url(bench.database_url).database
    run(pg_cluster, f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    with pytest.raises(StoreReadOnly, match="takes no writes"):
        bench.play(a_night(production))
    with bench.command("run", str(bench.file(a_night(production)))) as refused:
        assert refused.end() == 1
        assert "point NIGHTSWEEP_DATABASE_URL at the primary" in refused.said
        assert "Traceback" not in refused.said
    run(pg_cluster, f"ALTER DATABASE {name} RESET default_transaction_read_only")
    assert yard.running(production)
    assert intents(bench) == []
    assert yard.client.api.inspect_container(production.id)["State"]["StartedAt"] == started

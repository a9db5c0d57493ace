"""What a person does in Prefect's own pages: runs deleted, the deployment paused, notification blocks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from pydantic import BaseModel, SecretStr, ValidationError

from nightsweep import wiring
from nightsweep.analysis.telling import trial_notice
from nightsweep.ports import Secret
from nightsweep.service.notify import Notifier, sender
from nightsweep.service.prefect_server import prefect_environment, runner
from tests.component.flow.kit import Served
from tests.component.service.receiver import receiver
from tests.component.sweep.kit import EVERYTHING, PLAIN, a_file, engines_of, until

pytestmark = pytest.mark.slow

PATIENT = 30.0
LONG = {"concurrency": [1], "window": "1s", "repeats": 20}


@pytest.fixture
def paused_deployment(service: Served) -> Iterator[str]:
    """Yield the URL of the deployment, which is paused for the test."""
    deployment = f"{service.api.api_url}/deployments/{service.up.deployment_id}"
    httpx.post(f"{deployment}/pause_deployment", timeout=PATIENT).raise_for_status()
    yield deployment
    httpx.post(f"{deployment}/resume_deployment", timeout=PATIENT).raise_for_status()


def measured(service: Served, name: str) -> int:
    return sum(row.sweep_name == name for row in service.queries.windows(EVERYTHING))


def environ_of(service: Served) -> dict[str, str]:
    return prefect_environment(home=service.home / "prefect", api_url=service.api.api_url, environ=os.environ)


def test_a_deployment_that_is_paused_takes_no_run_also_after_the_service_has_served_it_again(
    service: Served, paused_deployment: str
) -> None:
    ended = service.ended(service.start(a_file(PLAIN, name="kept off"), name="kept off"))
    assert (ended.state_type, ended.state_name) == ("CANCELLED", "Skipped")
    assert "paused in Prefect" in (ended.message or "")
    assert not [row for row in service.queries.sweeps() if row.name == "kept off"]

    httpx.patch(paused_deployment, json={"tags": ["until it is served again"]}, timeout=PATIENT).raise_for_status()
    log = service.home / "logs" / "second-runner.log"
    environ = {**os.environ, "NIGHTSWEEP_HOME": str(service.home), "NIGHTSWEEP_BOX": "bench"}
    with runner(home=service.home / "prefect", api_url=service.api.api_url, environ=environ, log=log):
        until(
            lambda: "box:" in str(httpx.get(paused_deployment, timeout=PATIENT).json()["tags"]), seconds=90, every=0.5
        )
    assert service.api.paused("bench")


def test_deleting_a_run_ends_no_process_of_it_and_our_cancel_does(service: Served) -> None:
    run = service.start(a_file(PLAIN, name="deleted", **LONG), name="deleted")
    until(lambda: measured(service, "deleted") > 0, seconds=90, every=0.2)
    httpx.delete(f"{service.api.api_url}/flow_runs/{run.id}", timeout=PATIENT).raise_for_status()
    then = measured(service, "deleted")
    until(lambda: measured(service, "deleted") > then + 1, seconds=60, every=0.2)  # the record alone is gone
    sweep = service.queries.sweep_of("deleted")
    with wiring.open_store(service.chosen) as store:
        store.wish_stop(sweep.sweep_id, wish="drop")
    until(lambda: service.queries.sweep_of("deleted").state == "cancelled", seconds=30, every=0.2)
    assert engines_of(service.home) == []


def test_a_notification_block_kept_in_prefect_is_an_address(service: Served) -> None:
    with receiver() as post:
        make = (
            "from prefect.blocks.notifications import CustomWebhookNotificationBlock as Block\n"
            f"Block(name='box', url='http://127.0.0.1:{post.port}/hook', "
            "json_data={'title': '{{subject}}', 'message': '{{body}}'}).save('night')"
        )
        environ = environ_of(service)
        subprocess.run([sys.executable, "-c", make], env=environ, check=True, capture_output=True, timeout=90)
        addresses = (Secret("prefect://custom-webhook/night"), Secret("prefect://custom-webhook/absent"))
        failures = Notifier(addresses, send=sender(environ=environ)).tell(trial_notice("spark"))
    assert post.heard == [{"title": "nightsweep on spark can reach you", "message": trial_notice("spark").body}]
    (line,) = failures
    assert line.startswith("prefect://custom-webhook/absent (address 2 of NIGHTSWEEP_NOTIFY): ")
    assert "Unable to find block document named absent for block type custom-webhook" in line


class Hook(BaseModel):
    """A block as far as a failure's words go."""

    url: SecretStr


def test_what_a_block_says_tells_what_was_wrong_and_not_where_it_sends_to() -> None:
    from flows.notify import reason

    url = "https://hooks.example/services/T/B/s3cr3t"
    hook = Hook(url=SecretStr(url))
    assert reason(RuntimeError(f"cannot post to {url}: 404"), hook) == "RuntimeError: cannot post to ***: 404"
    away = reason(httpx.ConnectError("All connection attempts failed"), None)
    assert "Prefect's server at " in away
    assert "does not answer" in away
    with pytest.raises(ValidationError) as invalid:
        Hook.model_validate({"url": ["s3cr3t"]})
    assert reason(invalid.value, None) == "ValidationError: url: Input should be a valid string"

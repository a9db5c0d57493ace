"""Production in a real container: taken down when idle, back and proven however the sweep ends, also without any database."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from datetime import UTC
from typing import Any

import httpx
import psutil
import pytest
import sqlalchemy as sa
import yaml
from docker.models.containers import Container

from nightsweep import rescue, wiring
from nightsweep.errors import ProductionNotRestored
from nightsweep.service.watchdog import Rules
from nightsweep.settings import Settings
from nightsweep.store.schema import production_intents
from nightsweep.units import Seconds
from tests import dockerkit
from tests.component.production.conftest import Yard
from tests.component.sweep.kit import MTP, PLAIN, Bench, a_file, engines_of, until

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
]
NOW = Rules(grace=Seconds(0.0), hung_after=Seconds(0.0))


def a_night(production: Container | str, *configs: dict[str, Any], idle_for: str | int = "200ms", **probe: Any) -> str:
    """Return a sweep file whose production is a container."""
    name = production if isinstance(production, str) else str(production.name)
    given = yaml.safe_load(a_file(*(configs or (PLAIN,)), concurrency=[1], **probe))
    given["production"] = {"container": name, "idle_for": idle_for, "ready_timeout": "60s", "idle_limit": "2s"}
    return yaml.safe_dump(given, sort_keys=False)


def wait_serving(container: Container) -> str:
    """Return where production serves, once it does."""
    command = container.attrs["Config"]["Cmd"]
    url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"

    def healthy() -> bool:
        try:
            return httpx.get(f"{url}/health", timeout=1.0).status_code == 200
        except httpx.HTTPError:
            return False

    until(healthy, seconds=30)
    return url


def intents(bench: Bench) -> list[Any]:
    engine = sa.create_engine(bench.database_url)
    try:
        with engine.connect() as connection:
            return list(connection.execute(sa.select(production_intents).order_by(production_intents.c.id)))
    finally:
        engine.dispose()


def away(bench: Bench) -> Settings:
    """Return the bench's settings with a database that does not answer."""
    return replace(bench.settings, database_url="postgresql+psycopg://nobody@127.0.0.1:1/none")


def killed_in_a_window(bench: Bench, text: str) -> None:
    """Run a sweep as a process, and kill -9 it while it measures."""
    with bench.command("run", str(bench.file(text))) as run:
        run.wait_for("is ready", seconds=60)
        run.send(signal.SIGKILL)
        run.end()


def test_production_is_stopped_when_idle_and_back_with_a_proof_and_its_times(bench: Bench, yard: Yard) -> None:
    production = yard.production("--api-key", "sk-of-production", restart_policy={"Name": "unless-stopped"})
    wait_serving(production)
    assert bench.play(a_night(production)).state == "done"
    (intent,) = intents(bench)
    assert intent.outcome == "restored"
    assert (intent.checks["token"], intent.checks["model"], intent.checks["differences"]) == ("served", "day", [])
    assert intent.opened_at < intent.stopped_at < intent.restore_started_at < intent.closed_at
    took = (intent.closed_at - intent.restore_started_at).total_seconds()
    assert 0.0 <= took - intent.checks["start_s"] + 1.0 < 2.0
    assert (intent.traffic["requests"], intent.traffic["since_by"]) == (0, "process"), "nobody had asked it anything"
    assert intent.traffic["since"] < intent.traffic["read"] <= intent.opened_at.astimezone(UTC).isoformat()
    started = wiring.docker_host(bench.settings).foreign(str(production.name)).started
    assert started is not None
    assert intent.stopped_at < started < intent.closed_at, "it was started again"
    kept = json.dumps([str(intent), [event.message for event in bench.events()]])
    assert "sk-of-production" not in kept
    assert "hf_of_production" not in kept
    after = yard.client.api.inspect_container(production.id)
    assert (after["Id"], after["HostConfig"]) == (production.id, production.attrs["HostConfig"])


def test_production_that_serves_somebody_is_not_stopped(bench: Bench, yard: Yard) -> None:
    production = yard.production()
    url = wait_serving(production)
    body = {"model": "day", "prompt": "a long story", "max_tokens": 4000, "stream": True, "ignore_eos": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=30.0) as answer:
        lines = answer.iter_lines()
        next(lines)
        outcome = bench.play(a_night(production))
    assert outcome.state == "partial"
    assert "1 requests running" in outcome.note
    assert yard.running(production)
    assert intents(bench) == []


@pytest.mark.parametrize("signals", [1, 2])
def test_a_sigterm_to_the_whole_group_also_twice_brings_production_back(bench: Bench, yard: Yard, signals: int) -> None:
    production = yard.production()
    wait_serving(production)
    text = a_night(production, window="5s", repeats=20)
    with bench.command("run", str(bench.file(text))) as run:
        run.wait_for("is ready", seconds=60)
        assert not yard.running(production)
        begun = time.monotonic()
        for _ in range(signals):
            os.killpg(run.process.pid, signal.SIGTERM)
            time.sleep(0.05)
        assert run.end(seconds=60) == 3, run.said
        assert time.monotonic() - begun < 60
    assert engines_of(bench.home) == []
    assert yard.running(production)
    if bench.events("production_coming"):  # a busy machine: its start took longer than a service that must end waits
        rescue.restore_production(bench.settings)
    assert [intent.outcome for intent in intents(bench)] == ["restored"]
    assert bench.events("production_not_restored") == []


def test_after_a_kill_restore_needs_no_database_and_the_next_look_at_it_closes_the_intent(
    bench: Bench, yard: Yard
) -> None:
    production = yard.production()
    wait_serving(production)
    killed_in_a_window(bench, a_night(production, window="5s"))
    assert not yard.running(production)
    (noted,) = json.loads((bench.home / "production.json").read_text()).values()
    assert (noted["ready_timeout"], noted["command"][-2]) == (60.0, "--port")
    assert "hf_of_production" not in str(noted)
    said: list[str] = []
    (result,) = rescue.restore_production(away(bench), say=said.append)
    assert result.serving, result.detail
    assert "served a token as day" in result.detail
    assert engines_of(bench.home) == []
    assert any("the database does not answer" in line for line in said)
    assert not (bench.home / "production.json").exists()
    assert [intent.outcome for intent in intents(bench)] == [None]
    (again,) = rescue.restore_production(bench.settings)
    assert again.serving
    (intent,) = intents(bench)
    assert (intent.outcome, intent.checks["started"], intent.restore_started_at) == ("restored", False, None)
    assert rescue.restore_production(bench.settings) == ()


def test_a_service_that_starts_with_an_intent_open_brings_production_back_beside_serving(
    bench: Bench, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.sweep import reconcile

    production = yard.production()
    wait_serving(production)
    killed_in_a_window(bench, a_night(production, window="5s"))
    for name, value in bench.environ.items():
        monkeypatch.setenv(name, value)
    thread = reconcile()
    thread.join(60)
    assert not thread.is_alive()
    assert yard.running(production)
    assert engines_of(bench.home) == []
    (intent,) = intents(bench)
    assert (intent.outcome, intent.checks["started"]) == ("restored", True)
    assert intent.restore_started_at is not None
    assert "production_restored" in {event.kind for event in bench.events()}


def test_the_watchdog_leaves_a_sweep_its_time_and_then_brings_production_back(bench: Bench, yard: Yard) -> None:
    production = yard.production()
    wait_serving(production)
    killed_in_a_window(bench, a_night(production, window="5s"))
    path = bench.home / "production.json"
    noted = json.loads(path.read_text())
    noted[production.name]["restore_by"] = "2999-01-01T06:00:00+00:00"
    path.write_text(json.dumps(noted))
    said: list[str] = []
    assert rescue.watch(away(bench), NOW, say=said.append) == ()
    assert "its sweep has until 2999-01-01" in said[0]
    assert not yard.running(production)
    noted[production.name]["restore_by"] = "2026-01-01T06:00:00+00:00"
    path.write_text(json.dumps(noted))
    (result,) = rescue.watch(away(bench), NOW, say=said.append)
    assert result.serving, result.detail
    assert yard.running(production)
    assert engines_of(bench.home) == []


def test_the_watchdog_ends_a_sweep_that_hangs_past_its_time_and_never_one_that_works(bench: Bench, yard: Yard) -> None:
    production = yard.production()
    wait_serving(production)
    with bench.command("run", str(bench.file(a_night(production, window="5s", repeats=20)))) as run:
        run.wait_for("is ready", seconds=60)
        path = bench.home / "production.json"
        noted = json.loads(path.read_text())
        noted[production.name]["restore_by"] = "2026-01-01T06:00:00+00:00"
        path.write_text(json.dumps(noted))
        said: list[str] = []
        working = Rules(grace=Seconds(0.0), hung_after=Seconds(10e9))
        assert rescue.watch(bench.settings, working, say=said.append) == ()
        assert "is given time to end" in said[-1]
        psutil.Process(run.process.pid).suspend()
        (result,) = rescue.watch(bench.settings, working, say=said.append)
        assert any("its process is stopped" in line for line in said)
        assert result.serving, result.detail
        assert engines_of(bench.home) == []
        run.send(signal.SIGKILL)
        run.send(signal.SIGCONT)
        run.end()
    assert yard.running(production)
    assert [intent.outcome for intent in intents(bench)] == ["restored"]


def test_production_removed_in_the_night_is_told_with_its_command_and_one_made_anew_is_compared(
    bench: Bench, yard: Yard
) -> None:
    production = yard.production(labels={"com.docker.compose.project": "box", "com.docker.compose.service": "llm"})
    wait_serving(production)

    def remove(progress: Any) -> None:
        if progress.phase == "ready" and yard.made:
            yard.made.pop().remove(force=True)

    with pytest.raises(ProductionNotRestored, match="docker compose -p box up -d llm") as loud:
        bench.play(a_night(production), hear=remove)
    assert yard.image in str(loud.value)
    assert "-e HF_TOKEN" in str(loud.value)
    assert "hf_of_production" not in str(loud.value)
    assert [intent.closed_at for intent in intents(bench)] == [None]
    anew = yard.production("--max-num-seqs", "8", name=str(production.name))
    anew.pause()
    (result,) = rescue.restore_production(bench.settings)
    assert result.serving
    assert "it is another container of that name" in result.detail
    assert "--max-num-seqs 8" in result.detail
    assert [event.level for event in bench.events("production_differs")] == ["warning"]
    (intent,) = intents(bench)
    assert (intent.outcome, len(intent.checks["differences"])) == ("restored", 2)


def test_production_made_anew_after_a_sweep_that_died_is_what_the_next_one_brings_back(
    bench: Bench, yard: Yard
) -> None:
    first = yard.production()
    wait_serving(first)
    killed_in_a_window(bench, a_night(first, window="5s"))
    yard.made.pop().remove(force=True)
    anew = yard.production("--max-num-seqs", "8", name=str(first.name))
    wait_serving(anew)
    bench.play(a_night(anew))
    assert yard.running(anew)
    wait_serving(anew)
    (told,) = bench.events("production_replaced")
    assert "--max-num-seqs 8" in told.message
    assert bench.events("production_differs") == []
    (intent,) = intents(bench)
    assert (intent.outcome, intent.container_id, intent.checks["differences"]) == ("restored", anew.id, [])
    assert [one["container_id"] for one in intent.facts["replaced"]] == [first.id]


def test_production_that_is_paused_is_stopped_and_serves_afterwards(bench: Bench, yard: Yard) -> None:
    production = yard.production()
    wait_serving(production)
    production.pause()
    assert bench.play(a_night(production, MTP)).state == "done"
    (intent,) = intents(bench)
    assert intent.checks["differences"] == ["it was paused before the sweep, and runs now"]
    assert intent.traffic["problem"] == "it was paused"
    assert yard.running(production)


def test_production_whose_image_was_removed_still_comes_back_and_that_is_said(bench: Bench, yard: Yard) -> None:
    tag = f"{dockerkit.REPOSITORY}:vanishing"
    yard.client.images.get(yard.image).tag(tag)
    production = Yard(yard.client, tag, made=yard.made).production()
    wait_serving(production)
    yard.client.images.remove(tag, force=True)
    assert bench.play(a_night(production)).state == "done"
    assert [intent.outcome for intent in intents(bench)] == ["restored"]


def test_what_is_no_llm_server_comes_back_with_what_could_be_checked(bench: Bench, yard: Yard) -> None:
    production = yard.production(command=("-c", "import http.server as s, sys; s.test(port=int(sys.argv[-1]))"))
    assert wiring.docker_host(bench.settings).foreign(str(production.name)).running
    assert bench.play(a_night(production, idle_for=0)).state == "done"
    (intent,) = intents(bench)
    assert (intent.checks["ready"], intent.checks["token"]) == ("HTTP 501", "not checked")
    assert "no LLM server" in bench.events("production_unchecked")[0].message

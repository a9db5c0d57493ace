"""Production's traffic from its own page to a decision that is questioned: guard, probe, PostgreSQL and the engine are real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from nightsweep.cli.decisions import command as decisions
from nightsweep.engine.registry import engine_for
from nightsweep.measurement.traffic import Traffic
from nightsweep.plan.model import Production
from nightsweep.ports import Lease
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.sweep.guard import Guard
from nightsweep.sweep.tools import Tools
from nightsweep.units import Seconds
from tests.component.cli.test_decisions import BOX, DEPTH, FILE, PROMPTS, Desk
from tests.component.simulator.conftest import Simulator, started
from tests.component.sweep.kit import until
from tests.contract.test_probe import RealClock
from tests.fakes.host import FakeHost
from tests.storekit.builders import TTL
from tests.storekit.byhand import enter

PRODUCTION = Production(container="vllm-qwen", idle_for=Seconds(0.2), idle_limit=Seconds(20.0))
FAST = ("--sim-speed", "200")


@dataclass
class Yard:
    """A box on which production, a simulated engine, is taken down by the guard of a stored sweep."""

    database: sa.Engine
    store: PostgresStore
    probe: HttpProbe
    clock: RealClock

    def night(self, sweep: int, engine: Simulator, production: Production = PRODUCTION) -> Traffic | None:
        """Take this production down and bring it back; return what was kept of what it had served."""
        host = FakeHost(clock=self.clock)
        host.add_foreign("vllm-qwen", ports={8000: engine.port})
        serves = ("--model", "org/m", "--served-model-name", "qwen")
        host.foreigners["vllm-qwen"] = replace(host.foreigners["vllm-qwen"], command=serves)
        lease = self.store.claim(sweep, owner="guard:1:1:1", ttl=TTL)
        with self._guard(host, lease).down(production, restore_by=None, check=lambda: None):
            assert not host.foreigners["vllm-qwen"].running
        self.store.release(lease, state="done", note="")
        assert host.foreigners["vllm-qwen"].running
        return Queries(self.database).productions(sweep)[-1].traffic

    def _guard(self, host: FakeHost, lease: Lease) -> Guard:
        tools = Tools(
            store=self.store,
            host=lambda kind: host,
            engine=engine_for,
            probe=self.probe,
            clock=self.clock,
            prompts=("x",),
            environ={},
            free_port=lambda: 1,
            python="python",
            owner=lease.owner,
            software="test",
        )
        return Guard(tools, lease)


@pytest.fixture
def yard(engine: sa.Engine, store: PostgresStore) -> Iterator[Yard]:
    clock = RealClock()
    with HttpProbe(clock=clock) as probe:
        yield Yard(engine, store, probe, clock)


@pytest.fixture
def desk(engine: sa.Engine, store: PostgresStore) -> Desk:
    return Desk(engine, store)


def people_use(engine: Simulator, *, words: int, requests: int = 40) -> tuple[int, int]:
    """Have people send requests with prompts of so many words; return all prompt and generated tokens."""
    prompt = generation = 0
    for number in range(requests):
        usage = engine.chat(f"{number} " + "word " * words, max_tokens=10 + number % 7).json()["usage"]
        prompt, generation = prompt + usage["prompt_tokens"], generation + usage["completion_tokens"]
    return prompt, generation


def give_one_up(engine: Simulator) -> None:
    """Have somebody leave a long answer as soon as it begins, and wait until the engine knows."""
    body: dict[str, Any] = {"model": "qwen", "prompt": "a long story", "max_tokens": 4000, "ignore_eos": True}
    with httpx.stream("POST", f"{engine.url}/v1/completions", json={**body, "stream": True}, timeout=30.0) as answer:
        lines = answer.iter_lines()
        for _ in range(400):
            next(lines)
    until(lambda: engine.metrics()["vllm:num_requests_running"] == 0, seconds=20)


def test_what_the_engine_counted_is_kept_to_the_token_when_production_is_taken_down(yard: Yard) -> None:
    sweep = enter(yard.store, FILE, DEPTH, box=BOX, prompts_hash=PROMPTS)
    with started(*FAST) as engine:
        engine.wait_ready()
        prompt, generation = people_use(engine, words=50)
        found = yard.night(sweep, engine)
        assert found is not None
        assert (found.requests, found.prompt_tokens, found.generation_tokens) == (40, prompt, generation)
        assert found.mean_prompt_tokens == pytest.approx(prompt / 40)
        assert (found.engine, found.since_by, found.unknown) == ("vllm", "process", None)
        assert found.since is not None
        assert timedelta() < datetime.now(UTC) - found.since < timedelta(minutes=3)
        assert found.streams is not None
        assert 0.0 < found.streams < 1.0, "one request at a time, and pauses"
        give_one_up(engine)
        again = yard.night(sweep, engine)
        assert again is not None
        assert again.requests == 41, "and the token by which production was proven; what was given up is in no mean"
        assert again.streams is None


def test_production_that_keeps_no_statistics_is_unknown_and_taken_down_all_the_same(yard: Yard) -> None:
    sweep = enter(yard.store, FILE, DEPTH, box=BOX, prompts_hash=PROMPTS)
    with started(*FAST, "--disable-log-stats") as engine:
        engine.wait_ready()
        found = yard.night(sweep, engine, replace(PRODUCTION, idle_for=None))  # a proof is wished for, and no condition
        assert found is not None
        assert "does not say how many requests run" in str(found.unknown)
        assert found.requests is None


def test_longer_prompts_question_what_was_decided_beside_shorter_ones(yard: Yard, desk: Desk) -> None:
    sweep = desk.depth()
    with started(*FAST) as engine:
        engine.wait_ready()
        people_use(engine, words=50)
        yard.night(sweep, engine)
    with yard.database.begin() as connection:  # what was entered was measured that night
        connection.execute(sa.text("UPDATE windows SET started_at = :at"), {"at": datetime.now(UTC)})
    assert "traffic.prompt_tokens: " in desk.five_is_the_block("--at", "c=1").stdout
    for name, words, state in (("as-ever", 55, "standing"), ("longer", 200, "questioned")):
        later = enter(yard.store, FILE.replace("dflash2-depth", name), DEPTH, box=BOX, prompts_hash=PROMPTS)
        with started(*FAST) as engine:  # it was started again since
            engine.wait_ready()
            people_use(engine, words=words)
            yard.night(later, engine)
        (one,) = json.loads(desk.call(decisions, "--json").stdout)["decisions"]
        assert one["state"] == state, one["changes"]
    assert [change["premise"] for change in one["changes"]] == ["traffic.prompt_tokens"]
    desk.call(decisions, "accept", "1", "--reason", "asked again")
    assert desk.listed()[0]["state"] == "standing"

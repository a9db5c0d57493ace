"""Production brought back: what counts as proof, what is said of what cannot be proven, and when it is no longer waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nightsweep.errors import DockerUnavailable, ProductionComing, ProductionNotRestored
from nightsweep.ports import Secret
from nightsweep.production.news import news_of
from nightsweep.production.record import Record
from nightsweep.production.returning import HURRIED, Back, Helpers, bring_back
from nightsweep.units import Seconds
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeHost
from tests.fakes.probe import FakeProbe


@dataclass
class Box:
    """A box with production that is down."""

    clock: FakeClock = field(default_factory=FakeClock)
    began: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = FakeHost(clock=self.clock)
        self.host.add_foreign("prod", running=False)
        self.probe = FakeProbe(clock=self.clock, answers={"models": {"data": [{"id": "some/model"}]}})

    def change(self, **more: Any) -> None:
        self.host.foreigners["prod"] = replace(self.host.foreigners["prod"], **more)

    def back(self, record: Record | None = None, *, hurried: Callable[[], bool] = lambda: False) -> Back:
        helpers = Helpers(
            host=self.host,
            probe=self.probe,
            clock=self.clock,
            began=lambda: self.began.append(float(self.clock.monotonic())),
            hurried=hurried,
        )
        return bring_back(record or Record("prod"), helpers)

    def asked(self, what: str) -> list[dict[str, Any]]:
        return [facts for kind, facts in self.probe.calls if kind == what]


def test_production_is_back_when_it_has_served_a_token_under_its_own_name() -> None:
    box = Box()
    back = box.back()
    assert back.started
    assert (back.checks["ready"], back.checks["token"], back.checks["model"]) == ("/health", "served", "some/model")
    assert back.told == "served a token as some/model at http://127.0.0.1:8000"
    assert len(box.began) == 1
    assert [news.kind for news in news_of(back)] == ["production_restored"]


def test_a_container_that_somebody_started_already_is_proven_and_its_start_time_is_not_ours() -> None:
    box = Box()
    box.change(running=True)
    back = box.back()
    assert not back.started
    assert "start_s" not in back.checks
    assert box.began == []
    assert back.checks["token"] == "served"


def test_it_is_waited_for_until_it_serves_and_the_time_is_kept() -> None:
    box = Box()
    box.probe.healthy_when = lambda: box.clock.monotonic() >= 1090.0
    assert 90.0 <= box.back().checks["start_s"] < 91.0


def test_healthy_without_a_token_is_not_back() -> None:
    box = Box()
    box.probe.refusal = "HTTP 500: the engine is dead"
    with pytest.raises(ProductionNotRestored, match="serves no token: HTTP 500"):
        box.back(Record("prod", ready_timeout=Seconds(10.0)))


def test_the_key_is_the_containers_own_and_is_shown_nowhere() -> None:
    box = Box()
    box.change(command=("--model", "some/model", "--api-key", "sk-own"))
    box.probe.wanted_key = Secret("sk-own")
    back = box.back()
    assert back.checks["token"] == "served"
    assert "sk-own" not in repr(back)


def test_a_key_that_its_container_does_not_show_leaves_the_token_unchecked_and_says_so() -> None:
    box = Box()
    box.probe.wanted_key = Secret("elsewhere")
    back = box.back()
    assert back.checks["token"] == "not checked"
    assert "demands a key" in back.told
    assert [news.kind for news in news_of(back)] == ["production_unchecked", "production_restored"]


def test_an_engine_without_health_is_ready_when_it_lists_its_models() -> None:
    box = Box()
    box.probe.statuses = {"/health": 404}
    assert box.back().checks["ready"] == "/v1/models"


def test_an_embedding_server_makes_no_text_and_that_is_said() -> None:
    box = Box()
    box.probe.refusal = "HTTP 404: no such route"
    back = box.back()
    assert [call["target"].api for call in box.asked("served_token")] == ["chat", "completions"]
    assert "makes no text" in back.told


@pytest.mark.parametrize(("status", "ready"), [(404, "HTTP 404"), (None, "accepts connections")])
def test_what_is_no_llm_server_is_asked_whether_it_answers_at_all(status: int | None, ready: str) -> None:
    box = Box()
    box.change(entrypoint=("redis-server",), command=(), image="redis")
    box.probe.answers = {}
    box.probe.statuses = {"/health": status, "/v1/models": 404}
    back = box.back()
    assert (back.checks["ready"], back.checks["token"]) == (ready, "not checked")
    assert "no LLM server" in back.told


def test_without_any_port_only_that_it_runs_is_claimed() -> None:
    box = Box()
    box.change(ports={}, addresses=())
    back = box.back()
    assert back.checks["ready"] == "runs"
    assert "only that it runs was checked" in back.told


def test_another_container_of_that_name_is_started_and_loudly_told() -> None:
    box = Box()
    record = Record("prod", id="before", image="vllm/vllm-openai:v0.27.1", command=("--model", "some/model"))
    back = box.back(record)
    assert box.host.foreigners["prod"].running
    told = {news.kind: (news.level, news.message) for news in news_of(back)}
    assert told["production_differs"][0] == "warning"
    assert "v0.27.1" in told["production_differs"][1]


def test_a_removed_container_is_the_loudest_error_with_the_command_that_makes_it_again() -> None:
    box = Box()
    del box.host.foreigners["prod"]
    record = Record("prod", image="vllm/vllm-openai:v0.28.0", entrypoint=("vllm", "serve"), command=("some/model",))
    with pytest.raises(
        ProductionNotRestored, match=r"docker run -d --name prod --entrypoint vllm vllm/vllm-openai:v0\.28\.0 serve"
    ):
        box.back(record)


def test_a_container_that_ends_again_is_not_waited_for() -> None:
    box = Box()
    box.probe.healthy_when = lambda: bool(box.change(running=False))
    with pytest.raises(ProductionNotRestored, match="has ended again"):
        box.back()


def test_a_paused_one_goes_on() -> None:
    box = Box()
    box.change(running=True, paused=True)
    assert box.back().started
    assert ("start_foreign", "prod") in box.host.calls


def test_a_docker_that_restarts_meanwhile_is_waited_for() -> None:
    box = Box()
    real, faults = box.host.foreign, [DockerUnavailable(reason="restarting")] * 3

    def foreign(name: str) -> Any:
        if faults:
            raise faults.pop()
        return real(name)

    box.host.foreign = foreign  # type: ignore[method-assign]
    assert box.back().checks["token"] == "served"


def test_who_is_told_to_end_waits_a_moment_more_and_leaves_it_starting() -> None:
    box = Box()
    box.probe.healthy_when = lambda: False
    with pytest.raises(ProductionComing, match="is not proven to serve yet"):
        box.back(hurried=lambda: box.clock.monotonic() >= 1100.0)
    assert 100.0 + HURRIED <= box.clock.monotonic() - 1000.0 <= 102.0 + HURRIED + 5.0
    assert box.host.foreigners["prod"].running


def test_a_docker_that_is_away_is_said_at_once_and_each_minute_with_the_limit() -> None:
    box, said = Box(), list[tuple[float, str]]()

    def foreign(name: str) -> Any:
        raise DockerUnavailable(reason="no socket")

    box.host.foreign = foreign  # type: ignore[method-assign]
    began = float(box.clock.monotonic())
    helpers = Helpers(
        host=box.host,
        probe=box.probe,
        clock=box.clock,
        say=lambda text: said.append((float(box.clock.monotonic()) - began, text)),
    )
    with pytest.raises(ProductionNotRestored, match="Docker Engine does not answer"):
        bring_back(Record("prod", ready_timeout=Seconds(150.0)), helpers)
    assert [round(at) for at, _ in said] == [0, 60, 120]
    assert said[0][1].startswith("waiting for prod, for 150 s at most: the Docker Engine does not answer (no socket)")
    assert "for 60 s now, 150 s at most" in said[1][1]


def test_of_a_removed_container_of_which_nothing_is_recorded_the_remedy_is_still_a_sentence() -> None:
    box = Box()
    del box.host.foreigners["prod"]
    with pytest.raises(ProductionNotRestored) as caught:
        box.back(Record("prod"))
    assert (
        "make it again with the command that it was made by (what it ran is not recorded), then run `nightsweep restore`"
        in str(caught.value)
    )

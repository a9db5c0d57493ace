"""Bringing production back outside a sweep."""

from __future__ import annotations

from pathlib import Path

from nightsweep.errors import DockerUnavailable, ProductionNotRestored
from nightsweep.ports import EngineHandle, Launch
from nightsweep.service.mirror import FileMirror
from nightsweep.service.restoring import noted, orphaned, restore_containers, stop_leftovers
from nightsweep.units import Seconds
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeHost
from tests.fakes.probe import FakeProbe


def a_host(*names: str) -> FakeHost:
    host = FakeHost(clock=FakeClock())
    for name in names:
        host.add_foreign(name, running=False)
    return host


def test_all_are_tried_although_one_does_not_come_back() -> None:
    host = a_host("a", "b")
    host.foreign_faults["a"] = ProductionNotRestored(name="a", reason="no such image")
    results = restore_containers(("a", "b", "c"), host=host, probe=FakeProbe(clock=host.clock), clock=host.clock)
    assert [(result.container, result.serving) for result in results] == [("a", False), ("b", True), ("c", False)]
    assert "no such image" in results[0].detail


def test_a_container_that_runs_and_does_not_answer_does_not_serve() -> None:
    host = a_host("a")
    probe = FakeProbe(clock=host.clock, healthy_when=lambda: False)
    (result,) = restore_containers(("a",), host=host, probe=probe, clock=host.clock, ready_timeout=Seconds(20.0))
    assert not result.serving
    assert "does not answer after 20 s" in result.detail


def test_what_a_living_sweep_took_down_is_not_orphaned(tmp_path: Path) -> None:
    mirror = FileMirror(tmp_path / "production.json")
    mirror.write("dead's", {"owner": "dead"})
    mirror.write("living's", {"owner": "living"})
    mirror.write("nobody's", {})
    assert orphaned(mirror, lives=lambda owner: owner == "living") == ("dead's", "nobody's")
    assert noted(mirror) == ("dead's", "living's", "nobody's")


def test_leftover_engines_are_stopped_and_a_host_that_is_away_is_no_obstacle() -> None:
    host, away = FakeHost(clock=FakeClock()), FakeHost(clock=FakeClock())
    host.start(Launch(boot_key="nightsweep-1", command=("vllm",), env={}, port=1, container_port=1))
    away.owned = _down  # type: ignore[method-assign]
    said: list[str] = []
    stop_leftovers((away, host), say=said.append)
    assert host.running == ()
    assert said == ["stopping engine nightsweep-1, which a dead sweep left behind"]


def test_an_engine_of_a_sweep_that_lives_elsewhere_is_left_alone() -> None:
    host = FakeHost(clock=FakeClock())
    labels = {"nightsweep.holder": "them"}
    host.start(Launch(boot_key="theirs", command=("vllm",), env={}, port=1, container_port=1, labels=labels))
    said: list[str] = []
    stop_leftovers((host,), lives=lambda holder: holder == "them", say=said.append)
    assert [handle.boot_key for handle in host.running] == ["theirs"]
    assert "left alone" in said[0]


def _down() -> tuple[EngineHandle, ...]:
    raise DockerUnavailable(reason="down")


def test_a_mirror_is_gone_when_nothing_is_down_and_survives_garbage(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "production.json"
    mirror = FileMirror(path)
    mirror.write("a", {"owner": "x"})
    mirror.write("b", {})
    mirror.clear("a")
    assert list(mirror.read()) == ["b"]
    mirror.clear("b")
    assert not path.exists()
    mirror.clear("b")
    path.write_text("{")
    assert mirror.read() == {}
    mirror.write("c", {})
    assert list(mirror.read()) == ["c"]

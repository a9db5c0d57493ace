"""Bringing production back outside a sweep."""

from __future__ import annotations

from pathlib import Path

from nightsweep.errors import DockerUnavailable, ProductionNotRestored
from nightsweep.ports import EngineHandle, Launch
from nightsweep.production.record import Record
from nightsweep.production.returning import Helpers
from nightsweep.service.mirror import FileMirror
from nightsweep.service.restoring import noted, owners, records_of, restore_containers, stop_leftovers
from nightsweep.units import Seconds
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeHost
from tests.fakes.probe import FakeProbe


def a_host(*names: str) -> FakeHost:
    host = FakeHost(clock=FakeClock())
    for name in names:
        host.add_foreign(name, running=False)
    return host


def helpers(host: FakeHost, probe: FakeProbe | None = None) -> Helpers:
    return Helpers(host=host, probe=probe or FakeProbe(clock=host.clock), clock=host.clock)


def test_all_are_tried_although_one_does_not_come_back() -> None:
    host = a_host("a", "b")
    host.foreign_faults["a"] = ProductionNotRestored(name="a", reason="no such image")
    results = restore_containers(records_of({}, ("a", "b", "c")), helpers(host))
    assert [(result.container, result.serving) for result in results] == [("a", False), ("b", True), ("c", False)]
    assert "no such image" in results[0].detail
    assert "was removed" in results[2].detail


def test_a_container_that_runs_and_does_not_answer_does_not_serve() -> None:
    host = a_host("a")
    probe = FakeProbe(clock=host.clock, healthy_when=lambda: False)
    (result,) = restore_containers((Record("a", ready_timeout=Seconds(20.0)),), helpers(host, probe))
    assert not result.serving
    assert "answers nothing, 20 s after its start" in result.detail


def test_who_took_a_container_down_is_read_from_the_file_whatever_is_in_it(tmp_path: Path) -> None:
    mirror = FileMirror(tmp_path / "production.json")
    mirror.write("a", {"owner": "x", "ready_timeout": 90.0, "restore_by": "2026-11-30T07:00:00+00:00"})
    mirror.write("b", {})
    assert owners({**mirror.read(), "odd": "text"}) == {"a": "x", "b": None, "odd": None}  # type: ignore[dict-item]
    assert noted(mirror) == ("a", "b")
    (record,) = records_of(mirror.read(), ("a",))
    assert (record.ready_timeout, str(record.restore_by)) == (90.0, "2026-11-30 07:00:00+00:00")


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

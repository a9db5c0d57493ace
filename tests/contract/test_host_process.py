"""What only processes do: services that die, logs that are read late, ports held by relatives."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightsweep.errors import DockerUnavailable
from nightsweep.host.listeners import free_port
from nightsweep.host.process_host import ProcessHost
from nightsweep.host.process_records import EngineRecords
from nightsweep.ports import Secret
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock
from tests.contract.host_benches import ProcessBench

SERVICE = """
import json, sys, time
from pathlib import Path
from nightsweep.host.process_host import ProcessHost
from nightsweep.ports import Launch
from nightsweep.wiring import SystemClock
folder, port, key, *command = sys.argv[1:]
host = ProcessHost(state_dir=Path(folder), clock=SystemClock())
handle = host.start(Launch(boot_key=key, command=tuple(command), env={}, port=int(port), container_port=int(port)))
print(handle.id, flush=True)
time.sleep(600)
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ProcessBench]:
    made = ProcessBench(tmp_path / "engines")
    try:
        yield made
    finally:
        made.close()


def test_an_engine_outlives_a_service_that_is_killed_and_the_next_one_ends_it(bench: ProcessBench) -> None:
    launch = bench.launch("--port", str(free_port()), "--lines", "3", "--child", "own-session")
    arguments = [str(bench.folder), str(launch.port), launch.boot_key, *launch.command]
    with subprocess.Popen([sys.executable, "-c", SERVICE, *arguments], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        engine_id = service.stdout.readline().strip()
        service.send_signal(signal.SIGKILL)

    (found,) = bench.host.owned()

    assert (found.id, found.boot_key, found.port) == (engine_id, launch.boot_key, launch.port)
    assert bench.host.state(found).running
    state = bench.host.stop(found, grace=Seconds(1.0))
    assert (state.running, state.exit_code) == (False, None)
    assert bench.left() == []


def test_a_service_that_died_between_record_and_start_leaves_an_engine_that_is_found_by_its_mark(
    bench: ProcessBench,
) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))
    records = EngineRecords(bench.folder)
    path = records.folder(handle.boot_key) / "engine.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "pid": None, "birth": None}))
    later = bench.later_service()

    (found,) = later.owned()

    assert found.id == handle.id
    later.stop(found, grace=Seconds(1.0))
    assert bench.left() == []


def test_a_record_of_a_dead_engine_and_a_dead_service_is_swept_away(bench: ProcessBench) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))
    records = EngineRecords(bench.folder)
    path = records.folder(handle.boot_key) / "engine.json"
    text = path.read_text()
    bench.host.stop(handle, grace=Seconds(1.0))
    path.parent.mkdir()
    path.write_text(json.dumps({**json.loads(text), "service": "1:nobody"}))

    assert bench.later_service().owned() == ()
    assert bench.left() == []


def test_lines_from_before_a_late_reader_came_carry_no_time(bench: ProcessBench) -> None:
    handle = bench.host.start(bench.launch("--lines", "2", "--exit-after", "2.5"))
    time.sleep(2.1)

    lines = list(bench.later_service().follow_log(handle, stop=lambda: False))

    assert [(line.text, line.seconds) for line in lines] == [("line 0", None), ("line 1", None)]


def test_no_secret_is_written_down(bench: ProcessBench) -> None:
    launch = bench.launch("--show-env", "s3cret-value", "--silent-listener", env={"HF_TOKEN": Secret("s3cret-value")})
    handle = bench.host.start(launch)

    record = (EngineRecords(bench.folder).folder(handle.boot_key) / "engine.json").read_text()

    assert "s3cret-value" not in record
    assert "s3cret-value" not in repr(handle)


def test_the_services_own_secrets_do_not_reach_an_engine(bench: ProcessBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTSWEEP_DATABASE_URL", "postgresql://u:s3cret@h/db")
    handle = bench.host.start(bench.launch("--show-env", "NIGHTSWEEP_DATABASE_URL", "--exit-after", "0"))

    assert [line.text for line in bench.host.follow_log(handle, stop=lambda: False)] == ["NIGHTSWEEP_DATABASE_URL=None"]


def test_a_listener_of_somebody_else_does_not_count_as_the_engines(bench: ProcessBench) -> None:
    port = free_port()
    other = ProcessBench(bench.folder.parent / "other")
    try:
        stranger = other.host.start(other.launch("--port", str(port)))
        begun = time.monotonic()
        while other.host.owns_port(stranger) is not None:
            assert time.monotonic() - begun < 20
            time.sleep(0.02)
        handle = bench.host.start(bench.launch("--port", str(port), "--silent-listener"))

        assert "is held by" in str(bench.host.owns_port(handle))
    finally:
        other.close()


def test_nobody_listening_is_not_owning(bench: ProcessBench) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))
    assert "nobody listens" in str(bench.host.owns_port(handle))


def test_production_is_asked_of_docker_also_for_engines_without_it(tmp_path: Path) -> None:
    import docker
    import docker.errors

    def nowhere() -> docker.DockerClient:
        raise docker.errors.DockerException("Error while fetching server API version: No such file or directory")

    host = ProcessHost(state_dir=tmp_path, clock=SystemClock(), client_factory=nowhere)
    with pytest.raises(DockerUnavailable):
        host.foreign("vllm-qwen")


def test_an_engine_that_another_hand_stops_was_taken_away_and_one_that_is_killed_was_not(bench: ProcessBench) -> None:
    handles = [bench.host.start(bench.launch("--silent-listener", "--port", str(free_port()))) for _ in range(2)]
    rescue = ProcessHost(
        state_dir=bench.folder, clock=SystemClock()
    )  # as the watchdog does, beside a sweep that is frozen
    (found,) = [each for each in rescue.owned() if each.id == handles[0].id]
    rescue.stop(found, grace=Seconds(1.0))
    bench.kill(handles[1])
    end = time.monotonic() + 10.0
    while any(bench.host.state(handle).running for handle in handles) and time.monotonic() < end:
        time.sleep(0.02)
    assert [bench.host.state(handle).taken_away for handle in handles] == [True, False]
    own = bench.host.start(bench.launch("--silent-listener", "--port", str(free_port())))
    assert not bench.host.stop(own, grace=Seconds(1.0)).taken_away
    assert not bench.host.state(own).taken_away

"""One suite for everything that claims to be a `ports.Host`: in memory, as processes, in containers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from nightsweep.engine.values import LogLine
from nightsweep.errors import LaunchRefused, PortBusy
from nightsweep.host.listeners import free_port
from nightsweep.ports import EngineHandle, EngineState, Host, Secret
from nightsweep.units import Seconds
from tests import dockerkit
from tests.contract.host_benches import DockerBench, FakeBench, ProcessBench
from tests.data import tiny_engine

Bench = FakeBench | ProcessBench | DockerBench
PATIENCE = 20.0
IN_DOCKER = [
    pytest.mark.docker,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
]


@pytest.fixture(scope="module")
def skeleton() -> Iterator[str]:
    client = docker.from_env()
    with dockerkit.skeleton_image(client) as name:
        yield name
    client.close()


@pytest.fixture(
    params=[
        "fake",
        "process",
        pytest.param("docker", marks=IN_DOCKER),
        pytest.param("docker-host-net", marks=IN_DOCKER),
    ]
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made: Bench
    if request.param == "fake":
        made = FakeBench()
    elif request.param == "process":
        made = ProcessBench(tmp_path / "engines")
    else:
        skeleton = request.getfixturevalue("skeleton")
        made = DockerBench(docker.from_env, image=skeleton, bridge=request.param == "docker")
        if request.param == "docker" and not dockerkit.bridge_works(made.client):
            made.close()
            pytest.skip("this Docker Engine has no bridge network")
    try:
        yield made
    finally:
        made.close()


def until(truth: Callable[[], bool], *, within: float = PATIENCE) -> float:
    """Wait for something, return the seconds it took."""
    begun = time.monotonic()
    while not truth():
        assert time.monotonic() - begun < within, "it did not happen in time"
        time.sleep(0.02)
    return time.monotonic() - begun


def ended(host: Host, handle: EngineHandle) -> EngineState:
    until(lambda: not host.state(handle).running)
    return host.state(handle)


def listening(bench: Bench, *arguments: str) -> EngineHandle:
    """Start an engine and wait until it listens."""
    handle = bench.host.start(bench.launch("--port", str(free_port()), *arguments))
    until(lambda: answers(bench, handle))
    return handle


def answers(bench: Bench, handle: EngineHandle) -> bool:
    if bench.name == "fake":
        return True
    try:
        with socket.create_connection(("127.0.0.1", handle.port), timeout=1) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.0 200")
    except OSError:
        return False


def whole_log(host: Host, handle: EngineHandle) -> list[LogLine]:
    return list(host.follow_log(handle, stop=lambda: False))


# --- starting ---


def test_an_engine_that_was_started_runs_and_owns_its_port(bench: Bench) -> None:
    handle = listening(bench)

    assert bench.host.state(handle).running
    assert bench.host.owns_port(handle) is None
    assert handle.base_url == f"http://127.0.0.1:{handle.port}"


def test_a_port_that_somebody_else_holds_is_named_before_the_start(bench: Bench) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        if isinstance(bench, FakeBench):
            bench.hold(port)

        with pytest.raises(PortBusy) as refused:
            bench.host.check(bench.launch("--port", str(port)))

        assert str(port) in str(refused.value)
        assert refused.value.facts["holder"] != "an unknown process"


def test_a_free_port_passes_the_check(bench: Bench) -> None:
    bench.host.check(bench.launch("--port", str(free_port())))


def test_a_program_that_does_not_exist_is_refused_and_leaves_nothing(bench: Bench) -> None:
    with pytest.raises(LaunchRefused, match="no-such-program"):
        bench.host.start(bench.launch(program="/no-such-program"))

    assert bench.left() == []
    assert bench.host.owned() == ()


def test_a_boot_that_runs_is_not_started_twice(bench: Bench) -> None:
    launch = bench.launch("--silent-listener")
    bench.host.start(launch)

    with pytest.raises(LaunchRefused, match="runs already"):
        bench.host.start(launch)

    assert len(bench.host.owned()) == 1


def test_a_secret_reaches_the_engine_but_is_not_shown(bench: Bench) -> None:
    launch = bench.launch("--show-env", "HF_TOKEN", "--exit-after", "0", env={"HF_TOKEN": Secret("hf-very-secret")})

    handle = bench.host.start(launch)

    ended(bench.host, handle)
    assert [line.text for line in whole_log(bench.host, handle)] == ["HF_TOKEN=hf-very-secret"]
    assert "hf-very-secret" not in repr(handle)
    assert "hf-very-secret" not in repr(launch)


# --- living and dying ---


@pytest.mark.parametrize("code", [0, 3])
def test_an_engine_that_ends_by_itself_is_seen_with_its_exit_code(bench: Bench, code: int) -> None:
    handle = bench.host.start(bench.launch("--exit-after", "0.2", "--exit-code", str(code)))

    state = ended(bench.host, handle)

    assert (state.exit_code, state.host_fault) == (code, False)
    assert state.oom_killed in (None, False)


def test_an_engine_killed_from_outside_is_noticed_within_a_second_and_blamed_on_the_host(bench: Bench) -> None:
    handle = listening(bench)

    bench.kill(handle)
    took = until(lambda: not bench.host.state(handle).running)

    state = bench.host.state(handle)
    assert took < 1.0
    assert (state.exit_code, state.host_fault) == (137, True)


def test_a_dead_engine_owns_no_port(bench: Bench) -> None:
    handle = listening(bench)
    bench.kill(handle)
    ended(bench.host, handle)

    assert bench.host.owns_port(handle) is not None


# --- the log ---


def test_a_log_is_read_whole_and_in_order_with_seconds_since_the_start(bench: Bench) -> None:
    handle = bench.host.start(bench.launch("--lines", "30", "--every", "0.01", "--exit-after", "0"))

    lines = whole_log(bench.host, handle)

    numbers = [int(line.text.split()[1]) for line in lines]
    assert sorted(numbers) == list(range(30))
    stdout = [n for n in numbers if n % 5 != 4]
    assert stdout == sorted(stdout)
    seconds = [line.seconds for line in lines]
    assert all(moment is not None and 0.0 <= moment < PATIENCE for moment in seconds)
    assert seconds[-1] - seconds[0] > 0.1


def test_noise_in_a_log_becomes_readable_lines(bench: Bench) -> None:
    handle = bench.host.start(bench.launch("--noise", "--exit-after", "0"))

    assert [line.text for line in whole_log(bench.host, handle)] == list(tiny_engine.NOISE_LINES)


def test_following_a_silent_log_ends_soon_after_stop_is_said(bench: Bench) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))
    said = threading.Event()
    finished = threading.Event()

    def follow() -> None:
        assert list(bench.host.follow_log(handle, stop=said.is_set)) == []
        finished.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert not finished.wait(0.5)
    said.set()
    reader.join(timeout=1.0)

    assert finished.is_set()
    assert bench.host.state(handle).running


def test_last_words_at_the_stop_are_in_the_log(bench: Bench) -> None:
    handle = listening(bench)
    heard: list[str] = []
    reader = threading.Thread(
        target=lambda: heard.extend(line.text for line in bench.host.follow_log(handle, stop=lambda: False))
    )
    reader.start()

    bench.host.stop(handle, grace=Seconds(10.0))
    reader.join(timeout=PATIENCE)

    assert heard == [tiny_engine.LAST_WORDS]


# --- the end ---


def test_a_stop_that_is_heeded_is_quick_and_leaves_nothing(bench: Bench) -> None:
    handle = listening(bench)
    begun = time.monotonic()

    state = bench.host.stop(handle, grace=Seconds(10.0))

    assert time.monotonic() - begun < 5.0
    assert (state.running, state.exit_code, state.host_fault) == (False, 0, False)
    assert bench.left() == []
    assert bench.host.owned() == ()
    assert not bench.host.state(handle).running
    bench.host.wait_free(port=handle.port, timeout=Seconds(5.0))


def test_an_engine_tells_who_holds_it_to_others_also(bench: Bench) -> None:
    launch = bench.launch("--silent-listener")
    labels = {**launch.labels, "nightsweep.holder": "host~1:2:3:4"}

    bench.host.start(replace(launch, labels=labels))

    (found,) = bench.later_service().owned()
    assert found.facts["holder"] == "host~1:2:3:4"


def test_an_engine_that_ignores_sigterm_is_killed_after_the_grace_and_that_is_our_doing(bench: Bench) -> None:
    handle = listening(bench, "--ignore-term")
    begun = time.monotonic()

    state = bench.host.stop(handle, grace=Seconds(1.0))

    assert 1.0 <= time.monotonic() - begun < 8.0
    assert (state.running, state.exit_code, state.host_fault) == (False, 137, False)
    assert bench.left() == []


@pytest.mark.parametrize("where", ["same-session", "own-session"])
def test_a_child_that_holds_on_is_ended_with_the_engine(bench: Bench, where: str) -> None:
    handle = listening(bench, "--child", where)

    bench.host.stop(handle, grace=Seconds(1.0))

    assert bench.left() == []


@pytest.mark.parametrize("where", ["same-session", "own-session"])
def test_children_of_an_engine_that_was_killed_are_ended_too(bench: Bench, where: str) -> None:
    handle = listening(bench, "--child", where)
    bench.kill(handle)
    ended(bench.host, handle)

    state = bench.host.stop(handle, grace=Seconds(0.5))

    assert (state.exit_code, state.host_fault) == (137, True)
    assert bench.left() == []


def test_a_stop_of_a_dead_engine_tells_how_it_had_ended(bench: Bench) -> None:
    handle = bench.host.start(bench.launch("--exit-after", "0", "--exit-code", "3"))
    ended(bench.host, handle)

    assert bench.host.stop(handle, grace=Seconds(1.0)).exit_code == 3
    assert bench.left() == []


def test_a_second_stop_is_no_error(bench: Bench) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))
    bench.host.stop(handle, grace=Seconds(0.0))

    assert not bench.host.stop(handle, grace=Seconds(0.0)).running


def test_a_later_service_finds_an_engine_and_ends_it(bench: Bench) -> None:
    handle = listening(bench)
    later = bench.later_service()

    (found,) = later.owned()

    assert (found.id, found.boot_key, found.port) == (handle.id, handle.boot_key, handle.port)
    assert later.state(found).running
    assert later.owns_port(found) is None
    later.stop(found, grace=Seconds(10.0))
    assert bench.left() == []


def test_a_port_that_stays_held_is_an_error_in_time(bench: Bench) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        if isinstance(bench, FakeBench):
            bench.hold(port)
        begun = time.monotonic()

        with pytest.raises(PortBusy):
            bench.host.wait_free(port=port, timeout=Seconds(0.3))

        assert time.monotonic() - begun < 2.0


# --- the box ---


def test_the_box_is_the_same_at_every_call(bench: Bench) -> None:
    first, second = bench.host.box(), bench.host.box()

    assert first == second
    assert len(first.fingerprint) == 64


def test_an_image_has_the_digest_that_its_engines_have_and_none_while_it_is_not_here(bench: Bench) -> None:
    assert bench.host.image_digest("nightsweep-no-such/image:none") is None
    assert bench.host.image_digest("Not A Reference") is None
    handle = bench.host.start(bench.launch("--exit-after", "0"))
    image = handle.image_refs[0] if handle.image_refs else "nightsweep-no-such/image:none"
    assert bench.host.image_digest(image) == handle.image_digest


def test_an_image_that_is_here_is_not_fetched(bench: Bench) -> None:
    handle = bench.host.start(bench.launch("--exit-after", "0"))
    image = handle.image_refs[0] if handle.image_refs else "nightsweep-no-such/image:none"
    asked: list[None] = []
    assert bench.host.fetch(image, check=lambda: asked.append(None)) is None
    assert asked == []

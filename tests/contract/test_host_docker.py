"""What only Docker does, on a real Docker Engine: images, refusals, GPUs by request, other people's containers, restarts."""

from __future__ import annotations

import gc
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import docker
import docker.errors
import pytest

from nightsweep.errors import (
    ContainerMissing,
    DockerUnavailable,
    GpuRuntimeMissing,
    HostError,
    ImageMissing,
    LaunchRefused,
    NotForeign,
    NotOurs,
    ProductionNotRestored,
)
from nightsweep.host import docker_host
from nightsweep.host.docker_host import DockerHost
from nightsweep.host.leftovers import find_leftovers
from nightsweep.host.listeners import free_port
from nightsweep.ports import EngineHandle, Secret
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock
from tests import dockerkit
from tests.contract.host_benches import TINY_ENGINE, DockerBench
from tests.data import tiny_engine
from tests.dockerkit import OwnDaemon

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not dockerkit.docker_wanted(), reason="NIGHTSWEEP_TEST_DOCKER=1 runs it"),
]


def while_away(test: Callable[..., None]) -> Callable[..., None]:
    """For tests in which the daemon is away for a while."""
    quiet = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    return pytest.mark.usefixtures("sockets_of_the_sdk")(quiet(test))


@pytest.fixture
def sockets_of_the_sdk() -> Iterator[None]:
    """The SDK forgets to close the socket with which it could not connect; have them collected where that is known."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def skeleton() -> Iterator[str]:
    client = docker.from_env()
    with dockerkit.skeleton_image(client) as name:
        yield name
    client.close()


@pytest.fixture
def bench(skeleton: str) -> Iterator[DockerBench]:
    client = docker.from_env()
    made = DockerBench(docker.from_env, image=skeleton, bridge=dockerkit.bridge_works(client))
    client.close()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def production(bench: DockerBench, skeleton: str) -> Iterator[str]:
    """A container of somebody else, that serves."""
    name = f"test-production-{uuid.uuid4().hex[:8]}"
    container = bench.client.containers.create(
        skeleton,
        [str(Path(sys.executable).resolve()), "-u", str(TINY_ENGINE), "--port", "8000"],
        name=name,
        volumes=list(dockerkit.python_volumes(TINY_ENGINE.parent)),
        environment={"HF_TOKEN": "production-secret", "MODE": "day"},
        shm_size="128m",
        ipc_mode="host",
        init=True,
        restart_policy={"Name": "unless-stopped"},
        labels={"com.docker.compose.service": "vllm"},
    )
    container.start()
    try:
        yield name
    finally:
        container.remove(force=True, v=True)


def until(truth: Callable[[], bool], *, within: float = 30.0) -> None:
    begun = time.monotonic()
    while not truth():
        assert time.monotonic() - begun < within, "it did not happen in time"
        time.sleep(0.05)


def inspected(bench: DockerBench, handle: EngineHandle) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = bench.client.api.inspect_container(handle.id)
    return found


# --- how a container is made ---


def test_an_engine_is_labelled_never_restarted_has_no_tty_and_listens_on_loopback_only(bench: DockerBench) -> None:
    port = free_port()
    handle = bench.host.start(bench.launch("--port", str(port)))

    made = inspected(bench, handle)

    assert made["Config"]["Labels"]["nightsweep.boot"] == handle.boot_key
    assert made["Config"]["Labels"]["nightsweep.owned"] == bench.owner
    assert made["Config"]["Labels"]["nightsweep.port"] == str(port)
    assert made["Config"]["Labels"]["com.example.test"] == "1"
    assert made["HostConfig"]["RestartPolicy"]["Name"] == "no"
    assert made["HostConfig"]["LogConfig"]["Type"] == "json-file"
    assert made["HostConfig"]["Init"] is True
    assert made["Config"]["Tty"] is False
    if bench.bridge:
        assert made["HostConfig"]["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}


def test_the_container_spec_reaches_docker(bench: DockerBench, tmp_path: Path) -> None:
    spec = bench.spec(shm_size=256 << 20, memory=512 << 20, ulimits=("nofile=4096:8192",), workdir="/tmp", init=False)
    spec = replace(spec, volumes=(*spec.volumes, f"{tmp_path}:/cache"), cap_add=("SYS_NICE",), user="0")

    made = inspected(bench, bench.host.start(bench.launch("--silent-listener", container=spec)))

    host = made["HostConfig"]
    assert (host["ShmSize"], host["Memory"], host["CapAdd"]) == (256 << 20, 512 << 20, ["SYS_NICE"])
    assert host["Ulimits"] == [{"Name": "nofile", "Soft": 4096, "Hard": 8192}]
    assert made["Config"]["WorkingDir"] == "/tmp"
    assert {"Source": str(tmp_path), "Destination": "/cache"}.items() <= made["Mounts"][-1].items() or any(
        mount["Source"] == str(tmp_path) and mount["Destination"] == "/cache" for mount in made["Mounts"]
    )


def test_an_image_is_known_by_what_is_in_it_and_not_by_its_name(bench: DockerBench) -> None:
    first = bench.host.start(bench.launch("--exit-after", "0"))
    with dockerkit.skeleton_image(bench.client, tag=f"again-{uuid.uuid4().hex[:6]}") as again:
        second = bench.host.start(replace(bench.launch("--exit-after", "0"), image=again))
        bench.host.stop(second, grace=Seconds(0.0))

    assert first.image_digest == second.image_digest
    assert first.image_digest is not None
    assert first.image_digest.startswith("sha256:")
    assert bench.image in first.image_refs


def test_a_name_that_somebody_else_took_does_not_matter(bench: DockerBench, skeleton: str) -> None:
    launch = bench.launch("--silent-listener")
    taken = "nightsweep-" + launch.boot_key.replace(" ", "-").replace("/", "-")
    other = bench.client.containers.create(skeleton, ["/x"], name=taken)
    try:
        handle = bench.host.start(launch)
        assert bench.host.state(handle).running
        other.reload()
    finally:
        other.remove()


def test_a_dead_leftover_of_the_same_boot_makes_room(bench: DockerBench) -> None:
    launch = bench.launch("--exit-after", "0")
    first = bench.host.start(launch)
    until(lambda: not bench.host.state(first).running)

    second = bench.host.start(launch)

    assert bench.left() == [second.id]


# --- refusals ---


def test_an_image_that_cannot_be_had_is_missing_with_the_reason(bench: DockerBench) -> None:
    image = "127.0.0.1:9/no/such-image:1"

    with pytest.raises(ImageMissing) as missing:
        bench.host.fetch(image, check=lambda: None)

    assert "no/such-image" in str(missing.value)
    assert len(missing.value.facts["reason"]) > 10
    with pytest.raises(ImageMissing, match="removed after"):
        bench.host.start(replace(bench.launch(), image=image))


def test_a_host_path_that_does_not_exist_is_refused_and_not_made(bench: DockerBench, tmp_path: Path) -> None:
    missing = tmp_path / "models"
    spec = bench.spec()
    spec = replace(spec, volumes=(*spec.volumes, f"{missing}:/models:ro"))

    with pytest.raises(LaunchRefused, match=str(missing)):
        bench.host.start(bench.launch(container=spec))

    assert not missing.exists()
    assert bench.left() == []


def test_a_port_taken_in_the_last_moment_is_refused_in_dockers_words(bench: DockerBench) -> None:
    if not bench.bridge:
        pytest.skip("this Docker Engine has no bridge network")
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        with pytest.raises(LaunchRefused, match=r"port|address"):
            bench.host.start(bench.launch("--port", str(port)))

    assert bench.left() == []


def test_without_a_gpu_runtime_a_gpu_is_refused_before_and_at_the_start(bench: DockerBench) -> None:
    if "nvidia" in bench.client.info()["Runtimes"] or shutil.which("nvidia-container-runtime-hook"):
        pytest.skip("this Docker Engine passes GPUs on")
    launch = bench.launch(container=bench.spec(gpus="all"))

    with pytest.raises(GpuRuntimeMissing, match="NVIDIA Container Toolkit"):
        bench.host.check(launch)
    with pytest.raises(GpuRuntimeMissing, match="could not select device driver"):
        bench.host.start(launch)

    assert bench.left() == []


def test_an_option_that_docker_does_not_take_is_refused_without_showing_a_secret(bench: DockerBench) -> None:
    launch = bench.launch(container=bench.spec(user="no-such-user"), env={"HF_TOKEN": Secret("no-such-user")})

    with pytest.raises(LaunchRefused) as refused:
        bench.host.start(launch)

    assert "no-such-user" not in str(refused.value)
    assert bench.left() == []


@while_away
def test_a_daemon_that_is_not_there_is_named_with_the_remedy() -> None:
    def factory() -> docker.DockerClient:
        return docker.DockerClient(base_url="unix:///nonexistent/docker.sock")

    with DockerHost(client_factory=factory, clock=SystemClock()) as host:
        with pytest.raises(DockerUnavailable, match="socket does not exist"):
            host.box()
        with pytest.raises(DockerUnavailable):
            host.owned()


# --- ends ---


def test_a_container_that_outgrows_its_memory_is_killed_for_that_and_not_by_the_host(bench: DockerBench) -> None:
    spec = bench.spec(memory=64 << 20)
    handle = bench.host.start(bench.launch("--eat", "200", "--exit-after", "0", container=spec))

    until(lambda: not bench.host.state(handle).running)

    state = bench.host.state(handle)
    assert (state.exit_code, state.oom_killed, state.host_fault) == (137, True, False)


def test_a_program_that_does_not_exist_ends_under_an_init_with_127(bench: DockerBench) -> None:
    launch = replace(bench.launch(), command=("/no-such-program",))

    handle = bench.host.start(launch)
    lines = [line.text for line in bench.host.follow_log(handle, stop=lambda: False)]

    assert bench.host.state(handle).exit_code == 127
    assert any("/no-such-program" in line for line in lines)


def test_a_container_that_somebody_removed_is_dead_by_the_hosts_fault(bench: DockerBench) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))
    bench.client.api.remove_container(handle.id, force=True)

    state = bench.host.state(handle)

    assert (state.running, state.exit_code, state.host_fault, state.taken_away) == (False, None, True, True)
    assert bench.host.owns_port(handle) is not None
    assert list(bench.host.follow_log(handle, stop=lambda: False)) == []
    assert not bench.host.stop(handle, grace=Seconds(1.0)).running


def test_a_listener_that_is_not_the_containers_does_not_count_on_the_hosts_network(skeleton: str) -> None:
    bench = DockerBench(docker.from_env, image=skeleton, bridge=False)
    try:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            handle = bench.host.start(bench.launch("--port", str(port), "--silent-listener"))
            assert "held by" in str(bench.host.owns_port(handle))
        assert "nobody listens" in str(bench.host.owns_port(handle))
    finally:
        bench.close()


# --- other people's containers ---


def test_a_production_container_is_read_as_it_was_made(bench: DockerBench, production: str) -> None:
    found = bench.host.foreign(production)

    assert (found.name, found.running, found.restart_policy) == (production, True, "unless-stopped")
    assert found.command[-2:] == ("--port", "8000")
    assert found.env["MODE"] == "day"
    assert isinstance(found.env["HF_TOKEN"], Secret)
    assert "production-secret" not in repr(found)
    assert (found.container.ipc, found.container.shm_size, found.container.init) == ("host", 128 << 20, True)
    assert set(dockerkit.python_volumes(TINY_ENGINE.parent)) == set(found.container.volumes)
    assert found.labels["com.docker.compose.service"] == "vllm"
    assert found.image_digest == bench.host.start(bench.launch("--exit-after", "0")).image_digest


def test_production_is_stopped_and_started_and_nothing_of_it_is_changed(bench: DockerBench, production: str) -> None:
    before = bench.client.api.inspect_container(production)

    bench.host.stop_foreign(production, grace=Seconds(5.0))
    assert not bench.host.foreign(production).running
    bench.host.stop_foreign(production, grace=Seconds(5.0))
    bench.host.start_foreign(production)
    bench.host.start_foreign(production)

    after = bench.client.api.inspect_container(production)
    assert after["State"]["Running"]
    assert (after["Id"], after["HostConfig"], after["Config"]) == (before["Id"], before["HostConfig"], before["Config"])


def test_production_that_cannot_start_is_the_loudest_error(bench: DockerBench, skeleton: str) -> None:
    broken = bench.client.containers.create(skeleton, ["/no-such-program"])
    try:
        with pytest.raises(ProductionNotRestored, match="nightsweep restore"):
            bench.host.start_foreign(broken.id)
    finally:
        broken.remove(force=True)


def test_a_container_that_does_not_exist_is_missing(bench: DockerBench) -> None:
    with pytest.raises(ContainerMissing, match="no-such-container"):
        bench.host.foreign("no-such-container")


def test_an_engine_of_ours_is_not_taken_for_production(bench: DockerBench) -> None:
    handle = bench.host.start(bench.launch("--silent-listener"))

    for call in (bench.host.foreign, bench.host.start_foreign):
        with pytest.raises(NotForeign):
            call(handle.id)
    with pytest.raises(NotForeign):
        bench.host.stop_foreign(handle.id, grace=Seconds(0.0))

    assert bench.host.state(handle).running


def test_a_container_without_our_label_is_never_stopped_as_ours(bench: DockerBench, production: str) -> None:
    strange = EngineHandle(
        host="docker", id=bench.host.foreign(production).id, boot_key="x", port=8000, base_url="http://127.0.0.1:8000"
    )

    with pytest.raises(NotOurs, match=production) as refused:
        bench.host.stop(strange, grace=Seconds(0.0))

    assert isinstance(refused.value, HostError)
    assert bench.host.foreign(production).running


def test_leftovers_are_found_for_the_doctor(bench: DockerBench, production: str, skeleton: str) -> None:
    handle = bench.host.start(bench.launch("--exit-after", "0"))
    until(lambda: not bench.host.state(handle).running)
    engine = bench.client.containers.create(
        skeleton, ["vllm", "serve"], restart_policy={"Name": "always"}, name=f"test-engine-{uuid.uuid4().hex[:6]}"
    )
    try:
        found = find_leftovers()
    finally:
        engine.remove(force=True)

    assert handle.id in [own.id for own in found.own]
    assert engine.id in [container.id for container in found.comes_back]
    assert handle.id not in [exited.id for exited in found.exited_engines]
    assert found.docker_problem is None
    assert found.stopped_containers is not None


# --- daemons that go and come ---


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A socket's path must be short."""
    folder = Path(tempfile.mkdtemp(prefix="nsd", dir="/tmp"))
    yield folder / "d"
    shutil.rmtree(folder, ignore_errors=True)


def own_bench(daemon: OwnDaemon) -> DockerBench:
    client = daemon.factory()
    client.api.import_image_from_data(dockerkit.skeleton_tar(), repository=dockerkit.REPOSITORY, tag="own")
    client.close()
    return DockerBench(daemon.factory, image=f"{dockerkit.REPOSITORY}:own", bridge=True)


@pytest.mark.slow
@while_away
def test_a_log_over_a_restart_of_the_daemon_loses_and_doubles_nothing(short_path: Path) -> None:
    with OwnDaemon(short_path, "--live-restore") as daemon:
        bench = own_bench(daemon)
        try:
            handle = bench.host.start(
                bench.launch("--lines", "400", "--every", "0.02", "--width", "20000", "--exit-after", "0")
            )
            texts: list[str] = []
            reader = threading.Thread(
                target=lambda: texts.extend(line.text for line in bench.host.follow_log(handle, stop=lambda: False))
            )
            reader.start()
            until(lambda: len(bench.client.api.logs(handle.id, tail=1)) > 0)
            daemon.call("stop")
            away = bench.host.state(handle)
            daemon.call("start")
            reader.join(timeout=60)

            assert not reader.is_alive()
            assert away.running
            assert "daemon away" in str(away.detail)
            assert sorted(int(text.split()[1].rstrip(".")) for text in texts) == list(range(400))
            assert {len(text) for text in texts} == {20000}
            state = bench.host.state(handle)
            assert (state.running, state.exit_code, state.host_fault) == (False, 0, True)
        finally:
            bench.close()


@pytest.mark.slow
@while_away
def test_whose_port_it_is_waits_for_a_daemon_on_its_way_back_and_is_no_doubt_when_it_stays_away(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OwnDaemon(short_path, "--live-restore") as daemon:
        bench = own_bench(daemon)
        try:
            handle = bench.host.start(bench.launch("--silent-listener", "--lines", "1"))
            until(lambda: bench.host.owns_port(handle) is None)
            daemon.call("stop")
            said: list[str | None] = []
            asking = threading.Thread(target=lambda: said.append(bench.host.owns_port(handle)))
            asking.start()
            daemon.call("start")
            asking.join(timeout=60)
            assert said == [None]

            daemon.call("stop")
            monkeypatch.setattr(docker_host, "AWAY_FOR", Seconds(0.5))
            with pytest.raises(DockerUnavailable):
                bench.host.owns_port(handle)
            daemon.call("start")
        finally:
            bench.close()


@pytest.mark.slow
@while_away
def test_engines_that_end_with_their_daemon_are_the_hosts_fault(short_path: Path) -> None:
    with OwnDaemon(short_path) as daemon:
        bench = own_bench(daemon)
        try:
            handle = bench.host.start(bench.launch("--silent-listener", "--lines", "1"))
            until(lambda: len(bench.client.api.logs(handle.id)) > 0)
            lines: list[str] = []
            reader = threading.Thread(
                target=lambda: lines.extend(line.text for line in bench.host.follow_log(handle, stop=lambda: False))
            )
            reader.start()
            daemon.call("stop")
            assert bench.host.state(handle).running
            daemon.call("start")
            until(lambda: not bench.host.state(handle).running)
            reader.join(timeout=30)

            state = bench.host.state(handle)
            assert (state.exit_code, state.host_fault) == (0, True)
            assert lines == ["line 0", tiny_engine.LAST_WORDS]
            assert [found.id for found in bench.host.owned()] == [handle.id]
            bench.host.stop(handle, grace=Seconds(1.0))
            assert bench.left() == []
        finally:
            bench.close()


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "visible"), [("all", "all"), ("device=0", "0"), ("0,1", "0,1")])
def test_a_gpu_request_reaches_the_container(short_path: Path, tmp_path: Path, gpus: str, visible: str) -> None:
    """NVIDIA's hook is on the daemon's PATH as a stub: Docker then takes GPU requests as with a real one."""
    hook = tmp_path / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    path = f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin"
    with OwnDaemon(short_path, path=path) as daemon:
        bench = own_bench(daemon)
        try:
            launch = bench.launch("--show-env", "NVIDIA_VISIBLE_DEVICES", "--exit-after", "0")
            handle = bench.host.start(replace(launch, container=bench.spec(gpus=gpus)))

            assert [line.text for line in bench.host.follow_log(handle, stop=lambda: False)] == [
                f"NVIDIA_VISIBLE_DEVICES={visible}"
            ]
        finally:
            bench.close()

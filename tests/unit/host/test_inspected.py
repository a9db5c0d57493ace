from __future__ import annotations

from typing import Any

import pytest

from nightsweep.host import images, inspected
from nightsweep.host.docker_host import gpu_way


def ended(code: int, *, oom: bool = False) -> dict[str, Any]:
    return {"State": {"Running": False, "ExitCode": code, "OOMKilled": oom, "Error": ""}}


def judged(attrs: dict[str, Any], *, by_us: bool = False, away: bool = False) -> bool:
    return inspected.engine_state(attrs, ended_by_us=by_us, daemon_was_away=away).host_fault


def test_a_kill_that_nobody_of_us_sent_is_the_hosts_doing() -> None:
    assert judged(ended(137))


def test_a_kill_for_memory_or_by_us_is_not() -> None:
    assert not judged(ended(137, oom=True))
    assert not judged(ended(137), by_us=True)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 139, 143])
def test_other_ends_are_the_engines_own(code: int) -> None:
    assert not judged(ended(code))


@pytest.mark.parametrize(("code", "fault"), [(0, True), (143, True), (137, True), (1, False), (2, False)])
def test_an_end_like_a_daemons_stop_while_it_was_away_is_the_hosts_doing(code: int, fault: bool) -> None:
    assert judged(ended(code), away=True) is fault


def test_a_published_port_is_proof_only_when_it_is_the_right_one() -> None:
    attrs = {"State": {"Running": True}, "NetworkSettings": {"Ports": {"8000/tcp": [{"HostPort": "8123"}]}}}
    assert inspected.port_problem(attrs, port=8123, container_port=8000) is None
    assert "8123" in str(inspected.port_problem(attrs, port=8124, container_port=8000))
    assert "nothing" in str(inspected.port_problem(attrs, port=8123, container_port=9000))


def an_image(**more: Any) -> dict[str, Any]:
    return {
        "Id": "sha256:1",
        "RepoDigests": [],
        "RepoTags": ["local/image:1"],
        "Os": "linux",
        "Architecture": "arm64",
        "RootFS": {"Layers": ["sha256:a", "sha256:b"]},
        "Config": {"Env": ["A=1"], "Cmd": ["x"]},
        **more,
    }


def test_a_registrys_digest_is_an_images_identity() -> None:
    assert images.identity(an_image(RepoDigests=["vllm/vllm-openai@sha256:abc"])) == "sha256:abc"


def test_without_one_the_identity_is_the_content_and_not_the_id_or_empty_fields() -> None:
    """The same saved image has another Id, and other empty fields, in Docker's other image store."""
    one = images.identity(an_image())
    other = images.identity(
        an_image(Id="sha256:2", Config={"Env": ["A=1"], "Cmd": ["x"], "Hostname": "", "Labels": None})
    )
    assert one == other
    assert one != images.identity(an_image(Config={"Env": ["A=2"], "Cmd": ["x"]}))
    assert one != images.identity(an_image(RootFS={"Layers": ["sha256:a"]}))


def test_gpus_go_by_the_runtime_else_by_cdi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert gpu_way({"Runtimes": {"runc": {}, "nvidia": {}}}) == "request"
    assert (
        gpu_way({"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}) == "cdi"
    )
    assert gpu_way({"Runtimes": {"runc": {}}}) is None

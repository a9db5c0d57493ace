from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nightsweep.errors import LaunchRefused
from nightsweep.host import container_spec
from nightsweep.plan.model import ContainerSpec
from nightsweep.ports import Launch, Secret


def a_launch(**container: Any) -> Launch:
    return Launch(
        boot_key="sweep 1/abc/0",
        command=("--model", "some/model"),
        env={"A": "1"},
        port=8123,
        container_port=8000,
        image="image:1",
        container=ContainerSpec(**container),
    )


def asked(*, gpu_way: str = "request", **container: Any) -> dict[str, Any]:
    return container_spec.create_arguments(a_launch(**container), name="n", owner="1", gpu_way=gpu_way)


def an_inspection(**host: Any) -> dict[str, Any]:
    return {
        "Id": "c" * 64,
        "Name": "/vllm-qwen",
        "State": {"Running": True},
        "Config": {
            "Image": "vllm/vllm-openai:v0.28.0",
            "Cmd": ["--model", "m"],
            "Entrypoint": ["vllm", "serve"],
            "Env": ["HF_TOKEN=hf_x", "NUM_SPECULATIVE_TOKENS=3", "EMPTY="],
            "Labels": None,
            "User": "",
            "WorkingDir": "/vllm-workspace",
        },
        "HostConfig": {"NetworkMode": "default", "IpcMode": "private", "ShmSize": 67108864, "Runtime": "runc", **host},
        "NetworkSettings": {"Ports": {}},
        "Mounts": [],
    }


def test_a_port_is_published_on_the_loopback_address_only() -> None:
    assert asked()["ports"] == {"8000/tcp": ("127.0.0.1", 8123)}


def test_on_the_hosts_network_nothing_is_published() -> None:
    made = asked(network="host")
    assert made["network_mode"] == "host"
    assert "ports" not in made


def test_an_engine_is_ours_by_label_and_is_never_restarted() -> None:
    made = asked()
    assert made["labels"] == {
        "nightsweep.boot": "sweep 1/abc/0",
        "nightsweep.owned": "1",
        "nightsweep.port": "8123",
        "nightsweep.container-port": "8000",
    }
    assert made["restart_policy"] == {"Name": "no"}
    assert made["tty"] is False


def test_what_nobody_asked_for_is_left_to_docker() -> None:
    assert {"shm_size", "mem_limit", "ipc_mode", "entrypoint", "user", "device_requests", "runtime"}.isdisjoint(asked())


@pytest.mark.parametrize(
    ("gpus", "request_"),
    [
        ("all", {"Count": -1, "DeviceIDs": []}),
        ("2", {"Count": 2, "DeviceIDs": []}),
        ("0", {"Count": 0, "DeviceIDs": ["0"]}),
        ("0,1", {"Count": 0, "DeviceIDs": ["0", "1"]}),
        ("device=1", {"Count": 0, "DeviceIDs": ["1"]}),
        ("GPU-1234", {"Count": 0, "DeviceIDs": ["GPU-1234"]}),
    ],
)
def test_gpus_are_all_or_a_count_or_devices(gpus: str, request_: dict[str, Any]) -> None:
    (made,) = asked(gpus=gpus)["device_requests"]
    assert {key: made[key] for key in request_} == request_
    assert made["Capabilities"] == [["gpu"]]


def test_gpus_by_cdi_are_named_devices() -> None:
    assert asked(gpus="all", gpu_way="cdi")["device_requests"][0]["DeviceIDs"] == ["nvidia.com/gpu=all"]
    assert asked(gpus="2", gpu_way="cdi")["device_requests"][0]["DeviceIDs"] == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]


def test_gpus_without_a_device_are_refused() -> None:
    with pytest.raises(LaunchRefused, match="names no device"):
        asked(gpus=" , ")


def test_a_bind_is_a_mount_so_that_a_missing_host_path_is_refused_by_docker() -> None:
    made = asked(volumes=("/srv/hf:/cache:ro", "models:/models"))
    assert [(m["Type"], m["Source"], m["Target"], m["ReadOnly"]) for m in made["mounts"]] == [
        ("bind", "/srv/hf", "/cache", True),
        ("volume", "models", "/models", False),
    ]


def test_options_that_mounts_do_not_know_stay_as_they_are() -> None:
    assert asked(volumes=("/srv/hf:/cache:ro,z",))["volumes"] == ["/srv/hf:/cache:ro,z"]


@pytest.mark.parametrize("volume", ["/srv/hf", "./hf:/cache", "~/hf:/cache", "/srv/hf:cache", ":/cache", "a:/b:ro:x"])
def test_a_volume_that_cannot_be_meant_is_refused(volume: str) -> None:
    with pytest.raises(LaunchRefused, match="volume"):
        asked(volumes=(volume,))


def test_ulimits_have_a_soft_and_a_hard_value() -> None:
    assert [(u["Name"], u["Soft"], u["Hard"]) for u in asked(ulimits=("memlock=-1", "nofile=1:2"))["ulimits"]] == [
        ("memlock", -1, -1),
        ("nofile", 1, 2),
    ]
    with pytest.raises(LaunchRefused, match="ulimit"):
        asked(ulimits=("memlock",))


def test_extra_hosts_are_names_with_addresses() -> None:
    assert asked(extra_hosts=("gateway.lan:10.0.0.1", "v6:::1"))["extra_hosts"] == {
        "gateway.lan": "10.0.0.1",
        "v6": "::1",
    }
    with pytest.raises(LaunchRefused, match="extra_hosts"):
        asked(extra_hosts=("gateway.lan",))


def test_a_name_is_one_that_docker_takes() -> None:
    assert container_spec.container_name("sweep 1/ü:0") == "nightsweep-sweep-1-0"


# --- from inspect ---


def test_only_names_that_look_secret_are_hidden() -> None:
    found = container_spec.foreign_container(an_inspection(), image_digest=None)
    assert isinstance(found.env["HF_TOKEN"], Secret)
    assert not isinstance(found.env["NUM_SPECULATIVE_TOKENS"], Secret)
    assert found.env["EMPTY"] == ""
    assert found.env_names == ("HF_TOKEN", "NUM_SPECULATIVE_TOKENS", "EMPTY")


@pytest.mark.parametrize(
    ("told", "started"),
    [
        ("2026-11-30T07:01:02.500000001Z", datetime(2026, 11, 30, 7, 1, 2, 500000, tzinfo=UTC)),
        ("2026-11-30T07:01:02+01:00", datetime(2026, 11, 30, 6, 1, 2, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("yesterday", None),
        (None, None),
    ],
)
def test_a_container_was_started_when_docker_says_so_and_never_is_no_time(
    told: str | None, started: datetime | None
) -> None:
    inspection = an_inspection()
    inspection["State"]["StartedAt"] = told
    assert container_spec.foreign_container(inspection, image_digest=None).started == started


def test_what_docker_fills_in_by_itself_is_absent() -> None:
    made = container_spec.container_spec(an_inspection())
    assert made == ContainerSpec(init=False, workdir="/vllm-workspace")


@pytest.mark.parametrize(
    ("request_", "gpus"),
    [
        ({"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}, "all"),
        ({"Driver": "nvidia", "Count": 2, "DeviceIDs": None, "Capabilities": [["gpu"]]}, "2"),
        ({"Driver": "", "Count": 0, "DeviceIDs": ["0", "1"], "Capabilities": [["gpu", "utility"]]}, "0,1"),
        ({"Driver": "", "Count": 0, "DeviceIDs": ["1"], "Capabilities": [["gpu"]]}, "device=1"),
        ({"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=all"], "Capabilities": None}, "all"),
        ({"Driver": "other", "Count": -1, "DeviceIDs": None, "Capabilities": [["fpga"]]}, None),
    ],
)
def test_gpus_are_read_back_so_that_they_mean_the_same_again(request_: dict[str, Any], gpus: str | None) -> None:
    found = container_spec.container_spec(an_inspection(DeviceRequests=[request_])).gpus
    assert found == gpus
    if gpus is not None and request_["Driver"] != "cdi":
        (again,) = container_spec.gpu_requests(found, way="request")
        assert (again["Count"], again["DeviceIDs"]) == (request_["Count"], request_["DeviceIDs"] or [])


def test_ports_are_known_also_of_a_container_that_is_stopped() -> None:
    stopped = an_inspection(
        PortBindings={"8000/tcp": [{"HostIp": "", "HostPort": "8080"}], "53/udp": [{"HostPort": "53"}]}
    )
    assert container_spec.published_ports(stopped) == {8000: 8080}


def test_mounts_and_devices_are_read_back() -> None:
    attrs = an_inspection(Devices=[{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "rwm"}])
    attrs["Mounts"] = [
        {"Type": "bind", "Source": "/srv/hf", "Destination": "/cache", "RW": False},
        {"Type": "volume", "Name": "models", "Source": "/var/lib/docker/x", "Destination": "/models", "RW": True},
        {"Type": "tmpfs", "Source": "", "Destination": "/scratch", "RW": True},
    ]
    made = container_spec.container_spec(attrs)
    assert made.volumes == ("/srv/hf:/cache:ro", "models:/models")
    assert made.devices == ("/dev/a:/dev/b:rwm",)

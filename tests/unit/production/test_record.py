"""What is written down of production: enough to bring it back, nothing secret, comparable afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from nightsweep.plan.model import ContainerSpec, Production
from nightsweep.ports import ForeignContainer, Secret
from nightsweep.production.door import door_of
from nightsweep.production.record import Record, differences, document, from_document, made_again, recorded
from nightsweep.units import Seconds

MORNING = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)


def a_container(**more: object) -> ForeignContainer:
    found = ForeignContainer(
        name="vllm-qwen",
        id="a" * 64,
        running=True,
        image="vllm/vllm-openai:v0.28.0",
        image_digest="sha256:1",
        command=("--model", "org/m", "--served-model-name", "qwen", "other", "--api-key", "sk-1", "--port", "9000"),
        entrypoint=("vllm", "serve"),
        env_names=("PATH", "HF_TOKEN"),
        ports={9000: 8000},
        container=ContainerSpec(gpus="all", ipc="host", volumes=("/srv/hf:/hf",)),
        restart_policy="unless-stopped",
        env={"HF_TOKEN": Secret("hf_secret")},
        own_env=("HF_TOKEN",),
        shown_entrypoint=("vllm", "serve"),
        shown_command=(
            "--model",
            "org/m",
            "--served-model-name",
            "qwen",
            "other",
            "--api-key",
            "***",
            "--port",
            "9000",
        ),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def a_record(**more: object) -> Record:
    return recorded(a_container(**more), Production(container="vllm-qwen", url=None), restore_by=MORNING)


def test_a_record_goes_through_json_whole_and_holds_no_secret() -> None:
    written = json.dumps(document(a_record()))
    assert "sk-1" not in written
    assert "hf_secret" not in written
    read = from_document("vllm-qwen", json.loads(written))
    assert replace(read, container={}) == replace(a_record(), container={})
    assert read.container["volumes"] == ["/srv/hf:/hf"]
    assert (read.restore_by, read.ready_timeout) == (MORNING, Seconds(1200.0))


def test_a_record_of_an_earlier_version_still_names_what_must_come_back() -> None:
    read = from_document("old", {"id": "x", "image": "i", "owner": "host:1:1:1", "box_id": 3, "unknown": None})
    assert (read.name, read.id, read.image, read.command) == ("old", "x", "i", None)
    assert differences(read, a_container(id="x", image="i", name="old")) == ()


def test_the_same_container_differs_in_nothing() -> None:
    assert differences(a_record(), a_container()) == ()


def test_a_container_that_was_made_anew_is_told_with_everything_that_changed() -> None:
    now = a_container(id="b" * 64, image_digest="sha256:2", shown_command=("--model", "org/other"))
    told = "\n".join(differences(a_record(), now))
    assert "another container of that name" in told
    assert "image digest: was sha256:1, is sha256:2" in told
    assert "arguments: was --model org/m" in told
    assert "is --model org/other" in told
    assert "sk-1" not in told


def test_an_image_that_is_gone_and_a_pause_that_ended_are_told() -> None:
    told = differences(a_record(paused=True), a_container(image_digest=None))
    assert any("the image was removed" in one for one in told)
    assert any("was paused before the sweep" in one for one in told)


def test_a_removed_container_is_made_again_by_the_command_that_it_was_made_by() -> None:
    told = made_again(a_record())
    assert told == (
        "`docker run -d --name vllm-qwen --restart unless-stopped --gpus all --ipc host -v /srv/hf:/hf -p 8000:9000 "
        "-e HF_TOKEN --entrypoint vllm vllm/vllm-openai:v0.28.0 serve --model org/m --served-model-name qwen other "
        "--api-key '***' --port 9000`"
    )


def test_a_container_of_compose_is_made_again_by_compose() -> None:
    labels = {
        "com.docker.compose.project": "box",
        "com.docker.compose.service": "llm",
        "com.docker.compose.project.config_files": "/srv/box/compose.yaml",
    }
    told = made_again(a_record(labels=labels))
    assert told.startswith("`docker compose -p box -f /srv/box/compose.yaml up -d llm` (it was `docker run")


# --- where it is asked -------------------------------------------------------------------------------------------


def test_a_published_port_is_asked_by_the_served_name_and_the_containers_own_key() -> None:
    door = door_of(a_container(), url=None)
    assert (door.base_url, door.kind, door.model, door.key) == ("http://127.0.0.1:8000", "vllm", "qwen", "sk-1")
    assert "sk-1" not in repr(door)


def test_on_the_hosts_network_the_port_of_the_arguments_is_asked_else_the_engines_own() -> None:
    host = a_container(ports={}, container=ContainerSpec(network="host"))
    assert door_of(host, url=None).base_url == "http://127.0.0.1:9000"
    assert door_of(replace(host, command=("--model", "m")), url=None).base_url == "http://127.0.0.1:8000"
    sglang = replace(host, entrypoint=("python3", "-m", "sglang.launch_server"), command=("--model-path", "m"))
    assert door_of(sglang, url=None).base_url == "http://127.0.0.1:30000"


def test_behind_a_proxy_without_a_published_port_its_own_address_is_asked() -> None:
    hidden = a_container(ports={}, addresses=("172.20.0.3",))
    assert door_of(hidden, url=None).base_url == "http://172.20.0.3:9000"
    assert door_of(replace(hidden, addresses=()), url=None).base_url is None
    assert door_of(hidden, url="https://gateway.lan/v1/").base_url == "https://gateway.lan"


def test_a_key_is_found_in_a_variable_a_script_and_a_reference_and_none_is_none() -> None:
    plain = ("--model", "m")
    assert door_of(a_container(command=plain), url=None).key is None
    assert door_of(a_container(command=plain, env={"VLLM_API_KEY": Secret("k")}), url=None).key == "k"
    script = ("-c", "exec vllm serve m --api_key=$KEY --port 7000")
    shell = a_container(entrypoint=("bash",), command=script, env={"KEY": Secret("from-env")}, ports={7000: 1})
    door = door_of(shell, url=None)
    assert (door.key, door.model, door.base_url) == ("from-env", "m", "http://127.0.0.1:1")


def test_what_is_no_engine_has_its_port_and_no_kind() -> None:
    other = a_container(entrypoint=("text-embeddings-router",), command=("--port", "80"), image="tei", ports={80: 8080})
    assert (door_of(other, url=None).kind, door_of(other, url=None).base_url) == (None, "http://127.0.0.1:8080")

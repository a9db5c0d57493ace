"""Compose, systemd and Prefect's switches: checked with the real tools where they are, by their rules where they are not."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from .tree import ROOT

COMPOSE = ROOT / "docker-compose.yml"
# https://github.com/compose-spec/compose-spec/blob/main/05-services.md: the keys that are used here.
SERVICE_KEYS = {
    "image", "build", "restart", "command", "environment", "env_file", "volumes", "ports", "shm_size", "healthcheck",
    "depends_on", "network_mode", "pid", "stop_signal", "stop_grace_period",
}  # fmt: skip


def _services() -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"])


def _compose_command() -> list[str] | None:
    """`docker compose` of this machine, or the plugin that NIGHTSWEEP_COMPOSE points at."""
    given = os.environ.get("NIGHTSWEEP_COMPOSE")
    if given:
        return [given]
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0:
        return [docker, "compose"]
    return None


def test_compose_accepts_the_file() -> None:
    command = _compose_command()
    if command is None:
        pytest.skip("no docker compose here: the file is checked by its keys below")
    done = subprocess.run([*command, "-f", str(COMPOSE), "config"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == {"postgres", "prefect", "worker", "watchdog", "prometheus"}


def test_compose_uses_only_keys_of_the_specification() -> None:
    document = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    assert set(document) == {"name", "services", "volumes"}
    for name, service in document["services"].items():
        assert set(service) <= SERVICE_KEYS, name
        for volume in service.get("volumes", ()):
            source = volume.split(":", 1)[0]
            assert source.startswith((".", "/", "$")) or source in document["volumes"], volume


@pytest.mark.parametrize("name", ["postgres", "prefect", "prometheus"])
def test_an_image_is_pinned_to_a_release(name: str) -> None:
    tag = _services()[name]["image"].partition(":")[2]
    assert re.match(r"v?\d+\.\d+", tag), "an image without a release moves under the user"


def test_every_service_comes_back_by_itself_and_says_how_it_is() -> None:
    for name, service in _services().items():
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name


def test_nothing_listens_beyond_the_loopback_interface() -> None:
    for name, service in _services().items():
        for port in service.get("ports", ()):
            assert str(port).startswith("127.0.0.1:"), f"{name}: {port}"
    assert "--web.listen-address=127.0.0.1:" in " ".join(_services()["prometheus"]["command"])


def test_the_worker_has_the_docker_socket_and_time_to_give_production_back() -> None:
    worker = _services()["worker"]
    assert "/var/run/docker.sock:/var/run/docker.sock" in worker["volumes"]
    assert worker["stop_grace_period"] == "90s"


def test_the_watchdog_sees_what_the_worker_sees_and_needs_nobody() -> None:
    worker, watchdog = _services()["worker"], _services()["watchdog"]
    assert {"home:/var/lib/nightsweep", "/var/run/docker.sock:/var/run/docker.sock"} <= set(watchdog["volumes"])
    for key in ("pid", "network_mode", "image"):
        assert watchdog[key] == worker[key]
    assert set(watchdog["environment"]) <= set(worker["environment"])
    assert "depends_on" not in watchdog


def test_the_watchdogs_unit_has_the_services_home_and_hangs_on_no_other() -> None:
    def unit(name: str) -> configparser.ConfigParser:
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[method-assign, assignment]
        parser.read(ROOT / "deploy" / name)
        return parser

    service, watchdog = unit("nightsweep.service"), unit("nightsweep-watchdog.service")
    for key in ("User", "StateDirectory", "SupplementaryGroups"):
        assert watchdog["Service"][key] == service["Service"][key]
    assert watchdog["Service"]["ExecStart"].endswith("nightsweep watchdog --once")
    assert set(watchdog["Unit"]) == {"Description"}
    assert unit("nightsweep-watchdog.timer")["Install"]["WantedBy"] == "timers.target"


def test_every_file_that_compose_mounts_is_there() -> None:
    for service in _services().values():
        for volume in service.get("volumes", ()):
            source = volume.split(":", 1)[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), source
        files = service.get("env_file", [])
        for file in [files] if isinstance(files, str) else files:
            assert (ROOT / file).exists(), file


def test_the_image_copies_only_folders_that_exist() -> None:
    for line in (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source


def test_the_two_databases_are_made_before_anybody_needs_them() -> None:
    script = (ROOT / "deploy" / "postgres" / "10-prefect-database.sql").read_text(encoding="utf-8")
    services = _services()
    assert re.search(r"^CREATE DATABASE prefect\b", script, re.MULTILINE)
    assert services["postgres"]["environment"]["POSTGRES_DB"] == "nightsweep"
    assert services["prefect"]["environment"]["PREFECT_API_DATABASE_CONNECTION_URL"].endswith("/prefect")
    assert services["worker"]["environment"]["NIGHTSWEEP_DATABASE_URL"].endswith("/nightsweep")


def test_compose_and_systemd_set_only_variables_that_the_product_reads() -> None:
    settings = (ROOT / "src" / "nightsweep" / "settings.py").read_text(encoding="utf-8")
    unit = (ROOT / "deploy" / "nightsweep.service").read_text(encoding="utf-8")
    given = set(re.findall(r"^Environment=(\w+)=", unit, re.MULTILINE)) | set(_services()["worker"]["environment"])
    assert "NIGHTSWEEP_PREFECT_API_URL" in given
    assert not [name for name in given - {"TZ"} if f'"{name}"' not in settings]


def _switches() -> dict[str, str]:
    lines = (ROOT / "deploy" / "prefect.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_every_switch_is_a_setting_of_the_installed_prefect() -> None:
    code = (
        "import sys\n"
        "from prefect.settings.models.root import Settings\n"
        "def names(model):\n"
        "    prefix = model.model_config.get('env_prefix', '')\n"
        "    for key, field in model.model_fields.items():\n"
        "        yield (prefix + key).upper()\n"
        "        yield from (str(name).upper() for name in getattr(field.validation_alias, 'choices', ()))\n"
        "        if isinstance(field.annotation, type) and hasattr(field.annotation, 'model_fields'):\n"
        "            yield from names(field.annotation)\n"
        "print(*sorted(set(sys.argv[1:]) - set(names(Settings))))\n"
    )
    asked = [name for name in _switches() if name.startswith("PREFECT_")]
    done = subprocess.run([sys.executable, "-c", code, *asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_nothing_is_sent_out_of_the_house() -> None:
    switches = _switches()
    assert switches["DO_NOT_TRACK"] == "1"
    assert switches["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


def _unit() -> configparser.ConfigParser:
    class Unit(dict[str, Any]):
        """A unit's keys may come several times: keep them as lines."""

        def __setitem__(self, key: str, value: Any) -> None:
            if key in self and isinstance(value, list) and isinstance(self[key], list):
                self[key].extend(value)
            else:
                super().__setitem__(key, value)

    parser = configparser.RawConfigParser(strict=False, dict_type=Unit, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(ROOT / "deploy" / "nightsweep.service")
    return parser


def test_systemd_signals_the_service_alone_and_gives_it_time() -> None:
    service = _unit()["Service"]
    assert service["KillMode"] == "mixed"
    assert service["TimeoutStopSec"] == "90"
    assert service["Restart"] == "always"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("no systemd-analyze here")
    unit = tmp_path / "nightsweep.service"
    content = (ROOT / "deploy" / "nightsweep.service").read_text(encoding="utf-8")
    unit.write_text(content.replace("/opt/nightsweep/bin/nightsweep", "/bin/true"), encoding="utf-8")
    done = subprocess.run([tool, "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "nightsweep.service" in line]
    assert not complaints

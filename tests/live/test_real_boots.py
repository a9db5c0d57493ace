"""Real boots of real vLLM: each config proves what was applied, each failing one is classed right, in the product's own words.

Opt-in like `test_real_vllm.py`, whose sweep has boots of three methods already: those are looked at, not booted again. Here are
the methods that are left, and configs that fail. NIGHTSWEEP_TEST_VLLM=/path/to/vllm-serve boots processes instead of containers,
which is faster; the boot that the container's memory limit ends needs Docker in any case. Folders `rand-eagle3` and
`rand-mimo-mtp` among the models add a dead drafter and MTP with random weights.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from .containers import IMAGE
from .product import LIVE, Swept, models, nightsweep, stop_database

COMMAND = os.environ.get("NIGHTSWEEP_TEST_VLLM")
K = 4
BLOCK = {"draft_sample_method": "probabilistic", "rejection_sample_method": "block"}

pytestmark = LIVE


@dataclass(frozen=True)
class Boots:
    """What the sweeps left: boots by config, a cell by config, how they are shown.

    Attributes:
        port_log: What an engine said whose port was held.
    """

    home: Path
    boots: dict[str, dict[str, Any]]
    cells: dict[str, dict[str, Any]]
    table: str
    report: str
    port_log: str


def an_engine(*, process: bool) -> dict[str, Any]:
    engine: dict[str, Any] = {
        "kind": "vllm",
        "model": str(models() / "tiny-coder") if process else "/models/tiny-coder",
        "served_name": "tiny",
        "port": 0,
        "args": {"max-model-len": 2048, "max-num-seqs": 8},
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "NUMBA_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        "boot_timeout": "5m",
    }
    if process:
        return {**engine, "host": "process", "command": [COMMAND]}
    container = {"shm_size": "512M", "volumes": [f"{models()}:/models:ro"]}
    engine["args"]["enforce-eager"] = True
    return {**engine, "host": "docker", "image": IMAGE, "container": container}


def good_configs(place: str) -> list[dict[str, Any]]:
    draft = {"method": "draft_model", "model": f"{place}/tiny-draft", "num_speculative_tokens": K}
    configs: list[dict[str, Any]] = [{"name": "draft block", "speculative": {**draft, **BLOCK}}]
    if (models() / "tiny-eagle3").exists():
        trained = {"method": "eagle3", "model": f"{place}/tiny-eagle3", "num_speculative_tokens": K}
        configs.append({"name": "eagle3", "speculative": trained})
    if (models() / "rand-eagle3").exists():
        dead = {"method": "eagle3", "model": f"{place}/rand-eagle3", "num_speculative_tokens": K}
        configs.append({"name": "random eagle3", "speculative": dead})
    if (models() / "rand-mimo-mtp").exists():
        mtp = {"method": "mtp", "num_speculative_tokens": 1}
        configs.append({"name": "random mtp", "model": f"{place}/rand-mimo-mtp", "speculative": mtp})
    return configs


def bad_configs(place: str) -> list[dict[str, Any]]:
    return [
        {"name": "bad flag", "args": {"no-such-flag": 3}},
        {"name": "bad key", "speculative": {"method": "ngram", "num_speculative_tokens": K, "num_spec_tokenz": 3}},
        {"name": "no model", "model": f"{place}/nowhere"},
        {"name": "small kv", "args": {"max-model-len": 1_000_000}, "env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}},
    ]


def sweep(
    home: Path, name: str, engine: dict[str, Any], configs: list[dict[str, Any]]
) -> subprocess.CompletedProcess[str]:
    probe = {"concurrency": [2], "temperature": [1.0], "window": "3s", "repeats": 1, "warmup": "2s", "max_attempts": 2}
    file = home / f"{name}.yaml"
    file.write_text(
        yaml.safe_dump({"name": name, "engine": engine, "configs": configs, "probe": probe}, sort_keys=False)
    )
    done = nightsweep(home, "run", str(file))
    print(done.stderr, done.stdout, sep="\n")
    return done


@pytest.fixture(scope="module")
def real(swept: Swept) -> Iterator[Boots]:
    home = Path(tempfile.mkdtemp(prefix="nsboots."))
    try:
        process = COMMAND is not None
        place = str(models()) if process else "/models"
        sweep(home, "boots", an_engine(process=process), [*good_configs(place), *bad_configs(place)])
        contained = an_engine(process=False)
        contained["container"]["memory"] = "700M"
        with held_port() as port:  # beside the next boot: nothing is measured
            refused = subprocess.Popen(an_engine_on(port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            sweep(home, "contained", contained, [{"name": "no memory"}])
            port_log, _ = refused.communicate(timeout=180)
        yield Boots(
            home=home,
            boots={**listed(swept.home, "boots"), **listed(home, "boots")},
            cells={**listed(swept.home, "cells"), **listed(home, "cells")},
            table=nightsweep(home, "boots").stdout,
            report=nightsweep(home, "report", "boots").stdout,
            port_log=port_log,
        )
    finally:
        stop_database(home)
        shutil.rmtree(home)


def listed(home: Path, what: str) -> dict[str, dict[str, Any]]:
    """Boots or cells by config; the last of each."""
    return {one["config"]: one for one in json.loads(nightsweep(home, what, "--json").stdout)[what]}


@contextmanager
def held_port() -> Iterator[int]:
    """A port on which somebody listens already."""
    with socket.socket() as holder:
        holder.bind(("0.0.0.0", 0))
        holder.listen()
        yield int(holder.getsockname()[1])


def an_engine_on(port: int) -> list[str]:
    """The command of an engine that nobody looked out for."""
    if COMMAND:
        return [COMMAND, str(models() / "tiny-coder"), "--port", str(port)]
    run = ["docker", "run", "--rm", "--network", "host", "-v", f"{models()}:/models:ro", IMAGE]
    return [*run, "/models/tiny-coder", "--port", str(port)]


def the_boot(real: Boots, config: str) -> dict[str, Any]:
    if config not in real.boots and config == "eagle3":
        pytest.skip("no tiny-eagle3 among the models")
    return real.boots[config]


@pytest.mark.parametrize("config", ["none", "ngram k=4", "draft k=3", "synthetic k=4", "eagle3"])
def test_a_real_boot_applies_what_was_asked_and_states_its_facts(real: Boots, config: str) -> None:
    boot = the_boot(real, config)
    assert (boot["state"], boot["not_applied"]) == ("stopped", [])
    assert boot["engine_version"].startswith("0.32.0")
    assert boot["facts"]["model_runner"] == "V1"
    assert boot["kv_cache_tokens"] > 0
    assert real.cells[config]["not_applied"] == []
    rate = real.cells[config]["decode_rate_tokens_per_second"]
    assert (rate["mean"] > 0) if rate else real.cells[config]["flags"]  # a busy machine fills no window


@pytest.mark.parametrize("config", ["none", "ngram k=4", "draft k=3", "synthetic k=4", "draft block", "eagle3"])
def test_the_metrics_page_is_a_second_source_and_agrees_with_the_log(real: Boots, config: str) -> None:
    boot = the_boot(real, config)
    assert boot["kv_second"]["vllm:cache_config_info"]["tokens"] == boot["kv_cache_tokens"]
    assert not any("KV cache tokens" in note for note in boot["notes"])


def test_block_on_the_v1_runner_comes_out_not_applied_wherever_it_is_shown(real: Boots) -> None:
    said = real.boots["draft block"]["not_applied"]
    assert any("'block' is silently ignored" in line for line in said)
    assert any("'probabilistic' is switched off" in line for line in said)
    assert real.cells["draft block"]["not_applied"] == said
    assert real.cells["draft block"]["conditions"] != real.cells["draft k=3"]["conditions"]
    assert "stopped, not applied" in real.table
    assert "Not applied as asked" in real.report


def test_a_drafter_with_random_weights_is_called_dead(real: Boots) -> None:
    if "random eagle3" not in real.cells:
        pytest.skip("no rand-eagle3 among the models")
    cell = real.cells["random eagle3"]
    if cell["acceptance_length"] is None:
        pytest.skip(f"no clean window: {cell['flags']}")
    assert cell["acceptance_length"]["mean"] == pytest.approx(1.0, abs=0.02)
    if cell["acceptance_length"]["mean"] == 1.0:
        assert any(note.startswith("dead drafter") for note in cell["notes"])


def test_mtp_with_random_weights_boots_and_is_measured(real: Boots) -> None:
    if "random mtp" not in real.boots:
        pytest.skip("no rand-mimo-mtp among the models")
    assert real.boots["random mtp"]["state"] == "stopped", real.boots["random mtp"]["failure"]
    assert real.boots["random mtp"]["not_applied"] == []


@pytest.mark.parametrize(
    ("config", "kind", "stage", "retry"),
    [
        ("bad flag", "bad_flag", "arguments", "never"),
        ("bad key", "bad_flag", "config", "never"),
        ("no model", "model_missing", "config", "never"),
        ("small kv", "kv_too_small", "kv_cache", "never"),
        ("no memory", "host_oom_killed", None, "never"),
    ],
)
def test_a_real_failure_is_classed_right(real: Boots, config: str, kind: str, stage: str | None, retry: str) -> None:
    boot = real.boots[config]
    assert boot["state"] == "failed"
    assert (boot["failure"]["kind"], boot["failure"]["retry"]) == (kind, retry)
    assert boot["failure"]["stage"] == (stage or boot["failure"]["stage"])
    assert boot["failure"]["remedy"]


def test_a_failure_says_what_would_fit(real: Boots) -> None:
    assert "lower max-model-len to" in real.boots["small kv"]["failure"]["remedy"]
    assert "no-such-flag" in real.boots["bad flag"]["failure"]["remedy"]


def test_a_port_that_somebody_holds_is_the_engines_own_words(real: Boots) -> None:
    """The sweep looks before it starts; an engine that loses the race says so itself."""
    log = real.home / "port.log"
    log.write_text(real.port_log)
    read = nightsweep(real.home, "parse-log", str(log), "--json")
    assert read.returncode == 1, read.stderr
    assert json.loads(read.stdout)["failure"]["kind"] == "port_in_use"

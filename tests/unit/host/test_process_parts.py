from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nightsweep.host import process_tree
from nightsweep.host.process_env import engine_environment
from nightsweep.host.process_records import EngineRecord, EngineRecords
from nightsweep.host.redact import looks_secret, masked_command
from nightsweep.ports import Secret


def a_record(**more: object) -> EngineRecord:
    given = {
        "boot_key": "sweep/1",
        "port": 8000,
        "machine": process_tree.boot_of_machine(),
        "started_at": "2026-11-29T22:30:00+00:00",
        "command": ("vllm", "serve"),
        "service": "1:1",
    }
    return EngineRecord(**{**given, **more})  # type: ignore[arg-type]


def test_an_engine_inherits_what_it_needs_and_nothing_that_is_ours_or_changes_what_is_measured() -> None:
    ours = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "1",
        "NIGHTSWEEP_DATABASE_URL": "postgresql://u:secret@h/db",
        "HF_TOKEN": "hf_secret",
        "VLLM_ATTENTION_BACKEND": "FLASHINFER",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    made = engine_environment(ours, {"VLLM_LOGGING_LEVEL": "INFO"}, boot_key="b")
    assert made == {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "1",
        "PYTHONUNBUFFERED": "1",
        "NO_COLOR": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        "NIGHTSWEEP_BOOT": "b",
    }


def test_what_the_plan_gives_wins() -> None:
    assert engine_environment({"HOME": "/root"}, {"HOME": "/srv", "NO_COLOR": ""}, boot_key="b")["HOME"] == "/srv"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "OPENAI_API_KEY", "api-key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "KEY"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["NUM_SPECULATIVE_TOKENS", "tokenizer", "max-num-batched-tokens", "MONKEY", "PATH", "KEYS_DIR"]
)
def test_names_that_only_resemble_one_are_not(name: str) -> None:
    assert not looks_secret(name)


def test_a_command_is_recorded_without_secrets() -> None:
    command = (
        "vllm",
        "--api-key",
        "k1",
        "--hf-token=k2",
        "--model",
        "m",
        "--header",
        "Bearer s3cret",
        "--api-key",
        "--port",
        "1",
    )
    shown = masked_command(command, {"X": Secret("s3cret")})
    assert shown == (
        "vllm", "--api-key", "***", "--hf-token=***", "--model", "m", "--header", "Bearer ***", "--api-key", "--port", "1",
    )  # fmt: skip


def test_every_key_of_a_flag_and_every_secret_in_a_script_is_hidden() -> None:
    assert masked_command(("--api-key", "a1", "b2", "--port", "1"), {}) == ("--api-key", "***", "***", "--port", "1")
    script = "export HF_TOKEN=hf_x && exec vllm serve m --api-key 'k 1' --max-num-batched-tokens 8 --port 80"
    (shown,) = masked_command((script,), {})
    assert shown == "export HF_TOKEN=*** && exec vllm serve m --api-key *** --max-num-batched-tokens 8 --port 80"
    assert masked_command(("hf_" + "a" * 20,), {}) == ("***",)


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    records = EngineRecords(tmp_path)
    record = a_record(pid=1, birth="2")
    records.write(record)
    assert records.read("sweep/1") == record
    assert list(records.all()) == [record]
    records.remove("sweep/1")
    records.remove("sweep/1")
    assert list(records.all()) == []


def test_a_record_that_was_cut_short_counts_as_none(tmp_path: Path) -> None:
    records = EngineRecords(tmp_path)
    records.write(a_record())
    (records.folder("sweep/1") / "engine.json").write_text('{"boot_key": "sw', encoding="utf-8")
    assert records.read("sweep/1") is None
    assert list(records.all()) == []


def test_two_boots_whose_names_look_alike_have_their_own_directories(tmp_path: Path) -> None:
    records = EngineRecords(tmp_path)
    assert records.folder("a/b") != records.folder("a b")


def test_a_pid_of_an_earlier_run_of_the_machine_is_not_the_engines() -> None:
    me = os.getpid()
    assert a_record(machine="another run", pid=me, birth=process_tree.birth(me)).living() == {}


def test_a_pid_that_was_given_out_again_is_not_the_engines() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        assert a_record(boot_key="other", pid=stranger.pid, birth="12345").living() == {}
        assert set(a_record(pid=stranger.pid, birth=process_tree.birth(stranger.pid)).living()) == {stranger.pid}
        stranger.communicate(b"\n")


def test_a_process_that_waits_to_be_reaped_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert process_tree.birth(child.pid) is None
        assert process_tree.ticks(child.pid) is not None

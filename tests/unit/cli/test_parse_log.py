"""`nightsweep parse-log` on its own."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from nightsweep.cli.parse_log import command

DATA = Path(__file__).parents[2] / "data"


def test_a_healthy_log_ends_with_0_and_shows_facts_with_their_lines() -> None:
    result = CliRunner().invoke(command, [str(DATA / "bootlogs" / "vllm-0.26.0-cuda-eagle5pb.log")])
    assert result.exit_code == 0
    assert "vllm 0.26.0: healthy" in result.output
    assert "GPU KV cache size: 785,552 tokens" in result.output


def test_a_failed_log_ends_with_1_and_shows_the_remedy() -> None:
    result = CliRunner().invoke(command, [str(DATA / "failures" / "vllm-0.26.0-cuda-kvsmall.log")])
    assert result.exit_code == 1
    assert "lower max-model-len to 27,040" in result.output


def test_json_holds_verdict_facts_and_statements() -> None:
    log = (DATA / "bootlogs" / "vllm-0.28.0-v2-dflash2-kvbytes.log").read_bytes()
    result = CliRunner().invoke(command, ["-", "--json", "--engine", "vllm"], input=log)
    told = json.loads(result.output)
    assert (told["verdict"], told["failure"]) == ("healthy", None)
    assert told["facts"]["kv_tokens"] == 813427
    assert {"name": "kv_device", "value": "GPU"}.items() <= next(
        item for item in told["statements"] if item["name"] == "kv_device"
    ).items()


def test_a_missing_file_is_said_plainly() -> None:
    result = CliRunner().invoke(command, ["no-such-file.log"])
    assert result.exit_code == 2
    assert "cannot read no-such-file.log" in result.output


def test_binary_junk_is_unknown_and_no_error(tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_bytes(bytes(range(256)) * 500)
    result = CliRunner().invoke(command, [str(junk), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output)["verdict"] == "unknown"

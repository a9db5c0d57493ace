"""`nightsweep plan` shows what a file would do, and ends with 2 and every mistake when it is invalid."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nightsweep.cli import main
from nightsweep.cli.plan import Access, cold_starts, command
from nightsweep.engine.registry import engine_for
from nightsweep.plan.model import SweepPlan
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import FILE, a_file
from tests.unit.plan.mistakes import KINDS, Kind


def call(text: str, *words: str, history: Mapping[str, float] | None = None) -> Result:
    def history_of(plan: SweepPlan) -> Mapping[str, float]:
        if history is None:
            raise AssertionError("nobody asked for the history")
        return history

    def load_plan(text: str, source: str, base: Path) -> SweepPlan:
        return load(text, source=source)

    reach = Access(read=lambda path: text, load=load_plan, engine=engine_for, history=history_of)
    options = words if history is not None else ("--no-history", *words)
    return CliRunner().invoke(command, ["sweep.yaml", *options], obj=reach)


def lines_of(text: str, *words: str, history: Mapping[str, float] | None = None) -> list[str]:
    result = call(text, *words, history=history)
    assert result.exception is None, result.output
    return result.stdout.splitlines()


def json_of(text: str, history: Mapping[str, float] | None = None) -> Any:
    return json.loads("\n".join(lines_of(text, "--json", history=history)))


def test_configs_stand_in_a_table_with_fingerprints_boots_cells_and_windows() -> None:
    lines = lines_of(FILE)
    plan = load(FILE)

    for config in plan.configs:
        (row,) = [line for line in lines if config.fingerprint[:12] in line]
        assert row.split()[-4:] == ["1", "4", "12", "0"]
        assert row.startswith(config.name)
    assert any("3 configs, 3 boots, 12 cells, 36 windows" in line for line in lines)


def test_a_name_that_breaks_lines_is_shown_on_one() -> None:
    name = load(FILE).configs[0].name
    whole = FILE.replace(f"name: {name}", 'name: "two\\nlines\\e[31m"', 1)
    lines = lines_of(whole)
    (row,) = [line for line in lines if load(whole).configs[0].fingerprint[:12] in line]
    assert row.startswith("two lines ")
    assert any(line.startswith("  two lines (") for line in lines)


def test_the_exact_engine_command_of_each_config_can_be_copied() -> None:
    lines = lines_of(FILE)

    expected = (
        "    org/target --served-model-name org/target --host 0.0.0.0 --port 8000 --max-model-len 8192 "
        """--speculative-config '{"method":"dflash","model":"org/draft","num_speculative_tokens":4}'"""
    )
    assert expected in lines
    assert "  k=4 (image vllm/vllm-openai:v0.28.0, arguments):" in lines


def test_a_process_is_shown_with_the_words_that_start_it() -> None:
    text = a_file(("host: docker", "host: process"), ("  image: vllm/vllm-openai:v0.28.0\n", ""))

    assert any(
        line.startswith("    vllm serve org/target --served-model-name org/target --host 127.0.0.1")
        for line in lines_of(text)
    )


def test_the_night_is_estimated_from_stated_defaults() -> None:
    text = "\n".join(lines_of(FILE))

    assert "Estimated night" in text
    assert "cold start of 3 configs: 360 s, a default (no history on this box)" in text
    assert "night of 8 h 30 min, until 07:00 Europe/Amsterdam: fits" in text
    assert "worst case 3 h 23 min: every engine takes its whole boot_timeout 2 times" in text
    assert "a config that never comes up costs up to 40 min 40 s in each round of boots" in text
    assert json_of(FILE)["estimate"]["failing_round_seconds"] == pytest.approx(2440.0)


def test_the_night_is_estimated_from_the_box_s_history_when_there_is_any() -> None:
    fingerprint = load(FILE).configs[0].fingerprint
    document = json_of(FILE, history={fingerprint: 50.0, "*": 70.0})

    assert document["estimate"]["cold_start_seconds"] == pytest.approx(50.0 + 2 * 70.0)
    assert "cold start: this box's history for 1 of 3 configs, median 50 s" in document["estimate"]["assumptions"]


def test_a_sweep_that_is_longer_than_its_night_says_how_many_nights_it_takes() -> None:
    text = "\n".join(lines_of(a_file(("repeats: 3", "repeats: 90"))))

    assert "does not fit; it takes 2 nights, going on where it stopped" in text


def test_the_document_for_programs_holds_what_the_table_shows() -> None:
    document = json_of(FILE)
    plan = load(FILE)

    assert (document["name"], document["fingerprint"]) == ("depth", plan.fingerprint)
    assert [config["fingerprint"] for config in document["configs"]] == [one.fingerprint for one in plan.configs]
    assert document["configs"][0]["speculative"] is None
    assert document["configs"][1]["command"][0] == "org/target"
    assert (document["boots"], document["cells"], document["windows"], document["prefills"]) == (3, 12, 36, 0)
    assert document["estimate"]["fits"] is True


def test_warnings_of_the_file_and_of_the_engine_are_shown() -> None:
    text = "\n".join(
        lines_of(
            a_file(
                ("- name: plain", "- name: plain\n    args: {max-num-seqs: 2}"),
                ("method: dflash", "metod: x, method: dflash"),
            )
        )
    )

    assert "Warnings" in text
    assert "sweep.yaml:18: probe.concurrency: 4 streams are more than max-num-seqs 2 lets run" in text
    assert "metod" in text.partition("Warnings")[2]
    assert "method" in text.partition("Warnings")[2]


def test_a_simulated_sweep_says_so_loudly() -> None:
    text = a_file(("  boot_timeout: 20m", "  command: '{python} -m nightsweep.simulator'"))

    assert "SIMULATED" in lines_of(text)[0]
    assert json_of(text)["simulated"] is True


def test_the_history_is_the_median_by_config_and_over_all() -> None:
    rows = [("a", 10.0), ("a", 30.0), ("a", 20.0), ("b", 100.0), ("b", None), ("c", None)]

    assert cold_starts(rows) == {"a": 20.0, "b": 100.0, "*": 25.0}
    assert cold_starts([("c", None)]) == {}


def test_help_shows_an_example() -> None:
    result = CliRunner().invoke(command, ["--help"])

    assert result.exit_code == 0
    assert "Example:\n    nightsweep plan sweep.yaml" in result.stdout


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["nightsweep", *words])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_an_invalid_file_ends_with_2_and_its_mistake_on_standard_error(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(a_file(*kind.changes), encoding="utf-8")

    code = run_main(monkeypatch, "plan", str(file))

    told = capsys.readouterr()
    where = f"{file}:{kind.line}: {kind.key}: found " if kind.key else f"{file}:{kind.line}: found "
    assert code == 2
    assert where + kind.found in told.err
    assert all(said in told.err for said in kind.says)
    assert told.out == ""
    assert "Traceback" not in told.err


def test_a_file_that_is_not_there_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(monkeypatch, "plan", str(tmp_path / "none.yaml")) == 2
    assert "cannot read" in capsys.readouterr().err


def test_a_valid_file_ends_with_0_through_the_whole_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(FILE, encoding="utf-8")
    monkeypatch.setenv("NIGHTSWEEP_HOME", str(tmp_path / "home"))

    assert run_main(monkeypatch, "plan", str(file)) == 0
    assert "Plan depth" in capsys.readouterr().out
    assert not (tmp_path / "home").exists(), "planning touches nothing"

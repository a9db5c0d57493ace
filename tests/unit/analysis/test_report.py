"""The report: whole golden files, and what must be in it whatever the data are."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nightsweep.analysis import markdown
from nightsweep.analysis.blocks import without_plots
from nightsweep.analysis.report import Reported, report_blocks, report_markdown
from nightsweep.analysis.sides import Documents
from nightsweep.analysis.values import ProductionRow
from nightsweep.units import Seconds

from .builders import EVENING, a_boot, a_config, a_failed_boot, a_plan, a_sweep, a_window, seed_night

GOLDEN = Path(__file__).parents[2] / "data" / "reports"


def a_report(**facts: Any) -> str:
    values: dict[str, Any] = {
        "boots": [a_boot()],
        "windows": [a_window()],
        "prefills": [],
        "plan": a_plan(),
        "software_version": "0.1.0",
    }
    sweep = facts.pop("sweep", a_sweep())
    return report_markdown(sweep, **{**values, **facts})


@pytest.mark.parametrize(("name", "simulated"), [("seed-night.md", False), ("seed-night-simulated.md", True)])
def test_the_seed_night_reads_as_agreed(name: str, simulated: bool) -> None:
    """Set NIGHTSWEEP_WRITE_GOLDEN=1 to write the files anew, and read the difference before keeping it."""
    sweep, boots, windows, prefills, plan = seed_night(simulated=simulated)
    found = report_markdown(sweep, boots=boots, windows=windows, prefills=prefills, plan=plan, software_version="0.1.0")
    if os.environ.get("NIGHTSWEEP_WRITE_GOLDEN"):
        (GOLDEN / name).write_text(found, encoding="utf-8")
    assert found == (GOLDEN / name).read_text(encoding="utf-8")


def test_a_simulated_sweep_says_so_in_its_title_and_with_every_table() -> None:
    sweep, boots, windows, prefills, plan = seed_night(simulated=True)
    report = report_markdown(
        sweep, boots=boots, windows=windows, prefills=prefills, plan=plan, software_version="0.1.0"
    )
    assert "SIMULATED" in report.splitlines()[0]
    captions = [line for line in report.splitlines() if re.match(r"\*[^*].*\*", line)]
    assert len(captions) == 15
    assert all("**SIMULATED**" in caption for caption in captions)


def test_a_real_sweep_never_says_simulated() -> None:
    assert "SIMULATED" not in a_report()


def test_every_row_of_a_table_has_as_many_fields_as_its_heading() -> None:
    sweep, boots, windows, prefills, plan = seed_night()
    report = report_markdown(
        sweep, boots=boots, windows=windows, prefills=prefills, plan=plan, software_version="0.1.0"
    )
    tables = [block for block in report.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 15
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_names_and_log_lines_from_outside_cannot_break_the_page() -> None:
    nasty = "a|b `c` *d* <script>alert(1)</script> [x](javascript:1)\nnext"
    boot = a_failed_boot(config=nasty, failure_lines=("```", "\x1b[31mred\x1b[0m"), failure_remedy="use `--x` | y")
    report = a_report(sweep=a_sweep(name=nasty), boots=[boot], windows=[a_window(config=nasty)], plan=None)
    assert "<script>" not in report
    assert "\x1b" not in report
    assert "````\n```\nred\n````" in report
    row = next(line for line in report.splitlines() if line.startswith("| a\\|b"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 10


def test_a_failed_boot_comes_with_class_deciding_line_and_remedy() -> None:
    report = a_report(boots=[a_failed_boot()], windows=[])
    assert "failed: kv_too_small (kv_cache), exit code 1" in report
    assert "17.46 GiB KV cache is needed" in report
    assert "Remedy: lower max-model-len" in report
    assert "Nothing was measured" in report


def test_a_sweep_without_anything_still_has_a_report() -> None:
    report = a_report(
        sweep=a_sweep(state="failed", started=None, ended=None, note="docker is away", repeats_clean=0),
        boots=[],
        windows=[],
        plan=None,
    )
    assert "No boot is stored." in report
    assert "ran from – to – UTC" in report
    assert "docker is away" in report


def test_the_same_rows_give_the_same_text_whatever_their_order() -> None:
    sweep, boots, windows, prefills, plan = seed_night()
    one = report_markdown(sweep, boots=boots, windows=windows, prefills=prefills, plan=plan, software_version="0.1.0")
    other = report_markdown(
        sweep, boots=boots[::-1], windows=windows[::-1], prefills=prefills[::-1], plan=plan, software_version="0.1.0"
    )
    assert one == other


def test_the_command_of_each_config_is_shown_as_it_could_be_typed() -> None:
    report = a_report(boots=[a_boot(command=("vllm", "serve", "m", "--speculative-config", '{"k": 3}'))])
    assert "vllm serve m --speculative-config '{\"k\": 3}'" in report


def test_a_list_of_flagged_windows_says_how_many_it_leaves_out() -> None:
    windows = [a_window(window_id=n, flags=("aborted",), started=EVENING) for n in range(75)]
    assert "And 15 more: `nightsweep cells --sweep 1 --flagged`" in a_report(windows=windows)


def test_no_caveat_is_made_up_where_the_data_call_for_none() -> None:
    windows = [
        a_window(window_id=n, boot_id=1 + n % 2, repeat=n, decode_rate=20.0 + n / 100, concurrency=streams)
        for n, streams in enumerate((1, 1, 1, 8, 8, 8))
    ]
    boots = [a_boot(boot_id=1), a_boot(boot_id=2)]
    report = a_report(windows=windows, boots=boots, plan=a_plan(a_config()))
    assert "The data call for none." in report


def test_seconds_become_milliseconds_in_the_report_only() -> None:
    report = a_report(windows=[a_window(step_time=Seconds(0.1215), ttft_p50=Seconds(0.25), tpot_p50=Seconds(0.0488))])
    assert "| 121.5 | 250 | 48.8 |" in report


def _under(**sampling: Any) -> dict[str, object]:
    sent = {"top_p": 1.0, "min_p": 0.0, "max_tokens": 1024, "seed": None, **sampling}
    return {"window_seconds": 40.0, "prompts": "ab" * 32, "prompt_seed": 7, "api": "completions", "sampling": sent}


def test_what_was_sent_is_told_from_the_windows_conditions_and_not_from_todays_defaults() -> None:
    told = a_told(conditions={"cond-a": _under(min_p=None)})
    assert "sampling sent with every request: top_p 1.0, max_tokens 1024\n" in told
    assert "load: completions requests, straight to the engine" in told
    assert "order seed 7" in told


def test_conditions_that_differ_between_the_windows_are_told_with_each_value() -> None:
    rows = [a_window(), a_window(window_id=2, conditions="cond-b", repeat=1)]
    other = {**_under(), "window_seconds": 30.0, "through_proxy": "https://gateway/v1"}
    told = a_told(windows=rows, conditions={"cond-a": _under(min_p=None), "cond-b": other})
    assert "min_p not sent / 0.0" in told
    assert "window: 40.0 s / 30.0 s;" in told
    assert "straight to the engine / through `https://gateway/v1`" in told


def test_before_the_first_window_the_report_says_what_the_file_asks_for() -> None:
    told = a_told(windows=[], conditions={})
    assert "sampling that the sweep file asks for: top_p 1.0" in told
    assert "sampling sent" not in told


def a_told(*, conditions: dict[str, Any], windows: Any = None) -> str:
    told = Reported(
        a_sweep(),
        boots=[a_boot()],
        windows=[a_window()] if windows is None else windows,
        prefills=[],
        plan=a_plan(),
        software_version="0.1.0",
        documents=Documents(conditions=conditions, configs={}, boxes={}),
    )
    return markdown.document(without_plots(report_blocks(told)))


def test_production_that_a_later_sweep_took_over_is_told_with_who_has_it_and_when_it_came_back() -> None:
    back = EVENING + timedelta(hours=5)
    own = ProductionRow("vllm-qwen", EVENING, EVENING, None, back, back, "restored")
    taken = own._replace(taken_over_by=7, taken_over=EVENING + timedelta(hours=1))
    told = Reported(a_sweep(), [a_boot()], [a_window()], [], a_plan(), "0.1.0", production=[taken])
    said = markdown.document(without_plots(report_blocks(told)))
    assert "vllm-qwen was taken over by sweep 7 on Sat 2026-11-28 23:30 UTC" in said
    assert "it serves again since Sun 2026-11-29 03:30 UTC" in said
    alone = markdown.document(without_plots(report_blocks(replace(told, production=[own]))))
    assert "taken over" not in alone

"""`run --reuse` and raised repeats, as a person calls them."""

from __future__ import annotations

from nightsweep.analysis.values import Filters
from tests.component.sweep.kit import MTP, PLAIN, Bench, a_file


def test_a_changed_file_takes_over_what_is_there_and_the_tables_say_so(bench: Bench) -> None:
    bench.play(a_file(PLAIN, repeats=1))
    changed = bench.file(a_file(PLAIN, MTP, repeats=1))
    with bench.command("run", str(changed), "--reuse") as command:
        assert command.end(seconds=60.0) == 0
    assert "reused from sweep 1 (plain)" in command.said
    assert "sweep 2: done, 4 of 4 windows" in command.said
    assert [boot.config for boot in bench.boots()] == ["plain", "mtp"]
    of_sweep = bench.queries.windows(Filters(sweep=2))
    assert [(row.config, row.reused_from) for row in of_sweep] == [
        ("plain", 1),
        ("plain", 1),
        ("mtp", None),
        ("mtp", None),
    ]
    with bench.command("status", "2") as status:
        status.end()
    assert "2 of sweep 1: measured there under equal conditions" in status.said


def test_raised_repeats_go_on_with_the_same_sweep_and_resume_takes_up_the_newest_file(bench: Bench) -> None:
    bench.play(a_file(PLAIN, repeats=1))
    outcome = bench.play(a_file(PLAIN, repeats=2))
    assert (outcome.sweep_id, outcome.state, outcome.windows_done) == (1, "done", 4)
    with bench.command("resume", "night") as resumed:
        assert resumed.end(seconds=60.0) == 0
    assert [(row.repeat, row.attempt) for row in bench.windows()] == [(0, 1), (1, 1), (0, 1), (1, 1)]
    assert len(bench.boots()) == 2


def test_resume_from_another_folder_finds_the_prompt_file_beside_the_sweep_file(bench: Bench) -> None:
    beside = bench.home / "beside"
    beside.mkdir()
    (beside / "mine.jsonl").write_text("".join(f'{{"prompt": "number {number}"}}\n' for number in range(8)))
    file = bench.file(a_file(PLAIN, repeats=1, prompts="mine.jsonl"), name="beside/night.yaml")
    with bench.command("run", str(file)) as command:
        assert command.end(seconds=60.0) == 0, command.said
    with bench.command("resume", "night") as resumed:
        assert resumed.end(seconds=60.0) == 0, resumed.said
    assert [(row.repeat, row.attempt) for row in bench.windows()] == [(0, 1), (0, 1)]
    plan = bench.queries.written_plan(1)
    assert plan is not None
    assert plan.base == str(beside)

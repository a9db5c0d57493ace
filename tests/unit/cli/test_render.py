"""One way to render: terminal, plain text, JSON."""

from __future__ import annotations

import csv
import io
import json

import pytest
from rich.console import Console

from nightsweep.analysis.summary import summarise
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.cli import render
from tests.unit.analysis.builders import a_failed_boot, a_window, seed_night


def on_terminal(table: Table, *, width: int) -> list[str]:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, no_color=True, highlight=False)
    render.show(table, console=console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def unstyled(line: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()


def a_cells_table(*, simulated: bool = False) -> Table:
    return render.cells_table(summarise(seed_night(simulated=simulated)[2]), title="Cells")


@pytest.mark.parametrize("width", [100, 110, 120, 160])
def test_the_cell_table_of_the_seed_night_fits_its_terminal(width: int) -> None:
    lines = [unstyled(line) for line in on_terminal(a_cells_table(), width=width)]
    assert max(len(line) for line in lines) <= width


def test_a_terminal_has_each_config_once_and_plain_text_on_every_row() -> None:
    name = "dflash2 k=7 probabilistic/block"
    shown = [unstyled(line) for line in on_terminal(a_cells_table(), width=120)]
    assert sum(line.startswith(name) for line in shown) == 1
    plain = render.table_lines(a_cells_table(), width=None, grouped=False)
    assert sum(line.text.startswith(name) for line in plain) == 3


def test_columns_stand_under_each_other() -> None:
    lines = [line.text for line in render.table_lines(a_cells_table(), width=None, grouped=False)]
    rows = [line for line in lines if line.startswith(("mtp", "dflash2"))]
    (column,) = {line.index(rate) + len(rate) for line, rate in zip(rows[:2], ("20.7", "124.4"), strict=True)}
    assert column > 0


def test_simulated_is_loud_on_a_terminal_and_in_plain_text() -> None:
    shown = render.table_lines(a_cells_table(simulated=True), width=100, grouped=True)[0]
    assert shown.text == "Cells [SIMULATED]"
    assert [style for _, _, style in shown.spans] == ["loud"]
    assert shown.text[slice(*shown.spans[0][:2])] == "SIMULATED"


def test_a_title_that_says_it_already_does_not_say_it_twice() -> None:
    table = render.cells_table(summarise([a_window(simulated=True)]), title="Cells (SIMULATED: not a real engine)")
    assert render.table_lines(table, width=None, grouped=False)[0].text.count("SIMULATED") == 1


def test_a_long_last_column_is_folded_under_itself() -> None:
    table = Table("t", (Column("n"), Column("why", right=False)), (Group("", (Row(("1", "many words " * 6)),)),))
    lines = [line.text for line in render.table_lines(table, width=30, grouped=True)]
    assert all(len(line) <= 30 for line in lines)
    assert " ".join(" ".join(lines[3:]).split()) == "1 " + ("many words " * 6).strip()


def test_wide_characters_keep_the_columns_straight() -> None:
    rows = (Row(("模型", "1")), Row(("ab", "22")))
    table = Table("t", (Column("model", right=False), Column("n")), (Group("", rows),))
    from rich.cells import cell_len

    assert len({cell_len(line.text) for line in render.table_lines(table, width=None, grouped=True)[-2:]}) == 1


def test_markup_in_a_name_is_shown_and_not_obeyed() -> None:
    table = render.cells_table(summarise([a_window(config="[bold red]x[/bold red]")]), title="[blink]t")
    shown = "\n".join(on_terminal(table, width=120))
    assert "[bold red]x[/bold red]" in shown
    assert "[blink]t" in shown


def test_an_escape_in_a_name_or_a_log_line_does_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_boots([a_failed_boot(config="a\x1b[2Jb", failure_lines=("\x1b]0;t\x07boom",), failure_remedy=None)])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "| boom" in shown
    assert "ab" in shown


def test_equal_names_of_different_configs_are_told_apart() -> None:
    rows = [
        a_window(window_id=1, config_fingerprint="aaaa11112222333"),
        a_window(window_id=2, config_fingerprint="bbbb"),
    ]
    lines = [
        line.text
        for line in render.table_lines(render.cells_table(summarise(rows), title="t"), width=None, grouped=False)
    ]
    assert any(line.startswith("mtp [aaaa11112222]") for line in lines)
    assert any(line.startswith("mtp [bbbb]") for line in lines)


def test_a_cell_under_several_conditions_shows_which() -> None:
    rows = [a_window(window_id=1), a_window(window_id=2, conditions="cond-b")]
    text = "\n".join(
        line.text
        for line in render.table_lines(render.cells_table(summarise(rows), title="t"), width=None, grouped=False)
    )
    assert "conditions" in text
    assert "cond-a" in text
    assert "cond-b" in text


def test_a_long_text_in_the_last_column_makes_no_rule_of_its_length() -> None:
    columns = (Column("name", right=False), Column("value", right=False))
    table = Table("Stored", columns, (Group("", (Row(("a", "x " * 300)),)),))
    rule = next(line.text for line in render.table_lines(table, width=None, grouped=False) if "─" in line.text)
    assert len(rule) == len("name") + 2 + render.LONGEST_RULED


def test_boots_have_a_column_only_when_a_mean_rests_on_several() -> None:
    one = render.cells_table(summarise([a_window()]), title="t")
    two = render.cells_table(summarise([a_window(window_id=1), a_window(window_id=2, boot_id=2)]), title="t")
    assert "boots" not in [column.heading for column in one.columns]
    assert "boots" in [column.heading for column in two.columns]


def test_output_that_cannot_hold_a_dash_is_not_a_traceback() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    render.show(a_cells_table(), console=Console(file=stream, force_terminal=False))
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    assert b"20.1?21.3" in stream.buffer.getvalue()
    stream.close()


def test_a_sweep_without_a_result_says_so_in_place_of_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_boots([])
    render.print_cells([], title="Cells")
    assert capsys.readouterr().out == "Boots: none\nCells: nothing was measured\n"


def test_json_has_null_where_a_number_is_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_json({"facts": {"odd": float("nan"), "list": [float("inf"), 1.5]}})
    assert json.loads(capsys.readouterr().out) == {"facts": {"odd": None, "list": [None, 1.5]}}


def test_cells_as_json_is_the_document_of_the_command() -> None:
    document = json.loads(render.cells_json(summarise([a_window()])))
    assert document["cells"][0]["step_time_seconds"]["mean"] == 0.122


@pytest.mark.parametrize("name", ["plain", 'a "b", c', "a\nb", "a\rb", "a\r\nb"])
def test_csv_is_read_back_as_it_was_whatever_a_name_holds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    render.print_csv([{"config": name, "rate": 40.5, "cv": None}], fields=["config", "rate", "cv"])
    written = io.StringIO(capsys.readouterr().out, newline="")
    assert list(csv.reader(written)) == [["config", "rate", "cv"], [name, "40.5", ""]]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_place_of_few_characters_has_question_marks_for_the_others(*, terminal: bool) -> None:
    kept = io.BytesIO()
    with io.TextIOWrapper(kept, encoding="latin-1", write_through=True) as stream:
        console = Console(file=stream, force_terminal=terminal, width=80, no_color=True, highlight=False)
        render.write([render.Line("déjà – κ", spans=((7, 8, "strong"),))], console=console)
        shown = kept.getvalue().decode("latin-1")
    assert "déjà ? " in shown
    assert "–" not in shown

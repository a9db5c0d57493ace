"""Where commands write to: files, pipes and devices that are named, and a standard output of any encoding."""

from __future__ import annotations

import ast
import os
import resource
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nightsweep.cli import outputs
from nightsweep.cli.cells import command as cells
from nightsweep.cli.decisions import command as decisions
from nightsweep.cli.new import Access
from nightsweep.cli.new import command as new
from nightsweep.cli.outputs import encodable, write_file, write_output
from nightsweep.cli.parse_log import command as parse_log
from nightsweep.cli.report import command as report
from nightsweep.cli.summary import command as summary
from nightsweep.errors import Unwritable

from .calling import call, seed_queries
from .test_plan_new import a_container

FROM = ("--from-container", "vllm-qwen")


@contextmanager
def a_pipe(path: Path) -> Iterator[int]:
    """A named pipe that is read, so that writing it waits for nobody."""
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield reader
        assert stat.S_ISFIFO(path.lstat().st_mode), "it was replaced"
    finally:
        os.close(reader)


def written_anew(*words: str) -> Any:
    return CliRunner().invoke(new, [*FROM, *words], obj=Access(foreign=lambda name: a_container()))


@pytest.mark.parametrize(
    ("command", "words", "start"),
    [
        (report, ("1", "-o"), b"# "),
        (report, ("1", "--html"), b"<!"),
        (report, ("1", "--markdown"), b"# "),
        (summary, ("-o",), b"# "),
    ],
)
def test_a_pipe_that_is_named_is_written_to(
    tmp_path: Path, command: click.Command, words: tuple[str, ...], start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # a page without plots fits into a pipe
    with a_pipe(tmp_path / "pipe") as reader:
        result = call(command, *words, str(tmp_path / "pipe"), queries=seed_queries())
        assert result.exception is None, result.output
        assert os.read(reader, 10).startswith(start)
    assert os.listdir(tmp_path) == ["pipe"], "a pipe has no folder of plots beside it"


def test_a_sweep_file_is_written_to_a_pipe_without_force(tmp_path: Path) -> None:
    with a_pipe(tmp_path / "pipe") as reader:
        result = written_anew("-o", str(tmp_path / "pipe"))
        assert result.exit_code == 0, result.output
        assert os.read(reader, 100_000).decode("utf-8") == written_anew().stdout


def test_a_sweep_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    result = written_anew("-o", str(tmp_path / "no" / "sweep.yaml"))
    assert isinstance(result.exception, Unwritable)


def test_a_parquet_file_is_written_to_a_pipe_and_standard_output_has_nothing(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with a_pipe(tmp_path / "pipe") as reader:
        result = call(cells, "--columns", "config,n", "--parquet", str(tmp_path / "pipe"), queries=seed_queries())
        assert (result.exit_code, result.stdout) == (0, ""), result.output
        assert os.read(reader, 4) == b"PAR1"


def test_a_parquet_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file = tmp_path / "kept.parquet"
    file.write_text("of yesterday")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))  # as `ulimit -f 1`
    try:
        result = call(cells, "--parquet", str(file), queries=seed_queries())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert isinstance(result.exception, Unwritable)
    assert file.read_text() == "of yesterday"
    assert os.listdir(tmp_path) == ["kept.parquet"]


def test_who_reads_a_pipe_may_have_had_enough(tmp_path: Path) -> None:
    with a_pipe(tmp_path / "pipe"):
        through = Path(f"/dev/fd/{os.open(tmp_path / 'pipe', os.O_WRONLY)}")
        number = int(through.name)
    try:
        with pytest.raises(BrokenPipeError):  # the command line ends at it without a word, as behind `| head`
            write_file(through, "never read")
    finally:
        os.close(number)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (report, ("1", "-o", "")),
        (report, ("1", "--html", "")),
        (report, ("1", "--markdown", "")),
        (summary, ("-o", "")),
        (cells, ("--parquet", "")),
        (new, (*FROM, "-o", "")),
        (decisions, ("show", "1", "-o", "")),
    ],
)
def test_an_empty_name_is_said_to_be_so(command: click.Command, words: tuple[str, ...]) -> None:
    refused = call(command, *words)
    assert refused.exit_code == 2
    assert "the file's name is empty" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--html", "r.html", "--markdown", "r.html"),
        ("--html", "r.html", "-o", "./r.html"),
        ("--markdown", "r.md", "-o", "link.md"),
        ("--html", "here/r.html", "--markdown", "r.html"),
    ],
)
def test_one_file_for_two_outputs_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link.md").symlink_to("r.md")
    Path("here").symlink_to(".")
    queries = seed_queries()
    refused = call(report, "1", *words, queries=queries)
    assert refused.exit_code == 2
    assert f"{words[0]} and {words[2]} are one file" in refused.stderr
    assert (queries.opened, Path("r.html").exists(), Path("r.md").exists()) == (0, False, False)


def test_one_pipe_may_take_two_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with a_pipe(tmp_path / "pipe"):
        pipe = str(tmp_path / "pipe")
        assert call(report, "1", "-o", pipe, "--markdown", pipe, queries=seed_queries()).exit_code == 0


@pytest.mark.parametrize("charset", ["latin-1", "ascii"])
@pytest.mark.parametrize(
    ("command", "words"), [(report, ("1",)), (summary, ()), (cells, ()), (cells, ("--csv",)), (cells, ("--json",))]
)
def test_a_standard_output_without_some_characters_has_question_marks_for_them(
    command: click.Command, words: tuple[str, ...], charset: str
) -> None:
    queries = seed_queries()
    queries = replace(queries, window_rows=[row._replace(config="mtp κ=3") for row in queries.window_rows])
    whole = call(command, *words, queries=queries)
    said = call(command, *words, queries=queries, charset=charset)
    assert said.exception is None
    assert said.stdout == encodable(whole.stdout, charset)
    assert words == ("--json",) or "mtp ?=3" in said.stdout


def test_a_sweep_file_with_any_name_is_written_in_latin_1() -> None:
    found = a_container(command=("org/m", "--served-model-name", "κ"))
    result = CliRunner(charset="latin-1").invoke(new, FROM, obj=Access(foreign=lambda name: found))
    assert result.exception is None
    assert "?" in result.stdout


def test_a_file_is_utf_8_whatever_standard_output_is(tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    assert call(report, "1", "-o", str(file), queries=seed_queries(), charset="ascii").exit_code == 0
    assert file.read_text(encoding="utf-8") == call(report, "1", queries=seed_queries()).stdout


def test_what_is_written_is_said_with_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_output(tmp_path / "a", "text")
    write_output(None, "text\n")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("text\n", f"wrote {tmp_path / 'a'}\n")


def test_a_log_with_any_character_is_told_in_latin_1(tmp_path: Path) -> None:
    log = tmp_path / "boot.log"
    log.write_text(
        "INFO 11-30 22:31:02 [api_server.py:1] vLLM API server version 0.28.0 served as κ\n", encoding="utf-8"
    )
    for form in ((), ("--json",)):
        said = CliRunner(charset="latin-1").invoke(parse_log, [str(log), *form])
        assert (said.exit_code, said.exception) == (0, None)
        assert "served as ?" in said.stdout


def test_no_command_writes_what_came_from_outside_past_echo() -> None:
    """`click.echo` raises for a character that standard output's encoding lacks; `echo` does not."""
    past = []
    for file in sorted(Path(outputs.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "click.echo" or file.stem == "outputs":
                continue
            to_stderr = any(keyword.arg == "err" for keyword in node.keywords)
            ours = all(isinstance(said, ast.Constant) and str(said.value).isascii() for said in node.args)
            if not to_stderr and not ours:
                past.append(f"{file.name}:{node.lineno}")
    assert past == []

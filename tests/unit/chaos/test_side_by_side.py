"""Both forms at once: every line under its form's name, a failure of either is a failure, and an end reaches both."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos import side_by_side

TOP = Path(__file__).resolve().parents[3]


def test_lines_stand_under_their_forms_name_and_a_failure_of_one_is_a_failure(
    capfd: pytest.CaptureFixture[str],
) -> None:
    commands = {"process": ["-c", "print('1 killed')"], "docker": ["-c", "print('2 killed'); raise SystemExit(3)"]}
    assert side_by_side.play(commands) == 1
    out = capfd.readouterr().out
    assert "process  1 killed\n" in out
    assert "docker   2 killed\n" in out
    assert "form process ended with code 0" in out
    assert "form docker ended with code 3" in out


def test_it_succeeds_when_both_do() -> None:
    assert side_by_side.play({"process": ["-c", ""], "docker": ["-c", ""]}) == 0


def test_the_forms_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for a file that the other makes."""
    waits = (
        "import pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.02)"
    )
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert side_by_side.play({"process": ["-c", waits, first, second], "docker": ["-c", waits, second, first]}) == 0


def test_whoever_ends_it_ends_both_forms_and_lets_them_clear_up(tmp_path: Path) -> None:
    clears = (
        "import pathlib, signal, sys, time\n"
        "def leave(*_):\n    pathlib.Path(sys.argv[1]).write_text('cleared'); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, leave)\nprint('up', flush=True)\ntime.sleep(60)"
    )
    files = [tmp_path / "process", tmp_path / "docker"]
    parent = (
        "import signal, sys\nfrom tests.chaos import side_by_side\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        f"sys.exit(side_by_side.play({{name: ['-c', {clears!r}, path] for name, path in "
        f"{[(path.name, str(path)) for path in files]!r}}}))"
    )
    with subprocess.Popen([sys.executable, "-c", parent], cwd=TOP, stdout=subprocess.PIPE, text=True) as game:
        assert game.stdout is not None
        assert {game.stdout.readline().split()[-1] for _ in files} == {"up"}
        begun = time.monotonic()
        game.send_signal(signal.SIGTERM)
        assert game.wait(30) == 143
        assert time.monotonic() - begun < 30
    assert [path.read_text() for path in files] == ["cleared", "cleared"]

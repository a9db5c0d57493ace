"""Both forms at the same time, each in a process of its own: most of a run is waiting, and neither knows of the other."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

ENDS_WITHIN = 90.0
"""Seconds that a form has to clear up after SIGTERM."""


def play(commands: Mapping[str, Sequence[str]]) -> int:
    """Run each command, print its lines under its name as they come, and return 1 when any failed.

    Whoever is interrupted meanwhile (SystemExit, KeyboardInterrupt) ends them all in order, and waits for them.
    """
    games = {name: _begun(command) for name, command in commands.items()}
    printing = threading.Lock()
    readers = [
        threading.Thread(target=_told, args=(name, game.stdout, printing), name=name) for name, game in games.items()
    ]
    for reader in readers:
        reader.start()
    try:
        codes = {name: game.wait() for name, game in games.items()}
    except BaseException:
        _end(list(games.values()))
        raise
    finally:
        for reader in readers:
            reader.join(ENDS_WITHIN)
    print(*(f"== chaos: form {name} ended with code {code}" for name, code in codes.items()), sep="\n", flush=True)
    return int(any(codes.values()))


def _begun(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _told(name: str, lines: IO[str] | None, printing: threading.Lock) -> None:
    assert lines is not None
    with lines:
        for line in lines:
            with printing:
                print(f"{name:<8} {line}", end="", flush=True)


def _end(games: Sequence[subprocess.Popen[str]]) -> None:
    for game in games:
        if game.poll() is None:
            game.terminate()
    for game in games:
        with contextlib.suppress(subprocess.TimeoutExpired):
            game.wait(ENDS_WITHIN)

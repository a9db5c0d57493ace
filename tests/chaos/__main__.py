"""`python -m tests.chaos`: kill -9 at random moments, and see what is left. Exit code 1 when anything is wrong with it."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import signal
import sys
import time
from pathlib import Path

from tests.chaos import side_by_side, table
from tests.chaos.containers import docker_possible
from tests.chaos.evidence import DatabaseAway
from tests.chaos.game import Entry, Game, Stuck
from tests.chaos.moments import draw
from tests.chaos.service import NotServing
from tests.chaos.world import World, world

STOPS_WITHIN = 60.0


def main() -> int:
    """Run; return the exit code."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, _leave)
    forms = ("process", "docker") if asked.form == "both" else (asked.form,)
    if asked.form == "both" and not docker_possible():
        print(
            "== chaos: without root or dockerd there is no Docker Engine of its own: all kills go to the process form"
        )
        forms = ("process",)
    if len(forms) == 1:
        keep = None if asked.keep is None else Path(asked.keep) / forms[0]
        return _run(forms[0], kills=asked.kills, seed=asked.seed, keep=keep)
    shares = {form: asked.kills // 2 + (number < asked.kills % 2) for number, form in enumerate(forms)}
    return side_by_side.play({form: _command(asked, form, kills) for form, kills in shares.items() if kills})


def _command(asked: argparse.Namespace, form: str, kills: int) -> list[str]:
    command = ["-m", "tests.chaos", "--form", form, "--kills", str(kills), "--seed", str(asked.seed)]
    return command if asked.keep is None else [*command, "--keep", asked.keep]


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would cut the clearing up short
    sys.exit(143)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many, over all forms together (default 200)")
    parser.add_argument("--seed", type=int, default=None, help="draws victims, phases and pauses (default: a new one)")
    parser.add_argument("--form", choices=("process", "docker", "both"), default="both", help="what engines are")
    parser.add_argument("--keep", metavar="DIR", help="keep the service's logs there")
    asked = parser.parse_args()
    if asked.seed is None:
        asked.seed = secrets.randbelow(10**6)
    return asked


def _run(form: str, *, kills: int, seed: int, keep: Path | None) -> int:
    began = time.monotonic()
    with world(form, keep=keep) as there:
        production = there.dock is not None
        where = "with production on a Docker Engine of its own" if production else "without Docker: no production"
        print(f"== chaos: form {form}, {kills} kills, seed {seed}, {where}", table.HEADER, sep="\n", flush=True)

        def say(entry: Entry) -> None:
            print(table.row(entry, production=production), flush=True)

        game = Game(world=there, moments=draw(seed, form=form, production=production), kills=kills, say=say)
        try:
            game.play()
        except (Stuck, NotServing, DatabaseAway) as error:
            game.problems.append(f"{type(error).__name__}: {error}")
        if keep is not None:
            _keep_events(there, keep)
        troubles = _troubles(there)
        lines = _verdict(there, game)
        print(
            *lines,
            f"seed {seed}, form {form}, {time.monotonic() - began:.0f} s, {there.service.starts} starts",
            sep="\n",
        )
        problems = tuple(dict.fromkeys(game.problems))
        print(*(f"VIOLATION: {problem}" for problem in problems), sep="\n", end="\n" if problems else "")
        print(*troubles if problems else (), sep="\n", end="\n" if problems else "")
        print("FAILED" if problems else "no violation", flush=True)
        return 1 if problems else 0


def _verdict(there: World, game: Game) -> tuple[str, ...]:
    """Look at everything a last time, stop the service, and return the totals."""
    try:
        windows = game.tally_of()
        lines = list(table.totals(game.entries, windows, production=there.dock is not None))
        lines.append(f"runs that Prefect still holds for open: {_open_runs(there)}")
        game.problems += [*windows.problems, *there.foreign_problems()]
        if there.dock is not None and any(entry.served is None for entry in game.entries):
            game.problems.append("production was not seen serving after some kill")
    except (DatabaseAway, NotServing) as error:
        game.problems.append(str(error))
        lines = []
    there.evidence.close()
    code, seconds = there.service.stop()
    lines.append(f"the service stopped on SIGTERM after {seconds:.1f} s with code {code}")
    if code != 0 or seconds > STOPS_WITHIN:
        game.problems.append(f"the service did not stop in order: code {code} after {seconds:.1f} s")
    if there.dock is not None and not there.dock.production_serves():
        game.problems.append("production does not serve after the service was stopped")
    left = [f"{process.pid} {' '.join(process.cmdline())[:80]}" for process in there.service.living()]
    game.problems += [f"left behind: {one}" for one in left]
    return tuple(lines)


def _keep_events(there: World, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(DatabaseAway), open(keep / "events.txt", "w") as file:
        for at, *words in there.evidence.events():
            print(f"{at:%H:%M:%S.%f}", *words, file=file)


def _troubles(there: World) -> tuple[str, ...]:
    """What the service itself wrote down of all that went wrong: what a violation is explained by."""
    with contextlib.suppress(DatabaseAway):
        return tuple(
            f"{at:%H:%M:%S} {level} {' '.join(map(str, words))}"[:400]
            for at, level, *words in there.evidence.events()
            if level != "info"
        )
    return ("the database is away: what went wrong is not known",)


def _open_runs(there: World) -> str:
    found = there.service.open_runs()
    return f"{len(found)} ({', '.join(sorted(set(found)))})" if found else "0"


if __name__ == "__main__":
    sys.exit(main())

"""A home of its own for a service that runs as a process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from nightsweep.store.embedded import EmbeddedPostgres
from nightsweep.store.postmaster import postmaster_of
from tests.component.sweep.kit import Command, engines_of, running


@dataclass
class House:
    """A home of its own, with everything embedded."""

    home: Path
    environ: dict[str, str]

    @contextlib.contextmanager
    def command(self, *words: str) -> Iterator[Command]:
        with running(*words, environ=self.environ, folder=self.home) as command:
            yield command

    def living(self) -> Iterator[psutil.Process]:
        """Yield the processes that live for this home."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                ours = process.environ().get("NIGHTSWEEP_HOME") == str(self.home)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def end(self) -> None:
        """Kill what still lives."""
        for process in (*self.living(), *engines_of(self.home)):
            process.kill()

    def processes(self) -> list[str]:
        """Return the command lines of what lives for this home."""
        found = []
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                found.append(" ".join(process.cmdline()))
        if postmaster_of(EmbeddedPostgres(self.home / "postgres").data) is not None:
            found.append("postgres")
        return found

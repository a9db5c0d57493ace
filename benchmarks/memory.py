"""Memory of `nightsweep run`: the whole process tree without the engine and PostgreSQL, sampled while it sweeps.

PSS counts a page that several processes share once, by parts; RSS counts it in each. Both peaks are kept; the target of
400 MB is held by the larger one, RSS.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

import psutil

from benchmarks.common import Figure, Section

MB = 1e6
INTERVAL = 0.25
TARGET_MB = 400.0
ENGINES = ("nightsweep.simulator", "nightsweep-simulator", "vllm")


def _is_engine(process: psutil.Process) -> bool:
    """Whether a process is the engine or PostgreSQL: neither is ours to keep small."""
    if process.name().startswith(("postgres", "pg_ctl", "initdb")):
        return True
    words = process.cmdline()[1:4]
    return any(word.startswith(ENGINES) or word.endswith("/vllm") for word in words)


def _ours(process: psutil.Process) -> list[psutil.Process]:
    """The process and its descendants, but for engines and PostgreSQL with all that hangs below them."""
    found = [process]
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if not _is_engine(child):
                found += _ours(child)
    return found


@dataclass
class PeakMemory:
    """Samples a process tree from a thread until `stop`.

    Units:
        Bytes.
    """

    pid: int
    rss: list[int] = field(default_factory=list)
    pss: list[int] = field(default_factory=list)
    processes: int = 0
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(INTERVAL):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                self._sample()

    def _sample(self) -> None:
        rss = pss = count = 0
        for process in _ours(psutil.Process(self.pid)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
                info = process.memory_full_info()
                rss, pss, count = rss + info.rss, pss + info.pss, count + 1
        if count:
            self.rss.append(rss)
            self.pss.append(pss)
            self.processes = max(self.processes, count)


def section_of(peak: PeakMemory, *, windows: int) -> Section:
    """The figures of one sampled run."""
    note = f"{len(peak.rss)} samples over a sweep of {windows} windows, at most {peak.processes} processes"
    return Section(
        name="memory",
        figures=(
            Figure(
                name="`nightsweep run`, peak RSS of its tree",
                unit="MB",
                value=max(peak.rss) / MB,
                samples=tuple(value / MB for value in peak.rss),
                target=TARGET_MB,
                note=note,
            ),
            Figure(
                name="`nightsweep run`, peak PSS of its tree",
                unit="MB",
                value=max(peak.pss) / MB,
                samples=tuple(value / MB for value in peak.pss),
                target=TARGET_MB,
            ),
        ),
    )

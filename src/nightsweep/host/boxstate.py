"""Watches the box beside a running engine: accelerators by NVML, memory, and who uses the CPU.

Everything is read from files and one library: a sample costs about two milliseconds of one core, so that watching disturbs
nothing. Docker's own statistics take a second and more for each container; the kernel's accounts of control groups say the same
at once.

Sources:
    NVML API reference; proc(5); cgroups(7), cpu.stat (v2) and cpuacct.usage (v1).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from nightsweep.host import accelerator, process_tree
from nightsweep.host.devices import DeviceReader
from nightsweep.measurement.boxstate import BoxSample
from nightsweep.ports import Clock, EngineHandle, PageCacheDrop
from nightsweep.units import Bytes, Seconds

CGROUPS = Path("/sys/fs/cgroup")
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
PROC = Path("/proc")

CONTAINER_ACCOUNTS = (
    "system.slice/docker-*.scope/cpu.stat",  # v2, systemd
    "docker/*/cpu.stat",  # v2, cgroupfs
    "user.slice/*/*/*/docker-*.scope/cpu.stat",  # v2, rootless
    "machine.slice/libpod-*.scope/cpu.stat",  # podman
    "cpuacct/docker/*/cpuacct.usage",  # v1
    "cpuacct/system.slice/docker-*.scope/cpuacct.usage",
)
"""Where the kernel keeps a container's CPU time, by cgroup version and driver."""

REGROUP = 10.0
"""Seconds after which the processes of a tree are looked up again: engines start theirs while they boot."""

TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class BoxStateSampler:
    """Implements `ports.BoxSampler` for this machine.

    Args:
        cgroups, drop_caches: The kernel's own places, unless a test has others.
    """

    def __init__(self, clock: Clock, *, cgroups: Path = CGROUPS, drop_caches: Path = DROP_CACHES) -> None:
        self._clock = clock
        self._cgroups = cgroups
        self._drop_caches = drop_caches

    @property
    def cores(self) -> int:
        """Logical cores of this machine."""
        return os.cpu_count() or 1

    @contextmanager
    def watch(self, handle: EngineHandle, *, every: Seconds) -> Iterator[Watch]:
        """Sample in a thread until the block ends."""
        watch = Watch(clock=self._clock, handle=handle, every=every, cgroups=self._cgroups)
        watch.start()
        try:
            yield watch
        finally:
            watch.stop()

    def page_cache(self) -> Bytes | None:
        """Return the bytes of files that the kernel keeps in memory."""
        return _memory()[1]

    def drop_page_cache(self) -> PageCacheDrop:
        """Write dirty pages back and free the page cache; say why not where that is not permitted.

        Source:
            Linux, Documentation/admin-guide/sysctl/vm.rst, drop_caches: 1 frees the page cache; dirty pages stay, so sync first.
        """
        before = self.page_cache()
        try:
            os.sync()
            self._drop_caches.write_text("1\n", encoding="ascii")
        except OSError as error:
            return PageCacheDrop(
                before=before, after=self.page_cache(), refused=f"{self._drop_caches}: {error.strerror}"
            )
        return PageCacheDrop(before=before, after=self.page_cache(), refused=None)


class Watch:
    """One watch over one engine: a thread that samples, from `start` to `stop`."""

    def __init__(self, *, clock: Clock, handle: EngineHandle, every: Seconds, cgroups: Path) -> None:
        self._clock = clock
        self._every = float(every)
        self._engine = EngineProcesses(handle)
        self._accounts = Accounts(handle, cgroups=cgroups)
        self._own = Tree(os.getpid())
        self._samples: list[BoxSample] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="box-sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread has ended."""
        self._over.set()
        self._thread.join()

    def samples(self) -> tuple[BoxSample, ...]:
        """Return the samples so far, oldest first."""
        return tuple(self._samples)

    def _run(self) -> None:
        with accelerator.nvml() as lib:
            devices = DeviceReader(lib, owns=self._engine.owns)
            due = float(self._clock.monotonic())
            while not self._over.is_set():
                self._samples.append(self._sample(devices))
                due = max(due + self._every, self._clock.monotonic())
                self._over.wait(max(0.0, due - self._clock.monotonic()))

    def _sample(self, devices: DeviceReader) -> BoxSample:
        at = self._clock.monotonic()
        available, cached = _memory()
        self._engine.look(at)
        self._own.look(at, without=self._engine.pids)
        engine, others = self._accounts.read()
        if engine is None and self._engine.known:
            engine = self._engine.seconds()
        return BoxSample(
            at=at,
            devices=devices.read(),
            memory_available=available,
            page_cache=cached,
            cpu_busy=_busy(),
            cpu_engine=engine,
            cpu_own=self._own.seconds(),
            containers=others,
        )


# --- processes ---------------------------------------------------------------------------------------------------


@dataclass
class Tree:
    """A process and its descendants, and the CPU time that they used since they were first seen.

    What a process used between the last look at it and its end is lost: it counts as others' for at most one interval.
    """

    root: int | None
    pids: frozenset[int] = frozenset()
    _last: dict[int, float] = field(default_factory=dict)
    _total: float = 0.0
    _looked: float | None = None

    def look(self, at: float, *, without: frozenset[int] = frozenset()) -> None:
        """Find the members again when it is time, less those that belong to another tree."""
        if self.root is None or (self._looked is not None and at - self._looked < REGROUP):
            return
        self._looked = at
        self.pids = (process_tree.descendants(self.root) | {self.root}) - without

    def seconds(self) -> Seconds:
        """Return CPU seconds used by the members so far."""
        now = {pid: used for pid in self.pids if (used := cpu_seconds(pid)) is not None}
        self._total += sum(max(used - self._last[pid], 0.0) for pid, used in now.items() if pid in self._last)
        self._last = now
        return Seconds(self._total)


class EngineProcesses(Tree):
    """The engine's processes: a tree where it is a process here, a container's members where it is one."""

    def __init__(self, handle: EngineHandle) -> None:
        pid = handle.facts.get("pid")
        super().__init__(root=pid if handle.host != "docker" and isinstance(pid, int) else None)
        self._container = handle.id if handle.host == "docker" else None

    @property
    def known(self) -> bool:
        """Whether its processes can be told from others."""
        return self.root is not None

    def owns(self, pid: int) -> bool | None:
        """Return whether a process is the engine's; None when nobody can tell (it is not visible from here)."""
        if self._container is not None:
            try:
                return self._container in (PROC / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
            except OSError:
                return None
        if self.root is None or not psutil.pid_exists(pid):
            return None
        return pid == self.root or pid in self.pids or pid in process_tree.descendants(self.root)


def cpu_seconds(pid: int) -> float | None:
    """Return user and system time of a living process, all its threads; None when it is gone.

    Source:
        proc(5), /proc/pid/stat: fields 14 (utime) and 15 (stime), in clock ticks.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return _cpu_seconds_elsewhere(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS


def _cpu_seconds_elsewhere(pid: int) -> float | None:
    if PROC.joinpath("self", "stat").exists():
        return None
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def _busy() -> Seconds:
    """Return CPU seconds of all processes and of the kernel for them, since the machine's start; waiting for a disk is none."""
    times = psutil.cpu_times()
    kinds = ("user", "nice", "system", "irq", "softirq")
    return Seconds(float(sum(getattr(times, kind, 0.0) for kind in kinds)))


def _memory() -> tuple[Bytes | None, Bytes | None]:
    """Return available memory and page cache."""
    memory = psutil.virtual_memory()
    cached = getattr(memory, "cached", None)
    return Bytes(int(memory.available)), None if cached is None else Bytes(int(cached + getattr(memory, "buffers", 0)))


# --- containers --------------------------------------------------------------------------------------------------


class Accounts:
    """CPU time of containers by the kernel's own accounts."""

    def __init__(self, handle: EngineHandle, *, cgroups: Path) -> None:
        self._engine = handle.id if handle.host == "docker" else None
        self._cgroups = cgroups

    def read(self) -> tuple[Seconds | None, dict[str, float]]:
        """Return the engine's CPU seconds (None: it is no container, or has no account here), and the others' by id."""
        engine, others = None, {}
        for path in self._paths():
            used = account_seconds(path)
            if used is None:
                continue
            name = path.parent.name.removeprefix("docker-").removeprefix("libpod-").removesuffix(".scope")
            if name == self._engine:
                engine = Seconds(used)
            else:
                others[name[:12]] = used
        return engine, others

    def _paths(self) -> Iterable[Path]:
        for pattern in CONTAINER_ACCOUNTS:
            yield from self._cgroups.glob(pattern)


def account_seconds(path: Path) -> float | None:
    """Return the CPU seconds that a control group's account states; None when it is gone or says something else."""
    try:
        text = path.read_text(encoding="ascii")
        if path.name == "cpuacct.usage":
            return int(text) / 1e9
        return next((int(line.split()[1]) / 1e6 for line in text.splitlines() if line.startswith("usage_usec")), None)
    except (OSError, ValueError, IndexError):
        return None

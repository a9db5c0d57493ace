"""Engines as plain processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nightsweep.engine.values import LogLine
from nightsweep.errors import LaunchRefused, PortBusy
from nightsweep.host import box, listeners, process_env, process_log, process_tree
from nightsweep.host.container_spec import HOLDER
from nightsweep.host.followers import Followers
from nightsweep.host.freeing import Freeing
from nightsweep.host.process_records import EngineRecord, EngineRecords
from nightsweep.host.process_stop import end_all
from nightsweep.host.redact import masked_command
from nightsweep.ports import BoxFacts, Clock, EngineHandle, EngineState, ForeignContainer, Launch
from nightsweep.units import Seconds

if TYPE_CHECKING:
    from nightsweep.host.docker_client import ClientFactory
    from nightsweep.host.foreign import ForeignContainers

KILLED = 128 + signal.SIGKILL


class ProcessHost:
    """The `Host` of engines that are processes: a session of their own, output to a file, a record on disk.

    An engine outlives the service that started it, on purpose: the next one finds it by its record and ends it.
    Exit codes follow Docker's convention: 128 + n for signal n. A process that was not started by this object has none.

    Args:
        state_dir: Where records and logs of engines lie while they exist.
        client_factory: Makes a Docker client for production containers; None is Docker's own default.
    """

    kind = "process"

    def __init__(
        self,
        *,
        state_dir: Path,
        box_name: str | None = None,
        clock: Clock,
        client_factory: ClientFactory | None = None,
    ) -> None:
        self._clock = clock
        self._box_name = box_name
        self._factory = client_factory
        self._records = EngineRecords(state_dir)
        self._freeing = Freeing(clock)
        self._followers = Followers()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._last: dict[str, EngineState] = {}
        self._ended_by_us: set[str] = set()
        self._foreign_ones: ForeignContainers | None = None
        self._lock = threading.Lock()

    # --- before and at the start ---

    def check(self, launch: Launch) -> None:
        """Raise PortBusy when somebody listens on the port."""
        if listeners.is_held(launch.port):
            raise PortBusy(port=launch.port, holder=listeners.holder(launch.port))

    def fetch(self, image: str, *, check: Callable[[], None]) -> Seconds | None:
        """Return None: processes have no image."""
        return None

    def start(self, launch: Launch) -> EngineHandle:
        """Start the command in a session of its own.

        Raises:
            LaunchRefused: No such program, not executable, or an engine of this boot runs already.
        """
        if not launch.command:
            raise LaunchRefused(reason="no command is given: set engine.command")
        self._clear(launch.boot_key)
        facts = self._freeing.note()
        environment = process_env.engine_environment(os.environ, launch.env, boot_key=launch.boot_key)
        record = EngineRecord(
            boot_key=launch.boot_key,
            port=launch.port,
            machine=process_tree.boot_of_machine(),
            started_at=self._clock.now().isoformat(),
            command=masked_command(launch.command, launch.env),
            service=f"{os.getpid()}:{process_tree.birth(os.getpid())}",
            holder=launch.labels.get(HOLDER),
        )
        self._records.write(record)  # before the start: an engine without any record could not be found again
        try:
            child = self._spawn(launch, environment)
        except (OSError, ValueError) as fault:
            self._records.remove(launch.boot_key)
            raise LaunchRefused(reason=_spawn_reason(fault, launch)) from fault
        record = replace(record, pid=child.pid, birth=process_tree.ticks(child.pid))
        self._records.write(record)
        with self._lock:
            self._children[record.id] = child
        return _handle(record, {**facts, "inherited_env": sorted(filter(process_env.is_inherited, os.environ))})

    def _clear(self, boot_key: str) -> None:
        old = self._records.read(boot_key)
        if old is None:
            return
        if old.living():
            raise LaunchRefused(reason=f"an engine of boot {boot_key} runs already (pid {old.pid})")
        self._records.remove(boot_key)

    def _spawn(self, launch: Launch, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with self._records.log_path(launch.boot_key).open("ab") as log:
            return subprocess.Popen(
                list(launch.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=launch.container.workdir,
                start_new_session=True,
            )

    # --- while it runs ---

    def state(self, handle: EngineHandle) -> EngineState:
        """Return whether the engine's first process lives."""
        with self._lock:
            child, last = self._children.get(handle.id), self._last.get(handle.id)
        if last is not None:
            return last
        if child is not None:
            code = child.poll()
            return EngineState(running=True) if code is None else self._ended(handle, code)
        pid, born = _parts(handle.id)
        if pid is not None and process_tree.birth(pid) == born and self._is_of_this_run(handle):
            return EngineState(running=True)
        return EngineState(running=False, detail="it was not a child of this process: its exit code is unknown")

    def _is_of_this_run(self, handle: EngineHandle) -> bool:
        record = self._records.read(handle.boot_key)
        return record is not None and record.machine == process_tree.boot_of_machine()

    def _ended(self, handle: EngineHandle, code: int) -> EngineState:
        exit_code = code if code >= 0 else 128 - code
        by_us = handle.id in self._ended_by_us
        fault = exit_code == KILLED and not by_us
        record = self._records.read(handle.boot_key)
        return EngineState(
            running=False,
            exit_code=exit_code,
            host_fault=fault,
            detail="killed (SIGKILL) from outside" if fault else None,
            taken_away=not by_us and (record is None or record.id != handle.id),
        )

    def follow_log(self, handle: EngineHandle, *, stop: Callable[[], bool]) -> Iterator[LogLine]:
        """Yield the lines of stdout and stderr, in the order in which they were written."""
        record = self._records.read(handle.boot_key)
        if record is None or record.id != handle.id:
            return
        with self._followers.following(handle.id):
            yield from process_log.follow(
                self._records.log_path(handle.boot_key),
                started=datetime.fromisoformat(record.started_at),
                alive=lambda: self.state(handle).running,
                stop=stop,
                clock=self._clock,
            )

    def owns_port(self, handle: EngineHandle) -> str | None:
        """Return None when a process of this engine, and nobody else, listens on the port."""
        record = self._records.read(handle.boot_key)
        if record is None or record.id != handle.id or not self.state(handle).running:
            return "the engine is not running"
        members = set(record.living())
        listening, hidden = listeners.listening_pids(handle.port)
        if not listening and listeners.listens_by_itself(members, handle.port):
            return None
        if listening - members or hidden:
            return f"port {handle.port} is held by {listeners.holder(handle.port)}"
        return None if listening else f"nobody listens on port {handle.port}"

    # --- the end ---

    def stop(self, handle: EngineHandle, *, grace: Seconds) -> EngineState:
        """End every process of the engine (its session, its descendants, all with its mark), proven. Idempotent.

        Raises:
            EngineNotGone: Some process is still there.
        """
        record = self._records.read(handle.boot_key)
        if record is None or record.id != handle.id:
            return self._last.get(handle.id) or EngineState(running=False, detail="it was gone already")
        if self.state(handle).running:
            self._ended_by_us.add(handle.id)
        child = self._children.get(handle.id)
        reap = child.poll if child is not None else _nothing
        end_all(record.living, leader=record.pid, grace=grace, reap=reap, clock=self._clock)
        if child is not None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=5)
        last = replace(self.state(handle), running=False)
        with self._lock:
            self._last[handle.id] = last
            self._children.pop(handle.id, None)
        self._followers.wait(handle.id, timeout=Seconds(3.0))
        self._records.remove(handle.boot_key)
        return last

    def wait_free(self, *, port: int, timeout: Seconds) -> None:
        """Wait until nobody listens on the port and accelerator memory is back at what it was before the last start.

        Raises:
            PortBusy, GpuBusy: Not free in time.
        """
        self._freeing.wait(port=port, timeout=timeout, published=tuple)

    def owned(self) -> tuple[EngineHandle, ...]:
        """Return engines of ours that have a living process, also those of services that are dead.

        Records of dead engines whose service is dead too are removed: nobody will read that log any more.
        """
        for child in tuple(self._children.values()):
            child.poll()  # collects what somebody else ended
        found = []
        for record in self._records.all():
            living = record.living()
            if living and record.pid is None:
                found.append(_handle(self._completed(record, living), {}))
            elif living or record.id in self._children:
                found.append(_handle(record, {}))
            elif not _service_lives(record):
                self._records.remove(record.boot_key)
        return tuple(found)

    def _completed(self, record: EngineRecord, living: dict[int, str]) -> EngineRecord:
        """Return the record of an engine whose service died between record and start, with its oldest process."""
        pid = min(living)
        completed = replace(record, pid=pid, birth=living[pid])
        self._records.write(completed)
        return completed

    # --- the box, and containers on it ---

    def image_digest(self, image: str) -> str | None:
        """Return None: processes have no image."""
        return None

    def box(self) -> BoxFacts:
        """Return the facts of this machine."""
        return box.facts(name=self._box_name)

    def foreign(self, name: str) -> ForeignContainer:
        """Return a production container: also for engines without Docker, production may run in it."""
        return self._containers().get(name)

    def stop_foreign(self, name: str, *, grace: Seconds) -> None:
        """Stop a container that is not ours (raises EngineNotGone when it still runs)."""
        self._containers().stop(name, grace=grace)

    def start_foreign(self, name: str) -> None:
        """Start it again; idempotent (raises ProductionNotRestored)."""
        self._containers().start(name)

    def _containers(self) -> ForeignContainers:
        if self._foreign_ones is None:
            import docker

            from nightsweep.host.docker_client import Daemon
            from nightsweep.host.foreign import ForeignContainers

            self._foreign_ones = ForeignContainers(Daemon(self._factory or docker.from_env))
        return self._foreign_ones


def _handle(record: EngineRecord, facts: dict[str, object]) -> EngineHandle:
    return EngineHandle(
        host="process",
        id=record.id,
        boot_key=record.boot_key,
        port=record.port,
        base_url=f"http://127.0.0.1:{record.port}",
        facts={
            "pid": record.pid,
            "started_at": record.started_at,
            "command": list(record.command),
            "holder": record.holder,
            **facts,
        },
    )


def _parts(engine_id: str) -> tuple[int | None, str]:
    pid, _, born = engine_id.partition(":")
    return (int(pid) if pid.isdigit() else None), born


def _service_lives(record: EngineRecord) -> bool:
    pid, born = _parts(record.service)
    same_run = record.machine == process_tree.boot_of_machine()
    return same_run and pid is not None and process_tree.birth(pid) == born


def _spawn_reason(fault: Exception, launch: Launch) -> str:
    if isinstance(fault, FileNotFoundError):
        missing = fault.filename if fault.filename is not None else launch.command[0]
        return f"{missing!r} does not exist or is not on PATH"
    if isinstance(fault, PermissionError):
        return f"{launch.command[0]!r} may not be executed"
    return f"{launch.command[0]!r}: {getattr(fault, 'strerror', None) or fault}"


def _nothing() -> None:
    return None

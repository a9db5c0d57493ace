"""The end of a boot: the engine stopped and gone, its log read out, how it ended recorded. Each step is taken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nightsweep.engine.values import BootFailure, FailureEvidence
from nightsweep.errors import BootError, BootTimeout, DialectMismatch, HostError, IdentityMismatch, SweepError
from nightsweep.plan.words import NEVER
from nightsweep.ports import BootOutcome, Engine, EngineHandle, EngineState, Host, Lease, Secret
from nightsweep.sweep.logkeeper import LogKeeper
from nightsweep.sweep.secrecy import Hider
from nightsweep.sweep.tools import Tools
from nightsweep.units import MonotonicSeconds, Seconds

FREE_TIMEOUT = Seconds(300.0)
LOG_PATIENCE = Seconds(10.0)


@dataclass(frozen=True)
class Begun:
    """A boot whose engine was started."""

    boot_id: int
    handle: EngineHandle
    log: LogKeeper
    started: MonotonicSeconds
    port: int
    host: Host
    engine: Engine
    hide: Hider
    api_key: Secret | None
    cache_state: Mapping[str, Any]


@dataclass(frozen=True)
class Ending:
    """How a boot is to be ended.

    Attributes:
        grace: How long the engine may take to end by itself.
        ready: Whether it had been ready.
        died: Set when the engine was found dead while it was needed.
    """

    begun: Begun
    grace: Seconds
    ready: bool
    died: BootError | None


def end(tools: Tools, lease: Lease, ending: Ending, *, cause: BaseException | None) -> None:
    """Stop the engine, prove that it is gone, read its log out, record how it ended.

    A step that fails keeps none of the others from being taken. What it raises comes out unless something is already
    breaking the sweep off that must not be hidden by it.
    """
    begun, ready = ending.begun, ending.ready
    failure = cause if isinstance(cause, BootError) else ending.died
    before = _state(begun)
    problems: list[SweepError] = []
    stopped: EngineState | None = None
    with _noted(problems):
        stopped = begun.host.stop(begun.handle, grace=ending.grace)
    begun.log.finish(patience=LOG_PATIENCE if stopped is not None else Seconds(0.0))  # a living engine logs on
    if stopped is not None:  # one that is still there has not ended: its boot is closed as lost
        known = before if not before.running else stopped
        outcome = BootOutcome(
            state="stopped" if failure is None else "failed",
            exit_code=known.exit_code,
            oom_killed=known.oom_killed,
            failure=None if failure is None else _why(tools, begun, known, failure, ready=ready, killed=before.running),
            facts=begun.log.facts(),
        )
        with _noted(problems):
            tools.store.end_boot(lease, begun.boot_id, outcome, at=tools.clock.now())
        with _noted(problems):
            begun.host.wait_free(port=begun.port, timeout=FREE_TIMEOUT)
    _raise_loudest(problems, cause)


def _state(begun: Begun) -> EngineState:
    """Return what the host says of the engine; a host that cannot say leaves it to be stopped."""
    try:
        return begun.host.state(begun.handle)
    except HostError as error:
        return EngineState(running=True, detail=str(error))


@contextlib.contextmanager
def _noted(problems: list[SweepError]) -> Iterator[None]:
    try:
        yield
    except SweepError as error:
        problems.append(error)


def _raise_loudest(problems: list[SweepError], cause: BaseException | None) -> None:
    """Raise the first host problem, for an engine that is not gone outweighs all; else the first of the store's.

    The store's give way to what ends the sweep anyway: an interrupt, a wish to stop, an earlier error of the store.
    """
    hosts = [problem for problem in problems if isinstance(problem, HostError)]
    if hosts:
        raise hosts[0] from cause
    if problems and (cause is None or isinstance(cause, BootError)):
        raise problems[0] from cause


def _why(
    tools: Tools, begun: Begun, known: EngineState, failure: BootError, *, ready: bool, killed: bool
) -> BootFailure:
    """Return the failure's class. A mismatch of an engine that lived is ours to name: its own log knows nothing of it."""
    if killed and isinstance(failure, IdentityMismatch | DialectMismatch):
        kind = "identity_mismatch" if isinstance(failure, IdentityMismatch) else "dialect_mismatch"
        text = str(failure)
        return BootFailure(kind=kind, stage="identity", lines=(text,), retry=NEVER, remedy=text)
    return begun.engine.classify(
        FailureEvidence(
            lines=begun.log.lines(),
            exit_code=known.exit_code,
            oom_killed=known.oom_killed,
            ready=ready,
            timed_out=isinstance(failure, BootTimeout),
            killed_by_us=killed,
            taken_away=known.taken_away,
            seconds=tools.clock.monotonic() - begun.started,
        )
    )

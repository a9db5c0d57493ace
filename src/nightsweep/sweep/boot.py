"""One boot: start, wait ready, prove identity, hand over, stop, prove that it is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nightsweep.engine.values import Applied, BootFacts, FailureEvidence, ServedIdentity
from nightsweep.errors import (
    BootError,
    BootTimeout,
    EngineExited,
    IdentityMismatch,
    ImageMissing,
    NoTokenServed,
    PortBusy,
)
from nightsweep.plan.model import CONTROL_ROUND, BootTask, EngineConfig
from nightsweep.ports import (
    BootOutcome,
    BootReady,
    Engine,
    EngineHandle,
    Host,
    Launch,
    Lease,
    Secret,
    Target,
)
from nightsweep.sweep.ending import Begun, Ending, end
from nightsweep.sweep.launch import boot_key, launch_of
from nightsweep.sweep.logkeeper import LogKeeper
from nightsweep.sweep.proof import prove_applied, say_applied
from nightsweep.sweep.pulling import fetch_image
from nightsweep.sweep.secrecy import Hider
from nightsweep.sweep.signals import signals_deferred
from nightsweep.sweep.surroundings import cache_state, say_cache_state
from nightsweep.sweep.tools import Tools
from nightsweep.units import MonotonicSeconds, Seconds

TOKEN_TIMEOUT = Seconds(120.0)
ASK_TIMEOUT = Seconds(10.0)
DEATH_PATIENCE = 30  # looks, 0.1 s apart, before an engine whose request failed counts as alive
BOOT_STOP_GRACE = Seconds(2.0)  # SIGTERM in a boot is swallowed by vLLM: no use in waiting long
REFUSED = "HTTP 4"
ENDED = "the engine ended while it was measured"
ENGINE_KEY = "VLLM_API_KEY"
"""Variable from which vLLM takes the key that it asks of its clients; `args.api-key` of a sweep file becomes it."""


@dataclass
class Running:
    """An engine that is up, for as long as the block that got it.

    Attributes:
        applied: What of the config was not applied as asked; set once the engine is ready.
        died: Set when the engine was found dead; the boot then ends as failed.
    """

    boot_id: int
    config: EngineConfig
    handle: EngineHandle
    host: Host
    engine: Engine
    target: Target
    facts: BootFacts
    identity: ServedIdentity
    started: MonotonicSeconds
    log: LogKeeper
    hide: Hider
    applied: Applied = field(default_factory=Applied)
    died: BootError | None = None

    def alive(self) -> bool:
        """Return whether the engine's container or process lives."""
        return self.host.state(self.handle).running

    def identity_problem(self) -> str | None:
        """Return why the engine behind the URL is no longer the one that this boot started.

        Raises:
            HostError: The host cannot say.
        """
        if not self.alive():
            return "the engine has ended"
        return self.host.owns_port(self.handle)


def boot_name(task: BootTask, *, of: int) -> str:
    """Return what a boot is called; its number of a config's boots (`of`) only where there are several."""
    control = task.boot_round - CONTROL_ROUND
    if control >= 0:
        return f"{task.config.name} (control boot {control + 1})"
    if task.boot_round >= of:
        return f"{task.config.name} (round {task.boot_round + 1} of the decision)"
    return f"{task.config.name} (boot {task.boot_round + 1} of {of})" if of > 1 else task.config.name


@dataclass(frozen=True)
class _Prepared:
    """A boot that is recorded, with everything checked that can be checked before the start."""

    boot_id: int
    launch: Launch
    host: Host
    engine: Engine
    hide: Hider
    api_key: Secret | None
    cache_state: Mapping[str, Any]


@contextlib.contextmanager
def booted(
    tools: Tools,
    lease: Lease,
    task: BootTask,
    *,
    check: Callable[[], None],
    pulling: Callable[[], None] | None = None,
    secrets: tuple[Secret, ...] = (),
    api_key: Secret | None = None,
) -> Iterator[Running]:
    """Boot the task's config and hand over the running engine; however the block ends, the engine is stopped and gone.

    Args:
        check: Asked while the boot is waited for; what it raises ends the boot.
        pulling: Asked instead while its image is pulled; no boot is recorded when that is given up.
        secrets: What must not be kept of what is said, besides the secrets of the engine's environment.
        api_key: What the engine is asked with, unless it was started with a key of its own.

    Raises:
        BootError: It did not come up; that is recorded already.
        HostError: No engine can be started on this box, or one could not be stopped.
    """
    prepared = _prepare(tools, lease, task, pulling=pulling or check, secrets=secrets, api_key=api_key)
    begun: Begun | None = None
    running: Running | None = None
    cause: BaseException | None = None
    try:
        with signals_deferred():  # an engine that was started must be known before anything may interrupt us
            begun = _start(tools, lease, prepared)
            begun.log.start()
        tools.store.boot_started(lease, begun.boot_id, begun.handle)
        running = _wait_ready(tools, lease, task, begun, check=check)
        yield running
    except BaseException as error:
        cause = error
        raise
    finally:
        if begun is not None:
            with signals_deferred():
                died = None if running is None else running.died
                grace = BOOT_STOP_GRACE if running is None else task.config.engine.stop_grace
                ending = Ending(begun, grace=grace, ready=running is not None, died=died)
                end(tools, lease, ending, cause=cause)


def _prepare(
    tools: Tools,
    lease: Lease,
    task: BootTask,
    *,
    pulling: Callable[[], None],
    secrets: tuple[Secret, ...],
    api_key: Secret | None,
) -> _Prepared:
    config = task.config
    host = tools.host(config.engine.host)
    engine = tools.engine(config.engine.kind)
    key = boot_key(lease.sweep_id, config, boot_round=task.boot_round)
    port = config.engine.port or tools.free_port()
    launch = launch_of(
        config,
        key=key,
        engine=engine,
        port=port,
        environ=tools.environ,
        python=tools.python,
        holder=tools.owner,
    )
    host.check(launch)
    if tools.probe.healthy(_url(port) + engine.readiness().path, timeout=Seconds(2.0)):
        raise PortBusy(port=port, holder="something that answers before our engine was started")
    missing = _image_missing(tools, lease, task, pulling=pulling)
    hide = Hider((*launch.env.values(), *secrets))
    shown = tuple(hide(word) for word in launch.command)
    boot_id = tools.store.begin_boot(
        lease, config, boot_round=task.boot_round, boot_key=key, command=shown, at=tools.clock.now()
    )
    key_of_engine = launch.env.get(ENGINE_KEY)
    own = None if key_of_engine is None else Secret(key_of_engine)
    caches = cache_state(tools, config)
    say_cache_state(tools, caches, name=config.name, sweep_id=lease.sweep_id, boot_id=boot_id)
    prepared = _Prepared(
        boot_id=boot_id,
        launch=launch,
        host=host,
        engine=engine,
        hide=hide,
        api_key=own or api_key,
        cache_state=caches,
    )
    if missing is not None:
        _record_launch_failure(tools, lease, prepared, missing)
        raise missing
    return prepared


def _image_missing(tools: Tools, lease: Lease, task: BootTask, *, pulling: Callable[[], None]) -> ImageMissing | None:
    """Have the image here, before the boot begins: a pull is no part of a cold start. Return why it cannot be had."""
    try:
        fetch_image(tools, task, check=pulling, sweep_id=lease.sweep_id)
    except ImageMissing as error:
        return error
    return None


def _start(tools: Tools, lease: Lease, prepared: _Prepared) -> Begun:
    started = tools.clock.monotonic()
    try:
        handle = prepared.host.start(prepared.launch)
    except BootError as error:  # what is the host's fault says nothing of the config: that boot is closed as lost
        _record_launch_failure(tools, lease, prepared, error)
        raise
    log = LogKeeper(
        prepared.host,
        handle,
        store=tools.store,
        boot_id=prepared.boot_id,
        reader=prepared.engine.log_reader(),
        interval=tools.log_interval,
        hide=prepared.hide,
        now=tools.clock.monotonic,
    )
    return Begun(
        boot_id=prepared.boot_id,
        handle=handle,
        log=log,
        started=started,
        port=prepared.launch.port,
        host=prepared.host,
        engine=prepared.engine,
        hide=prepared.hide,
        api_key=prepared.api_key,
        cache_state=prepared.cache_state,
    )


def _record_launch_failure(tools: Tools, lease: Lease, prepared: _Prepared, error: BootError) -> None:
    evidence = FailureEvidence(
        lines=(),
        exit_code=None,
        oom_killed=None,
        ready=False,
        timed_out=False,
        killed_by_us=False,
        seconds=0.0,
        launch_error=prepared.hide(str(error)),
    )
    outcome = BootOutcome(
        state="failed", exit_code=None, oom_killed=None, failure=prepared.engine.classify(evidence), facts=BootFacts()
    )
    tools.store.end_boot(lease, prepared.boot_id, outcome, at=tools.clock.now())


def _wait_ready(tools: Tools, lease: Lease, task: BootTask, begun: Begun, *, check: Callable[[], None]) -> Running:
    config, host, engine = task.config, begun.host, begun.engine
    cold_start = _until_healthy(tools, config, begun, check=check)
    answers = tools.probe.ask(
        begun.handle.base_url, engine.identity_paths(), timeout=ASK_TIMEOUT, api_key=begun.api_key
    )
    identity = engine.identity(answers)
    running = Running(
        boot_id=begun.boot_id,
        config=config,
        handle=begun.handle,
        host=host,
        engine=engine,
        target=_target(config, begun, version=identity.version or begun.log.facts().engine_version),
        facts=begun.log.facts(),
        identity=identity,
        started=begun.started,
        log=begun.log,
        hide=begun.hide,
    )
    _prove(tools, running)
    _serve_one_token(tools, running, check=check)
    first_token = Seconds(tools.clock.monotonic() - begun.started)
    running.applied = prove_applied(tools, running, answers)
    ready = BootReady(
        cold_start=cold_start,
        first_token=first_token,
        facts=running.facts,
        identity=identity,
        cache_state=begun.cache_state,
        applied=running.applied,
    )
    tools.store.boot_ready(lease, begun.boot_id, ready, at=tools.clock.now())
    say_applied(tools, running, sweep_id=lease.sweep_id)
    return running


def _until_healthy(tools: Tools, config: EngineConfig, begun: Begun, *, check: Callable[[], None]) -> Seconds:
    """Wait for the first healthy answer; notice a death at once. Silence is not death: only exit and timeout decide."""
    readiness = begun.engine.readiness()
    url = _url(begun.port) + readiness.path
    limit = config.engine.boot_timeout
    while True:
        state = begun.host.state(begun.handle)
        if not state.running:
            raise EngineExited(exit_code=state.exit_code, stage="before it was ready", reason=begun.log.last_words())
        if tools.probe.healthy(url, timeout=Seconds(2.0)):
            return Seconds(tools.clock.monotonic() - begun.started)
        waited = tools.clock.monotonic() - begun.started
        if waited > limit:
            raise BootTimeout(waited=waited, last_line=begun.log.last_line())
        check()
        tools.clock.sleep(min(readiness.poll, tools.poll))


def _prove(tools: Tools, running: Running) -> None:
    """Raise IdentityMismatch when another engine answers. One that died meanwhile is none: another boot may succeed."""
    problem = running.identity_problem() or running.engine.identity_problem(
        running.config, running.identity, running.facts
    )
    if problem is None:
        return
    if not lives_on(tools, running):
        raise EngineExited(
            exit_code=running.host.state(running.handle).exit_code,
            stage="while its identity was proven",
            reason=running.log.last_words(),
        )
    raise IdentityMismatch(reason=problem)


def _serve_one_token(tools: Tools, running: Running, *, check: Callable[[], None]) -> None:
    """Ready is healthy and one token served: an engine may be healthy and die of its first request."""
    reason = tools.probe.served_token(running.target, timeout=TOKEN_TIMEOUT, check=check)
    if reason is None:
        return
    reason = running.hide(reason)
    if not lives_on(tools, running):
        raise EngineExited(
            exit_code=running.host.state(running.handle).exit_code, stage="at its first request", reason=reason
        )
    raise NoTokenServed(stage="at its first request", reason=reason)


def lives_on(tools: Tools, running: Running) -> bool:
    """Return whether the engine still lives some seconds after a request failed: a dying one needs a moment to end."""
    for _ in range(DEATH_PATIENCE):
        if not running.alive():
            return False
        tools.clock.sleep(Seconds(0.1))
    return True


def died_of(tools: Tools, running: Running, failure: str | None) -> bool:
    """Return whether a request failed because the engine was about to end; not asked where it refused the request (HTTP 4xx)."""
    if not failure or failure.startswith(REFUSED):
        return False
    return not lives_on(tools, running)


def _target(config: EngineConfig, begun: Begun, *, version: str | None) -> Target:
    return Target(
        base_url=begun.handle.base_url,
        load_url=begun.handle.base_url,
        model=config.engine.served_name,
        dialect=begun.engine.dialect(version),
        api_key=begun.api_key,
    )


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"

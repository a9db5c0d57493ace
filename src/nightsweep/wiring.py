"""The one place that picks adapters. What is heavy is imported where it is used, so that small commands stay quick."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightsweep import __version__
from nightsweep.errors import PlanError
from nightsweep.settings import Settings, from_environment
from nightsweep.units import MonotonicSeconds, Seconds

if TYPE_CHECKING:
    from sqlalchemy import Engine as Database

    from nightsweep.plan.model import SweepPlan
    from nightsweep.plan.queue import Scheduled
    from nightsweep.ports import Engine, Host
    from nightsweep.store.decisions import Decisions
    from nightsweep.store.embedded import EmbeddedPostgres
    from nightsweep.store.imports import Imports
    from nightsweep.store.postgres import PostgresStore
    from nightsweep.store.queries import Queries
    from nightsweep.store.schedules import Schedules
    from nightsweep.store.spool import Spool
    from nightsweep.sweep.tools import Tools

DATABASE = "nightsweep"
PREFECT_DATABASE = "prefect"


class FileUnreadable(PlanError):
    """A sweep file that cannot be read."""

    summary = "cannot read {path}: {reason}"


class SystemClock:
    """This machine's clocks."""

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds on the monotonic clock."""
        return MonotonicSeconds(time.monotonic())

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: Seconds) -> None:
        """Wait."""
        time.sleep(seconds)


def settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the environment."""
    return from_environment(os.environ if environ is None else environ)


def settings_for_rescue(warn: Callable[[str], None], environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings for bringing production back: what cannot be used is warned of, and holds nothing up."""
    return from_environment(os.environ if environ is None else environ, warn=warn)


# --- store -------------------------------------------------------------------------------------------------------


def cluster(chosen: Settings) -> EmbeddedPostgres:
    """Return the embedded cluster of these settings (not started)."""
    from nightsweep.store.embedded import EmbeddedPostgres

    return EmbeddedPostgres(chosen.home / "postgres")


def database_url(chosen: Settings) -> str:
    """Return the URL of our database; the embedded cluster is started when none is configured."""
    if chosen.database_url is not None:
        return chosen.database_url
    return _embedded_with(DATABASE, chosen).url(DATABASE)


def prefect_database_url(chosen: Settings) -> str | None:
    """Return the URL of Prefect's own database in the embedded cluster; None when the database is somebody else's."""
    if chosen.database_url is not None:
        return None
    return _embedded_with(PREFECT_DATABASE, chosen).url(PREFECT_DATABASE, driver="asyncpg")


def _embedded_with(database: str, chosen: Settings) -> EmbeddedPostgres:
    """Return the embedded cluster, started, with this database; where it is there already, one question tells so."""
    embedded = cluster(chosen)
    if not embedded.serves(database):
        embedded.ensure()
        embedded.ensure_database(database)
    return embedded


@contextlib.contextmanager
def open_database(chosen: Settings) -> Iterator[Database]:
    """Yield the database, at the newest schema."""
    from nightsweep.store.migrate import upgrade
    from nightsweep.store.session import connect

    engine = connect(database_url(chosen))
    try:
        upgrade(engine)
        yield engine
    finally:
        engine.dispose()


@contextlib.contextmanager
def open_store(chosen: Settings) -> Iterator[PostgresStore]:
    """Yield the store, with what an earlier run had to spool stored first.

    An embedded server that ends meanwhile is started again, by whoever needs it first.
    """
    from nightsweep.errors import StoreUnavailable
    from nightsweep.store.spooled import SpooledStore
    from nightsweep.sweep.signals import signals_deferred

    revive = cluster(chosen).ensure if chosen.database_url is None else None
    with open_database(chosen) as engine:
        store = SpooledStore(engine, spool=spool(chosen), revive=revive, shelter=signals_deferred)
        with contextlib.suppress(StoreUnavailable):
            store.drain()
        yield store


def spool(chosen: Settings) -> Spool:
    """Return where writes lie that the database could not take: of each database by itself, for ids mean nothing in another."""
    from nightsweep.store.spool import Spool
    from nightsweep.store.spooled import name_of_database

    return Spool(chosen.home / "spool" / name_of_database(chosen.database_url))


@contextlib.contextmanager
def open_queries(chosen: Settings) -> Iterator[Queries]:
    """Yield the reading side of the store."""
    from nightsweep.store.queries import Queries

    with open_database(chosen) as engine:
        yield Queries(engine)


@contextlib.contextmanager
def open_schedules(chosen: Settings) -> Iterator[Schedules]:
    """Yield the schedules of this machine's store; an embedded server that ends meanwhile is started again."""
    from nightsweep.store.schedules import Schedules
    from nightsweep.sweep.signals import signals_deferred

    revive = cluster(chosen).ensure if chosen.database_url is None else None
    with open_database(chosen) as engine:
        yield Schedules(engine, patience=Seconds(5.0), revive=revive, shelter=signals_deferred)


@contextlib.contextmanager
def open_decisions(chosen: Settings) -> Iterator[Decisions]:
    """Yield the decisions of this machine's store; an embedded server that ends meanwhile is started again."""
    from nightsweep.store.decisions import Decisions

    revive = cluster(chosen).ensure if chosen.database_url is None else None
    with open_database(chosen) as engine:
        yield Decisions(engine, patience=Seconds(5.0), revive=revive)


@contextlib.contextmanager
def open_imports(chosen: Settings) -> Iterator[Imports]:
    """Yield what keeps imported files in this machine's store."""
    from nightsweep.store.imports import Imports

    with open_database(chosen) as engine:
        yield Imports(engine)


def prompts_hash(name: str) -> str:
    """Return the content hash of a prompt set, by name or path (raises InvalidPlan)."""
    from nightsweep.probe.prompts import load_prompts

    return load_prompts(name).sha256


def scheduled(chosen: Settings) -> tuple[Scheduled, ...]:
    """Return what is scheduled on this box."""
    with open_schedules(chosen) as schedules:
        return schedules.all(chosen.box)


# --- engines and hosts -------------------------------------------------------------------------------------------


def engine(kind: str) -> Engine:
    """Return what is known of an engine kind (raises UnknownEngine)."""
    from nightsweep.engine.registry import engine_for

    return engine_for(kind)


def docker_host(chosen: Settings | None = None) -> Host:
    """Return Docker as a host."""
    from nightsweep.host.docker_host import DockerHost

    chosen = chosen or settings()
    return DockerHost(box_name=chosen.box, clock=SystemClock())


def process_host(chosen: Settings | None = None) -> Host:
    """Return this machine's own processes as a host."""
    from nightsweep.host.process_host import ProcessHost

    chosen = chosen or settings()
    return ProcessHost(state_dir=chosen.home / "engines", box_name=chosen.box, clock=SystemClock())


@contextlib.contextmanager
def hosts(chosen: Settings) -> Iterator[Callable[[str], Host]]:
    """Yield a function from host kind to host; each is made once, and closed at the end."""
    made: dict[str, Host] = {}

    def choose(kind: str) -> Host:
        if kind not in made:
            made[kind] = docker_host(chosen) if kind == "docker" else process_host(chosen)
        return made[kind]

    try:
        yield choose
    finally:
        for host in made.values():
            close = getattr(host, "close", None)
            if close is not None:
                close()


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def owner() -> str:
    """Return who we are in a lease: one name for one run of the loop, of which others can tell when it is dead."""
    from nightsweep.store.owner import new_owner

    return new_owner()


def lives_here(holder: str | None) -> bool:
    """Return whether the holder of a lease is a process of this machine that lives."""
    from nightsweep.store.owner import lives_here as lives

    return holder is not None and lives(holder)


def is_dead(holder: str | None) -> bool:
    """Return whether the holder of a lease was a process of this machine that surely is gone."""
    from nightsweep.store.owner import owner_is_dead

    return holder is not None and owner_is_dead(holder)


# --- plans and sweeps --------------------------------------------------------------------------------------------


def read_text(path: str | Path) -> str:
    """Return a sweep file's text ("-" is standard input).

    Raises:
        FileUnreadable: With the reason.
    """
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnreadable(path=str(path), reason=str(error)) from error


def load_plan(text: str, *, source: str, base: Path | None = None) -> tuple[SweepPlan, tuple[Any, ...]]:
    """Return the plan of a sweep file with its prompts: the prompt set is read, and its hash enters the fingerprint.

    Args:
        base: Directory that a relative path of a prompt file, or of trusted authorities, is taken from.
    """
    from nightsweep.plan.expand import with_prompts_hash
    from nightsweep.plan.sweepfile import load
    from nightsweep.plan.yamltree import read
    from nightsweep.probe.client import require_ca
    from nightsweep.probe.prompts import load_prompts, too_few

    plan = replace(load(text, source=source), base=None if base is None else str(base.absolute()))
    if plan.probe.ca is not None and base is not None:
        plan = replace(plan, probe=replace(plan.probe, ca=str(base / plan.probe.ca)))
    with _told_at(("probe", "ca"), text, source=source):
        require_ca(plan.probe.ca)
    name = plan.probe.prompts
    if name.endswith(".jsonl") and not Path(name).is_absolute() and base is not None:
        name = str(base / name)
    with _told_at(("probe", "prompts"), text, source=source):
        prompts = load_prompts(name)
    few = too_few(prompts.prompts, streams=max(plan.probe.concurrency))
    if few is not None:
        place = f"{source}:{read(text).line(('probe', 'prompts'))}: probe.prompts"
        plan = replace(plan, warnings=(*plan.warnings, f"{place}: {few}"))
    return with_prompts_hash(plan, prompts.sha256), prompts.prompts


@contextlib.contextmanager
def _told_at(path: tuple[str, ...], text: str, *, source: str) -> Iterator[None]:
    """Tell a mistake in what a sweep file names with the line that names it."""
    from nightsweep.errors import InvalidPlan
    from nightsweep.plan import yamltree

    try:
        yield
    except InvalidPlan as error:
        line = yamltree.read(text).line(path)
        key = ".".join(path)
        told = (one if one.startswith(f"{key}: ") else f"{key}: {one}" for one in error.facts["problems"])
        raise InvalidPlan(problems=tuple(f"{source}:{line}: {one}" for one in told)) from error


@contextlib.contextmanager
def open_tools(chosen: Settings, store: PostgresStore, prompts: tuple[Any, ...]) -> Iterator[Tools]:
    """Yield the real world for a sweep."""
    from nightsweep.host.alone import only_measurer
    from nightsweep.host.boxstate import BoxStateSampler
    from nightsweep.probe.http_probe import HttpProbe
    from nightsweep.sweep.steady import SteadyClock
    from nightsweep.sweep.tools import Tools

    clock, me = SteadyClock(SystemClock()), owner()
    with hosts(chosen) as choose, HttpProbe(clock=clock) as probe:
        yield Tools(
            store=store,
            host=choose,
            engine=engine,
            probe=probe,
            clock=clock,
            prompts=prompts,
            environ=os.environ,
            free_port=free_port,
            python=sys.executable,
            owner=me,
            alone=lambda box: only_measurer(me, box=box),
            software=__version__,
            mirror=production_mirror(chosen),
            lives=lives_here,
            lease_ttl=Seconds(chosen.lease_ttl),
            box_sampler=BoxStateSampler(clock),
            clock_news=clock.news,
        )


def production_mirror(chosen: Settings) -> Any:
    """Return the file that says what production must come back, for when the database is down."""
    from nightsweep.service.mirror import FileMirror

    return FileMirror(chosen.home / "production.json")

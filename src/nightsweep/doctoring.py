"""Where the doctor's facts come from, and the spool's, which `status` tells too. Nothing is started to look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nightsweep import wiring

if TYPE_CHECKING:
    from nightsweep.analysis.doctor import DatabaseFacts
    from nightsweep.analysis.spool import SpoolFacts
    from nightsweep.service.doctor_checks import DoctorSources
    from nightsweep.settings import Settings


def doctor_sources(chosen: Settings) -> DoctorSources:
    """Return where the doctor's facts come from. Starts nothing: an embedded database that does not run stays down."""
    from nightsweep.host import accelerator, leftovers
    from nightsweep.host import docker_host as docker_hosts
    from nightsweep.service.doctor_checks import DoctorSources
    from nightsweep.service.notify import shown_all
    from nightsweep.service.restoring import noted

    return DoctorSources(
        docker_info=_docker_info,
        gpu_way=docker_hosts.gpu_way,
        leftovers=lambda: leftovers.find_leftovers(state_dir=chosen.home / "engines"),
        accelerators=accelerator.accelerators,
        driver_versions=accelerator.driver_versions,
        database=lambda: _database_facts(chosen),
        production_down=lambda: noted(wiring.production_mirror(chosen)),
        prefect_api_url=chosen.prefect_api_url or f"http://127.0.0.1:{chosen.prefect_port}/api",
        prefect_configured=chosen.prefect_api_url is not None,
        home=chosen.home,
        now=wiring.SystemClock().now,
        spool=lambda: spool_facts(chosen),
        told=shown_all(chosen.notify),
    )


def spool_facts(chosen: Settings) -> SpoolFacts:
    """Return what lies in the spools of this home, of whichever database."""
    from nightsweep.analysis.spool import SpoolFacts
    from nightsweep.store.spool import spools_below

    folder = chosen.home / "spool"
    found = spools_below(folder)
    return SpoolFacts(
        str(folder),
        waiting=sum(len(each.waiting()) for each in found),
        refused=sum(len(each.refused()) for each in found),
    )


def _docker_info() -> Mapping[str, Any]:
    import docker

    from nightsweep.host.docker_client import Daemon

    daemon = Daemon(docker.from_env)
    try:
        with daemon.quick() as client:
            info: Mapping[str, Any] = client.info()
            return info
    finally:
        daemon.close()


def _database_facts(chosen: Settings) -> DatabaseFacts:
    from nightsweep.analysis.doctor import DatabaseFacts
    from nightsweep.errors import StoreError
    from nightsweep.store.health import health
    from nightsweep.store.postgres import connect

    where = "embedded" if chosen.database_url is None else "configured"
    if chosen.database_url is None and not wiring.cluster(chosen).alive():
        return DatabaseFacts(where, running=False)
    url = chosen.database_url or wiring.cluster(chosen).url(wiring.DATABASE)
    try:
        engine = connect(url)
        try:
            found = health(engine)
        finally:
            engine.dispose()
    except StoreError as error:
        return DatabaseFacts(where, running=False, problem=str(error))
    return DatabaseFacts(
        where,
        running=True,
        server_version=found.server_version,
        schema=found.revision,
        newest_schema=found.newest,
        size_bytes=found.size,
    )

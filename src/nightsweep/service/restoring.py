"""Bringing production back outside a sweep: by hand, by a hook, at the service's start, by the watchdog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightsweep.errors import DockerUnavailable, HostError, ProductionNotRestored
from nightsweep.ports import Host
from nightsweep.production.record import Record, from_document
from nightsweep.production.returning import Back, Helpers, bring_back
from nightsweep.service.mirror import FileMirror
from nightsweep.units import Seconds

LEFTOVER_GRACE = Seconds(5.0)


@dataclass(frozen=True)
class Restored:
    """What became of one container that had been taken down. `back` is the proof; None when it does not serve."""

    container: str
    serving: bool
    detail: str
    back: Back | None = None


def restore_containers(records: Sequence[Record], helpers: Helpers) -> tuple[Restored, ...]:
    """Bring each container back and prove it; never raises for one, so that all are tried."""
    return tuple(_restored(record, helpers) for record in records)


def _restored(record: Record, helpers: Helpers) -> Restored:
    try:
        back = bring_back(record, helpers)
    except HostError as error:
        why = error.why if isinstance(error, ProductionNotRestored) else str(error)
        return Restored(record.name, serving=False, detail=why)
    return Restored(record.name, serving=True, detail=back.told, back=back)


def records_of(noted: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> tuple[Record, ...]:
    """Return what is recorded of each container; of one that is not noted, its name."""
    return tuple(from_document(name, noted.get(name, {})) for name in names)


def noted(mirror: FileMirror) -> tuple[str, ...]:
    """Return the containers that the file says were taken down (raises OwedUnreadable when that cannot be told)."""
    mirror.whole()
    return tuple(sorted(mirror.read()))


def owners(noted: Mapping[str, Mapping[str, Any]]) -> dict[str, str | None]:
    """Return who took each noted container down; None where the file does not say."""
    found = {name: facts.get("owner") if isinstance(facts, dict) else None for name, facts in noted.items()}
    return {name: owner if isinstance(owner, str) else None for name, owner in found.items()}


def stop_leftovers(
    hosts: Sequence[Host], *, say: Callable[[str], None], lives: Callable[[str], bool] = lambda holder: False
) -> None:
    """Stop engines that a dead sweep left running. A host that does not answer has none that could be stopped.

    An engine whose holder lives is another service's, of another home on the same machine: it is left alone.
    """
    for host in hosts:
        try:
            for handle in host.owned():
                holder = handle.facts.get("holder")
                if holder and lives(str(holder)):
                    say(f"engine {handle.boot_key} belongs to a sweep that lives ({holder}): left alone")
                    continue
                say(f"stopping engine {handle.boot_key}, which a dead sweep left behind")
                host.stop(handle, grace=LEFTOVER_GRACE)
        except DockerUnavailable:  # then it runs no engine of ours either
            continue
        except HostError as error:
            say(f"leftover engines of host {host.kind}: {error}")

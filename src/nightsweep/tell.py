"""Telling people, with the real world picked as in `wiring`: where summaries are written, where messages go."""

from __future__ import annotations

import os

from nightsweep import wiring
from nightsweep.ports import Secret
from nightsweep.service.notify import Notifier, sender
from nightsweep.service.prefect_server import prefect_environment
from nightsweep.service.telling import Teller
from nightsweep.settings import Settings


def teller(chosen: Settings) -> Teller:
    """Return who writes the morning's summaries and sends messages."""

    def keep(kind: str, message: str, level: str, sweep_id: int | None) -> None:
        with wiring.open_store(chosen) as store:
            store.event(kind, message, level=level, sweep_id=sweep_id)

    api_url = chosen.prefect_api_url or f"http://127.0.0.1:{chosen.prefect_port}/api"
    environ = prefect_environment(home=chosen.home / "prefect", api_url=api_url, environ=os.environ)
    addresses = tuple(Secret(address) for address in chosen.notify)
    return Teller(
        notifier=Notifier(addresses, send=sender(environ=environ), kinds=chosen.notify_on),
        queries=lambda: wiring.open_queries(chosen),
        event=keep,
        summaries=chosen.home / "summaries",
        told=chosen.home / "told.json",
        box=chosen.box,
        now=wiring.SystemClock().now,
        scheduled=lambda: wiring.scheduled(chosen),
    )


def log_events() -> None:
    """Write a line for every event to standard error, unless that is a terminal."""
    from nightsweep.store.eventlog import log_events_to_stderr

    log_events_to_stderr()

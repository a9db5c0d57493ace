"""A log line for every event, also for one that the database cannot take: `kind sweep=3 boot=5: message`, by its level."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from nightsweep.store.codec import clean_text

LOGGER = "nightsweep.events"
FORMAT = "%(asctime)s %(levelname)-7s %(message)s"

_log = logging.getLogger(LOGGER)
_log.addHandler(
    logging.NullHandler()
)  # on a terminal the progress view speaks, and warnings must not tear its bar apart


def log_event(
    kind: str, message: str, *, level: str, sweep_id: int | None, boot_id: int | None, data: Mapping[str, Any]
) -> None:
    """Log an event at its own level; the parts are attributes of the record too (`event`), for handlers that keep fields."""
    parts = [
        kind,
        *(f"{name}={value}" for name, value in (("sweep", sweep_id), ("boot", boot_id)) if value is not None),
    ]
    fields = {"kind": kind, "sweep_id": sweep_id, "boot_id": boot_id, "data": dict(data)}
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    _log.log(number, "%s: %s", " ".join(parts), clean_text(message), extra={"event": fields})


def log_events_to_stderr() -> None:
    """Write the lines to standard error, where that is no terminal: a journal or a file. Calling it again changes nothing."""
    if sys.stderr.isatty() or any(isinstance(handler, _ToStderr) for handler in _log.handlers):
        return
    handler = _ToStderr()
    handler.setFormatter(logging.Formatter(FORMAT))
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False


class _ToStderr(logging.StreamHandler[Any]):
    """A stream that is gone, or a disk that is full, ends no sweep and is worth no traceback."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  the library's own name
        """Say nothing."""

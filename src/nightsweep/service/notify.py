"""Messages to people: through Apprise, and through notification blocks that somebody keeps in Prefect.

An address is a secret: it is never shown, and what a library says of it is cut. A service that fails or hangs costs a bounded
time and disturbs nothing else.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from nightsweep.analysis.notices import KINDS, Notice
from nightsweep.ports import Secret
from nightsweep.units import Seconds

BLOCK = "prefect://"
"""Of an address that names a notification block: prefect://slack-webhook/oncall."""

PATIENCE = Seconds(15.0)
BLOCK_PATIENCE = Seconds(45.0)
"""A block is loaded by a process that imports Prefect: that alone takes seconds."""

SHORTEST_SECRET = 4
SAID_AT_MOST = 200

Send = Callable[[Secret, Notice], str | None]


@dataclass(frozen=True)
class Notifier:
    """Sends notices to every address.

    Attributes:
        kinds: What is told; a trial always is.
        send: Sends to one address; returns None, or why it was not taken. May hang or raise.
        patience: Seconds that Apprise's services may take, all at once.
        block_patience: The same for Prefect's blocks.
    """

    addresses: Sequence[Secret]
    send: Send
    kinds: Sequence[str] = KINDS
    patience: Seconds = PATIENCE
    block_patience: Seconds = BLOCK_PATIENCE
    _lock: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    def tell(self, notice: Notice, *, at_most: Seconds | None = None) -> tuple[str, ...]:
        """Send a notice to all addresses at once; return what went wrong, one line each. Raises nothing of theirs.

        Args:
            at_most: Seconds, when there is less time than usual.
        """
        if notice.kind in KINDS and notice.kind not in self.kinds:
            return ()
        outcomes: dict[int, str | None] = {}
        threads = [
            threading.Thread(target=self._into, args=(outcomes, place, notice), name=f"notifies {place}", daemon=True)
            for place in range(len(self.addresses))
        ]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        for address, thread in zip(self.addresses, threads, strict=True):
            own = self.block_patience if address.startswith(BLOCK) else self.patience
            limit = own if at_most is None else min(own, at_most)
            thread.join(max(began + limit - time.monotonic(), 0.0))
        waited = time.monotonic() - began
        with self._lock:
            late = f"did not answer within {waited:.0f} s"
            found = [(place, outcomes.get(place, late)) for place in range(len(self.addresses))]
        return tuple(f"{shown(self.addresses[place], place)}: {said}" for place, said in found if said is not None)

    def _into(self, outcomes: dict[int, str | None], place: int, notice: Notice) -> None:
        address = self.addresses[place]
        try:
            said = self.send(address, notice)
        except Exception as error:  # noqa: BLE001  a plugin of anybody's may raise anything; no sweep ends for it
            said = f"{type(error).__name__}: {error}"
        with self._lock:
            outcomes[place] = None if said is None else cut(said, self.addresses)[:SAID_AT_MOST]


def shown(address: str, place: int) -> str:
    """Return an address as it may be shown: the service and its place in the list; even a host may be a token.

    A block's own address is none of a service: it says under which name Prefect keeps that.
    """
    if address.startswith(BLOCK):
        return f"{address} (address {place + 1} of NIGHTSWEEP_NOTIFY)"
    return f"{address.split('://', 1)[0]}://*** (address {place + 1} of NIGHTSWEEP_NOTIFY)"


def shown_all(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return all addresses as they may be shown."""
    return tuple(shown(address, place) for place, address in enumerate(addresses))


def cut(text: str, addresses: Sequence[str]) -> str:
    """Return a library's words with every part of every address cut out of them; names of blocks are no secrets."""
    rests = [address.split("://", 1)[-1] for address in addresses if not address.startswith(BLOCK)]
    parts = {part for rest in rests for part in re.split(r"[/:@?&=,\s]+", rest) if len(part) >= SHORTEST_SECRET}
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, "***")
    return text


_heard: ContextVar[list[str] | None] = ContextVar("heard", default=None)
"""What Apprise says of one message. It says addresses, and sends several at once, in threads that get our context."""


class _Listens(logging.Handler):
    """Keeps Apprise's words for whom they concern; nowhere else are they to be seen."""

    def emit(self, record: logging.LogRecord) -> None:
        lines = _heard.get()
        if lines is not None:
            lines += record.getMessage().strip().splitlines()


@functools.cache
def _listen() -> None:
    logger = logging.getLogger("apprise")
    logger.propagate = False
    logger.addHandler(_Listens(logging.WARNING))


def send_by_apprise(address: Secret, notice: Notice) -> str | None:
    """Send to one of Apprise's addresses."""
    import apprise

    _listen()
    lines: list[str] = []
    token = _heard.set(lines)
    try:
        post = apprise.Apprise()
        if not post.add(str(address)):
            return "Apprise does not know such an address: `apprise --details` lists the services"
        sent = post.notify(title=notice.title, body=notice.body, notify_type=notice.level, body_format="text")
    finally:
        _heard.reset(token)
    return None if sent else (lines[-1] if lines else "the service did not take it")


def sender(*, environ: Mapping[str, str]) -> Send:
    """Return what sends to any address.

    Args:
        environ: Of the process that loads a block: with PREFECT_API_URL.
    """

    def send(address: Secret, notice: Notice) -> str | None:
        if address.startswith(BLOCK):
            return _send_by_block(address, notice, environ=environ)
        return send_by_apprise(address, notice)

    return send


def _send_by_block(address: Secret, notice: Notice, *, environ: Mapping[str, str]) -> str | None:
    """Have a process of its own load the block and send: nothing here imports Prefect, and a hanging one can be killed."""
    given = json.dumps({"block": address.removeprefix(BLOCK), "title": notice.title, "body": notice.body})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "flows.notify"],
            input=given,
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=BLOCK_PATIENCE,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"Prefect did not send it within {BLOCK_PATIENCE:.0f} s"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    if not said:
        return f"it ended with code {done.returncode}"
    return without_urls(said[-1], but=environ.get("PREFECT_API_URL", ""))


def without_urls(text: str, *, but: str) -> str:
    """Return a block's words without the URLs in them, which mostly hold a token; `but`, Prefect's own, is none."""

    def shown_url(found: re.Match[str]) -> str:
        url = found[0]
        return url if but and url.startswith(but) else f"{url.split('://', 1)[0]}://***"

    return re.sub(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>)\]]+", shown_url, text)

"""The Docker Engine as a peer that may be away: clients, and what its errors mean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors
import requests
import urllib3

from nightsweep.errors import DockerUnavailable
from nightsweep.ports import Clock, Secret
from nightsweep.units import Seconds

ClientFactory = Callable[[], docker.DockerClient]

AWAY = (docker.errors.DockerException, requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError)
"""What a call raises while the daemon is away. An APIError is one too by type, so catch that first: it is an answer."""

PAUSE = Seconds(0.25)
"""Between two questions to a daemon that is waited for."""
QUICK = 5
"""Seconds that a look at an engine may take before the daemon counts as away."""


class Daemon:
    """Two clients of one Docker Engine, made when first needed and again after a fault.

    `quick` has a short timeout for looks that are repeated; `patient` is for work that may take its time. The version is always
    negotiated: an old client refuses a new engine and the other way round when it is fixed.
    """

    def __init__(self, client_factory: ClientFactory) -> None:
        self._factory = client_factory
        self._lock = threading.Lock()
        self._clients: dict[str, docker.DockerClient] = {}

    @contextmanager
    def quick(self) -> Iterator[docker.DockerClient]:
        """Give a client for looks (raises DockerUnavailable)."""
        with self._speaking("quick") as client:
            yield client

    @contextmanager
    def patient(self) -> Iterator[docker.DockerClient]:
        """Give a client for work (raises DockerUnavailable)."""
        with self._speaking("patient") as client:
            yield client

    @contextmanager
    def own(self) -> Iterator[docker.DockerClient]:
        """Give a client for one piece of work alone, whose connection may be cut off (raises DockerUnavailable)."""
        try:
            client = self._factory()
        except AWAY as fault:
            raise DockerUnavailable(reason=reason(fault)) from fault
        try:
            yield client
        finally:
            client.close()

    def inspect(self, container_id: str) -> Mapping[str, Any]:
        """Return what Docker knows of a container.

        Raises:
            docker.errors.NotFound: There is none.
            DockerUnavailable: No answer.
        """
        with self.quick() as client:
            found: Mapping[str, Any] = client.api.inspect_container(container_id)
            return found

    def inspect_patiently(self, container_id: str, *, clock: Clock, within: Seconds) -> Mapping[str, Any]:
        """As `inspect`, of a daemon that may be on its way back: it is asked for so long before it counts as away.

        Raises:
            docker.errors.NotFound: There is none.
            DockerUnavailable: No answer, or none but errors, all that time.
        """
        begun = clock.monotonic()
        while True:
            try:
                return self.inspect(container_id)
            except docker.errors.NotFound:
                raise
            except docker.errors.APIError as fault:
                away = DockerUnavailable(reason=explanation(fault))
            except DockerUnavailable as fault:
                away = fault
            if clock.monotonic() - begun >= within:
                raise away
            clock.sleep(PAUSE)

    def close(self) -> None:
        """Close both clients; the next use makes new ones."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    @contextmanager
    def _speaking(self, which: str) -> Iterator[docker.DockerClient]:
        try:
            yield self._client(which)
        except docker.errors.APIError:
            raise
        except AWAY as fault:
            self.close()
            raise DockerUnavailable(reason=reason(fault)) from fault

    def _client(self, which: str) -> docker.DockerClient:
        with self._lock:
            client = self._clients.get(which)
        if client is not None:
            return client
        client = self._factory()
        if which == "quick":
            client.api.timeout = QUICK
        with self._lock:
            kept = self._clients.setdefault(which, client)
        if kept is not client:
            client.close()
        return kept


def reason(fault: BaseException) -> str:
    """Return in a few words why the daemon did not answer, with the remedy where it is known."""
    text = str(fault)
    if "Permission denied" in text:
        return "permission denied on its socket; add this user to the group `docker`"
    if "No such file or directory" in text:
        return "its socket does not exist"
    if "Connection refused" in text:
        return "connection refused"
    if "timed out" in text.lower():
        return "no answer in time"
    return text.splitlines()[0][:200] if text else type(fault).__name__


def explanation(fault: docker.errors.APIError, env: Mapping[str, str] | None = None) -> str:
    """Return Docker's own words for a refusal, without the values of secrets."""
    text = str(fault.explanation or fault)
    for value in (env or {}).values():
        if isinstance(value, Secret) and len(value) >= 4:
            text = text.replace(str(value), "***")
    return text.strip()

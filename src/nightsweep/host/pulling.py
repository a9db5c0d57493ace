"""An image is pulled, for as long as whoever waits for it will: a registry may take hours, or say nothing at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import docker
import docker.errors
import requests
from docker.utils import parse_repository_tag

from nightsweep.errors import DockerUnavailable, ImageMissing
from nightsweep.host.docker_client import AWAY, explanation, reason
from nightsweep.units import Seconds

LOOK_EVERY = Seconds(0.2)
"""Between two questions whether the pull shall go on."""


class Pull:
    """One pull, in a thread: a read that waits for a silent registry must not keep anybody from giving it up.

    Args:
        client: A client of the pull's own: to end a pull is to hang up, and Docker then gives it up, too.
    """

    def __init__(self, client: docker.DockerClient, image: str) -> None:
        self._client = client
        self._image = image
        self._given_up = False
        self._answer: requests.Response | None = None
        self._fault: BaseException | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="image-pull", daemon=True)

    def wait(self, check: Callable[[], None]) -> None:
        """Pull, and return when that is done.

        Args:
            check: Called several times a second; what it raises gives the pull up, and comes out.

        Raises:
            ImageMissing: The registry does not give it.
            DockerUnavailable: The daemon does not answer, or went away.
        """
        self._client.api.hooks["response"].append(self._answered)
        self._thread.start()
        try:
            while self._thread.is_alive():
                check()
                self._thread.join(LOOK_EVERY)
        except BaseException:
            self._give_up()
            raise
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            self._pull()
        except BaseException as fault:  # noqa: BLE001  it is raised by whoever waits
            self._fault = fault
        finally:
            if self._answer is not None:  # one that was not read to its end would keep its connection
                self._answer.close()

    def _pull(self) -> None:
        repository, tag = parse_repository_tag(self._image)
        try:
            for step in self._client.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                if "error" in step:
                    raise ImageMissing(image=self._image, reason=str(step["error"]))
        except docker.errors.APIError as fault:
            raise ImageMissing(image=self._image, reason=explanation(fault)) from fault
        except AWAY as fault:
            raise DockerUnavailable(reason=f"while pulling {self._image}: {reason(fault)}") from fault

    def _answered(self, answer: requests.Response, **_: Any) -> None:
        """Keep the answer that is being read: the SDK shows it to nobody, and it is what can be hung up on."""
        with self._lock:
            self._answer = answer
            hang_up = self._given_up
        if hang_up:
            _end(answer)

    def _give_up(self) -> None:
        with self._lock:
            self._given_up = True
            answer = self._answer
        if answer is not None:
            _end(answer)
            self._thread.join(5.0)


def _end(answer: requests.Response) -> None:
    with suppress(ValueError, RuntimeError, OSError):  # the stream ended by itself meanwhile
        answer.raw.shutdown()

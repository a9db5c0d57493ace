"""A pull through Docker's API, against a small server that speaks it: what it says, when it hangs, and who hangs up."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import docker
import pytest

from nightsweep.errors import DockerUnavailable, ImageMissing
from nightsweep.host.docker_host import DockerHost
from nightsweep.wiring import SystemClock

IMAGE = "registry.example/vllm:1"


class Registry(ThreadingHTTPServer):
    """Docker's API as far as a pull needs it.

    Attributes:
        steps: What it says of a pull, a document each; it then says nothing more until `answered`, or is cut off.
        stalls: Whether it begins no answer before `answered`.
        hung_up: Set when the client closed the connection of a pull.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Daemon)
        self.steps: list[dict[str, str]] = [{"status": "Pulling"}]
        self.stalls = self.here = False
        self.pulls = 0
        self.answered, self.hung_up = threading.Event(), threading.Event()

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that hang up."""


class Daemon(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Registry

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/version"):
            self._say(200, {"ApiVersion": "1.41", "MinAPIVersion": "1.24", "Version": "20.10"})
        elif "/images/" in self.path:
            found = {"Id": "sha256:1", "RepoTags": [IMAGE], "RepoDigests": [f"registry.example/vllm@sha256:{'1' * 64}"]}
            self._say(200, found) if self.server.here else self._say(404, {"message": f"No such image: {IMAGE}"})

    def do_POST(self) -> None:
        self.server.pulls += 1
        if self.server.stalls:
            self.server.answered.wait(10.0)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for step in self.server.steps:
            line = json.dumps(step).encode() + b"\r\n"
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.flush()
        self.connection.settimeout(0.02)
        while not self.server.answered.is_set():
            try:
                if self.connection.recv(1) == b"":
                    self.server.hung_up.set()
                    return
            except TimeoutError:
                continue
        self.server.here = True
        self.wfile.write(b"0\r\n\r\n")

    def _say(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def registry() -> Iterator[Registry]:
    server = Registry()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.answered.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def host(registry: Registry) -> Iterator[DockerHost]:
    url = f"tcp://127.0.0.1:{registry.server_port}"
    with DockerHost(
        client_factory=lambda: docker.DockerClient(base_url=url, version="1.41"), clock=SystemClock()
    ) as made:
        yield made


class Enough(Exception):
    """Whoever waits has waited enough."""


def give_up() -> None:
    raise Enough


def test_a_pull_that_is_done_returns_the_time_that_it_took(registry: Registry, host: DockerHost) -> None:
    registry.answered.set()
    took = host.fetch(IMAGE, check=lambda: None)
    assert took is not None
    assert 0.0 < took < 5.0
    assert host.fetch(IMAGE, check=lambda: None) is None
    assert registry.pulls == 1


def test_whoever_waits_is_asked_while_a_registry_says_nothing(registry: Registry, host: DockerHost) -> None:
    asked: list[float] = []

    def patient() -> None:
        asked.append(time.monotonic())
        if len(asked) == 3:
            registry.answered.set()

    assert host.fetch(IMAGE, check=patient) is not None
    assert len(asked) >= 3


def test_a_pull_that_is_given_up_is_hung_up_on_so_that_docker_gives_it_up_too(
    registry: Registry, host: DockerHost
) -> None:
    begun: list[None] = []

    def until_it_is_read() -> None:
        begun.append(None)
        if len(begun) == 3:
            raise Enough

    started = time.monotonic()
    with pytest.raises(Enough):
        host.fetch(IMAGE, check=until_it_is_read)
    assert time.monotonic() - started < 3.0
    assert registry.hung_up.wait(2.0)


def test_a_pull_that_nobody_has_answered_yet_is_given_up_at_once(registry: Registry, host: DockerHost) -> None:
    registry.stalls = True
    started = time.monotonic()
    with pytest.raises(Enough):
        host.fetch(IMAGE, check=give_up)
    assert time.monotonic() - started < 2.0


def test_what_a_registry_says_of_an_image_that_it_does_not_give_is_the_reason(
    registry: Registry, host: DockerHost
) -> None:
    registry.steps = [{"status": "Pulling"}, {"error": "toomanyrequests: you have reached your pull rate limit"}]
    with pytest.raises(ImageMissing, match="toomanyrequests"):
        host.fetch(IMAGE, check=lambda: None)


def test_a_daemon_that_goes_away_in_a_pull_is_named_as_that(host: DockerHost, registry: Registry) -> None:
    def lost(self: Daemon) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True

    Daemon.do_POST, real = lost, Daemon.do_POST  # type: ignore[method-assign]
    try:
        with pytest.raises(DockerUnavailable, match=f"while pulling {IMAGE}"):
            host.fetch(IMAGE, check=lambda: None)
    finally:
        Daemon.do_POST = real  # type: ignore[method-assign]

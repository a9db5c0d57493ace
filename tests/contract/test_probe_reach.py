"""What answers at a URL, whatever it is: an engine, a proxy, something that speaks no HTTP, or nobody behind Docker's proxy."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from nightsweep.ports import Reached, Secret
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock

Serve = Callable[[socket.socket], None]


@contextlib.contextmanager
def listener(serve: Serve) -> Iterator[str]:
    """Serve each connection with `serve` and close it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/health"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def answers(head: bytes) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)

    return serve


def silent(connection: socket.socket) -> None:
    connection.settimeout(5)
    while connection.recv(65536):  # until the other side has had enough
        pass


def reach(url: str, **how: Secret) -> Reached:
    with HttpProbe(clock=SystemClock()) as probe:
        return probe.reach(url, timeout=Seconds(0.3), api_key=how.get("api_key"))


@pytest.mark.parametrize("status", [200, 401, 404, 503])
def test_every_status_is_told_as_it_is(status: int) -> None:
    with listener(answers(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())) as url:
        assert reach(url) == Reached(listening=True, status=status)


def test_a_key_is_sent_where_one_is_given() -> None:
    heard: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with listener(serve) as url:
        reach(url, api_key=Secret("sk-1"))
    assert b"authorization: bearer sk-1" in heard[0].lower()


def test_what_speaks_no_http_listens_all_the_same() -> None:
    with listener(answers(b"-ERR unknown command\r\n")) as url:
        assert reach(url) == Reached(listening=True)


def test_what_accepts_and_keeps_silent_listens() -> None:
    with listener(silent) as url:
        assert reach(url) == Reached(listening=True)


def test_a_connection_that_is_closed_without_a_byte_is_nobody() -> None:
    with listener(answers(b"")) as url:
        assert reach(url) == Reached(listening=False)


def test_nobody_is_nobody() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert reach(f"http://127.0.0.1:{free.getsockname()[1]}/") == Reached(listening=False)

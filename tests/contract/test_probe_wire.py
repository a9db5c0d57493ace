"""The recording transport against a server that answers with the bytes it is told to."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from nightsweep.probe.client import DirectClient, make_client, make_direct_client, ssl_context
from nightsweep.units import Seconds

STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Record:
    def __init__(self) -> None:
        self.got: list[tuple[float, bytes]] = []

    def receive(self, at: float, data: bytes) -> None:
        self.got.append((at, data))

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.got)


def talk(*answers: list[bytes | float], requests: int = 1, close: bool = False) -> tuple[list[Any], list[Record], int]:
    """Return (status or error) and record of each request, and how many connections they took.

    Each answer is a list of writes; a number among them is a pause.
    """
    connections = 0
    queue = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while queue:
                await reader.readuntil(b"\r\n\r\nhello")
                await _play(queue.pop(0), writer)
                if close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def main() -> tuple[list[Any], list[Record], int]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        outcomes: list[Any] = []
        records = []
        async with server, make_direct_client(url, timeout=Seconds(2.0), now=time.monotonic) as client:
            for _ in range(requests):
                record = Record()
                records.append(record)
                outcomes.append(await _one(client, url, record))
        return outcomes, records, connections

    return run(main)


async def _play(parts: list[bytes | float], writer: asyncio.StreamWriter) -> None:
    for part in parts:
        if isinstance(part, float):
            await asyncio.sleep(part)
        else:
            writer.write(part)
            await writer.drain()


async def _one(client: DirectClient, url: str, record: Record, *, method: str = "POST") -> Any:
    try:
        return await client.record(method, httpx.URL(url), headers=httpx.Headers(), recorder=record, body=b"hello")
    except httpx.HTTPError as error:
        return error


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(main())


def test_a_chunked_answer_is_recorded_by_arrival_and_the_connection_is_used_again() -> None:
    answer: list[bytes | float] = [STREAM, b"3\r\nabc\r\n", 0.05, b"4\r\ndefg\r\n0\r\n\r\n"]
    outcomes, records, connections = talk(answer, answer, requests=2)
    assert outcomes == [200, 200]
    assert [record.text for record in records] == [b"abcdefg", b"abcdefg"]
    assert records[0].got[1][0] - records[0].got[0][0] >= 0.04
    assert connections == 1


def test_text_that_looks_like_the_end_of_a_chunked_answer_does_not_end_it() -> None:
    outcomes, records, _ = talk([STREAM, b"7\r\n\r\n0\r\n\r\n\r\n", 0.02, b"1\r\nx\r\n0\r\n\r\n"])
    assert outcomes == [200]
    assert records[0].text == b"\r\n0\r\n\r\nx"


def test_an_answer_of_known_length_ends_with_it() -> None:
    outcomes, records, _ = talk([b"HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nbusy"])
    assert (outcomes, records[0].text) == ([503], b"busy")


def test_an_answer_without_framing_ends_with_the_connection() -> None:
    outcomes, records, _ = talk([b"HTTP/1.1 200 OK\r\n\r\nall of it"], close=True)
    assert (outcomes, records[0].text) == ([200], b"all of it")


def test_a_connection_that_is_not_to_be_kept_is_not_used_again() -> None:
    answer: list[bytes | float] = [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"]
    outcomes, _, connections = talk(answer, answer, requests=2, close=True)
    assert outcomes == [200, 200]
    assert connections == 2


@pytest.mark.parametrize(
    "answer",
    [[STREAM, b"3\r\nabc\r\n"], [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"], [b"HTTP/1.1 200"]],
)
def test_an_answer_that_breaks_off_is_an_error_and_not_an_end(answer: list[bytes | float]) -> None:
    outcomes, _, _ = talk(answer, close=True)
    assert isinstance(outcomes[0], httpx.RemoteProtocolError)
    assert "closed within the answer" in str(outcomes[0])


def test_what_is_not_http_is_an_error() -> None:
    outcomes, _, _ = talk([b"220 mail.example ESMTP\r\n"])
    assert "not HTTP" in str(outcomes[0])


def test_a_refused_connection_is_a_connect_error() -> None:
    async def main() -> Any:
        async with make_direct_client("http://127.0.0.1:9", timeout=Seconds(1.0), now=time.monotonic) as client:
            return await _one(client, "http://127.0.0.1:9/v1", Record())

    assert isinstance(run(main), httpx.ConnectError)


def test_tls_is_verified_always() -> None:
    for context in (ssl_context("https://gateway.lan"), ssl_context("http://127.0.0.1")):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    assert ssl_context("http://127.0.0.1").cert_store_stats()["x509_ca"] == 0


def test_a_request_is_written_at_once_and_without_delay() -> None:
    """Nagle's algorithm and a delayed acknowledgement would add 40 ms to the TTFT of every request but the first."""
    reads: list[bytes] = []
    delays: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reads.append(await reader.read(65536))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await reader.read(1)  # until the client is done
        finally:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, make_direct_client(url, timeout=Seconds(2.0), now=time.monotonic) as client:
            assert await _one(client, url, Record()) == 200
            [connection] = client._transport._open  # type: ignore[attr-defined]
            opened = connection._transport.get_extra_info("socket")
            delays.append(opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    run(main)
    assert reads[0].endswith(b"\r\n\r\nhello"), "head and body came in two writes"
    assert delays[0] != 0


def test_no_part_of_a_request_has_less_time_than_the_whole() -> None:
    """A transport whose read timeout is shorter than the request's own ends requests that are merely slow."""

    async def main() -> list[httpx.Timeout]:
        found = []
        for http2 in (False, True):
            client = make_direct_client("http://e", timeout=Seconds(900.0), now=time.monotonic, http2=http2)
            control = make_client("http://e", timeout=Seconds(900.0))
            found += [control.timeout, client.timeout] if http2 else [control.timeout]
            await client.aclose()
            await control.aclose()
        return found

    for timeout in run(main):
        assert (timeout.read, timeout.write, timeout.pool) == (900.0, 900.0, 900.0)
        assert timeout.connect == 10.0


def test_a_request_that_is_given_up_before_its_answer_leaves_no_error_behind() -> None:
    complaints: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(str(told["message"])))

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            await asyncio.sleep(0.05)
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with make_direct_client(url, timeout=Seconds(5.0), now=time.monotonic) as client:
            task = asyncio.create_task(_one(client, url, Record()))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0.1)
        server.close()

    asyncio.run(main())
    gc.collect()
    assert complaints == []


def test_an_answer_that_no_recorder_takes_is_in_the_response() -> None:
    async def main() -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await _play([STREAM, b"3\r\nabc\r\n", 0.02, b"4\r\ndefg\r\n0\r\n\r\n"], writer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, make_direct_client(url, timeout=Seconds(2.0), now=time.monotonic) as client:
            return (await client.get(url)).text

    assert run(main) == "abcdefg"


def test_a_request_names_its_host_and_the_length_of_its_body() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(2):
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(5 if heads[-1].startswith(b"POST") else 0)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await reader.read(1)  # until the client is done
        finally:
            writer.close()

    async def main() -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = httpx.URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/x?y=1")
        headers = httpx.Headers({"authorization": "Bearer k"})
        async with server, make_direct_client(str(url), timeout=Seconds(2.0), now=time.monotonic) as client:
            await client.record("POST", url, headers=headers, recorder=Record(), body=b"hello")
            await client.record("GET", url, headers=headers, recorder=Record())
        return url.netloc

    host = run(main)
    assert heads == [
        b"POST /v1/x?y=1 HTTP/1.1\r\nHost: %s\r\nauthorization: Bearer k\r\nContent-Length: 5\r\n\r\n" % host,
        b"GET /v1/x?y=1 HTTP/1.1\r\nHost: %s\r\nauthorization: Bearer k\r\n\r\n" % host,
    ]


def test_an_answer_that_breaks_off_on_a_kept_connection_is_not_asked_for_again() -> None:
    """Its recorder has the first part already: a second answer would come behind it."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for answer in (b"content-length: 2\r\n\r\nok", b"content-length: 9\r\n\r\nabc"):
            await reader.readuntil(b"\r\n\r\nhello")
            writer.write(b"HTTP/1.1 200 OK\r\n" + answer)
        writer.close()

    async def main() -> tuple[Any, Any, bytes]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
        async with server, make_direct_client(url, timeout=Seconds(2.0), now=time.monotonic) as client:
            first, broken = Record(), Record()
            outcomes = [await _one(client, url, record, method="GET") for record in (first, broken)]
            return *outcomes, broken.text

    whole, part, text = run(main)
    assert whole == 200
    assert isinstance(part, httpx.RemoteProtocolError)
    assert (text, connections) == (b"abc", 1)


def test_a_kept_connection_that_the_server_closes_meanwhile_costs_no_reading() -> None:
    """A server ends connections that were idle for some seconds, now and then just as the next question comes."""
    ended: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.current_task())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await reader.read(1)  # the next question: gone without a byte
        writer.close()
        await writer.wait_closed()

    async def main() -> list[str]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
        async with server:
            async with make_direct_client(url, timeout=Seconds(2.0), now=time.monotonic) as client:
                found = [(await client.get(url)).text for _ in range(2)]
            await asyncio.wait([task for task in ended if task is not None])
            return found

    assert run(main) == ["ok", "ok"]
    assert len(ended) == 2

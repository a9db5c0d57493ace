"""A very small TLS proxy for tests: HTTP/2 when the handshake says so, else HTTP/1.1; bodies are passed on as they come."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated


def make_authority(folder: Path) -> tuple[Path, Path]:
    """Return the paths of an authority's certificate, and of a chain with its key for 127.0.0.1 that it signed."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _name("test authority")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    own_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    root = (
        _builder(authority, authority, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(own_id, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        _builder(_name("127.0.0.1"), authority, key.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    ca, chain = folder / "ca.pem", folder / "server.pem"
    ca.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain.write_bytes(leaf.public_bytes(serialization.Encoding.PEM) + secret)
    return ca, chain


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )


class TinyTlsProxy:
    """Use as a context: serves on a free port, in a thread of its own.

    Attributes:
        versions: "h2" or "http/1.1", of each connection.
        keys: Authorization header of each request.
    """

    def __init__(self, engine: str, *, chain: Path, http2: bool = True) -> None:
        self._engine = engine
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(chain)
        self._tls.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
        self.versions: list[str] = []
        self.keys: list[str | None] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready, self._stop = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> TinyTlsProxy:
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30, limits=httpx.Limits(max_connections=None)) as client:
            self._client = client
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0, ssl=self._tls)
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop.wait()
            server.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol() or "http/1.1"
        self.versions.append(chosen)
        try:
            await (_Http2(self, reader, writer).serve() if chosen == "h2" else self._http1(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()

    async def _http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            path = head[0].split(" ")[1]
            lines = (line.split(": ", 1) for line in head[1:] if ": " in line)
            headers = {name.lower(): value for name, value in lines}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            async with self.forwarded(path, body, headers.get("authorization")) as answer:
                writer.write(f"HTTP/1.1 {answer.status_code} X\r\ntransfer-encoding: chunked\r\n\r\n".encode())
                async for data in answer.aiter_raw():
                    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                    await writer.drain()
                    if reader.at_eof() or writer.is_closing():
                        raise ConnectionResetError
                writer.write(b"0\r\n\r\n")

    def forwarded(
        self, path: str, body: bytes, key: str | None
    ) -> contextlib.AbstractAsyncContextManager[httpx.Response]:
        """Return the engine's answer, to be streamed."""
        self.keys.append(key)
        return self._client.stream("POST", self._engine + path, content=body)


class _Http2:
    """One connection by HTTP/2: each stream is forwarded by a task of its own."""

    def __init__(self, proxy: TinyTlsProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._h2 = H2Connection(H2Configuration(client_side=False))
        self._asked: dict[int, tuple[dict[str, str], bytearray]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._room = asyncio.Event()

    async def serve(self) -> None:
        self._h2.initiate_connection()
        self._flush()
        try:
            while data := await self._reader.read(65536):
                for event in self._h2.receive_data(data):
                    self._took(event)
                self._flush()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _took(self, event: object) -> None:
        if isinstance(event, RequestReceived):
            headers = {_text(name): _text(value) for name, value in event.headers or ()}
            self._asked[event.stream_id] = (headers, bytearray())
        elif isinstance(event, DataReceived):
            self._asked[event.stream_id][1].extend(event.data)
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self._tasks[event.stream_id] = asyncio.create_task(self._answer(event.stream_id))
        elif isinstance(event, StreamReset) and event.stream_id in self._tasks:
            self._tasks[event.stream_id].cancel()
        elif isinstance(event, WindowUpdated):
            self._room.set()

    async def _answer(self, stream: int) -> None:
        headers, body = self._asked[stream]
        key = headers.get("authorization")
        async with self._proxy.forwarded(headers[":path"], bytes(body), key) as answer:
            self._h2.send_headers(stream, [(":status", str(answer.status_code))])
            async for data in answer.aiter_raw():
                while self._h2.local_flow_control_window(stream) < len(data):
                    self._room.clear()
                    await self._room.wait()
                self._h2.send_data(stream, data)
                self._flush()
            self._h2.end_stream(stream)
            self._flush()

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value

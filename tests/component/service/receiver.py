"""A real HTTP server that takes notifications, slowly or not at all where a test wants it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """What came in. `status` is what is answered; a request to /hang is not answered until the end."""

    port: int = 0
    status: int = 200
    heard: list[dict[str, Any]] = field(default_factory=list)
    let_go: threading.Event = field(default_factory=threading.Event)

    def url(self, path: str = "s3cr3t-path", *, scheme: str = "json") -> str:
        return f"{scheme}://127.0.0.1:{self.port}/{path}"


@contextlib.contextmanager
def receiver() -> Iterator[Receiver]:
    """Have a server up for the block."""
    here = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            here.heard.append(json.loads(body))
            if "hang" in self.path:
                here.let_go.wait(30)
            self.send_response(here.status)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    here.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, name="takes notifications", daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()

"""A stand-in engine for tests of hosts: standard library only, so that it runs wherever a Python does.

It prints lines, waits, listens, answers /health, and ends as it is told.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NOISE = (
    b"\x1b[32mgreen\x1b[0m line\n"
    b"loading:  10%\rloading:  50%\rloading: 100%\r\n"
    b"bad byte \xff here\n"
    b"\n"
    b"after an empty line\n"
    b"caf\xc3\xa9 5 \xe2\x82\xac\n" + b"x" * 40000 + b" end of the long line\n"
)
NOISE_LINES = (
    "green line",
    "loading:  10%",
    "loading:  50%",
    "loading: 100%",
    "bad byte \ufffd here",
    "",
    "after an empty line",
    "caf\u00e9 5 \u20ac",
    "x" * 40000 + " end of the long line",
)
LAST_WORDS = "shutting down"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int)
    options.add_argument("--bind", default="127.0.0.1")
    options.add_argument("--token", default="", help="makes the process findable")
    options.add_argument("--lines", type=int, default=0)
    options.add_argument("--every", type=float, default=0.0, help="seconds between two lines")
    options.add_argument("--width", type=int, default=0, help="pads each line")
    options.add_argument("--noise", action="store_true")
    options.add_argument("--show-env", default="", help="prints this variable")
    options.add_argument("--silent-listener", action="store_true", help="never listens")
    options.add_argument("--exit-after", type=float)
    options.add_argument("--exit-code", type=int, default=0)
    options.add_argument("--ignore-term", action="store_true")
    options.add_argument("--child", choices=["same-session", "own-session"])
    options.add_argument("--eat", type=int, default=0, help="MiB of memory to fill")
    return options


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def handle_term(asked: argparse.Namespace) -> None:
    def end(*_: object) -> None:
        print(LAST_WORDS, flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if asked.ignore_term else end)


def hold_on(asked: argparse.Namespace) -> None:
    """Leave a child that ignores SIGTERM, as an engine's worker may."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code, asked.token], start_new_session=asked.child == "own-session")


def talk(asked: argparse.Namespace) -> None:
    if asked.show_env:
        print(f"{asked.show_env}={os.environ.get(asked.show_env)}", flush=True)
    if asked.noise:
        sys.stdout.buffer.write(NOISE)
        sys.stdout.flush()
    for number in range(asked.lines):
        print(f"line {number}".ljust(asked.width, "."), flush=True, file=sys.stderr if number % 5 == 4 else sys.stdout)
        time.sleep(asked.every)


def main() -> None:
    asked = parser().parse_args()
    handle_term(asked)
    if asked.child:
        hold_on(asked)
    if asked.port and not asked.silent_listener:
        server = ThreadingHTTPServer((asked.bind, asked.port), Health)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    kept = [bytearray(os.urandom(1 << 20)) for _ in range(asked.eat)]
    talk(asked)
    time.sleep(600 if asked.exit_after is None else asked.exit_after)
    sys.stdout.flush()
    os._exit(asked.exit_code + 0 * len(kept))


if __name__ == "__main__":
    main()

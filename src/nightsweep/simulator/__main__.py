"""`python -m nightsweep.simulator MODEL ...`: boot, serve until told to stop, exit as a real engine would."""

from __future__ import annotations

import errno
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nightsweep.simulator.bootlog import BootEnded, Log, boot, port_in_use
from nightsweep.simulator.faults import FaultSet
from nightsweep.simulator.profile import load_profile
from nightsweep.simulator.settings import SimSettings, read_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulator; return its exit code."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments)
    faults = FaultSet.of(settings.faults)
    log = Log(speed=settings.boot_speed)
    deaf = "swallow_sigterm" in faults
    signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else _leave)
    sock = _claim(settings)
    try:
        if sock is None:
            log.wait(0.5 * load_profile(settings.profile).boot.imports)
            port_in_use(log)
            return 1
        settings = replace(settings, port=sock.getsockname()[1])
        booted = boot(settings, load_profile(settings.profile), faults, log)
        from nightsweep.simulator.serving import serve  # a boot that fails need not load a web server

        return serve(settings, booted, sock=sock, faults=faults, log=log)
    except BootEnded as ended:
        return ended.exit_code
    finally:
        if sock is not None:
            sock.close()


def _leave(*_: Any) -> None:
    raise SystemExit(0)


def _claim(settings: SimSettings) -> socket.socket | None:
    """Bind the port without listening: taken at once, refused until ready. None when somebody has it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as error:
        sock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return sock


if __name__ == "__main__":
    sys.exit(main())

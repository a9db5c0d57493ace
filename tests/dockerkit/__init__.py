"""Containers for tests without any registry: an image of 20 KB, and the host's Python mounted into it read-only."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
import docker.errors

REPOSITORY = "nightsweep-test/skeleton"
DOCKERD = Path(__file__).with_name("dockerd.sh")
FOLDERS = ("dev", "etc", "proc", "root", "run", "sbin", "sys", "usr", "var")
OPEN_FOLDERS = ("tmp", "var/tmp")
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
PASSWD = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"


def docker_wanted() -> bool:
    """Whether tests with a real Docker Engine were asked for."""
    return os.environ.get("NIGHTSWEEP_TEST_DOCKER") == "1"


def skeleton_tar() -> bytes:
    """Return a file system with nothing in it but places to mount on.

    /sbin is a real directory: Docker puts its init there, and cannot when it is a link into a read-only mount.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in (*FOLDERS, *OPEN_FOLDERS):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name in OPEN_FOLDERS else 0o755
            archive.addfile(folder)
        for name, target in LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size, passwd.mode = len(PASSWD), 0o644
        archive.addfile(passwd, io.BytesIO(PASSWD))
    return buffer.getvalue()


@contextmanager
def skeleton_image(client: docker.DockerClient, *, tag: str | None = None) -> Iterator[str]:
    """Give the name of the skeleton image; the name is taken away again at the end."""
    tag = tag or f"p{os.getpid()}"
    client.api.import_image_from_data(skeleton_tar(), repository=REPOSITORY, tag=tag)
    name = f"{REPOSITORY}:{tag}"
    try:
        yield name
    finally:
        with suppress(docker.errors.ImageNotFound):
            client.images.remove(name)


def python_volumes(*more: Path) -> tuple[str, ...]:
    """Return volumes that make this very Python, and `more`, run in the skeleton, each at its own path, read-only."""
    places = {Path("/usr"), Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), *(p.resolve() for p in more)}
    places |= {Path(sys.executable).resolve().parent.parent}
    outer = sorted(p for p in places if not any(other != p and other in p.parents for other in places))
    return tuple(f"{place}:{place}:ro" for place in outer)


def bridge_works(client: docker.DockerClient) -> bool:
    """Whether the daemon has a bridge network, so that ports can be published."""
    return bool(client.networks.list(names=["bridge"])) and os.environ.get("NIGHTSWEEP_TEST_DOCKER_NETWORK") != "host"


class OwnDaemon:
    """A second dockerd with its own socket and data, so that restarting it disturbs nobody (needs root)."""

    def __init__(self, folder: Path, *flags: str, path: str | None = None) -> None:
        self.folder = folder
        self._flags = flags
        self._env = {**os.environ, **({"PATH": path} if path else {})}

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/d.sock"

    @property
    def factory(self) -> Callable[[], docker.DockerClient]:
        return lambda: docker.DockerClient(base_url=self.url)

    def __enter__(self) -> OwnDaemon:
        self.call("start")
        return self

    def __exit__(self, *_: object) -> None:
        self.call("stop")
        self.call("clean")

    def call(self, word: str) -> None:
        """start | stop | kill | restart | clean."""
        subprocess.run(
            ["sh", str(DOCKERD), word, str(self.folder), *self._flags],
            check=True,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )

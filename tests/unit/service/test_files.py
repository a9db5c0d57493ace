"""Files that a user names: replaced whole or left as they are; what is no regular file is written to, and stays what it is."""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nightsweep.service.files import is_replaced, replace_file

NULL, FULL = os.makedev(1, 3), os.makedev(1, 7)


def a_node(path: Path, device: int) -> Path:
    """A device of our own: those of the machine are never written to here."""
    if sys.platform != "linux":
        pytest.skip("device numbers are Linux'")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, device)
        os.close(os.open(path, os.O_WRONLY))
    except PermissionError:
        pytest.skip("this user may make no device node here")
    return path


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No file grows above so many bytes, as under `ulimit -f`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_umasks_mode(tmp_path: Path, mask: int, mode: int) -> None:
    with umask(mask):
        replace_file(tmp_path / "new", "déjà")
    assert mode_of(tmp_path / "new") == mode
    assert (tmp_path / "new").read_text(encoding="utf-8") == "déjà"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(mode)
    with umask(0o027):
        replace_file(file, b"new")
    assert (file.read_bytes(), mode_of(file)) == (b"new", mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_existing_file_keeps_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    os.chown(file, 12345, 23456)
    replace_file(file, "new")
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes read-only files")
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    file.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        replace_file(file, "new")
    assert file.read_text() == "old"


def test_a_file_that_cannot_be_written_whole_is_as_it_was_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("old")
    with at_most(1000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        replace_file(file, b"x" * 100_000)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    with at_most(1000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        replace_file(tmp_path / "file", b"x" * 100_000)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one_and_what_it_points_at_is_written(tmp_path: Path, *, there: bool) -> None:
    (tmp_path / "far").mkdir()
    target, link, second = tmp_path / "far" / "target", tmp_path / "link", tmp_path / "second"
    if there:
        target.write_text("old")
        target.chmod(0o600)
    link.symlink_to("far/target")
    second.symlink_to(link)
    replace_file(second, "new")
    assert (os.readlink(second), os.readlink(link)) == (str(link), "far/target")
    assert target.read_text() == "new"
    assert not there or mode_of(target) == 0o600
    assert os.listdir(tmp_path / "far") == ["target"]


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        replace_file(tmp_path / "a", "new")


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, "one,")
        replace_file(link, "two")
        assert os.read(reader, 100) == b"one,two"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()
    assert not is_replaced(pipe)
    assert not is_replaced(link)


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    node = a_node(tmp_path / "node", NULL)
    replace_file(node, "gone")
    assert stat.S_ISCHR(node.lstat().st_mode)
    assert node.stat().st_rdev == NULL
    assert not is_replaced(node)


def test_a_full_device_says_so_and_stays_a_device(tmp_path: Path) -> None:
    node = a_node(tmp_path / "node", FULL)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        replace_file(node, "no room")
    assert stat.S_ISCHR(node.lstat().st_mode)


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "link"])
def test_an_own_descriptor_is_written_on_from_where_it_stands(tmp_path: Path, name: str) -> None:
    if not Path("/dev/fd").exists() or ("proc" in name and not Path("/proc/self/fd").exists()):
        pytest.skip("this system has no such names")
    log = tmp_path / "log"
    with log.open("w") as file:  # as the shell opens it for `nightsweep report -o /dev/stdout >> log`
        file.write("before,")
        file.flush()
        named = Path(name.format(file.fileno()))
        if name == "link":
            named = tmp_path / name
            named.symlink_to(f"/dev/fd/{file.fileno()}")
        assert not is_replaced(named)
        replace_file(named, "report,")
        file.write("after")
    assert log.read_text() == "before,report,after"


@pytest.mark.parametrize("number", [987654, 99999999999999])
def test_a_descriptor_that_is_not_open_is_an_error(number: int) -> None:
    with pytest.raises(OSError, match=r"."):
        replace_file(Path(f"/dev/fd/{number}"), "nothing")


def test_a_folder_is_an_error_and_stays(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "folder", "new")
    assert (tmp_path / "folder").is_dir()


def test_what_is_a_file_or_none_yet_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nothing")
    assert all(is_replaced(tmp_path / name) for name in ("file", "none", "link", "file/below"))


def test_a_name_as_long_as_the_system_takes_is_written(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 255)
    replace_file(file, "new")
    assert file.read_text() == "new"

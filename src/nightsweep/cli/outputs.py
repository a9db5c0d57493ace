"""Where a command writes to: standard output, or a file that its user names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from nightsweep.errors import Unwritable

F = TypeVar("F", bound=Callable[..., Any])
STDOUT = "-"


class OutputFile(click.Path):
    """A file to write, as a Path; what stands for standard output elsewhere is no file's name."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse `-`, and a name that is empty."""
        if not str(value):
            self.fail("the file's name is empty", param, ctx)
        if str(value) == STDOUT:
            self.fail("it needs a file: name one (`./-` is a file called -)", param, ctx)
        return super().convert(value, param, ctx)


class OutputOrStdout(OutputFile):
    """A file to write, as a Path; `-` is None: standard output, as without the option."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return None for `-`."""
        return None if str(value) == STDOUT else super().convert(value, param, ctx)


def encodable(text: str, encoding: str | None) -> str:
    """Return the text with a question mark for what an encoding has no character for; None is UTF-8."""
    name = encoding or "utf-8"
    return text.encode(name, "replace").decode(name)


def echo(text: str = "", *, nl: bool = True) -> None:
    """Write to standard output: a log captured in Latin-1 must not end in a traceback over a dash."""
    click.echo(encodable(text, getattr(sys.stdout, "encoding", None)), nl=nl)


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that a user named, as `replace_file` does (raises Unwritable)."""
    from nightsweep.service.files import replace_file

    try:
        replace_file(path, content)
    except BrokenPipeError:  # who reads it has had enough, as behind `| head`
        raise
    except OSError as error:
        raise Unwritable(path=str(path), reason=error.strerror or str(error)) from error


def write_output(path: Path | None, content: str) -> None:
    """Write to a file, and say so on standard error; None is standard output (raises Unwritable)."""
    if path is None:
        echo(content, nl=False)
        return
    write_file(path, content)
    click.echo(f"wrote {path}", err=True)


def output_option(command: F) -> F:
    """Add `-o FILE`; the command takes `output`, which is None for standard output."""
    option = click.option("-o", "--output", type=OutputOrStdout(), metavar="FILE", help="Write here, not to stdout.")
    return option(command)

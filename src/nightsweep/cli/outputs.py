"""Where a command writes to, besides standard output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
STDOUT = "-"


class OutputFile(click.Path):
    """A file to write, as a Path; what stands for standard output elsewhere is no file's name."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse `-`."""
        if str(value) == STDOUT:
            self.fail("it needs a file: name one (`./-` is a file called -)", param, ctx)
        return super().convert(value, param, ctx)


class OutputOrStdout(OutputFile):
    """A file to write, as a Path; `-` is None: standard output, as without the option."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return None for `-`."""
        return None if str(value) == STDOUT else super().convert(value, param, ctx)


def output_option(command: F) -> F:
    """Add `-o FILE`; the command takes `output`, which is None for standard output."""
    option = click.option("-o", "--output", type=OutputOrStdout(), metavar="FILE", help="Write here, not to stdout.")
    return option(command)

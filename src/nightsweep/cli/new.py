"""`nightsweep new`: a sweep file from a running container."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nightsweep.cli.outputs import echo, output_option, write_file
from nightsweep.service.files import is_replaced

if TYPE_CHECKING:
    from nightsweep.plan.model import EnvValue
    from nightsweep.ports import ForeignContainer


@dataclass(frozen=True)
class Access:
    """What the command reaches; passed as the click context's object to look at other containers."""

    foreign: Callable[[str], ForeignContainer]


@click.command("new")
@click.option("--from-container", "container", required=True, metavar="NAME", help="The container that serves now.")
@output_option
@click.option("--name", help="The sweep's name; without it, one is made from the container's.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.pass_context
def command(ctx: click.Context, *, container: str, output: Path | None, name: str | None, force: bool) -> None:
    """Write a sweep file from a container: image, arguments, environment, mounts, devices and port, as they run now.

    Secrets are written as names of variables, never as values. The container is looked at and not touched.

    \b
    Example:
      nightsweep new --from-container vllm-qwen -o sweep.yaml
      nightsweep plan sweep.yaml
    """
    access = ctx.find_object(Access) or _wired()
    if output is not None and output.exists() and is_replaced(output) and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    text = written(access.foreign(container), name=name)
    if output is None:
        echo(text, nl=False)
    else:
        write_file(output, text)
        click.echo(f"wrote {output}; next: nightsweep plan {output}", err=True)
    _check(text, source=str(output or "the file"))


def written(found: ForeignContainer, *, name: str | None = None) -> str:
    """Return the sweep file of a container.

    Raises:
        NotAnEngine: Its command starts no vLLM or SGLang, or cannot be read.
    """
    from nightsweep.errors import InvalidPlan, NotAnEngine
    from nightsweep.plan.compose import sweep_file_text

    try:
        return sweep_file_text(
            container_name=found.name,
            image=found.image,
            entrypoint=found.entrypoint,
            command=found.command,
            env=environment(found.env),
            container=found.container,
            ports=found.ports,
            restart_policy=found.restart_policy,
            name=name,
        )
    except InvalidPlan as error:
        raise NotAnEngine(name=found.name, reason="; ".join(error.facts["problems"])) from error


def environment(env: Mapping[str, str]) -> dict[str, EnvValue]:
    """Return a container's variables with secrets as references to variables of the same name."""
    from nightsweep.plan.model import SecretRef
    from nightsweep.ports import Secret

    return {name: SecretRef(name) if isinstance(value, Secret) else value for name, value in env.items()}


def _check(text: str, *, source: str) -> None:
    """A file that we wrote ourselves and cannot read needs a hand: say where (raises InvalidPlan)."""
    from nightsweep.plan.sweepfile import load

    for warning in load(text, source=source).warnings:
        click.echo(f"warning: {warning}", err=True)


def _wired() -> Access:
    from nightsweep import wiring

    return Access(foreign=lambda name: wiring.docker_host().foreign(name))

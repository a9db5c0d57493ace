"""`nightsweep restore`."""

from __future__ import annotations

import sys

import click

from nightsweep.cli import EXIT_FAILED
from nightsweep.cli.outputs import echo


@click.command(name="restore")
@click.argument("container", nargs=-1)
@click.option(
    "--gone",
    is_flag=True,
    help="Say of CONTAINERs that were removed that they shall not come back: nothing is started, and none is owed any more.",
)
def command(container: tuple[str, ...], gone: bool) -> None:
    """Bring production back by hand: the named CONTAINERs, else every one that was taken down and is not back.

    Each is started, waited for, asked for one token, and compared with what was stopped. Engines that a dead sweep left
    running are stopped first. Works without Prefect, and without PostgreSQL when that is down. Exit code 1 when one does not
    serve.

    \b
    Example:
      nightsweep restore
      nightsweep restore vllm-qwen
      nightsweep restore --gone vllm-qwen
    """
    from nightsweep import rescue, wiring

    if gone:
        if not container:
            raise click.UsageError("--gone needs names: it says of these containers that they shall never come back")
        rescue.give_up_production(wiring.settings(), container, say=click.echo)
        return

    def say(text: str) -> None:
        click.echo(text, err=True)

    results = rescue.restore_production(wiring.settings_for_rescue(say), container, say=say)
    if not results:
        click.echo("nothing to restore: no production container is noted as taken down")
        return
    for result in results:
        word = "serves" if result.serving else "DOES NOT SERVE"
        echo(f"{result.container} {word}: {result.detail}")
    if not all(result.serving for result in results):
        sys.exit(EXIT_FAILED)

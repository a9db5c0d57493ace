"""`nightsweep doctor`: what stands in a sweep's way, and how to mend it."""

from __future__ import annotations

from dataclasses import asdict

import click

from nightsweep.analysis import doctor
from nightsweep.analysis.doctor import Check
from nightsweep.cli import EXIT_FAILED, render
from nightsweep.cli.reading import access
from nightsweep.cli.render import Line

MARKS = {
    doctor.OK: ("ok", "done"),
    doctor.WARNING: ("warning", "single"),
    doctor.PROBLEM: ("PROBLEM", "failed"),
    doctor.NOT_HERE: ("not here", "heading"),
}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(ctx: click.Context, *, as_json: bool) -> None:
    """Check Docker, GPU, database, Prefect, disk, clock and leftovers; say how to mend each.

    Starts nothing and changes nothing. Exit code 0 when there is no problem, else 1.

    \b
    Example:
      nightsweep doctor
      nightsweep doctor --json
    """
    from nightsweep.service.doctor_checks import run_checks

    checks = run_checks(access(ctx).doctor())
    good = doctor.healthy(checks)
    if as_json:
        render.print_json({"healthy": good, "checks": [asdict(check) for check in checks]})
    else:
        render.write([line for check in checks for line in _lines(check)])
        problems = sum(check.state == doctor.PROBLEM for check in checks)
        warnings = sum(check.state == doctor.WARNING for check in checks)
        render.write([Line(""), _verdict(problems, warnings)])
    if not good:
        ctx.exit(EXIT_FAILED)


def _lines(check: Check) -> list[Line]:
    word, style = MARKS[check.state]
    start = len(check.name.ljust(24))
    lines = [Line(f"{check.name:<24}{word:<10}{check.found}", spans=((start, start + len(word), style),))]
    if check.remedy and check.state != doctor.OK:
        lines.append(Line(f"{'':<34}→ {check.remedy}", style="note"))
    return lines


def _verdict(problems: int, warnings: int) -> Line:
    if problems:
        return Line(f"{problems} to mend before a sweep, {warnings} to look at", style="failed")
    return Line(f"nothing stands in the way of a sweep{f', {warnings} to look at' if warnings else ''}", style="done")

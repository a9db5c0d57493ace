"""`nightsweep parse-log`: facts and a verdict from any engine log, useful alone."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from nightsweep.cli import EXIT_FAILED
from nightsweep.cli.outputs import echo
from nightsweep.engine.bootlog import KINDS, Skim, reader_for
from nightsweep.engine.failures import Verdict, verdict_of
from nightsweep.engine.lines import lines_of
from nightsweep.engine.scan import Scan
from nightsweep.engine.traffic import SpeculationLine, speculation_line
from nightsweep.engine.values import BootFacts

MAX_INTERVALS = 10_000
_CHUNK = 1 << 20
_SHOWN = 140
_NOT_SHOWN = ("non_default_args", "server_args")


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option("--engine", type=click.Choice(KINDS), help="Whose log it is; found out when left out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def command(file: str, *, engine: str | None, as_json: bool) -> None:
    """Read an engine's log: every fact with the line that states it, and whether the boot was healthy.

    Nothing is derived, and nothing is sent anywhere. Exit code 1 when the log shows a failure, 0 otherwise.

    \b
    Example:
      nightsweep parse-log boot.log
      docker logs vllm-qwen 2>&1 | nightsweep parse-log - --json
    """
    report = read_log(_lines(file), engine=engine)
    echo(json.dumps(document(report), indent=2, ensure_ascii=False) if as_json else text(report))
    if report.verdict.state == "failed":
        sys.exit(EXIT_FAILED)


@dataclasses.dataclass(frozen=True)
class Report:
    """What a log tells."""

    facts: BootFacts
    verdict: Verdict
    intervals: tuple[SpeculationLine, ...]
    lines: int


def read_log(texts: Iterator[str], *, engine: str | None) -> Report:
    """Return what a log tells, in one pass and flat memory."""
    reader, seen = reader_for(engine), Scan()
    skim = Skim((*reader.listeners, seen))
    intervals: list[SpeculationLine] = []
    count = 0
    for part in texts:
        count += 1
        told = "ccept" in part and len(intervals) < MAX_INTERVALS
        if not told and reader.sure and skim.boring(part):
            continue
        for line in lines_of(part):
            reader.take(line)
            seen.take(line)
            interval = speculation_line(line.message) if told and "ccept" in line.message else None
            if interval is not None and len(intervals) < MAX_INTERVALS:
                intervals.append(interval)
    return Report(facts=reader.facts(), verdict=verdict_of(seen), intervals=tuple(intervals), lines=count)


def document(report: Report) -> dict[str, Any]:
    """Return a report as plain values for JSON."""
    facts = dataclasses.asdict(report.facts)
    statements = facts.pop("facts")
    stages, warnings = facts.pop("stages"), facts.pop("warnings")
    failure = report.verdict.failure
    return {
        "verdict": report.verdict.state,
        "failure": None if failure is None else dataclasses.asdict(failure),
        "facts": facts,
        "stages": stages,
        "warnings": list(warnings),
        "statements": statements,
        "speculation": [{**dataclasses.asdict(interval), "drafts": interval.drafts} for interval in report.intervals],
        "lines": report.lines,
    }


def text(report: Report) -> str:
    """Return a report for people."""
    facts = report.facts
    name = facts.engine or "unknown engine"
    parts = [f"{name} {facts.engine_version or ''}".strip() + f": {report.verdict.state}  ({report.lines} lines)"]
    if report.verdict.failure is not None:
        failure = report.verdict.failure
        parts += [
            "",
            f"  failure  {failure.kind} ({failure.stage}), retry: {failure.retry}",
            f"  remedy   {failure.remedy}",
        ]
        parts += [f"  line     {_short(line)}" for line in failure.lines]
    shown = [fact for fact in facts.facts if fact.name not in _NOT_SHOWN]
    if shown:
        parts += ["", "facts, each with the line that states it"]
        parts += [_statement(fact.name, fact.rank, fact.value, fact.line) for fact in shown]
    if facts.stages:
        parts += ["", "stages of the cold start (s)", "  " + ", ".join(f"{k} {v:.1f}" for k, v in facts.stages.items())]
    if facts.warnings:
        parts += ["", "warnings", *(f"  {_short(warning)}" for warning in facts.warnings)]
    if report.intervals:
        parts += ["", _speculation(report.intervals)]
    return "\n".join(parts)


def _statement(name: str, rank: str | None, value: Any, line: str) -> str:
    who = f"{name} @{rank}" if rank else name
    return f"  {who:<34} {value!s:<26} {_short(line)}"


def _short(line: str) -> str:
    flat = " ".join(line.split())
    return flat if len(flat) <= _SHOWN else flat[: _SHOWN - 1] + "…"


def _speculation(intervals: tuple[SpeculationLine, ...]) -> str:
    accepted = [i.accepted_tokens for i in intervals if i.accepted_tokens is not None]
    drafted = [i.draft_tokens for i in intervals if i.draft_tokens is not None]
    summary = f"speculation: {len(intervals)} logged intervals"
    if drafted and sum(drafted):
        summary += f", {sum(accepted)} of {sum(drafted)} draft tokens accepted ({sum(accepted) / sum(drafted):.1%})"
    return summary + " (log lines: for orientation, not a measurement)"


def _lines(file: str) -> Iterator[str]:
    """Yield a file's lines as text.

    Raises:
        click.BadParameter: The file cannot be read.
    """
    if file == "-":
        yield from _decoded(sys.stdin.buffer)
        return
    try:
        with Path(file).open("rb") as stream:
            yield from _decoded(stream)
    except OSError as error:
        raise click.BadParameter(f"cannot read {file}: {error.strerror or error}", param_hint="FILE") from error


def _decoded(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines as text, without their line feeds; of one that does not end only the beginning.

    A last line without its end may be cut anywhere, also in a number: it is marked as shortened.
    """
    rest, several, endless = b"", False, False
    while block := stream.read(_CHUNK):
        whole, line_feed, rest = (rest + block).rpartition(b"\n")
        if line_feed:
            several = True
            lines = whole.decode("utf-8", errors="replace").split("\n")
            yield from lines[1:] if endless else lines
            endless = False
        elif len(rest) > _CHUNK:  # nobody's facts are behind its first megabyte
            if not endless:
                yield rest.decode("utf-8", errors="replace")
            rest, endless = b"", True
    if rest and not endless:
        text = rest.decode("utf-8", errors="replace")
        yield f"{text}…" if several else text
